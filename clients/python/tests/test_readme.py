"""The programs of the README, each taken out of it and run as it stands there."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import HERE, Program, Server, call, eventually, free_port

import linger

README = (HERE.parent / "README.md").read_text()

FIRST, ADD, AIO_CLIENT, WORKER, AIO_WORKER, ERRORS, FLASK, FASTAPI, SERVICE = range(9)

TOPIC = "order.close"


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.fixture
def own(store: Path) -> Iterator[Server]:
    server = Server(store)
    yield server
    server.stop()


def start(tmp_path: Path, number: int, server: Server, *before: str, **env: str) -> Program:
    path = tmp_path / "program.py"
    # The README names the address where a server is by default; a test has its own.
    path.write_text(programs()[number].replace("http://127.0.0.1:7300", server.url))
    return Program(*before, path, env={"LINGER_SERVER": server.url, **env})


def end(program: Program, by: signal.Signals = signal.SIGTERM) -> str:
    code, output = program.end(by)
    assert code == 0, output
    return output


def test_there_are_as_many_programs_as_are_run() -> None:
    assert len(programs()) == 9


def test_the_first_program(own: Server, tmp_path: Path) -> None:
    code, output = start(tmp_path, FIRST, own).end()
    assert (code, output) == (0, "closing order 1001, attempt 1\n")


def test_adding_changing_and_cancelling(own: Server, tmp_path: Path) -> None:
    code, output = start(tmp_path, ADD, own).end()
    assert code == 0, output
    assert len(output.splitlines()) == 4
    assert output.splitlines()[-1].startswith("1001 ")
    with linger.Client(own.url) as client:
        assert [job.id for job in client.jobs(TOPIC)] == ["1001"]
        assert client.topic("mail").counts["delayed"] == 3


def test_asyncio(own: Server, tmp_path: Path) -> None:
    assert start(tmp_path, AIO_CLIENT, own).end() == (0, "{'order': 1003}\n")


def test_a_worker(own: Server, tmp_path: Path) -> None:
    program = start(tmp_path, WORKER, own)
    with linger.Client(own.url) as client:
        for order in (1, 2, 3):
            client.add(TOPIC, {"order": order}, id=str(order), retain="1h")
        eventually(lambda: client.get(TOPIC, "3").state == "finished")
        eventually(lambda: client.topic(TOPIC).counts["retry"] == 2)
        assert client.get(TOPIC, "1").last_error is None
        assert client.get(TOPIC, "2").last_error == "the bank is closed"
    assert "working on order 3\n" in end(program)


def test_a_worker_with_asyncio(own: Server, tmp_path: Path) -> None:
    program = start(tmp_path, AIO_WORKER, own)
    with linger.Client(own.url) as client:
        client.add(TOPIC, {"order": 7}, id="7", retain="1h")
        eventually(lambda: client.get(TOPIC, "7").state == "finished")
    assert end(program, signal.SIGINT) == "closed order 7\n"


def test_errors(own: Server, tmp_path: Path) -> None:
    code, output = start(tmp_path, ERRORS, own).end()
    assert code == 0, output
    first, second, third = output.splitlines()
    assert first.startswith("invalid delay 400 ")
    assert (second, third) == ("it is gone already", "anything else not_found")


@pytest.mark.parametrize(
    ("number", "before"),
    [(FLASK, ("-m", "flask", "--app")), (FASTAPI, ("-m", "uvicorn", "program:app"))],
)
def test_a_webhook(own: Server, tmp_path: Path, number: int, before: tuple[str, ...]) -> None:
    secret = own.call("POST", "/v1/secrets", {"topic": TOPIC})["secret"]
    port = str(free_port())
    path = tmp_path / "program.py"
    path.write_text(programs()[number])
    more = [path, "run"] if number == FLASK else ["--app-dir", tmp_path]
    program = Program(*before, *more, "--port", port, env={"HOOK_SECRETS": f"whsec_AAAA {secret}"})
    try:
        eventually(lambda: answers(f"http://127.0.0.1:{port}/hooks"))
        with linger.Client(own.url) as client:
            client.configure(TOPIC, target=f"http://127.0.0.1:{port}/hooks", retain="1h")
            client.add(TOPIC, {"order": 1001}, id="1001")
            eventually(lambda: client.get(TOPIC, "1001").state == "finished")
            assert client.get(TOPIC, "1001").attempt == 2
    finally:
        _, output = program.end(signal.SIGINT)
    assert "order 1001, attempt 2, lg_" in output


def answers(url: str) -> bool:
    try:
        return call(url, "POST")[0] == 401
    except OSError:
        return False


def test_service_mode(own: Server, tmp_path: Path) -> None:
    program = start(tmp_path, SERVICE, own)
    with linger.Client(own.url) as client:
        client.add(TOPIC, {"order": 1001}, id="1001", target="worker:shop", retain="1h")
        eventually(lambda: client.get(TOPIC, "1001").state == "finished")
    assert end(program) == "closing order 1001\n"
    assert own.call("GET", "/v1/workers")["workers"] == []
