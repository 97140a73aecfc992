"""API keys and TLS, with real servers."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from harness import Server, eventually

import linger
import linger.aio

Make = Callable[..., Any]

KEY = "a-key-of-the-tests-own-making"


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("keys"), env={"LINGER_BOOTSTRAP_KEY": KEY})
    yield server
    server.stop()


def test_a_right_key_is_let_in(make: Make, with_keys: Server) -> None:
    assert make(with_keys.url, key=KEY).add("t").state == "ready"


@pytest.mark.parametrize("key", [None, "", "lk_0000000000000000_wrong"])
def test_without_a_right_key_it_is_unauthorized(make: Make, with_keys: Server, key: object) -> None:
    with pytest.raises(linger.Unauthorized) as raised:
        make(with_keys.url, key=key).add("t")
    assert (raised.value.code, raised.value.status) == ("unauthorized", 401)


@pytest.mark.parametrize("key", [f" {KEY}\n", f"\t{KEY}"])
def test_a_key_is_stripped(make: Make, with_keys: Server, key: str) -> None:
    assert make(with_keys.url, key=key).add("t").state == "ready"


@pytest.mark.parametrize("kind", [linger.Client, linger.aio.Client])
@pytest.mark.parametrize("key", ["a\r\nb", "schlüssel", "a\x00b"])
def test_what_is_no_key_is_told_at_once_and_not_shown(kind: Any, key: str) -> None:
    with pytest.raises(ValueError, match="API key") as raised:
        kind(key=key)
    assert key not in str(raised.value)


def test_a_key_for_something_else_is_forbidden(make: Make, with_keys: Server) -> None:
    with linger.Client(with_keys.url, key=KEY) as root:
        made = root._do(
            linger._calls.Call(
                "POST",
                "/v1/keys",
                lambda value, _: value["key"],
                b'{"name":"shop","scopes":["add"],"topics":["order.*"]}',
            )
        )
    shop = make(with_keys.url, key=made)
    assert shop.add("order.close").topic == "order.close"
    with pytest.raises(linger.Forbidden):
        shop.add("mail")
    with pytest.raises(linger.Forbidden):
        shop.pop("order.close")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority of our own, and what it has signed for localhost."""
    folder = tmp_path_factory.mktemp("tls")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
    (folder / "names").write_text(names)
    # Python 3.13 and later have authorities say what they are for.
    usage = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for command in (
        ["req", "-x509", *curve, *usage, "-days", "2", "-subj", "/CN=my authority",
         "-keyout", "ca-key.pem", "-out", "ca.pem"],
        ["req", *curve, "-subj", "/CN=linger", "-keyout", "key.pem", "-out", "linger.csr"],
        ["x509", "-req", "-in", "linger.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-days", "2",
         "-out", "cert.pem", "-extfile", "names"],
    ):  # fmt: skip
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tls(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = [f"tls.cert={authority}/cert.pem", f"tls.key={authority}/key.pem"]
    more = [part for setting in settings for part in ("--set", setting)]
    server = Server(tmp_path_factory.mktemp("store"), *more)
    yield server
    server.stop()


def test_a_server_by_an_authority_of_ones_own_is_trusted(
    make: Make, tls: Server, authority: Path, topic: str
) -> None:
    assert tls.url.startswith("https://")
    client = make(tls.url, ca=str(authority / "ca.pem"))
    client.add(topic, "secret", id="1")
    assert client.pop(topic)[0].body == "secret"


def test_a_context_may_be_given_in_place_of_a_file(
    make: Make, tls: Server, authority: Path, topic: str
) -> None:
    context = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    assert make(tls.url, ssl_context=context).add(topic).state == "ready"


def test_a_server_by_an_authority_that_nobody_knows_is_not_spoken_to(
    make: Make, tls: Server
) -> None:
    with pytest.raises(linger.Unavailable, match="certificate verify failed"):
        make(tls.url).add("t")


def test_a_server_by_another_name_is_not_spoken_to(
    make: Make, tls: Server, authority: Path
) -> None:
    other = tls.url.replace("127.0.0.1", "127.0.0.2")
    with pytest.raises(linger.Unavailable):
        make(other, ca=str(authority / "ca.pem"), connect_timeout=1).add("t")


def test_a_worker_hangs_up_by_tls_too(tls: Server, authority: Path, topic: str) -> None:
    with linger.Client(tls.url, ca=str(authority / "ca.pem")) as client:
        worker = linger.Worker(client)
        seen: list[str] = []
        worker.handler(topic)(lambda job: seen.append(job.id))
        with worker:
            client.add(topic, id="1")
            eventually(lambda: seen)
            eventually(lambda: any(each.waiting for each in client.topics(prefix=topic)))
        eventually(lambda: not any(each.waiting for each in client.topics(prefix=topic)))
