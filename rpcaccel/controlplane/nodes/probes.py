"""Probes: the calls that ask a node for its head and its identity, and how the answers are read. Which calls those are
stands in the chain's table.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from rpcaccel.chains import Identity, Probe
from rpcaccel.config.model import NodeSettings
from rpcaccel.core.heads.chain_view import Sighting
from rpcaccel.core.heads.identity import Claims
from rpcaccel.core.replies.answer import Answer, error_parts
from rpcaccel.core.replies.failure import BARRING, Failure, FailureKind, kind_of_status, policy
from rpcaccel.core.wire.json_params import MAX_TEXT, number_at, value_at
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient

_CONNECTIONS = 4
_LARGEST = 16 << 20
"""Bytes of an answer to a probe: the longest asked for is a block with the hashes of its transactions."""
_LATEST = '"latest"'
_BLOCK_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_NOTHING = Probe("")
_LONGEST_VERSION = 100
"""Characters that are kept of the version of a node's software."""
_ROLE_PATIENCE = 1.0
"""Seconds that a node may take to answer about its roles or about timestamps: the answer about its head waits for
that."""


class Asker(Protocol):
    """One node's session (dataplane.upstream.node_client.Upstream)."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        """One call; never raises."""
        ...

    async def close(self) -> None:
        """Close its sockets."""
        ...


class CountedAsker:
    """A node's session that tells the method of each call before the call is sent. It does not own the session."""

    def __init__(self, asker: Asker, sent: Callable[[str], None]) -> None:
        self._asker = asker
        self._sent = sent

    def __repr__(self) -> str:
        return f"<counted {self._asker!r}>"

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer | Failure:
        """One call; never raises."""
        self._sent(method)
        return await self._asker.send(method, params, timeout=timeout)

    async def close(self) -> None:
        """Close its sockets."""
        await self._asker.close()


def connect(settings: NodeSettings) -> Asker:
    """The session for the probes of a node."""
    return HttpNodeClient(
        settings.model_copy(update={"max_connections": _CONNECTIONS, "warm": 0, "max_answer": _LARGEST})
    )


class ProbedBlock(Struct, rename="camel"):
    """The members that are read of a block."""

    number: str | int
    hash: str
    parent_hash: str


class Look(Struct, frozen=True):
    """The result of one probe of a node."""

    sighting: Sighting
    latency: float
    """Seconds that the answer with the head took."""
    old_hash: str | None = None
    """The hash the node now tells for the block that was asked for again."""
    other_hash: str | None = None
    """The hash that the node tells for the block in question."""


_REFUSALS = frozenset({FailureKind.RATE_LIMITED, FailureKind.UNAUTHORIZED})
"""Kinds of a status that say of a probe, which holds nothing of a caller, all that matters."""


class Unseen(Struct, frozen=True):
    """A probe without a result: the reason, in a sentence."""

    text: str
    barred: bool = False
    """Whether the operator must act: a key is not accepted, or the URL has no JSON-RPC."""


