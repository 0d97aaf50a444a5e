"""What a client of a simulated node subscribes to, read and refused in the node's words, and what the node has to push:
new blocks, reorganisations and pending transactions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct

from rpcaccel.simnode.chain.blocks import Tx
from rpcaccel.simnode.chain.sim_chain import Branch
from rpcaccel.simnode.methods import json_views as views
from rpcaccel.simnode.methods.arguments import go_kind
from rpcaccel.simnode.methods.json_views import View
from rpcaccel.simnode.methods.log_methods import fits, logs
from rpcaccel.simnode.methods.registry import MethodCall, RpcError
from rpcaccel.simnode.server.responder import Responder

_SPACES = {"harmony": ("eth", "hmy"), "ethereum": ("eth",)}
_KINDS = {
    "harmony": ("newHeads", "logs", "newPendingTransactions"),
    "ethereum": ("newHeads", "logs", "newPendingTransactions", "syncing"),
}
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})*\Z")
LEAST_WAIT_SECONDS = 0.001
"""The least wait for the next block: a timer may fire a moment before its time."""
SECONDS_TO_LOOK = 0.1
"""The time between looks for what other processes of the chain were sent."""
MAX_PENDING_SEEN = 4096
"""Pending transactions remembered as told."""


class PushTopic(Struct, frozen=True):
    space: str
    """The namespace of the subscribe, which notifications name."""
    kind: str
    criteria: View = {}
    full: bool = False
    """Whether pending transactions are sent whole."""

    def takes(self, entry: View) -> bool:
        """Whether a log passes the filter; one with a past range passes nothing."""
        number = int(entry["blockNumber"], 16)
        first, last = (_height(self.criteria.get(name)) for name in ("fromBlock", "toBlock"))
        within = (first is None or first <= number) and (last is None or number <= last)
        return within and fits(entry, self.criteria)


def read_topic(kind_of_node: str, space: str, params: bytes) -> PushTopic:
    """The topic of a subscribe. Raises RpcError."""
    values = json.loads(params or b"null")
    if not isinstance(values, list):
        raise _invalid("non-array args")
    if not values or not isinstance(values[0], str):
        raise _invalid("expected subscription name as first argument")
    name, geth = values[0], kind_of_node == "ethereum"
    if space not in _SPACES[kind_of_node] or name not in _KINDS[kind_of_node]:
        raise RpcError(f'no "{name}" subscription in {space} namespace', -32601)
    most = 2 if name == "logs" or (geth and name == "newPendingTransactions") else 1
    if len(values) > most:
        raise _invalid(f"too many arguments, want at most {most}")
    if name == "logs":
        if len(values) < 2:
            raise _invalid("missing value for required argument 1")
        return PushTopic(space, name, _criteria(values[1], geth=geth))
    full = values[1] if len(values) > 1 else None
    if full is not None and not isinstance(full, bool):
        raise _invalid(f"invalid argument 1: json: cannot unmarshal {go_kind(full)} into Go value of type bool")
    return PushTopic(space, name, full=bool(full))


def read_token(params: bytes) -> str:
    """The subscription id of an unsubscribe. Raises RpcError."""
    values = json.loads(params or b"null")
    if values is not None and not isinstance(values, list):
        raise _invalid("non-array args")
    if not values:
        raise _invalid("missing value for required argument 0")
    if len(values) > 1:
        raise _invalid("too many arguments, want at most 1")
    if values[0] is not None and not isinstance(values[0], str):
        raise _invalid(f"invalid argument 0: json: cannot unmarshal {go_kind(values[0])} into Go value of type rpc.ID")
    return values[0] or ""


def _invalid(message: str) -> RpcError:
    return RpcError(message, -32602)


def _height(bound: Any) -> int | None:
    return int(bound, 16) if isinstance(bound, str) and bound.startswith("0x") else None


def _criteria(value: Any, *, geth: bool) -> View:
    """The filter of logs, checked. Raises RpcError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        kind = go_kind(value)
        raise _invalid(f"invalid argument 1: json: cannot unmarshal {kind} into Go value of type filters.input")
    _check_choices(value.get("address"), 20, "address")
    topics = value.get("topics") or []
    if not isinstance(topics, list):
        member = f"{go_kind(topics)} into Go struct field input.topics of type []interface {{}}"
        raise _invalid(f"invalid argument 1: json: cannot unmarshal {member}")
    if geth and len(topics) > 4:
        raise _invalid("invalid argument 1: exceed max topics")
    for place in topics:
        _check_choices(place, 32, "topic")
    first, last = (_height(value.get(name)) for name in ("fromBlock", "toBlock"))
    if first is not None and last is not None and first > last:
        if geth:
            raise _invalid("invalid block range params")
        raise RpcError("invalid from and to block combination: from > to")
    return value


