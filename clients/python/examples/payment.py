"""A shop asks a payment provider, along a ladder, whether its orders are paid.

    payment.py [LINGER]

Order 1001 is asked for until the answer is final: the worker says "again" until then. For order
1002 the provider's own notice comes first, and the shop cancels the job. The provider and the
shop's door for notices are real HTTP servers, and so is Linger: LINGER is the path of its binary,
by default that of the environment, then what the PATH has.

Prints every question, answer and notice, and exits with 1 if something is off.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Callable, Optional

import linger

# An order is paid when the provider is asked about it for the third time.
PAID_AT_QUESTION = 3

# As payment providers recommend, only faster: soon at first, then less and less often.
LADDER = ["50ms", "100ms", "200ms", "400ms", "800ms"]


def main(binary: str) -> bool:
    """Tells the story; whether it went as it should."""
    with start_linger(binary) as url, linger.Client(url) as client:
        provider, shop = Provider(), Shop(client)
        with serve(provider.answer) as provider_url, serve(shop.notice) as shop_url:
            worker = linger.Worker(client)
            paid = threading.Event()
            again = 0

            @worker.handler("payment.ask")
            def ask(job: linger.WorkerJob) -> None:
                nonlocal again
                order = job.body["order"]
                _, status = call(f"{provider_url}/{order}")
                print(f"shop: attempt {job.attempt}, order {order} is {status}")
                if status != "paid":
                    again += 1
                    raise linger.Again
                paid.set()

            with worker:
                for order, delay in (("1001", "50ms"), ("1002", "1h")):
                    body = {"order": order}
                    retry = {"ladder": LADDER}
                    client.add("payment.ask", body, id=order, delay=delay, retry=retry)

                print("provider: order 1002 is paid, telling the shop")
                told, _ = call(f"{shop_url}/notice", "1002")
                told_again, _ = call(f"{shop_url}/notice", "1002")
                paid.wait(30)

        left = [job.id for job in client.jobs("payment.ask")]
        print(f"{again} answered again, {len(left)} left")
        asked = {"1001": PAID_AT_QUESTION}
        return (
            (told, told_again) == (200, 404)
            and paid.is_set()
            and provider.questions == asked
            and (again, left) == (PAID_AT_QUESTION - 1, [])
        )


class Provider:
    """Answers whether an order is paid, and counts how often it was asked."""

    def __init__(self) -> None:
        self.questions: Counter[str] = Counter()

    def answer(self, order: str, _: str) -> tuple[int, str]:
        """One question."""
        self.questions[order] += 1
        return 200, "pending" if self.questions[order] < PAID_AT_QUESTION else "paid"


class Shop:
    """The shop's door for notices: an order that is known to be paid is not asked for any more."""

    def __init__(self, client: linger.Client) -> None:
        self.client = client

    def notice(self, _: str, order: str) -> tuple[int, str]:
        """One notice."""
        try:
            self.client.delete("payment.ask", order)
        except linger.NotFound as error:
            return 404, str(error)
        print(f"shop: told that order {order} is paid, its job is cancelled")
        return 200, "thanks"


@contextmanager
def start_linger(binary: str) -> Iterator[str]:
    """Runs Linger on a port of its own; its URL."""
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--store", folder]
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert server.stdout
        try:
            url = ""
            for line in server.stdout:
                found = re.search(r"listens on (http://[0-9.:]+)", line)
                url = found[1] if found else url
                if line.rstrip().endswith(" ready"):
                    break
            yield url
        finally:
            server.terminate()
            server.communicate()


@contextmanager
def serve(answer: Callable[[str, str], tuple[int, str]]) -> Iterator[str]:
    """Serves HTTP on a port of its own; its URL. `answer` takes the path and the body."""

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, text = answer(self.path.lstrip("/"), body.decode())
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _any

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def call(url: str, body: Optional[str] = None) -> tuple[int, str]:
    """Makes one HTTP request; the status and the body."""
    try:
        with urllib.request.urlopen(url, body.encode() if body else None, 30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("LINGER", "linger")
    sys.exit(0 if main(given) else 1)
