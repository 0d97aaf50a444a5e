"""Outcomes of calls that did not get a good answer of their own, and the reasons that misses are counted by."""

from __future__ import annotations

import re

import msgspec

from rpcaccel.core.dispatch.outcome import Forwarded, Outcome
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy, uniform_code
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.wire import json_text, jsonrpc

_ADDRESS = re.compile(r"https?://\S+?(?=:?(?:\s|$))")
"""The URL of a node in an error text. It is meant for the operator, in the log and on the page, not for clients."""


def miss_reason(plan: Plan) -> str:
    """Why no answer to a call is kept: a word from a fixed set, because it is a metric label."""
    if plan.rule.off:
        return "off"
    return "not-understood" if plan.note and plan.cache is CacheClass.NEVER else str(plan.cache)


def refused(why: str, head: int) -> Outcome:
    """The outcome of a call to a method that clients may not call; `why` is the sentence for the client."""
    return Outcome(source=AnswerSource.REFUSED, error=jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, why), block=head)


def with_uniform_code(error: bytes, failure: Failure | None) -> bytes:
    """A node's error object under one of the codes of `uniform_code`; unchanged, to the byte, if it has one already."""
    code, _ = error_parts(error)
    kind = failure.kind if failure is not None else FailureKind.UNKNOWN
    if (uniform := uniform_code(kind, code)) == code:
        return error
    try:
        members = json_text.members(error)
    except (json_text.NotJson, json_text.TooDeep):
        return jsonrpc.error_object(uniform, "the node's error cannot be read")
    return msgspec.json.encode({**members, "code": uniform})


def failed(forwarded: Forwarded, head: int, steps: tuple[tuple[str, float], ...]) -> Outcome:
    """The proxy's own error, because every attempt failed or none could be made."""
    failure = forwarded.failure or Failure(FailureKind.UNKNOWN, "no answer")
    row = policy(failure.kind)
    return Outcome(
        source=AnswerSource.NODE,
        error=jsonrpc.error_object(row.code, _ADDRESS.sub("the node's URL", failure.text)),
        node=forwarded.node_id,
        block=head,
        attempts=forwarded.attempts,
        http=row.http,
        retry_after=failure.retry_after,
        kind=failure.kind,
        steps=steps,
        legs=forwarded.legs,
    )


def joined(outcome: Outcome, waited: float) -> Outcome:
    """The outcome for a caller that joined a flight and waited for it for `waited` seconds."""
    return Outcome(
        source=AnswerSource.FLIGHT,
        result=outcome.result,
        error=outcome.error,
        node=outcome.node,
        block=outcome.block,
        http=outcome.http,
        retry_after=outcome.retry_after,
        kind=outcome.kind,
        agreed=outcome.agreed,
        steps=((Step.FLIGHT, waited),),
    )


def out_of_time(head: int) -> Outcome:
    """The outcome of a call whose client gave it less time than it took."""
    kind = FailureKind.CLIENT_DEADLINE
    row = policy(kind)
    error = jsonrpc.error_object(row.code, "no answer within the time that the request gave")
    return Outcome(source=AnswerSource.NODE, error=error, block=head, http=row.http, kind=kind)
