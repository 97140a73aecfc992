"""Which calls are made again when their answer was lost, and which are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from harness import Proxy, Scripted, Server, refusal

import linger

Make = Callable[..., Any]


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.url) as between:
        yield between


def counts(client: linger.Client, topic: str) -> dict[str, int]:
    return {state: count for state, count in client.topic(topic).counts.items() if count}


def test_a_job_is_added_once_when_the_answer_is_lost(
    make: Make, proxy: Proxy, client: linger.Client, topic: str
) -> None:
    flaky, proxy.lose = make(proxy.url), 1
    job = flaky.add(topic, "one", delay="1h")
    assert proxy.lost["POST"] == 1
    assert [each.id for each in client.jobs(topic)] == [job.id]


def test_the_callers_own_idempotency_key_is_sent(
    make: Make, proxy: Proxy, client: linger.Client, topic: str
) -> None:
    flaky = make(proxy.url)
    first = flaky.add(topic, 1, idempotency_key="order-1")
    second = flaky.add(topic, 2, idempotency_key="order-1")
    assert first.id == second.id
    assert client.get(topic, first.id).body == 1


def test_many_jobs_are_added_once_when_the_answer_is_lost(
    make: Make, proxy: Proxy, client: linger.Client, topic: str
) -> None:
    flaky, proxy.lose = make(proxy.url), 1
    added = flaky.add_many([{"topic": topic, "body": number} for number in range(3)])
    assert proxy.lost["POST"] == 1
    assert sorted(job.id for job in added) == sorted(job.id for job in client.jobs(topic))


def prepare(client: linger.Client, topic: str) -> linger.Job:
    """A job that is leased, and one that waits: `x`."""
    client.add(topic, id="leased")
    client.add(topic, id="x", delay="1h")
    return client.pop(topic)[0]


Call = Callable[[Any, str, linger.Job], object]

AGAIN: dict[str, Call] = {
    "get": lambda c, t, _: c.get(t, "x"),
    "history": lambda c, t, _: c.history(t, "x"),
    "jobs": lambda c, t, _: list(c.jobs(t)),
    "topics": lambda c, t, _: list(c.topics(prefix=t)),
    "topic": lambda c, t, _: c.topic(t),
    "pop": lambda c, t, _: c.pop(t),
    "add keep": lambda c, t, _: c.add(t, id="new", on_conflict="keep"),
    "add replace": lambda c, t, _: c.add(t, id="new", on_conflict="replace"),
    "add_many keep": lambda c, t, _: c.add_many([{"topic": t, "id": "1", "on_conflict": "keep"}]),
    "finish": lambda c, _, job: c.finish(job),
    "fail": lambda c, _, job: c.fail(job, error="no"),
    "release": lambda c, _, job: c.release(job),
    "touch": lambda c, _, job: c.touch(job),
    "touch without a lease": lambda c, t, _: c.touch(t, "leased"),
    "delete": lambda c, t, _: c.delete(t, "x"),
    "update": lambda c, t, _: c.update(t, "x", priority=1),
    "hold": lambda c, t, _: c.hold(t, "x"),
    "unhold": lambda c, t, _: c.unhold(t, "x"),
    "pause": lambda c, t, _: c.pause(t, "1h"),
    "resume": lambda c, t, _: c.resume(t),
    "configure": lambda c, t, _: c.configure(t, ttr="5m"),
    "forget": lambda c, t, _: c.forget(t),
    "empty": lambda c, t, _: c.empty(t),
}

NEVER: dict[str, Call] = {
    "add with an id": lambda c, t, _: c.add(t, id="new"),
    "add_many with an id": lambda c, t, _: c.add_many([{"topic": t}, {"topic": t, "id": "new"}]),
    "run": lambda c, t, _: c.run(t, "x"),
    "redrive": lambda c, t, _: c.redrive(t),
    "update if_version": lambda c, t, _: c.update(t, "x", priority=1, if_version=1),
    "delete if_version": lambda c, t, _: c.delete(t, "x", if_version=1),
    "hold if_version": lambda c, t, _: c.hold(t, "x", if_version=1),
    "unhold if_version": lambda c, t, _: c.unhold(t, "x", if_version=1),
    "finish without a lease": lambda c, t, _: c.finish(t, "leased"),
    "fail without a lease": lambda c, t, _: c.fail(t, "leased"),
    "release without a lease": lambda c, t, _: c.release(t, "leased"),
}


@pytest.mark.parametrize("name", AGAIN)
def test_a_harmless_call_is_made_once_more(
    make: Make, proxy: Proxy, client: linger.Client, topic: str, name: str
) -> None:
    job = prepare(client, topic)
    flaky, proxy.lose = make(proxy.url), 1
    AGAIN[name](flaky, topic, job)
    assert len(proxy.requests) == 2
    assert proxy.requests[0] == proxy.requests[1]


@pytest.mark.parametrize("name", NEVER)
def test_a_call_that_could_do_harm_is_not_repeated(
    make: Make, proxy: Proxy, client: linger.Client, topic: str, name: str
) -> None:
    job = prepare(client, topic)
    flaky, proxy.lose = make(proxy.url), 1
    with pytest.raises(linger.Unavailable) as raised:
        NEVER[name](flaky, topic, job)
    assert raised.value.status is None
    assert raised.value.code == "unavailable"
    assert len(proxy.requests) == 1


def test_a_call_is_made_once_more_and_no_more(make: Make, proxy: Proxy, topic: str) -> None:
    flaky, proxy.lose = make(proxy.url), 2
    with pytest.raises(linger.Unavailable):
        flaky.pop(topic)
    assert len(proxy.requests) == 2


def test_settled_by_the_lost_call_is_settled(
    make: Make, proxy: Proxy, client: linger.Client, topic: str
) -> None:
    client.add_many([{"topic": topic, "id": name} for name in "abc"])
    flaky = make(proxy.url)
    finished, failed, released = client.pop(topic, max=3)
    proxy.lose = 1
    assert flaky.finish(finished).changed
    proxy.lose = 1
    assert flaky.fail(failed, retry_in="1h").changed
    proxy.lose = 1
    assert flaky.release(released, delay="1h").changed
    assert proxy.lost["POST"] == 3
    assert counts(client, topic) == {"retry": 1, "delayed": 1}


def test_a_lost_lease_is_told_if_no_answer_was_lost(
    make: Make, server: Server, client: linger.Client, topic: str
) -> None:
    client.add(topic, id="1")
    job = client.pop(topic)[0]
    client.release(job)
    with pytest.raises(linger.LeaseLost):
        make(server.url).finish(job)


UNAVAILABLE, OVERLOADED = refusal(503, "unavailable"), refusal(503, "overloaded")
COUNTED = (200, b'{"count":1}')


def test_a_refusal_with_nothing_done_is_tried_again_whatever_the_call(make: Make) -> None:
    with Scripted(OVERLOADED, COUNTED) as stub:
        assert make(stub.url).redrive("t") == 1
        assert len(stub.requests) == 2


def test_what_may_have_been_done_is_tried_again_only_if_that_is_harmless(make: Make) -> None:
    with Scripted(UNAVAILABLE, COUNTED) as stub:
        assert make(stub.url).empty("t") == 1
        assert len(stub.requests) == 2
    with Scripted(UNAVAILABLE, COUNTED) as stub, pytest.raises(linger.Unavailable):
        make(stub.url).redrive("t")
    assert len(stub.requests) == 1


@pytest.mark.parametrize("refused", [UNAVAILABLE, OVERLOADED])
def test_a_refusal_twice_is_told(make: Make, refused: tuple[int, bytes]) -> None:
    with Scripted(refused) as stub:
        with pytest.raises((linger.Unavailable, linger.Overloaded)) as raised:
            make(stub.url).empty("t")
        assert raised.value.status == 503
        assert len(stub.requests) == 2


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (507, "storage_full")])
def test_other_refusals_are_not_tried_again(make: Make, status: int, code: str) -> None:
    with Scripted(refusal(status, code)) as stub:
        with pytest.raises(linger.Error) as raised:
            make(stub.url).get("t", "1")
        assert (raised.value.code, raised.value.status) == (code, status)
        assert len(stub.requests) == 1


def test_a_code_that_is_new_is_told_as_it_is(make: Make) -> None:
    with Scripted(refusal(418, "teapot")) as stub, pytest.raises(linger.Error) as raised:
        make(stub.url).get("t", "1")
    assert raised.value.code == "teapot"


def test_an_answer_by_someone_else_may_hide_a_call_that_was_carried_out(make: Make) -> None:
    gateway = (502, b"<html>Bad Gateway</html>")
    with Scripted(gateway) as stub:
        client = make(stub.url)
        with pytest.raises(linger.Unavailable) as raised:
            client.redrive("t")
        assert raised.value.status == 502
        assert len(stub.requests) == 1
        with pytest.raises(linger.Unavailable):
            client.get("t", "1")
        assert len(stub.requests) == 3


def test_a_job_without_an_id_brings_a_key_of_its_own(make: Make) -> None:
    job = {
        "topic": "t", "id": "1", "number": 1, "state": "ready", "attempt": 0, "version": 1,
        "priority": 1, "due": "2026-12-01T09:00:00.000Z", "created": "2026-12-01T09:00:00.000Z",
    }  # fmt: skip
    with Scripted((201, json.dumps(job).encode())) as stub:
        client = make(stub.url)
        client.add("t")
        client.add("t")
        client.add("t", id="1")
        keys = [headers.get("idempotency-key") for headers in stub.headers]
    assert keys[0]
    assert keys[1]
    assert keys[0] != keys[1]
    assert keys[2] is None
