"""What schemathesis must not ask of a daemon that is to live through the test."""

import schemathesis

LONGEST_SECONDS = 0.1


@schemathesis.hook
def before_call(context, case, kwargs):
    path = case.operation.path
    query = case.query if isinstance(case.query, dict) else {}
    if path.endswith("/logs"):
        # A log that is followed ends with its job.
        query.pop("follow", None)
    if path.endswith("/wait") and case.operation.method.lower() == "get":
        case.query = {**query, "timeout": LONGEST_SECONDS}
    body = case.body if isinstance(case.body, dict) else {}
    if path.endswith("/drain"):
        # The daemon would end when nothing runs.
        body.pop("then_exit", None)
    for submit in [body, *(one for one in as_list(body.get("submits")) if isinstance(one, dict))]:
        # Commands that were drawn at random are not run.
        if "command" in submit:
            submit["hold"] = True


def as_list(value):
    return value if isinstance(value, list) else []
