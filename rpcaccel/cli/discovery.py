"""Asks the nodes of a command line for their chain and shard before they are served; nodes that serve the same make a
network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from rpcaccel import chains
from rpcaccel.chains import Chain, Probe
from rpcaccel.config.load import UrlNetwork
from rpcaccel.config.model import NodeSettings
from rpcaccel.config.value_types import is_sharded, network_name, parse_node
from rpcaccel.controlplane.nodes.probes import Asker
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure
from rpcaccel.core.wire.json_params import number_at
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient

_MAX_TROUBLE_CHARACTERS = 120


class ProbeError(Exception):
    """A node did not answer as nodes do. The text is for the operator and holds no secret."""

    def __init__(self, text: str, *, silent: bool = False) -> None:
        """`silent`: no answer came at all."""
        line = printable(text)
        super().__init__(line if len(line) <= _MAX_TROUBLE_CHARACTERS else f"{line[:_MAX_TROUBLE_CHARACTERS]}…")
        self.silent = silent


async def number_of(asker: Asker, probe: Probe, timeout: float) -> int:
    """The block number or chain id that a node answers to a probe, within `timeout` seconds. Raises ProbeError."""
    answer = await asker.send(probe.method, probe.params.encode(), timeout=timeout)
    if isinstance(answer, Failure):
        raise ProbeError(answer.text, silent=True)
    if answer.result is None:
        _, message = error_parts(answer.error or b"")
        raise ProbeError(f"{probe.method}: {message}")
    if (found := number_at(bytes(answer.result), probe.at)) is None:
        raise ProbeError(f"{probe.method}: answered with something that is not a number")
    return found


DEFAULT_CHAIN, DEFAULT_SHARD = "harmony", 0
"""The chain and the shard that are served when no node answers."""
DISCOVERY_SECONDS = 3.0
"""Seconds that nodes get to tell what they serve; a node that has not answered by then is taken for one like the
others."""
_PAUSE = 0.25
"""Seconds between two questions to a node that did not answer."""


class Said(NamedTuple):
    """The chain and the shard that a node claims to serve, and its chain id; None where the node tells no chain id."""

    chain: str
    shard: int
    eth_chain_id: int | None = None


class Discovery(NamedTuple):
    """The networks to be served, that of the first node first, and sentences about nodes that did not answer."""

    networks: list[UrlNetwork]
    notes: list[str]


def assumed(texts: Sequence[str], chain: str | None, shard: int | None) -> Discovery:
    """One network of all nodes, of the chain and shard that the operator names, or of the default ones. No node is
    asked."""
    named, number_of_shard = chain or DEFAULT_CHAIN, DEFAULT_SHARD if shard is None else shard
    return Discovery([UrlNetwork(network_name(named, number_of_shard), named, number_of_shard, tuple(texts))], [])


def is_open(chain: str | None, shard: int | None) -> bool:
    """Whether the chain or the shard is left for the nodes to tell."""
    if chain is None:
        return True
    return shard is None and is_sharded(chain)


async def discover(
    texts: Sequence[str],
    chain: str | None,
    shard: int | None,
    *,
    wait: float = DISCOVERY_SECONDS,
    connect: Callable[[NodeSettings], Asker] = HttpNodeClient,
) -> Discovery:
    """Ask nodes, written URL[,weight=N][,id=NAME] and known to be well written, what they serve.

    Args:
        chain: the chain that the operator names; None: the nodes are asked.
        shard: the shard that the operator names; None: the nodes are asked.
        wait: seconds after which a node that has not answered is taken for one like the others.
    """
    nodes = [NodeSettings.model_validate({"id": "node", **parse_node(text)}) for text in texts]
    answered, deadline = asyncio.Event(), asyncio.get_running_loop().time() + wait
    questions = [_ask(connect(node), chain, shard, answered, deadline) for node in nodes]
    replies = await asyncio.gather(*questions)
    said = [_completed(one, replies) if isinstance(one, Said) else one for one in replies]
    known = [one for one in said if isinstance(one, Said)]
    if not known:
        found = assumed(texts, chain, shard)
        network = found.networks[0]
        note = (
            f"no node has said within {wait:g} s what it serves ({said[0]}): taken for nodes of {network.name};"
            " if they are others, say so with --chain and --shard, or start again when they answer"
        )
        return Discovery(found.networks, [note])
    names = _names(known)
    places = [one if isinstance(one, Said) else known[0] for one in said]
    networks = [
        UrlNetwork(
            name,
            place.chain,
            place.shard,
            tuple(text for text, own in zip(texts, places, strict=True) if own == place),
            None if name == network_name(place.chain, place.shard) else place.eth_chain_id,
        )
        for place, name in sorted(names.items(), key=lambda pair: places.index(pair[0]))
    ]
    notes = [
        f"{node.url.shown} has not said what it serves ({one}): taken for a node of {names[known[0]]}"
        for node, one in zip(nodes, said, strict=True)
        if isinstance(one, str)
    ]
    return Discovery(networks, [*notes, *_renamed(networks)])


def _renamed(networks: Sequence[UrlNetwork]) -> list[str]:
    """A sentence for each network that had the name of its chain's base before its chain had a table of its own."""
    return [
        f"{network.name} is served on /{network.name} by the rules of {network.chain}, which its chain id names; with"
        f" --chain {base} it is served as {base}, as before there was a table of it"
        for network in networks
        if (base := chains.load(network.chain).base)
    ]


