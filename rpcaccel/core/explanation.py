"""What `explain` reports about one call: the plan in words, held answers, and the nodes that would be asked."""

from __future__ import annotations

from math import isinf

import msgspec
from msgspec import Struct

from rpcaccel.core.cache.retention import LISTED, lifetime
from rpcaccel.core.live import subscription
from rpcaccel.core.live.subscription import HEADS, LOGS, PENDING, Replay, SubscribeTable, Topic
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.proof.forms import ProofForm
from rpcaccel.core.wire.jsonrpc import Invalid


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
    """The keys that Redis may hold."""
    on_disk: tuple[str, ...] = ()
    """The keys that the disk may hold."""
    in_flight: bool = False
    keeping: tuple[str, ...] = ()
    """Sentences saying whether an answer would be kept, for how long, and what would prevent that."""
    held: tuple[HeldAnswer, ...] = ()
    nodes: tuple[Candidate, ...] = ()
    """The eligible nodes, in the order in which they would be asked."""
    refused: tuple[RefusedNode, ...] = ()
    forced: bool = False
    retries: str = ""
    """A sentence saying how often another node is asked after a failed attempt, or how many are told of a transaction;
    empty when no node is asked."""
    proof: str = ""
    """A sentence saying how the answer of a node is judged by arithmetic; empty when no node is asked."""
    live: tuple[str, ...] = ()
    """Sentences saying what a subscribe or an unsubscribe does; empty for all other calls, which alone are taken to
    nodes."""


def keeping(
    plan: Plan, view: ChainSnapshot, block_time: float, max_entry: int, *, shared: bool, disk: bool = False
) -> tuple[str, ...]:
    """Sentences saying whether and for how long an answer would be kept."""
    if plan.local is not None:
        return ("the proxy answers it itself: no node is asked, nothing is kept",)
    if not plan.kept:
        return (*_surely(plan), _not_kept(plan, view))
    said = list(_surely(plan))
    if plan.range is not None:
        said.append("a range: put together from pieces where the settings allow it, each kept by itself once final")
    if plan.rule.of_block:
        said.append("taken out of what is kept of its whole block, or of all its receipts, where this worker has that")
    listed = _unproven(plan, view) if plan.key is not None and plan.rule.split in LISTED else ""
    if plan.key is not None and not listed:
        disk = disk and not plan.rule.prove
        said.append(_lasting(plan, block_time, shared=shared and plan.key in plan.shared_keys, disk=disk))
    until = f"until the block after {view.head}" if plan.head_key is not None else ""
    if plan.key is None:
        said.append(f"an answer is kept {until}: its key holds the head")
    elif listed:
        said.append(f"an answer is kept {until} at the most: {listed}")
    elif brief := ", ".join(_brief(plan, view)):
        said.append(f"kept {until} at the most: {brief}" if until else f"not kept: {brief}")
    if "not-mined" in plan.rule.skip:
        said.append("not kept while the transaction is in no block: what is in a pool changes without a new head")
    if plan.block is not None and plan.min_head >= 0:
        said.append(f"not kept from a node that had not reached block {plan.block + plan.depth} when it was asked")
    said.append(f"not kept when it is an error, or longer than {_size(max_entry)}")
    return tuple(said)


_MAY_FILL = {
    "null": "null",
    "empty-list": "an empty list",
    "empty-list-unless-genesis": "an empty list, unless of the first block",
    "empty-string": "an empty text",
    "0x": '"0x"',
    "blobs": "a transaction with its blobs, which only a pool has",
}
"""Results that are not kept for long, by the tests of rules (core.cache.retention.TESTS)."""


def _brief(plan: Plan, view: ChainSnapshot) -> list[str]:
    """The answers that are kept until the next head at the most though others are kept for longer, as
    core.cache.retention decides."""
    rule, cache = plan.rule, plan.cache
    found = [_MAY_FILL[name] for name in rule.skip if name in _MAY_FILL]
    if "null" not in rule.skip and (rule.null_may_fill or cache is not CacheClass.STATIC):
        found.insert(0, "null")
    if rule.fills_later:
        found.append("one with a null that a later block fills")
    if cache is CacheClass.FOREVER and not plan.final:
        found.append("one whose block is not final yet")
    if rule.split not in LISTED and (why := _unproven(plan, view)):
        found.append(f"an empty one ({why})")
    return found


def _unproven(plan: Plan, view: ChainSnapshot) -> str:
    """Why an answer that a lagging machine would give as well is not kept for long; empty where it is."""
    if plan.cache in (CacheClass.STATIC, CacheClass.NODE):
        return ""
    if plan.block is not None and plan.block + plan.depth <= view.settled:
        return ""
    depth = f"{view.doubt} blocks under the head" if view.doubt else "final"
    why = "the call does not number its block" if plan.block is None else f"its block is not {depth} yet"
    return f"{why}, and a machine behind a node's URL that lags would say the same"


