"""How a call ended: at the nodes (`Forwarded`), and for the client (`Outcome`); the outcomes of calls that got no good
answer of their own, and the reasons that misses are counted by.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import ID_OR_TAG, CacheClass
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import Failure, FailureKind, policy, uniform_code
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.error_log import ErrorFault
from rpcaccel.core.wire import json_text, jsonrpc


class Leg(Struct, frozen=True, gc=False):
    """One attempt of a call that took several attempts, or whose only attempt failed."""

    node: str
    start: float
    """Seconds from the start of the first attempt to the start of this one."""
    seconds: float
    end: str
    """"answered", "overtaken", "cancelled" or a FailureKind."""
    said: str = ""
    """The words of the node, or of the failure on the way to it, shortened and printable; empty unless the attempt
    failed."""


class Forwarded(Struct, frozen=True, kw_only=True):
    """How a call that was taken to the nodes ended.

    A success has `answer` alone. A node's error that the client may see has both; anything else has `failure` alone.
    """

    answer: Answer | None
    failure: Failure | None
    node_id: str = ""
    """The id of the node that answered; empty when none was asked."""
    node_head: int = -1
    """That node's head when it was asked: it cannot speak truly of blocks above."""
    attempts: int = 0
    tried: tuple[str, ...] = ()
    """Ids of the nodes that were asked, each once."""
    steps: tuple[tuple[str, FailureKind], ...] = ()
    """The attempts that failed: the node's id, and how."""
    legs: tuple[Leg, ...] = ()
    """The attempts, where it took more than one or the only one failed."""
    stopped: str = ""
    """Why no further node was asked after an attempt that failed; empty where none failed, or another is to follow."""
    forced: bool = False
    """No node was fit, so the least bad was asked."""
    proved: str = ""
    """The hash of the block by which the answer was proved; empty when it was not."""


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """The end of one call. Exactly one of `result` and `error` is set."""

    source: AnswerSource
    result: bytes | None = None
    """Raw JSON text of the result."""
    error: bytes | None = None
    """Raw JSON text of the error object."""
    node: str = ""
    """Id of the node that answered; empty when none was asked."""
    block: int = -1
    """The served head at which the call was answered; -1 when the network has none yet."""
    attempts: int = 0
    """Attempts made for this call."""
    http: int = 200
    """The HTTP status of the reply to a single call."""
    retry_after: float | None = None
    """Seconds after which the client may try again."""
    kind: FailureKind | None = None
    """The kind of the failure, if the error came from a node or from the way to it."""
    node_head: int = -1
    """The head of that node when it was asked."""
    key: bytes = b""
    """The key of the entry in the memory tier; empty when the answer came from elsewhere."""
    cached: tuple[int, int] | None = None
    """For a range joined from pieces: the number of its blocks that the caches had, and the number of all its
    blocks."""
    steps: tuple[tuple[str, float], ...] = ()
    """The steps of the call and their durations in seconds, in order."""
    legs: tuple[Leg, ...] = ()
    """The attempts, if there was more than one or the only one failed."""
    stopped: str = ""
    """As in `Forwarded`."""
    doubtful: bool = False
    """Is the result one that must not be kept, although the client gets it?"""
    judged: FailureKind | None = None
    """What is wrong with the result, for want of a better one of another node; None when nothing certainly is."""
    proved: str = ""
    """The hash of the block by which the result was proved; empty when it was not."""
    agreed: tuple[int, int] | None = None
    """For a read that several nodes were asked for: how many gave this answer, and how many answered."""


def fault_of(plan: Plan, outcome: Outcome) -> ErrorFault:
    """Whose doing the error of a call is.

    It is the client's where every node would say the same (params, a revert, a block yet to come), where no node here
    has what is asked (a method, a role, old state), and where the client named the nodes, because a client can ask for
    that as often as it likes while nothing is wrong. The death of the one node that had it is told by the state of that
    node.
    """
    if outcome.source is AnswerSource.REFUSED:
        return "refused"
    kind = outcome.kind
    if kind is None:
        return "service"
    if plan.tag.startswith(ID_OR_TAG):  # the client named the nodes
        return "client"
    if kind is FailureKind.NODE_BEHIND:
        return "client" if plan.block is not None and plan.block > outcome.block else "service"
    return "client" if policy(kind).fault in {"client", "lack"} else "service"


_WAITED = {
    Step.DISK: "the disk",
    Step.SHARED: "Redis",
    Step.FLIGHT: "the same call under way",
    Step.FORWARD: "the nodes",
}


def reason(outcome: Outcome, seconds: float) -> str:
    """A few words on what took most of the `seconds` from a call's arrival to its answer."""
    if outcome.source is AnswerSource.REFUSED:
        return "refused"
    if not outcome.steps:
        return "the proxy itself was busy"
    step, longest = max(outcome.steps, key=lambda taken: taken[1])
    if longest < seconds / 2:
        return f"the proxy itself was busy: {seconds - sum(taken for _, taken in outcome.steps):.3f} s in no step"
    waited = f"waited {longest:.3f} s for {_WAITED.get(Step(step), step)}"
    if step == Step.FORWARD and outcome.node:
        waited = f"node {outcome.node} answered after {longest:.3f} s"
    return f"{waited}, {outcome.attempts} attempts" if outcome.attempts > 1 else waited


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
        stopped=forwarded.stopped,
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
        proved=outcome.proved,
        agreed=outcome.agreed,
        steps=((Step.FLIGHT, waited),),
    )


def out_of_time(head: int) -> Outcome:
    """The outcome of a call whose client gave it less time than it took."""
    kind = FailureKind.CLIENT_DEADLINE
    row = policy(kind)
    error = jsonrpc.error_object(row.code, "no answer within the time that the request gave")
    return Outcome(source=AnswerSource.NODE, error=error, block=head, http=row.http, kind=kind)