def _completed(said: Said, others: Sequence[Said | str]) -> Said:
    """The claim of a node, with the chain id of another node of the same chain and shard where the node tells none."""
    if said.eth_chain_id is not None:
        return said
    alike = (other for other in others if isinstance(other, Said) and other[:2] == said[:2] and other.eth_chain_id)
    return next(alike, said)


def _names(known: Sequence[Said]) -> dict[Said, str]:
    """A name for each network. The name holds the chain id where two networks would have the same name."""
    names: dict[Said, str] = {}
    for said in known:
        plain = network_name(said.chain, said.shard)
        alike = {other.eth_chain_id for other in known if network_name(other.chain, other.shard) == plain}
        marked = len(alike) > 1 and said.eth_chain_id is not None
        names[said] = f"{plain}-{said.eth_chain_id}" if marked else plain
    return names


async def _ask(
    upstream: Asker, chain: str | None, shard: int | None, answered: asyncio.Event, deadline: float
) -> Said | str:
    """The claim of a node, or the reason why there is none, in words. The node is asked again until `deadline`, or
    until another node has answered."""
    clock = asyncio.get_running_loop().time
    try:
        while True:
            last = answered.is_set()
            try:
                said = await _said(upstream, max(0.05, deadline - clock()), chain, shard)
            except ProbeError as error:
                if last or clock() + _PAUSE >= deadline:
                    return str(error)
            else:
                answered.set()
                return said
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await answered.wait()
    finally:
        await upstream.close()


async def _said(asker: Asker, timeout: float, chain: str | None, shard: int | None) -> Said:
    """The claim of a node. Raises ProbeError when the node does not answer."""
    found = chains.load(chain) if chain else await _chain(asker, timeout)
    identity = found.identity
    if shard is None:
        shard = DEFAULT_SHARD if identity.shard is None else await number_of(asker, identity.shard, timeout)
    try:
        return Said(found.name, shard, await number_of(asker, identity.eth_chain_id, timeout))
    except ProbeError:
        return Said(found.name, shard)


async def _chain(asker: Asker, timeout: float) -> Chain:
    """The only chain whose nodes answer the call for the head as this node does, or the one of its kind that has the
    node's chain id. Raises ProbeError."""
    answering: list[Chain] = []
    trouble, heard = "no chain is known", False
    every = [*map(chains.load, chains.names())]
    for candidate in (chain for chain in every if not chain.base):
        try:
            await number_of(asker, candidate.identity.head, timeout)
        except ProbeError as error:
            trouble, heard = str(error), heard or not error.silent
            if not heard:
                break  # the node does not answer anything
        else:
            answering.append(candidate)
            heard = True
    for candidate in answering:
        others = [other for other in answering if other is not candidate]
        if not any(other.rules.get(candidate.identity.head.method).known for other in others):
            return await _of_its_kind(candidate, [one for one in every if one.base == candidate.name], asker, timeout)
    raise ProbeError(trouble if not answering else "it answers as the nodes of several chains do")


async def _of_its_kind(base: Chain, kin: Sequence[Chain], asker: Asker, timeout: float) -> Chain:
    """The chain of the kind of `base` that has the node's chain id; `base` where none has, or the node tells none."""
    try:
        own = await number_of(asker, base.identity.eth_chain_id, timeout) if kin else None
    except ProbeError:
        return base
    return next((chain for chain in kin if own in chain.chain_ids), base)
