"""A story told by clients that others wrote. Usage: python.py HOST PORT"""

import sys

import greenstalk
import pystalk

HOST, PORT = sys.argv[1], int(sys.argv[2])


def by_greenstalk():
    with greenstalk.Client((HOST, PORT), use="green", watch=["green"]) as client:
        number = client.put("hello", priority=10, delay=0, ttr=30)
        job = client.reserve(timeout=5)
        assert (job.id, job.body) == (number, "hello"), job
        client.touch(job)
        client.release(job, priority=5)
        stats = client.stats_job(number)
        assert stats["state"] == "ready" and stats["pri"] == 5 and stats["tube"] == "green", stats
        client.bury(client.reserve())
        assert client.peek_buried().id == number
        assert client.kick(10) == 1
        client.delete(client.reserve_job(number))
        try:
            client.peek(number)
            raise AssertionError("it is there")
        except greenstalk.NotFoundError:
            pass
        try:
            client.reserve(timeout=0)
            raise AssertionError("there is another")
        except greenstalk.TimedOutError:
            pass
        later = client.put("later", delay=100)
        assert client.peek_delayed().id == later
        client.kick_job(later)
        client.pause_tube("green", 100)
        assert client.stats_tube("green")["pause"] == 100
        client.pause_tube("green", 0)
        client.delete(later)
        assert client.using() == "green" and client.watching() == ["green"]
        assert client.watch("other") == 2 and client.ignore("other") == 1
        assert "default" in client.tubes() and "green" in client.tubes()
        assert client.stats()["max-job-size"] == 65535
        try:
            client.put("x" * 65536)
            raise AssertionError("it was taken")
        except greenstalk.JobTooBigError:
            pass


def by_pystalk():
    client = pystalk.BeanstalkClient(HOST, PORT)
    client.watch("py")
    with client.using("py") as inserter:
        numbers = [inserter.put_job(str(n), pri=n)[1] for n in range(3)]
    for n, job in zip(range(3), client.reserve_iter()):
        assert job.job_data == str(n).encode(), job
        if n == 1:
            client.bury_job(job.job_id)
        else:
            client.delete_job(job.job_id)
    assert client.stats_tube("py")["current-jobs-buried"] == 1
    with client.using("py"):
        client.kick_jobs(10)
    job = client.reserve_job(5)
    assert job.job_id == numbers[1]
    client.release_job(job.job_id, delay=50)
    stats = client.stats_job(numbers[1])
    assert stats["state"] == "delayed" and stats["delay"] == 50, stats
    client.delete_job(numbers[1])
    assert "py" in client.list_tubes()
    client.close()


by_greenstalk()
by_pystalk()
print("all well")