def because(plan: Plan) -> str:
    """A sentence saying where the cache class comes from: the rule, and what of the call makes it another class."""
    rule, cache = plan.rule, plan.cache
    if cache is rule.cache:
        return rule.why
    own = ""
    if plan.pending:
        own = "its block is not made yet"
    elif cache is CacheClass.NEVER:
        own = "the call is outside its rule"
    elif cache is CacheClass.HEAD:
        own = "it asks about the newest block" if plan.block is not None else "its block may leave the branch"
    return f"{own}; its rule says: {rule.why}" if own else rule.why


def retrying(plan: Plan, attempts: int, left: float, apart: float) -> str:
    """A sentence saying how often another node is asked after a failed attempt; empty where no node is asked.

    Args:
        attempts: the most that a call has.
        left: retries that the budget pays for now.
        apart: retries that it pays for now after errors that the call itself may be at fault for.
    """
    if plan.local is not None:
        return ""
    if not plan.repeat:
        return (
            "the call may have an effect: another node is asked only where the first one certainly did nothing, "
            "because it did not get the call or refused it unread"
        )
    return (
        f"after a failed attempt another node is asked, {attempts} attempts in all at the most; the budget pays for "
        f"{max(0, int(left))} more retries now, for {max(0, int(apart))} after errors that the call may be at fault for"
    )


def telling(nodes: int) -> str:
    """A sentence saying how many nodes are told of a transaction; empty where there are none."""
    if nodes < 2:
        return "one node is told of it, another one only where that fails" if nodes else ""
    return f"{nodes} nodes are told of it at once, and others where these fail; the first that accepts it is the answer"


def _surely(plan: Plan) -> tuple[str, ...]:
    """A sentence about a read that must be proved, or that several nodes must answer alike; none for all others."""
    wanted = plan.rule.agree
    if plan.rule.prove:
        return (f"proved by the state root of its block, or not answered: a proof of the account is asked for, and its "
                f"answer is kept in memory, the proof wherever its own rule says ({plan.rule.origin})",)  # fmt: skip
    if wanted == 1:
        return ()
    said = plan.rule.origin or "a route"
    return (f"{wanted} nodes are asked at once and must give the same answer, a further one decides ({said})",)


_BLOCK_BYTES = 120
"""Bytes at the end of params in which the reference to a block stands."""
_BRANCH = "judged against the call and the served branch"
_JUDGED = {
    "block": ("proved by the hash of its block", f"{_BRANCH}; the chain's headers cannot be rebuilt"),
    "state": ("proved by the state root of its block", "not proved: the chain's headers cannot be rebuilt"),
    "transaction": ("proved by its hash", f"{_BRANCH}; the chain's transactions cannot be rebuilt"),
    "receipt": (f"{_BRANCH}, and by the bloom of its logs", ""),
    "receipts": (f"{_BRANCH}, and by the blooms of their logs and the sums of their gas", ""),
    "logs": ("judged against the filter and the served branch, and by the blooms of blocks", ""),
}
"""How an answer is judged (core.proof.judge), by what it shows; and where the chain's hashes cannot be rebuilt."""


_PROVED = {
    "block": "proved by the hash of its block, and its transactions by their root",
    "transaction": "proved by its hash, and by its place in its block",
    "receipt": "proved by the root of the receipts of its block",
    "receipts": "proved by the root of the receipts of their block",
    "logs": "proved to be complete, by the receipts of their blocks",
}
"""The same where all is proved (`prove = "full"`)."""
_PROVED_BY_HEADERS = {
    "block": "proved by its header as it is hashed, which a second call gives, without its transactions",
    "logs": "judged by the hashes and the blooms of their blocks, which prove where there are none",
}
"""The same on chains of which a method gives the headers as they are hashed, and no more can be proved."""


def proving(plan: Plan, form: ProofForm, unknown: str = "", *, proves: bool) -> str:
    """A sentence saying how the answer of a node is judged; none where no node is asked.

    Args:
        unknown: what of its answers the chain was found to hash in an unknown way, in words.
        proves: are answers of the network judged?
    """
    shows = plan.rule.shows
    if plan.local is not None or plan.rule.kind == "subscribe":
        return ""
    if plan.rule.prove and not plan.pending:
        return "proved by the state root of its block"
    if not shows:
        return "not proved: no rule tells what of its answers is hashed"
    if not proves:
        return "not proved: the settings switch it off (prove)"
    if plan.pending:
        return "not proved: the block is not made yet"
    if shows == "state" and plan.block is None and b"0x" not in plan.params[-_BLOCK_BYTES:]:
        return "not proved: the call names its block by neither number nor hash"
    if unknown:
        return f"{_BRANCH}; nodes agree that the chain hashes a {unknown} in another way than this program knows"
    if plan.rule.fully and (said := (_PROVED if form.transactions else _PROVED_BY_HEADERS).get(shows)):
        return said
    rebuilt, otherwise = _JUDGED[shows]
    there = form.transactions if shows == "transaction" else form.header.members
    return rebuilt if there or not otherwise else otherwise


