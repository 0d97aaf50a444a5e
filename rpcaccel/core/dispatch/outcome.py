"""How a call ended: what the client gets, where it came from, and what took the time."""

from __future__ import annotations

from msgspec import Struct

from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.stats.counters import AnswerSource, Step
from rpcaccel.core.stats.error_log import Fault


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
    forced: bool = False
    """No node was fit, so the least bad was asked."""


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
    doubtful: bool = False
    """Is the result one that must not be kept, although the client gets it?"""
    agreed: tuple[int, int] | None = None
    """For a read that several nodes were asked for: how many gave this answer, and how many answered."""


def fault_of(plan: Plan, outcome: Outcome) -> Fault:
    """Whose doing the error of a call is.

    It is the client's where every node would say the same (params, a revert, a block yet to come) and where no node
    here has what is asked (a method, a role, old state), because a client can ask for that as often as it likes while
    nothing is wrong. The death of the one node that had it is told by the state of that node.
    """
    if outcome.source is AnswerSource.REFUSED:
        return "refused"
    kind = outcome.kind
    if kind is None:
        return "service"
    if kind is FailureKind.NODE_BEHIND:
        return "client" if plan.block is not None and plan.block > outcome.block else "service"
    return "client" if policy(kind).fault in {"client", "lack"} else "service"


_WAITED = {
    Step.DISK: "the disk",
    Step.REDIS: "Redis",
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
