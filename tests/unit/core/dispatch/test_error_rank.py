from __future__ import annotations

from itertools import pairwise

from rpcaccel.core.dispatch.dispatch_policy import Settle, error_rank
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind

ERROR = Answer(error=b'{"code":-32000,"message":"m"}')


def end(kind: FailureKind, answer: Answer | None = None) -> Settle:
    return Settle(answer, Failure(kind, "t"), None)


def test_ends_from_the_least_to_the_most_telling() -> None:
    order = [
        end(FailureKind.ROLE_MISSING, Answer(result=b"null")),
        end(FailureKind.CONNECT),
        end(FailureKind.BROKEN_REPLY),
        end(FailureKind.RATE_LIMITED, ERROR),
        end(FailureKind.TIMEOUT),
        end(FailureKind.METHOD_MISSING, ERROR),
        end(FailureKind.NODE_BEHIND, ERROR),
        end(FailureKind.PRUNED, ERROR),
        end(FailureKind.UNKNOWN, ERROR),
        end(FailureKind.NODE_BEHIND, Answer(result=b"null")),
        Settle(Answer(result=b"1"), None, None),
    ]
    assert all(error_rank(less) < error_rank(more) for less, more in pairwise(order))
