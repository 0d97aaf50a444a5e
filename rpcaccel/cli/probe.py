"""Asks nodes what they are: for `check` and before `serve`.

A probe asks a node once: chain id, blocks 0 and 1, head, latency, role, WebSocket.

Discovery asks the nodes of a command line for their chain and shard; nodes that serve the same make a network.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.chains import Chain, Identity, Probe
from rpcaccel.config.load import UrlNetwork
from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.value_types import is_sharded, network_name, parse_node
from rpcaccel.controlplane.nodes.probes import Asker, block_hash
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, wanted_of
from rpcaccel.core.heads.identity import judge as judge_claims
from rpcaccel.core.live.subscription import HEADS
from rpcaccel.core.replies.answer import error_parts
from rpcaccel.core.replies.failure import Failure
from rpcaccel.core.wire.json_params import as_number
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.upstream.node_socket import NodeSocket

FAR_BEHIND = 20
"""Blocks that a node may be behind the best head of its network before it counts as wrong."""
RIGHT = "right"
_LONGEST_TEXT = 48
_LONGEST_TROUBLE = 120


class Finding(msgspec.Struct, frozen=True):
    """The result of probing a node. `trouble` is a sentence when the node is wrong; numbers that are not known are
    -1."""

    network: str
    node: str
    url: str
    chain_id: int = -1
    head: int = -1
    latency: float = -1.0
    shard: int = -1
    genesis: str | None = None
    """The hash of block 0, in lower case; None where the node does not tell it."""
    block_one: str | None = None
    """The hash of block 1, in lower case; None where the node does not tell it or has no block 1 yet."""
    weight: float = 1.0
    role: str = ""
    version: str = ""
    """The version of its software, by its own word."""
    behind: int = 0
    websocket: str = ""
    """What the WebSocket that is named for the node is: "right", or what is wrong; empty where none is named."""
    trouble: str = ""


class ProbeError(Exception):
    """A node did not answer as nodes do. The text is for the operator and holds no secret."""


async def probe_network(name: str, network: NetworkSettings) -> list[Finding]:
    """Findings about every node of a network, judged against each other and the settings."""
    found = await asyncio.gather(*(_probe(name, network, node) for node in network.nodes))
    return [_with_its_websocket(finding) for finding in judge(found, network)]


def judge(found: Sequence[Finding], network: NetworkSettings) -> list[Finding]:
    """The findings with `trouble` for each node that serves another chain or shard than a running proxy would expect of
    the network, or is far behind the best head."""
    chain = chains.load(network.chain)
    shard = None if chain.identity.shard is None else network.shard
    _, depth = chain.finality_with(network.finality_depth)
    claims = [_claims(finding, depth) for finding in found]
    said = [(its, finding.weight) for its, finding in zip(claims, found, strict=True) if not finding.trouble]
    wanted = wanted_of(said, network.chain_id, shard)
    troubles = [one.trouble or _trouble(its, wanted, network) for its, one in zip(claims, found, strict=True)]
    best = max((one.head for one, trouble in zip(found, troubles, strict=True) if not trouble), default=-1)
    return [
        replace(one, trouble=trouble) if trouble else _measured(one, best)
        for one, trouble in zip(found, troubles, strict=True)
    ]


def _claims(finding: Finding, depth: int) -> Claims:
    """What a finding says of the chain. Its block 1 says nothing before it is final, `depth` blocks below the head: it
    may be on another branch of the same chain."""
    return Claims(
        finding.chain_id,
        shard=None if finding.shard < 0 else finding.shard,
        genesis=finding.genesis,
        block_one=finding.block_one if finding.head > depth else None,
    )


def _trouble(claims: Claims, wanted: ExpectedIdentity, network: NetworkSettings) -> str:
    if wanted.eth_chain_id not in (None, claims.eth_chain_id):
        whose = "the settings say" if network.chain_id is not None else "most nodes say"
        return f"chain id {claims.eth_chain_id}, {whose} {wanted.eth_chain_id}"
    verdict = judge_claims(claims, wanted)
    return verdict.why if verdict.right is False else ""


def _measured(finding: Finding, best: int) -> Finding:
    behind = max(0, best - finding.head)
    return replace(finding, behind=behind, trouble=f"{behind} blocks behind" if behind > FAR_BEHIND else "")


def _with_its_websocket(finding: Finding) -> Finding:
    """The finding, with trouble where nothing else is wrong than the WebSocket."""
    if finding.trouble or finding.websocket in {"", RIGHT}:
        return finding
    return replace(finding, trouble=f"its WebSocket {finding.websocket}")


async def _websocket(finding: Finding, network: NetworkSettings, node: NodeSettings) -> str:
    """What the WebSocket that is named for a node is (Finding.websocket): is it one of the same chain, which pushes?"""
    if not node.ws or network.websockets == "off":
        return ""
    chain = chains.load(network.chain)
    socket = NodeSocket(node, node.ws.reveal())
    try:
        if why := await socket.open():
            return why
        said = await find(finding, chain.identity, ProbedNode(socket, node.timeout))
        if said.trouble:
            return f"does not answer as its node does: {said.trouble}"
        for what, here, there in (
            ("chain id", said.chain_id, finding.chain_id),
            ("block 0", said.genesis, finding.genesis),
            ("block 1", said.block_one, finding.block_one),
            ("shard", said.shard, finding.shard),
        ):
            if here != there and None not in {here, there} and -1 not in {here, there}:
                return f"has {what} {here}, the node has {there}"
        refused = await socket.follow(chain.live.namespaces[0], HEADS, lambda _: None) if chain.live.namespaces else ""
        return refused or RIGHT
    finally:
        await socket.close()


async def _probe(network_name: str, network: NetworkSettings, node: NodeSettings) -> Finding:
    asked = ProbedNode(HttpNodeClient(node), node.timeout)
    try:
        nobody = Finding(network_name, node.id, str(node.url), weight=node.weight)
        found = await find(nobody, chains.load(network.chain).identity, asked)
        found = await of_its_chain(found, network.chain, asked)
        return replace(found, websocket=await _websocket(found, network, node))
    finally:
        await asked.upstream.close()


async def find(finding: Finding, identity: Identity, asked: ProbedNode) -> Finding:
    """The finding with the facts that the node tells about itself. Only a missing chain id or head is trouble."""
    try:
        chain_id = number(await asked.fact(identity.eth_chain_id))
        began = time.perf_counter()  # the connection is open by now: its handshake is not measured
        head = number(await asked.fact(identity.head))
        latency = time.perf_counter() - began
    except ProbeError as error:
        return replace(finding, trouble=str(error))
    facts: dict[str, Any] = {}
    for name in ("shard", "genesis", "block_one", "role", "archive", "version"):
        probe: Probe | None = getattr(identity, name)
        try:
            facts[name] = await asked.fact(probe) if probe else None
        except ProbeError:
            facts[name] = None
    shard = facts["shard"] if isinstance(facts["shard"], int) else -1
    begins = {name: block_hash(facts[name]) for name in ("genesis", "block_one")}
    about = {"role": role_of(facts), "version": _plain(facts["version"]) if facts["version"] else ""}
    return replace(finding, chain_id=chain_id, head=head, latency=latency, shard=shard, **about, **begins)


async def of_its_chain(finding: Finding, chain: str, asked: ProbedNode) -> Finding:
    """The finding, with trouble where the node answers the call for the head of another chain, which nodes of its own
    chain do not answer. Under the rules of another chain, wrong answers of a lagging node would count as right."""
    own = chains.load(chain)
    for other in chains.names() if asked.answers else ():
        head = chains.load(other).identity.head
        if head == own.identity.head or (not finding.trouble and own.rules.get(head.method).known):
            continue  # nodes of this chain may answer that call, too
        try:
            number(await asked.fact(head))
        except ProbeError:
            continue
        if finding.trouble:
            return replace(finding, trouble=f"{finding.trouble}; it answers {head.method}: a node of {other}?")
        return replace(finding, trouble=f"answers {head.method}: a {other} node, not one of {chain}")
    return finding


class ProbedNode:
    """A node that is being probed; each call is sent once, and its result is remembered."""

    def __init__(self, upstream: Asker, timeout: float) -> None:
        self.upstream = upstream
        self.answers = False
        """Whether the node has answered any call."""
        self._timeout = timeout
        self._results: dict[tuple[str, str], Any] = {}

    async def fact(self, probe: Probe) -> Any:
        """The fact that a probe is about; None when its result does not hold it. Raises ProbeError."""
        call = (probe.method, probe.params)
        if call not in self._results:
            self._results[call] = await self._result(probe)
        found = self._results[call]
        for part in filter(None, probe.at.split(".")):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    async def _result(self, probe: Probe) -> Any:
        answer = await self.upstream.send(probe.method, probe.params.encode(), timeout=self._timeout)
        if isinstance(answer, Failure):
            raise ProbeError(_plain(answer.text, _LONGEST_TROUBLE))
        self.answers = True
        if answer.result is None:
            _, message = error_parts(answer.error or b"")
            raise ProbeError(f"{probe.method}: {_plain(message, _LONGEST_TROUBLE)}")
        try:
            return msgspec.json.decode(answer.result)
        except UNREADABLE:
            raise ProbeError(f"{probe.method}: an answer that cannot be read") from None


def role_of(facts: Mapping[str, Any]) -> str:
    """A node in a few words: its role and whether it is an archive, or else the version of its software."""
    words = [_plain(facts["role"])] if facts["role"] else []
    words += ["archive"] if facts["archive"] is True else []
    return ", ".join(words) or _plain(facts["version"])


def _plain(text: object, longest: int = _LONGEST_TEXT) -> str:
    """A text as one short line without control characters: it comes from a stranger and is shown on a terminal."""
    line = printable(str(text or "unknown"))
    return line if len(line) <= longest else line[:longest] + "…"


def number(said: object) -> int:
    """A block number or chain id, as Harmony (bare) or EVM nodes (hex) write it. Raises ProbeError."""
    if (found := as_number(said)) is None:
        raise ProbeError("answered with something that is not a number")
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
    return Discovery(networks, notes)


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
                said = await _said(ProbedNode(upstream, max(0.05, deadline - clock())), chain, shard)
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


async def _said(asked: ProbedNode, chain: str | None, shard: int | None) -> Said:
    """The claim of a node. Raises ProbeError when the node does not answer."""
    found = chains.load(chain) if chain else await _chain(asked)
    identity = found.identity
    if shard is None:
        shard = DEFAULT_SHARD if identity.shard is None else number(await asked.fact(identity.shard))
    try:
        return Said(found.name, shard, number(await asked.fact(identity.eth_chain_id)))
    except ProbeError:
        return Said(found.name, shard)


async def _chain(asked: ProbedNode) -> Chain:
    """The only chain whose nodes answer the call for the head as this node does. Raises ProbeError."""
    answering, trouble = [], "no chain is known"
    for name in chains.names():
        candidate = chains.load(name)
        try:
            number(await asked.fact(candidate.identity.head))
        except ProbeError as error:
            trouble = str(error)
            if not asked.answers:
                break  # the node does not answer anything
        else:
            answering.append(candidate)
    for candidate in answering:
        others = [other for other in answering if other is not candidate]
        if not any(other.rules.get(candidate.identity.head.method).known for other in others):
            return candidate
    raise ProbeError(trouble if not answering else "it answers as the nodes of several chains do")
