"""Whole programs: a worker that is killed, and the examples."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from harness import EXAMPLES, Program, Server, eventually, lines, numbers

import linger

JOBS = 1000


def test_a_worker_that_is_killed_loses_no_job(server: Server, topic: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    env = {"LINGER_SERVER": server.url}
    with linger.Client(server.url) as client:
        client.add_many([{"topic": topic, "id": id} for id in numbers(JOBS)])
        first = Program(EXAMPLES / "worker.py", topic, done, env=env)
        eventually(lambda: len(lines(done)) > JOBS // 4)
        eventually(lambda: stopped_with_jobs_in_hand(first, client, topic))
        code, _ = first.end(signal.SIGKILL)
        assert code == -signal.SIGKILL
        assert len(set(lines(done))) < JOBS, "it was to be killed in the middle"

        second = Program(EXAMPLES / "worker.py", topic, done, env=env)
        eventually(lambda: set(lines(done)) == set(numbers(JOBS)))
        eventually(lambda: not list(client.jobs(topic)))
        code, output = second.end(signal.SIGTERM)
        assert code == 0, output


def stopped_with_jobs_in_hand(program: Program, client: linger.Client, topic: str) -> bool:
    """Halts the program; lets it go on if it happens to have nothing in hand."""
    program.process.send_signal(signal.SIGSTOP)
    if client.topic(topic).counts["reserved"] > 0:
        return True
    program.process.send_signal(signal.SIGCONT)
    return False


def test_a_worker_ends_by_sigint_as_by_sigterm(server: Server, topic: str, tmp_path: Path) -> None:
    with linger.Client(server.url) as client:
        client.add(topic, id="1")
        program = Program(
            EXAMPLES / "worker.py", topic, tmp_path / "done", env={"LINGER_SERVER": server.url}
        )
        eventually(lambda: lines(tmp_path / "done"))
        code, output = program.end(signal.SIGINT)
        assert code == 0, output
        assert "Traceback" not in output


def test_the_payment_example_goes_as_it_should() -> None:
    code, output = Program(EXAMPLES / "payment.py", os.environ["LINGER"]).end()
    assert code == 0, output
    assert "attempt 3, order 1001 is paid" in output
