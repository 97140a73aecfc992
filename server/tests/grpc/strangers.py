"""A worker's day by Python's grpcio, which knows nothing of Linger but its description."""

import sys
import tempfile
from queue import SimpleQueue

import grpc
from google.protobuf.duration_pb2 import Duration
from grpc_tools import protoc

address, folder = sys.argv[1:]
made = tempfile.mkdtemp()
for file in ["linger/v1/linger.proto", "pb/delay_queue.proto"]:
    includes = ["-I" + folder, "-I" + protoc._get_resource_file_name("grpc_tools", "_proto")]
    assert protoc.main(["", *includes, "--python_out=" + made, "--grpc_python_out=" + made, file]) == 0
sys.path.insert(0, made)

from linger.v1 import linger_pb2 as pb  # noqa: E402
from linger.v1 import linger_pb2_grpc  # noqa: E402
from pb import delay_queue_pb2 as tasks  # noqa: E402
from pb import delay_queue_pb2_grpc  # noqa: E402

channel = grpc.insecure_channel(address)
queue = linger_pb2_grpc.QueueStub(channel)
topics = linger_pb2_grpc.TopicsStub(channel)


def refused(call, request, status, code, field=None):
    try:
        call(request)
    except grpc.RpcError as error:
        told = dict(error.trailing_metadata())
        assert error.code() == status, error
        assert (told.get("linger-code"), told.get("linger-field")) == (code, field), error
    else:
        raise AssertionError("it was not refused")


# One by one.
job = pb.NewJob(topic="order.close", id="1001", body=b"close it", delay=Duration(seconds=1800))
added = queue.Add(pb.AddRequest(job=job))
assert added.how == pb.HOW_NEW and added.job.state == pb.STATE_DELAYED, added
refused(queue.Add, pb.AddRequest(job=job), grpc.StatusCode.ALREADY_EXISTS, "already_exists", "id")
bad = pb.NewJob(delay=Duration(seconds=-1))
refused(queue.Add, pb.AddRequest(job=bad), grpc.StatusCode.INVALID_ARGUMENT, "invalid", "delay")
queue.Update(pb.UpdateRequest(topic="order.close", id="1001", priority=3))
queue.Run(pb.RunRequest(topic="order.close", id="1001"))
popped = queue.Pop(pb.PopRequest(topics=["order.close"], wait=Duration(seconds=30))).jobs[0]
assert popped.job.body == b"close it" and popped.job.priority == 3, popped
queue.Finish(pb.FinishRequest(topic="order.close", id="1001", lease=popped.lease))
gone = pb.GetRequest(topic="order.close", id="1001")
refused(queue.Get, gone, grpc.StatusCode.NOT_FOUND, "not_found")

# Its own deadline.
try:
    queue.Pop(pb.PopRequest(topics=["none"], wait=Duration(seconds=60)), timeout=0.1)
    raise AssertionError("it did not end")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error

# By stream: 500 jobs, never more than 20 at once.
many = [pb.NewJob(topic="mail", id=str(n), body=b"mail %d" % n) for n in range(500)]
results = queue.AddMany(pb.AddManyRequest(jobs=many)).results
assert all(result.HasField("added") for result in results)
requests = SimpleQueue()
requests.put(pb.ConsumeRequest(subscribe=pb.Subscribe(topics=["mail"]), credit=20))
stream = queue.Consume(iter(requests.get, None))
seen, settled, held = set(), 0, 0
for message in stream:
    settled += len(message.settled)
    assert not any(one.HasField("error") for one in message.settled), message
    held -= len(message.settled)
    held += len(message.jobs)
    assert held <= 20, held
    seen.update(delivery.job.id for delivery in message.jobs)
    if message.jobs:
        done = [
            pb.Settlement(number=one.job.number, lease=one.lease, finish=pb.Finished())
            for one in message.jobs
        ]
        requests.put(pb.ConsumeRequest(settlements=done))
    if message.settled:
        requests.put(pb.ConsumeRequest(credit=len(message.settled)))
    if settled == 500:
        requests.put(None)
assert len(seen) == 500, len(seen)

# Topics.
topics.Pause(pb.PauseTopicRequest(topic="order.close"))
assert [topic.topic for topic in topics.List(pb.ListTopicsRequest()).topics] == ["order.close"]
assert not topics.Resume(pb.ResumeTopicRequest(topic="order.close")).paused

# The second lineage's service.
delays = delay_queue_pb2_grpc.DelayQueueStub(channel)
callback = tasks.CallbackInfo(schema="http", address="127.0.0.1:9", path="/done")
when = tasks.ExecTime(duration=600, relative=True)
uid = delays.Add(tasks.AddReq(name="bill", time=when, callback=callback, args="1")).uid
assert delays.Get(tasks.RetrieveReq(uid=uid)).type == tasks.TaskDelay
delays.Remove(tasks.RemoveReq(uid=uid))
print("all well")
