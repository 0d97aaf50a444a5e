"""What `explain` reports about one call: the plan in words, held answers, and the nodes that would be asked."""

from __future__ import annotations

from math import isinf

from msgspec import Struct

from rpcaccel.core.cache.retention import lifetime
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass


class HeldAnswer(Struct, frozen=True, kw_only=True):
    """An answer that a tier holds under one of the call's keys."""

    tier: str
    """The tier's name: memory or redis."""
    key: str
    worker: str
    """The worker whose memory holds the answer; for a shared tier, the worker that asked it."""
    left: float | None = None
    """Seconds until the answer expires; None when it stays while there is room, or when the tier does not say."""
    age: float
    """Seconds since the answer was stored."""
    size: int
    """Bytes of the result."""
    block: int = -1
    served: bool = True
    """Would the call be answered with it now?"""


class Candidate(Struct, frozen=True, kw_only=True):
    """A node that may be asked."""

    id: str
    head: int
    in_flight: int
    latency: float | None = None
    """Recent average in seconds; None when it is not known."""
    preferred: bool = False
    """The node took the transaction that the call looks up, or the client's last one, or it holds the filter."""


class RefusedNode(Struct, frozen=True):
    """A node that would not be asked, and the reason."""

    id: str
    why: str


class Explanation(Struct, frozen=True, kw_only=True):
    """How one worker would treat a call now."""

    worker: str
    network: str
    chain: str
    method: str
    known: bool
    """Does a rule name the method?"""
    why: str
    """A sentence saying where the cache class comes from."""
    origin: str
    """Where the rule is written: a chain's file, and the settings if they override it."""
    cache: str
    asked: str
    forwarded: str
    """The params as a node gets them; `params` is what the caller sent."""
    note: str = ""
    local: str | None = None
    """The result, if the proxy knows it without a node."""
    head: int = -1
    block: int | None = None
    first_block: int | None = None
    final: bool = False
    min_head: int = -1
    key: str | None = None
    head_key: str | None = None
    shared: tuple[str, ...] = ()
    """The keys that the second tier may hold."""
    in_flight: bool = False
    keeping: tuple[str, ...] = ()
    """Sentences saying whether an answer would be kept, for how long, and what would prevent that."""
    held: tuple[HeldAnswer, ...] = ()
    nodes: tuple[Candidate, ...] = ()
    """The eligible nodes, in the order in which they would be asked."""
    refused: tuple[RefusedNode, ...] = ()
    forced: bool = False


def keeping(
    plan: Plan, view: ChainSnapshot, block_time: float, max_entry: int, *, second_tier: bool
) -> tuple[str, ...]:
    """Sentences saying whether and for how long an answer would be kept."""
    if plan.local is not None:
        return ("the proxy answers it itself: no node is asked, nothing is kept",)
    if not plan.kept:
        return (_not_kept(plan, view),)
    said = []
    if plan.range is not None:
        said.append("a range: put together from pieces where the settings allow it, each kept by itself once final")
    if plan.key is not None:
        said.append(_lasting(plan, block_time, second_tier=second_tier and plan.key in plan.shared_keys))
    if plan.head_key is not None:
        until = "an answer that may still change" if plan.key is not None else "an answer"
        said.append(f"{until} is kept until the block after {view.head}: its key holds the head")
    if plan.key is not None and view.doubt and plan.cache not in (CacheClass.STATIC, CacheClass.NODE):
        said.append(
            f"an empty answer and logs are kept for good only when the block is {view.doubt} blocks under the head: a "
            "machine behind a node's URL that lags would say the same"
        )
    if plan.block is not None and plan.min_head >= 0:
        said.append(f"not kept from a node that had not reached block {plan.block + plan.depth} when it was asked")
    if plan.rule.skip:
        said.append("the rule distrusts these results: " + ", ".join(plan.rule.skip))
    said.append(f"not kept when it is an error, or longer than {_size(max_entry)}")
    return tuple(said)


def _not_kept(plan: Plan, view: ChainSnapshot) -> str:
    if plan.rule.off:
        return "not kept: the settings switch the cache off for this method"
    if not plan.rule.known:
        return "not kept: no rule names this method"
    if plan.rule.kind != "read":
        return f"not kept: the method is a {plan.rule.kind}"
    if plan.cache is CacheClass.NODE:
        return "not kept: the answer differs by node, and the settings allow it no age"
    if plan.cache is CacheClass.NEVER:
        return f"not kept: {plan.note or 'its class is never'}"
    if not view.known:
        return "not kept: no node has told yet which chain this is"
    return "not kept: no node has told its head yet"


def _lasting(plan: Plan, block_time: float, *, second_tier: bool) -> str:
    rule = plan.rule
    if plan.cache is CacheClass.NODE:
        longer = f", and {rule.stale:g} s longer while one call renews it" if rule.stale else ""
        return f"one node's answer is served from this worker's memory for {rule.max_age:g} s{longer}"
    life = lifetime(plan.cache, block_time, max_age=rule.max_age)
    here = "in memory " + ("as long as there is room" if isinf(life.memory) else f"for {life.memory:g} s")
    there = f", in the second tier for {life.store:g} s" if second_tier else ""
    return f"a whole answer is kept {here}{there}"


def _size(count: int) -> str:
    """A number of bytes in words, exact."""
    for unit, name in ((10**9, "GB"), (1 << 20, "MiB"), (10**6, "MB"), (1 << 10, "KiB"), (10**3, "kB")):
        if count and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
