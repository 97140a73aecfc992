"""Loads Celery, and prints one line of figures: see "Peers" in ../../README.md.

usage: load.py PORT WHAT AT_ONCE COUNT MILLISECONDS [DUE_A_SECOND]
"""

import json
import multiprocessing
import os
import secrets
import sys
import threading
import time
from datetime import datetime, timezone

from celery import Celery

DAY_S = 86_400
# Before anything counts, at most so many jobs or a part of the time.
WARM_UP = 2000
WARM_UP_PART = 4
WARM_UP_MAX_S = 60
BODY_BYTES = 200
LATENESS_WORKERS = 16
BURST_WORKERS = 64
# Calls under way while jobs are put that others then take.
PUTTERS = 64
AHEAD_S = 3
FOREVER_S = DAY_S

port, what = sys.argv[1:3]
at_once, count, milliseconds, due_a_second = map(int, [*sys.argv[3:], 0][:4])
limit_s = milliseconds / 1000
# In front of ids, which no other run on the same server may have had.
NAME = f"{time.time_ns():x}-{os.getpid():x}"

app = Celery("load", broker=f"redis://127.0.0.1:{port}/0")
app.conf.update(
    # A job that has ended is gone, and not before it has ended, as in Linger.
    task_ignore_result=True,
    task_acks_late=True,
    # Else what waits for longer than an hour is handed out every hour.
    broker_transport_options={"visibility_timeout": 2 * DAY_S},
    broker_pool_limit=max(at_once, PUTTERS),
    worker_prefetch_multiplier=16,
    worker_hijack_root_logger=False,
)
WORKER = ["--quiet", "worker", "--pool=threads", "--loglevel=FATAL"]
WORKER += ["--without-gossip", "--without-mingle", "--without-heartbeat"]

# Threads share one core, so there are as many processes as there are cores.
processes = multiprocessing.get_context("fork")
cores = os.cpu_count()


class Tally:
    """What workers finish, in all processes: from when some are finished until so many more are."""

    def __init__(self, before, count):
        self.before, self.count = before, count
        self.lock = processes.Lock()
        self.jobs = processes.Value("q", 0, lock=False)
        self.start = processes.Value("d", 0.0, lock=False)
        self.end = processes.Value("d", 0.0, lock=False)
        self.late = processes.Array("d", count, lock=False)

    def take(self, due):
        now = time.time()
        with self.lock:
            if self.start.value and self.jobs.value < self.count:
                self.late[self.jobs.value] = now - due
            self.jobs.value += 1
            if not self.start.value and self.jobs.value == self.before:
                self.begin_now(now)
            if self.start.value and self.jobs.value == self.count:
                self.end.value = now

    def begin_now(self, now):
        self.jobs.value = 0
        self.start.value = now

    def begin(self, within_s):
        """Whether it has begun by itself."""
        if is_set(self.start, within_s):
            return True
        with self.lock:
            if not self.start.value:
                self.begin_now(time.time())
        return False

    def rate(self, within_s):
        if not is_set(self.end, within_s):
            self.end.value = time.time()
        return {"jobs": min(self.jobs.value, self.count), "seconds": self.end.value - self.start.value}


def is_set(value, within_s):
    end = time.time() + within_s
    while not value.value and time.time() < end:
        time.sleep(0.005)
    return value.value != 0


# A job is finished shortly after this has returned, which only its worker is told.
@app.task(name="order")
def order(body):
    tally.take(float(body.split()[0]))


def add(job_id, due=None):
    body = f"{due or time.time():.6f} {secrets.token_hex(BODY_BYTES // 2)}"[:BODY_BYTES]
    eta = due and datetime.fromtimestamp(due, timezone.utc)
    order.apply_async((body,), task_id=job_id, eta=eta)


def add_delayed(job_id):
    add(job_id, time.time() + DAY_S)


