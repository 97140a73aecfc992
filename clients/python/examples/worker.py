"""A worker that writes down what it has done.

    worker.py TOPIC FILE

Adds a line with its id to FILE for each job of TOPIC, until SIGTERM or SIGINT. It may be killed at
any moment: what it had in hand is handed out again when its lease has run out, so every job is done
at least once.
"""

import logging
import sys
import time

import linger

topic, path = sys.argv[1:]
logging.basicConfig(level=logging.INFO)
worker = linger.Worker(concurrency=8, ttr="2s")

# Each line is written in one piece, and is there even if the program is killed right after.
done = open(path, "a", buffering=1)  # noqa: SIM115


@worker.handler(topic)
def work(job: linger.WorkerJob) -> None:
    """Does one job."""
    time.sleep(0.01)
    done.write(f"{job.id}\n")


worker.run()
