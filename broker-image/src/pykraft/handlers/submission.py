"""Operations that the controller decides: handed on, and answered when their records are committed.

Absent: the request's time-out. The controller is in this process; its answer takes one fsync.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core.controller.controller import Controller
from pykraft.core.controller.outcome import Outcome
from pykraft.handlers.context import Broker, RequestContext
from pykraft.protocol.errors import ErrorCode

# The arrays in which the answers of these APIs carry one error code per thing asked for.
_RESULTS = ("topics", "responses", "results")


def submit(
    broker: Broker, context: RequestContext, operation: Callable[[Controller], Outcome]
) -> None:
    def answer(body: Mapping[str, Any]) -> None:
        count_errors(context, body)
        context.reply(body)

    broker.controller.submit(operation, answer)


def count_errors(context: RequestContext, body: Mapping[str, Any]) -> None:
    codes = [body.get("error_code", ErrorCode.NONE)]
    for name in _RESULTS:
        codes += [result["error_code"] for result in body.get(name, ())]
    for code in codes:
        if code != ErrorCode.NONE:
            context.failed(code)