def _check_choices(choices: Any, size: int, name: str) -> None:
    """Check the addresses or topics of a place: one, several or any. Raises RpcError."""
    for written in choices if isinstance(choices, list) else [choices] if choices else []:
        wrong = _wrong(written, size, name)
        if wrong is not None:
            raise _invalid(f"invalid argument 1: invalid {name}{wrong}")


def _wrong(written: Any, size: int, name: str) -> str | None:
    if not isinstance(written, str):
        return ""
    if written[:2] != "0x":
        return ": hex string without 0x prefix"
    if not _HEX.match(written):
        return ": invalid hex string"
    found = len(written) // 2 - 1
    return None if found == size else f": hex has invalid length {found} after decoding; expected {size} for {name}"


class ChainMove(Struct, frozen=True):
    branch: Branch
    heads: tuple[int, ...] = ()
    """The heights of the blocks to announce, on `branch`."""
    logs: tuple[int, ...] = ()
    """The heights whose logs are new, on `branch`."""
    removed: tuple[int, ...] = ()
    """The heights whose logs are taken back, on `abandoned`."""
    abandoned: Branch | None = None
    pending: tuple[Tx, ...] = ()


def move_between(old: Branch, old_head: int, new: Branch, head: int) -> ChainMove:
    """What a node announces when its head moves from one block to another.

    A reorganisation is told as geth does: of its new blocks only the last one is announced, with the logs of all.
    """
    common = min(old_head, head)
    while common and old.hash_of(common) != new.hash_of(common):
        common -= 1
    fresh = tuple(range(common + 1, head + 1))
    if common == old_head or old is new:
        return ChainMove(new, heads=fresh, logs=fresh)
    return ChainMove(new, heads=(head,), logs=fresh, removed=tuple(range(common + 1, old_head + 1)), abandoned=old)


def notices(move: ChainMove, view: Callable[[Branch | None], MethodCall]) -> list[tuple[str, bool, Any]]:
    """What a move is told by, in order: (kind of subscription, whether whole, result). `view` shows a branch.

    Logs and pending transactions of Harmony are named by Harmony's own hashes, whatever the namespace.
    """
    call = view(move.branch)
    dialect = "geth" if call.geth else "v1"
    told: list[tuple[str, bool, Any]] = [
        ("newHeads", False, views.pushed_header(call.branch, call.block_at(number), call.version))
        for number in move.heads
    ]
    for number in move.removed:
        gone = logs(view(move.abandoned), number, number, {}, dialect)
        told += [("logs", False, {**entry, "removed": True}) for entry in gone]
    for number in move.logs:
        told += [("logs", False, entry) for entry in logs(call, number, number, {}, dialect)]
    for tx in move.pending:
        told.append(("newPendingTransactions", False, views.tx_hash(dialect, tx)))
        told.append(("newPendingTransactions", True, views.transaction(call.branch, tx, None, call.version)))
    return told


class BlockWatch:
    """Watches the head of one node while somebody listens: it looks when a block is due and when something changed.
    `told` is called with each move that is not empty."""

    def __init__(self, brain: Responder, told: Callable[[ChainMove], None]) -> None:
        self._brain = brain
        self._told = told
        self._wake = asyncio.Event()
        self._branch = brain.branch
        self._head = brain.head
        self._seen = dict.fromkeys(tx.hash for tx in brain.view().pending())
        brain.chain.watchers.add(self._wake.set)
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._brain.chain.watchers.discard(self._wake.set)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            self._look()
            await self._wait(self._due())

    def _due(self) -> float | None:
        """Seconds until the node may see something new by the passing of time."""
        knobs = self._brain.knobs
        due = self._brain.chain.heads.due(knobs.skew)
        if knobs.gossip and any(tx.hash not in self._seen for tx in self._brain.chain.sent.recent.values()):
            due = knobs.gossip if due is None else min(due, knobs.gossip)
        if self._brain.chain.shared is not None:
            due = SECONDS_TO_LOOK if due is None else min(due, SECONDS_TO_LOOK)
        return due if due is None else max(LEAST_WAIT_SECONDS, due)

    async def _wait(self, due: float | None) -> None:
        """Return when something changed, or after `due` seconds."""
        waiting: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        if due is not None:
            waiting.append(asyncio.ensure_future(self._brain.clock.sleep(due)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    def _look(self) -> None:
        branch, head = self._brain.branch, self._brain.head
        if branch is not self._branch or head > self._head:
            move = move_between(self._branch, self._head, branch, head)
            self._branch, self._head = branch, head
            self._told(move)
        fresh = tuple(tx for tx in self._brain.view().pending() if tx.hash not in self._seen)
        if fresh:
            self._seen |= dict.fromkeys(tx.hash for tx in fresh)
            while len(self._seen) > MAX_PENDING_SEEN:
                del self._seen[next(iter(self._seen))]
            self._told(ChainMove(branch, pending=fresh))
