"""Every scenario that all clients share, by both clients."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import SCENARIOS, Blocking, Server

import linger
import linger.aio


@pytest.fixture(scope="module", params=["sync", "aio"])
def fresh(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    server = Server(tmp_path_factory.mktemp("scenarios"))
    made: Any
    if request.param == "sync":
        made = linger.Client(server.url)
    else:
        made = Blocking(lambda: linger.aio.Client(server.url))
    yield made
    made.close()
    server.stop()


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.json")), ids=lambda path: path.stem)
def test_scenario(fresh: Any, path: Path) -> None:
    saved: dict[str, Any] = {}
    for number, step in enumerate(json.loads(path.read_text())["steps"]):
        at = f"step {number}, {step['call']}"
        try:
            answer = perform(fresh, step["call"], recall(step["args"], saved))
        except linger.Error as error:
            assert "error" in step, f"{at}: {error}"
            compare(step["error"], vars_of(error), at)
            continue
        assert "error" not in step, f"{at} answered {answer}"
        compare(recall(step["expect"], saved), answer, at)
        for name, where in step.get("save", {}).items():
            saved[name] = find(answer, where)


def test_there_are_scenarios() -> None:
    assert len(list(SCENARIOS.glob("*.json"))) >= 10


def perform(client: Any, call: str, args: dict[str, Any]) -> Any:
    """Makes the call as a user of Python would; the answer as the API has it."""
    if call == "add":
        return client.add(**with_bytes(args)).raw
    if call == "add_many":
        done = client.add_many([with_bytes(job) for job in args["jobs"]])
        return [
            {"error": vars_of(one)} if isinstance(one, linger.Error) else {"job": one.raw}
            for one in done
        ]
    if call == "update":
        changes = args.pop("changes")
        return changed(client.update(**args, **changes))
    if call == "history":
        return {"history": [event.raw for event in client.history(**args)]}
    if call == "pop":
        return {"jobs": [job.raw for job in client.pop(**args)]}
    if call in ("finish", "fail", "release", "touch"):
        return changed(getattr(client, call)(args.pop("topic"), **args))
    if call in ("jobs", "topics"):
        return {call: [each.raw for each in getattr(client, call)(**args)]}
    if call == "configure":
        return client.configure(args["topic"], **args["settings"]).raw
    if call == "pause":
        return client.pause(args["topic"], args["for"]).raw
    if call in ("empty", "forget", "redrive"):
        return {"count": getattr(client, call)(**args)}
    answer = getattr(client, call)(**args)
    return changed(answer) if isinstance(answer, linger.Changed) else answer.raw


def with_bytes(job: dict[str, Any]) -> dict[str, Any]:
    if "body_base64" not in job:
        return job
    rest = {name: value for name, value in job.items() if name != "body_base64"}
    return {**rest, "body": base64.b64decode(job["body_base64"])}


def changed(answer: linger.Changed) -> dict[str, Any]:
    job = {} if answer.job is None else {"job": answer.job.raw}
    return {"changed": answer.changed, **job}


def vars_of(error: linger.Error) -> dict[str, Any]:
    found = {"code": error.code, "status": error.status, "field": error.field}
    return {name: value for name, value in found.items() if value is not None}


def recall(value: Any, saved: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {name: recall(each, saved) for name, each in value.items()}
    if isinstance(value, list):
        return [recall(each, saved) for each in value]
    if isinstance(value, str) and value.startswith("$") and value[1:] in saved:
        return saved[value[1:]]
    return value


def find(answer: Any, where: str) -> Any:
    for part in where.split("."):
        answer = answer[int(part) if isinstance(answer, list) else part]
    return answer


def compare(expected: Any, actual: Any, at: str) -> None:
    if expected == "$any":
        assert actual is not None, at
    elif isinstance(expected, dict) and list(expected) == ["$length"]:
        assert len(actual) == expected["$length"], f"{at}: {actual}"
    elif isinstance(expected, dict):
        assert isinstance(actual, dict), f"{at}: {actual}"
        for name, each in expected.items():
            if each == "$absent":
                assert name not in actual, f"{at}.{name}: {actual}"
            else:
                assert name in actual, f"{at}.{name}: {actual}"
                compare(each, actual[name], f"{at}.{name}")
    elif isinstance(expected, list):
        assert isinstance(actual, list), f"{at}: {actual}"
        assert len(actual) == len(expected), f"{at}: {actual}"
        for number, each in enumerate(expected):
            compare(each, actual[number], f"{at}.{number}")
    else:
        assert actual == expected, f"{at}: {actual!r} is not {expected!r}"
