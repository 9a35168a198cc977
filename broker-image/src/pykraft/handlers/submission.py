"""Operations that the controller decides: handed on, and answered when their records are committed.

When there is no active controller, or it has more to do than it can take, everything that was asked
for is refused with its code; clients try again.
Absent: the request's time-out. The controller is in this process; its answer takes one fsync.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykraft.core.controller.controller import Controller
from pykraft.core.controller.outcome import Outcome
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.errors import ErrorCode, KafkaError

# The arrays in which the answers of these APIs carry one error code per thing asked for.
_RESULTS = ("topics", "responses", "results")


Refuse = Callable[[KafkaError], Mapping[str, Any]]


def submit(
    broker: Broker,
    context: RequestContext,
    operation: Callable[[Controller], Outcome],
    refuse: Refuse,
) -> None:
    def answer(body: Mapping[str, Any]) -> None:
        count_errors(context, body)
        context.reply(body)

    try:
        broker.controller.submit(operation, answer)
    except KafkaError as error:
        answer(refuse(error))


def refuse_each(name: str, asked: Iterable[Mapping[str, Any]]) -> Refuse:
    """The array `name` with one refusal for each thing asked for, named by its own fields."""
    return lambda error: {
        name: [{**each, "error_code": error.code, "error_message": error.message} for each in asked]
    }


def count_errors(context: RequestContext, body: Mapping[str, Any]) -> None:
    codes = [body.get("error_code", ErrorCode.NONE)]
    for name in _RESULTS:
        codes += [result["error_code"] for result in body.get(name, ())]
    for code in codes:
        if code != ErrorCode.NONE:
            context.failed(code)
