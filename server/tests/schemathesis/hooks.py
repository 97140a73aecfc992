"""What schemathesis must know of Linger besides its description."""

import schemathesis
from schemathesis.openapi.checks import RejectedPositiveData

# What is right by its shape and refused all the same: JSON Schema cannot say these rules. Each is
# said in words in the description.
IN_WORDS = [
    "over the limit of",  # of bytes of UTF-8, or of time that is written as text
    "over its max of",
    "give 1ms to 7d",
    "give 1s to 10m",
    "write 1ms to 36500d",
    "give a number of seconds",  # more than there can be
    "give RFC 3339",  # before 1970
    "not after from",
    "over before its first due time",
    "is not a cron expression",
    "in cron expression",
    "never matches",
    "time zone",
    "is not a rate",
    "a rate of 0",
    "a rate is counted over",
    "is not a cursor",
    "cursor is not one that was given out",
    "is_loop repeats a job every ttr",
    "is_loop is given along with repeat",
    "only finish takes a lease",
    "is not the name of a header",
    "the value of header",
    "is not for a topic to set",
    "is given twice",  # a header, in capitals and not
    "the secret holds",
    "the secret is not base64",
    "and the secret one for",
    "target is no URL",
    "target has a user name",
    "is none that can be called",  # a url by its looks, but not to those who call it
    "names a user or a password",
    "would have expired already",
    "wait is for events to come",
    "cursor is none that a page gave",
    "give some of",  # words with commas between them
    "hours apart",
    "give an object such as",
    "in the shared settings",  # whose names and values have rules of their own
]


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Whether it is a failure at all."""
    # By the quota that a call before it has set: an answer that is described, and no fault of the server's.
    if response.status_code == 503 and any(
        f"its limit {limit}" in response.text for limit in ("jobs_max", "bytes_max")
    ):
        return False
    if not isinstance(failure, RejectedPositiveData) or response.status_code != 400:
        return True
    message = response.json()["error"]["message"]
    return not any(words in message for words in IN_WORDS)


@schemathesis.hook
def filter_case(context, case):
    """Leaves out wrong jobs in batches: each is refused by itself, in an answer of 200."""
    wrong = case.meta is not None and case.meta.generation.mode.is_negative
    return not (wrong and case.operation.path == "/v1/jobs" and isinstance(case.body, list))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Waits for jobs, but not for long."""
    wait = case.body.get("wait") if isinstance(case.body, dict) else None
    right = case.meta is not None and case.meta.generation.mode.is_positive
    if right and wait is not None:
        case.body = {**case.body, "wait": "10ms"}
