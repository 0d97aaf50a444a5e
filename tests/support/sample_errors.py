"""Made-up errors for the log of the admin side: failures of a node, mistakes of a client, and refusals."""

from __future__ import annotations

from typing import Any

from rpcaccel.core.stats.error_log import (
    ErrorAttempt,
    ErrorKey,
    ErrorLog,
    ErrorNews,
    ErrorSample,
    ErrorsSeen,
    UnknownMethod,
)

NETWORK = "harmony-s0"
TIMEOUT = ErrorKey(NETWORK, "hmyv2_getBlockByNumber", -32000, "no answer within # s", "service")
INVENTED = ErrorKey(NETWORK, "hmyv2_nope", -32601, "the method hmyv# does not exist/is not available", "client")
LIMITED = ErrorKey(NETWORK, "hmyv2_call", -32005, "too many calls: # a second are taken", "refused")


def sample_of(**more: Any) -> ErrorSample:
    """A call of client shop that node b did not answer in time."""
    attempts = (ErrorAttempt("b", 0.0, 10.0, "timeout", "no answer within 10 s"),)
    about = {
        "at": 1_800_000_000.0,
        "client": "shop",
        "address": "10.0.0.9",
        "request": "abc-1",
        "params": '[26,{"a":1}]',
    }
    told = {"message": "no answer within 10 s", "node": "b", "seconds": 10.0, "attempts": attempts,
            "stopped": "the budget for retries was used up"}  # fmt: skip
    return ErrorSample(**{**about, **told, **more})


def seen_of(key: ErrorKey, count: int = 1, **more: Any) -> ErrorsSeen:
    """So many errors of one group, of client shop at node b."""
    about: dict[str, Any] = {"kind": "timeout", "last_seen": 1_800_000_000.0, "clients": {"shop": count}}
    return ErrorsSeen(key, count=count, **{**about, "nodes": {"b": count}, "samples": [sample_of()], **more})


def sample_log(now: float) -> ErrorLog:
    """A log that took three groups at the monotonic time `now`."""
    log = ErrorLog()
    groups = (
        seen_of(TIMEOUT, 40),
        seen_of(INVENTED, 7, kind="method-missing", nodes={"a": 7}, clients={"anonymous": 7}, samples=[]),
        seen_of(LIMITED, 3, kind="", nodes={}, samples=[]),
    )
    methods = (UnknownMethod(NETWORK, "hmyv2_nope", 7, 7, 1_800_000_000.0),)
    log.take(ErrorNews(groups, methods), now)
    return log