def calls(at_once, warm_up, count, seconds, call):
    """One call at a time, by so many at once; what is to warm up does not count."""
    shares = min(at_once, cores)
    ready = processes.Barrier(shares)
    told = processes.SimpleQueue()

    def share(which):
        threads = at_once // shares
        turns = range(which, warm_up, shares)
        by_threads(threads, turns, seconds / WARM_UP_PART, lambda n: call(f"{NAME}-warm-{n}"))
        ready.wait()
        start = time.time()
        turns = range(which, count, shares)
        done = by_threads(threads, turns, seconds, lambda n: call(f"{NAME}-order-{n}"))
        told.put((done, start, time.time()))

    for which in range(shares):
        processes.Process(target=share, args=(which,), daemon=True).start()
    jobs, starts, ends = zip(*(told.get() for _ in range(shares)))
    return {"jobs": sum(jobs), "seconds": max(ends) - min(starts)}


def by_threads(threads, numbers, seconds, call):
    numbers, end, done = iter(numbers), time.time() + seconds, []

    def one():
        for n in numbers:
            call(n)
            done.append(n)
            if time.time() > end:
                return

    callers = [threading.Thread(target=one) for _ in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return len(done)


def put(count, call):
    return calls(PUTTERS, 0, count, FOREVER_S, call)


def start_workers(workers):
    shares = min(workers, cores)

    def share(which):
        # It tells the world of itself, where figures are to stand.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        app.worker_main([*WORKER, f"--concurrency={workers // shares}", f"--hostname={which}@load"])

    for which in range(shares):
        processes.Process(target=share, args=(which,), daemon=True).start()


def work_off():
    start_workers(at_once)
    # A worker takes seconds to start.
    is_set(tally.jobs, WARM_UP_MAX_S)
    tally.begin(limit_s / WARM_UP_PART)
    return tally.rate(limit_s)


def work():
    put(WARM_UP + count, add)
    return work_off()


def round_trip():
    adders = lambda: calls(at_once, 0, WARM_UP + count, FOREVER_S, add)
    threading.Thread(target=adders, daemon=True).start()
    return work_off()


def at_times(workers, apart_s, told):
    """Has all jobs added before the first is due, and says of what the workers did then."""
    start_workers(workers)
    each_s = put(WARM_UP, add)["seconds"] / WARM_UP
    if not tally.begin(WARM_UP_MAX_S):
        sys.exit(f"{WARM_UP} jobs were not finished within {WARM_UP_MAX_S} s")
    due = time.time() + AHEAD_S + 2 * count * each_s
    put(count, lambda job_id: add(f"timed-{job_id}", due + int(job_id.split("-")[-1]) * apart_s))
    if time.time() > due:
        sys.exit("the adds took longer than was allowed for")
    jobs = tally.rate(due - time.time() + limit_s)["jobs"]
    if jobs < count:
        return {"unsupported": f"only {jobs} of {count} within {limit_s} s"}
    return told(due)


def lateness(_due):
    late = sorted(tally.late)
    figures = {"early": sum(by < 0 for by in late)}
    for name, part in ("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1):
        # One that came early is not late at all.
        figures[name] = max(0, late[int((len(late) - 1) * part)]) * 1000
    return figures


def last(due):
    return {"last_ms": (tally.end.value - due) * 1000}


def unsupported(why):
    return lambda: {"unsupported": why}


LOADS = {
    "add": lambda: calls(at_once, WARM_UP, count, limit_s, add_delayed),
    "batch": unsupported("no call takes 100 jobs"),
    "work": work,
    "round": round_trip,
    "cancel": unsupported("no call removes a delayed job; workers are told to drop it when they meet it"),
    "fill": lambda: put(count, add_delayed),
    "lateness": lambda: at_times(LATENESS_WORKERS, 1 / due_a_second, lateness),
    "burst": lambda: at_times(BURST_WORKERS, 0, last),
}

tally = Tally(WARM_UP, count)
print(json.dumps(LOADS[what]()), flush=True)
# What is under way does not count any more.
for process in multiprocessing.active_children():
    process.kill()
os._exit(0)