def living(plan: Plan, table: SubscribeTable, replay: Replay, *, sockets: bool) -> tuple[str, ...]:
    """Sentences saying what a subscribe or an unsubscribe does; none for all other calls. `sockets`: may clients open
    WebSockets?"""
    if plan.rule.kind != "subscribe":
        return ()
    namespace, _, verb = plan.method.rpartition("_")
    over_http = f"over HTTP it gets error {table.http_code}: {subscription.NOT_SUPPORTED}"
    if not sockets:
        off = "WebSockets are off (http.websocket.enabled), and without one nobody can subscribe"
        return (off,) if verb == subscription.UNSUBSCRIBE else (off, over_http)
    if verb == subscription.UNSUBSCRIBE:
        return ("the proxy answers it itself: it ends a subscription of its own connection, whatever the namespace",)
    topic = subscription.subscribed(namespace, plan.params, table, replay)
    if isinstance(topic, Invalid):
        return f"over a WebSocket it gets error {topic.code}: {topic.message}", over_http
    again = () if topic.from_block is None else (_again(topic.from_block, replay.head),)
    return (
        "over a WebSocket the proxy answers it itself with an id of its own; it is never forwarded",
        over_http,
        _topic_in_words(topic),
        _fed(topic, table),
        *again,
    )


def _topic_in_words(topic: Topic) -> str:
    if topic.filter is None:
        return f"topic {topic.kind}, shared by all clients that subscribe to it"
    members = msgspec.json.encode(topic.filter.params()).decode()
    return f"topic {topic.kind} with the filter {members}, shared by all clients whose filters mean the same"


def _again(first: int, head: int) -> str:
    return f"what was missed since block {first} is sent first" if first <= head else f"nothing before block {first}"


def _fed(topic: Topic, table: SubscribeTable) -> str:
    kind = topic.kind
    if kind == HEADS:
        return f"fed by the served head: one {table.block} for each block, or the header that a node pushes"
    if kind == LOGS:
        return f"fed by the served head: one {table.logs} for each block and all filters, which are matched here"
    if kind == PENDING and topic.full:
        return "fed by what the nodes tell of their pools: hashes, for each of which the transaction is fetched"
    if kind == PENDING:
        return "fed by what the nodes tell of their pools"
    return "nothing is sent: clients are never led to a node that is syncing"


def _not_kept(plan: Plan, view: ChainSnapshot) -> str:
    if plan.rule.off:
        return "not kept: the settings switch the cache off for this method"
    if not plan.rule.known:
        return "not kept: no rule names this method"
    if plan.rule.kind == "subscribe":
        return "not kept: its answer is the id of one client's subscription"
    if plan.rule.kind != "read":
        return f"not kept: the method is a {plan.rule.kind}"
    if plan.cache is CacheClass.NODE:
        return "not kept: the answer differs by node, and the settings allow it no age"
    if plan.cache is CacheClass.NEVER:
        return f"not kept: {plan.note or ('its block is not made yet' if plan.pending else 'its class is never')}"
    if not view.known:
        return "not kept: no node has told yet which chain this is"
    return "not kept: no node has told its head yet"


def _lasting(plan: Plan, block_time: float, *, shared: bool, disk: bool) -> str:
    rule = plan.rule
    if plan.cache is CacheClass.NODE:
        longer = f", and {rule.stale:g} s longer while one call renews it" if rule.stale else ""
        return f"one node's answer is served from this worker's memory for {rule.max_age:g} s{longer}"
    life = lifetime(plan.cache, block_time, max_age=rule.max_age)
    here = "in memory " + ("as long as there is room" if isinf(life.memory) else f"for {life.memory:g} s")
    between = ", on the disk as long as there is room" if disk and isinf(life.memory) else ""
    there = f", in Redis for {life.store:g} s" if shared else ""
    return f"a whole answer is kept {here}{between}{there}"


def _size(count: int) -> str:
    """A number of bytes in words, exact."""
    for unit, name in ((10**9, "GB"), (1 << 20, "MiB"), (10**6, "MB"), (1 << 10, "KiB"), (10**3, "kB")):
        if count and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
