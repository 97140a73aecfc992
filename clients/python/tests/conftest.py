from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from harness import Blocking, Program, Server

import linger
import linger.aio

_topics = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("store"))
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LINGER_SERVER", "LINGER_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _no_program_is_left() -> Iterator[None]:
    yield
    Program.kill_all()


@pytest.fixture
def client(server: Server) -> Iterator[linger.Client]:
    with linger.Client(server.url) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"t{next(_topics)}"


@pytest.fixture(params=["sync", "aio"])
def make(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of both kinds, which are called alike."""
    made: list[Any] = []

    def one(*args: Any, **named: Any) -> Any:
        if request.param == "sync":
            made.append(linger.Client(*args, **named))
        else:
            made.append(Blocking(lambda: linger.aio.Client(*args, **named)))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"