class Questions:
    """The probes of one chain. `timeout`: seconds that each call may take."""

    def __init__(self, identity: Identity, timeout: float) -> None:
        self._identity = identity
        self._timeout = timeout

    async def look(
        self, asker: Asker, *, again: int | None, hashes: bool, tags: bool, question: int | None = None
    ) -> Look | Unseen:
        """Probe the head of a node. `again` and `question` are numbers of older blocks whose hashes are wanted;
        `hashes` and `tags` tell whether to ask for hashes, and for the final and the safe block."""
        probes = [self._identity.head]
        block = self._identity.block if hashes else None
        if block is not None:
            probes = [_at(block, _LATEST), _NOTHING if question is None else _at(block, f'"{question:#x}"')]
        tagged = [(tags and probe) or _NOTHING for probe in (self._identity.final, self._identity.safe)]
        replies = await asyncio.gather(*(self._ask(asker, probe) for probe in (*probes, *tagged)))
        first = replies[0]
        if not isinstance(first, Answer):
            return Unseen(first.text, first.kind in BARRING)
        if first.result is None:
            return Unseen(f"it answers its head with an error: {_message(first)}")
        sighting = _sighting(first, self._identity.head.at) if block is None else _block_sighting(first)
        if sighting is None:
            return Unseen("what it tells as its head is no block number")
        told, safe = (
            number_at(_result(reply, _LARGEST), probe.at) for reply, probe in zip(replies[-2:], tagged, strict=True)
        )
        final_hash = None if told is None else _hash(replies[-2])
        seen = Sighting(sighting.number, sighting.hash, sighting.parent, told, final_hash, safe)
        if block is None:
            return Look(seen, first.elapsed)
        # What the newest block shows need not be asked for: mostly, the head before is the same block or its parent.
        old = {None: None, seen.number: seen.hash, seen.number - 1: seen.parent}
        if again not in old:
            old[again] = _hash(await self._ask(asker, _at(block, f'"{again:#x}"')))
        return Look(seen, first.elapsed, old[again], _hash(replies[1]))

    async def seconds_between(self, asker: Asker, method: str, first: int, last: int) -> float:
        """The difference of the timestamps of two blocks in seconds; 0 where the node does not tell both.

        `method`: that of a block by number.
        """
        blocks = (Probe(method, f'["{number:#x}",false]', "timestamp") for number in (first, last))
        replies = await asyncio.gather(*(self._ask(asker, block, _ROLE_PATIENCE) for block in blocks))
        before, after = (number_at(_result(reply, _LARGEST), "timestamp") for reply in replies)
        return 0.0 if before is None or after is None else float(after - before)

    async def claims(self, asker: Asker) -> Claims | None:
        """The identity that the node claims; None when one of the calls got no answer at all.

        Those about blocks 0 and 1 need none: a node may keep the blocks to itself, have dropped them, or have no block
        1 yet, and be a good one.
        """
        identity = self._identity
        known = (identity.eth_chain_id, identity.network_id, identity.shard, identity.epoch)
        probes = [probe or _NOTHING for probe in (*known, identity.genesis, identity.block_one)]
        asking = asyncio.gather(*(self._ask(asker, probe) for probe in probes))
        (says, version), (*numbered, zero, one) = await asyncio.gather(self._says(asker), asking)
        if any(isinstance(reply, Failure) for reply in numbered):
            return None
        numbers = [number_at(_result(reply), probe.at) for reply, probe in zip(numbered, probes, strict=False)]
        eth_chain_id, network_id, shard, epoch = numbers
        genesis = block_hash(value_at(_result(zero), probes[-2].at))
        block_one = block_hash(value_at(_result(one), probes[-1].at))
        return Claims(eth_chain_id, network_id, shard, epoch, genesis, block_one, says, version)

    async def _says(self, asker: Asker) -> tuple[dict[str, bool], str]:
        """The roles that the node claims to have or not to have, and the version of its software; empty without a
        claim. Many providers do not answer these calls, so a missing answer means nothing."""
        identity = self._identity
        role, archive, signs, version = identity.role, identity.archive, identity.signs, identity.version
        calls = {(probe.method, probe.params): probe for probe in (role, archive, signs, version) if probe is not None}
        replies = await asyncio.gather(*(self._ask(asker, probe, _ROLE_PATIENCE) for probe in calls.values()))
        results = {call: _result(reply) for call, reply in zip(calls, replies, strict=True)}
        says: dict[str, bool] = {}
        if role is not None and isinstance(word := value_at(results[role.method, role.params], role.at), str):
            says |= {ours: word == theirs for theirs, ours in self._identity.roles.items()}
        if archive is not None:
            kept = value_at(results[archive.method, archive.params], archive.at)
            says |= {"archive": kept} if isinstance(kept, bool) else {}
        if signs is not None and isinstance(keys := value_at(results[signs.method, signs.params], signs.at), list):
            says["observer"] = not keys or says.get("explorer", False)
        named = None if version is None else value_at(results[version.method, version.params], version.at)
        return says, printable(named[:_LONGEST_VERSION]) if isinstance(named, str) else ""

    async def _ask(self, asker: Asker, probe: Probe, timeout: float = math.inf) -> Answer | Failure:
        if not probe.method:
            return Answer(result=b"null")
        timeout = min(timeout, self._timeout)
        reply = await asker.send(probe.method, probe.params.encode(), timeout=timeout)
        if isinstance(reply, Failure) and policy(reply.kind).retry == "same-node":
            # The node closed an idle connection as the request was written: it is sent again on a new one.
            reply = await asker.send(probe.method, probe.params.encode(), timeout=timeout)
        if isinstance(reply, Answer) and (kind := kind_of_status(reply.http_status)) in _REFUSALS:
            return Failure(kind, f"it answers its probe with HTTP {reply.http_status}: {_message(reply)}")
        return reply


def block_hash(said: object) -> str | None:
    """The hash of a block in the form that is compared; None for any other value."""
    return said.lower() if isinstance(said, str) and _BLOCK_HASH.fullmatch(said) else None


def _at(probe: Probe, block: str) -> Probe:
    return Probe(probe.method, probe.params.replace("{block}", block), probe.at)


def _result(reply: Answer | Failure, most: int = MAX_TEXT) -> bytes:
    result = bytes(reply.result) if isinstance(reply, Answer) and reply.result is not None else b"null"
    return result if len(result) <= most else b"null"


def _sighting(answer: Answer, path: str) -> Sighting | None:
    number = number_at(_result(answer), path)
    return None if number is None else Sighting(number)


def _block(reply: Answer | Failure) -> ProbedBlock | None:
    try:
        return msgspec.json.decode(_result(reply, _LARGEST), type=ProbedBlock | None)
    except UNREADABLE:
        return None


def _block_sighting(answer: Answer) -> Sighting | None:
    block = _block(answer)
    number = None if block is None else number_at(msgspec.json.encode(block.number), ".")
    if block is None or number is None:
        return None
    return Sighting(number, block.hash.lower(), block.parent_hash.lower())


def _hash(reply: Answer | Failure) -> str | None:
    block = _block(reply)
    return None if block is None else block.hash.lower()


def _message(answer: Answer) -> str:
    _, message = error_parts(answer.error or b"{}")
    return printable(message[:120]) or "without a message"
