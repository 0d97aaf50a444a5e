"""What `rpcaccel check` finds of each node: what it serves, whether that is right and, with --deep, its examination."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.chains import Chain
from rpcaccel.cli import terminal
from rpcaccel.cli.discovery import ProbeError, number_of
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.controlplane.nodes.examination_schedule import MAX_GATED_EXAMINATIONS
from rpcaccel.controlplane.nodes.examine import examine
from rpcaccel.controlplane.nodes.probes import Asker, Look, Questions
from rpcaccel.controlplane.nodes.shadow_calls import Examined, budget_of
from rpcaccel.controlplane.stats.summaries import examination_document
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity, wanted_of
from rpcaccel.core.heads.identity import judge as judge_claims
from rpcaccel.core.live.subscription import HEADS
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.upstream.node_socket import NodeSocket

FAR_BEHIND = 20
"""Blocks that a node may be behind the best head of its network before it counts as wrong."""
RIGHT = "right"
Examinations = Mapping[tuple[str, str], Examination]
"""The examinations of nodes, by network and id."""


class Finding(Struct, frozen=True, kw_only=True):
    """The result of probing a node; numbers and hashes that are not known are None."""

    network: str
    node: str
    url: str
    chain: str = ""
    """The chain of its network."""
    weight: float = 1.0
    chain_id: int | None = None
    head: int | None = None
    latency: float | None = None
    """Seconds that the answer with the head took."""
    shard: int | None = None
    genesis: str | None = None
    """The hash of block 0, in lower case."""
    block_one: str | None = None
    """The hash of block 1, in lower case."""
    role: str = ""
    """Its roles by its own word, or else the version of its software."""
    version: str = ""
    behind: int | None = None
    """Blocks that it is behind the best head of its network; None where it serves something else."""
    websocket: str | None = None
    """What the WebSocket that is named for the node is: "right", or what is wrong; None where none is named."""
    trouble: str = ""
    """A sentence when the node is wrong."""


async def probe_network(name: str, network: NetworkSettings) -> list[Finding]:
    """Findings about every node of a network, judged against each other and the settings."""
    return judge(await asyncio.gather(*(_probe(name, network, node) for node in network.nodes)), network)


def judge(found: Sequence[Finding], network: NetworkSettings) -> list[Finding]:
    """The findings with `trouble` for each node that serves another chain or shard than a running proxy would expect of
    the network, is far behind the best head, or has a WebSocket that is wrong."""
    chain = chains.load(network.chain)
    shard = None if chain.identity.shard is None else network.shard
    _, depth = chain.finality_with(network.finality_depth)
    claims = [_claims(finding, depth) for finding in found]
    said = [(its, one.weight) for its, one in zip(claims, found, strict=True) if not one.trouble]
    wanted = wanted_of(said, network.chain_id, shard)
    verdicts = [judge_claims(its, wanted) for its in claims]
    troubles = [
        one.trouble or (its.why if its.right is False else "") for its, one in zip(verdicts, found, strict=True)
    ]
    heads = [one.head for one, trouble in zip(found, troubles, strict=True) if not trouble and one.head is not None]
    return [_measured(one, trouble, max(heads, default=0)) for one, trouble in zip(found, troubles, strict=True)]


def _claims(finding: Finding, depth: int = -1) -> Claims:
    """What a finding says of the chain. Its block 1 says nothing before it is final, `depth` blocks below the head: it
    may be on another branch of the same chain."""
    one = finding.block_one if finding.head is not None and finding.head > depth else None
    return Claims(finding.chain_id, shard=finding.shard, genesis=finding.genesis, block_one=one)


def _measured(finding: Finding, trouble: str, best: int) -> Finding:
    """The finding of a node; one without trouble is compared with the best head, and its WebSocket looked at."""
    if trouble or finding.head is None:
        return replace(finding, trouble=trouble)
    behind = max(0, best - finding.head)
    if behind > FAR_BEHIND:
        trouble = f"{behind} blocks behind"
    elif finding.websocket not in {None, RIGHT}:
        trouble = f"its WebSocket {finding.websocket}"
    return replace(finding, behind=behind, trouble=trouble)


async def _probe(network_name: str, network: NetworkSettings, node: NodeSettings) -> Finding:
    chain, client = chains.load(network.chain), HttpNodeClient(node)
    nobody = Finding(network=network_name, node=node.id, url=str(node.url), weight=node.weight, chain=chain.name)
    try:
        found = await find(nobody, client, chain, node.timeout)
        if not node.ws or network.websockets == "off":
            return found
        return replace(found, websocket=await _websocket(found, chain, node))
    finally:
        await client.close()


async def find(finding: Finding, asker: Asker, chain: Chain, timeout: float) -> Finding:
    """The finding with what a node says of itself, and with trouble where head or chain id is missing, or the node is
    of another chain. `timeout`: seconds that each call may take."""
    questions, chain_id, claims = Questions(chain.identity, timeout), None, None
    try:
        chain_id, trouble, heard = await number_of(asker, chain.identity.eth_chain_id, timeout), "", True
    except ProbeError as error:
        trouble, heard = str(error), not error.silent
    if not trouble:
        # The connection is open by now: its handshake is not measured.
        look = await questions.look(asker, again=None, hashes=False, tags=False)
        if isinstance(look, Look):
            finding = replace(finding, head=look.sighting.number, latency=look.latency)
            claims = await questions.claims(asker)  # None where a call got no answer, which makes no node wrong
        else:
            trouble = look.text
    if heard:
        trouble = await _of_its_chain(trouble, asker, chain, timeout)
    claims = claims or Claims(chain_id)
    role = ", ".join(role for role, has in claims.says.items() if has) or claims.version
    return replace(
        finding, chain_id=chain_id, shard=claims.shard, genesis=claims.genesis, block_one=claims.block_one,
        role=role, version=claims.version, trouble=trouble,
    )  # fmt: skip


async def _of_its_chain(trouble: str, asker: Asker, chain: Chain, timeout: float) -> str:
    """The trouble with a node, which may be that it answers the call for the head of another chain, which nodes of its
    own chain do not answer: under the rules of another chain, wrong answers of a lagging node would count as right."""
    for other in map(chains.load, chains.names()):
        name, head = other.name, other.identity.head
        if other.base or head == chain.identity.head or (not trouble and chain.rules.get(head.method).known):
            continue  # nodes of this chain may answer that call, too
        try:
            await number_of(asker, head, timeout)
        except ProbeError:
            continue
        if trouble:
            return f"{trouble}; it answers {head.method}: a node of {name}?"
        return f"answers {head.method}: a {name} node, not one of {chain.name}"
    return trouble


async def _websocket(finding: Finding, chain: Chain, node: NodeSettings) -> str:
    """What the WebSocket that is named for a node is (Finding.websocket): is it one of the same chain, which pushes?"""
    socket = NodeSocket(node, node.ws.reveal())
    try:
        if why := await socket.open():
            return why
        said = await find(finding, socket, chain, node.timeout)
        if said.trouble:
            return f"does not answer as its node does: {said.trouble}"
        wanted = ExpectedIdentity(finding.chain_id, finding.shard, finding.genesis, finding.block_one)
        verdict = judge_claims(_claims(said), wanted)
        if verdict.right is False:
            return f"is not one of its node: {verdict.why}"
        refused = await socket.follow(chain.live.namespaces[0], HEADS, lambda _: None) if chain.live.namespaces else ""
        return refused or RIGHT
    finally:
        await socket.close()


FINDINGS = (
    TableColumn("network"),
    TableColumn("node"),
    TableColumn("address", "url"),
    TableColumn("chain"),
    right("chain id", "chain_id"),
    *map(right, ("head", "behind")),
    right("latency", lambda finding: terminal.milliseconds(finding["latency"])),
    TableColumn("role", lambda finding: finding["role"] or "–"),
    TableColumn("WebSocket", lambda finding: {None: "–", RIGHT: RIGHT}.get(finding["websocket"], "wrong")),
    TableColumn(
        "verdict",
        lambda finding: finding["trouble"] or RIGHT,
        style=lambda finding: "bold red" if finding["trouble"] else "green",
    ),
)
"""The columns of `rpcaccel check`; a row is a `document`."""


def hints(findings: Sequence[Finding]) -> list[str]:
    """A sentence for each network whose nodes have the chain id of a table that knows more than the one that is set."""
    said = {}
    for one in findings:
        known = chains.of_chain_id(one.chain_id)
        if known is not None and one.chain and one.chain == known.base:
            said[one.network] = (
                f'{one.network}: the nodes have the chain id {one.chain_id}: chain = "{known.name}" knows more of it'
                f' than chain = "{one.chain}"'
            )
    return list(said.values())


def document(finding: Finding, examinations: Examinations) -> dict[str, Any]:
    """A finding for programs: what is not known is null."""
    examination = to_builtins(examination_document(examinations.get((finding.network, finding.node))))
    return {**to_builtins(finding), "examination": examination, "right": not finding.trouble}


# -- examinations: what about a hundred calls show of each right node ------------------------------------------------


async def examine_network(network: NetworkSettings, findings: Sequence[Finding]) -> dict[str, Examination]:
    """The examinations of the nodes of a network, by id; of those alone that a probe found right. What all together ask
    of a node is within its quota as what one examination may ask."""
    chain = chains.load(network.chain)
    errors = ahead_of(chain.errors, network.error_rules)
    heads = {finding.node: finding for finding in findings if not finding.trouble}
    async with AsyncExitStack() as closing:
        nodes: dict[str, Examined] = {}
        for node in network.nodes:
            if node.id in heads:
                client = HttpNodeClient(node)
                closing.push_async_callback(client.close)
                found, budget = heads[node.id], budget_of(node.quota, alone=True)
                nodes[node.id] = Examined(node.id, client, found.head or 0, found.version, budget)
        places = asyncio.Semaphore(MAX_GATED_EXAMINATIONS)

        async def examine_one(node: Examined) -> Examination:
            async with places:
                return await examine(node, [one for one in nodes.values() if one is not node], chain, errors)

        return dict(zip(nodes, await asyncio.gather(*map(examine_one, nodes.values())), strict=True))


def remarks(examinations: Examinations) -> list[str]:
    """A line for everything that is wrong, or could not be found out."""
    said = []
    for (network, node), examination in examinations.items():
        first = f"it differs from other nodes: {examination.agreement.first}" if examination.agreement.differing else ""
        said += [f"{network}/{node}: {sentence}" for sentence in (first, *examination.faults) if sentence]
    return said


def _median(examination: Examination) -> str:
    taken = sorted(examination.latency.values())
    return terminal.milliseconds(taken[len(taken) // 2] if taken else None)


def _agreement(examination: Examination) -> str:
    agreed = examination.agreement
    return f"{agreed.compared - agreed.differing} of {agreed.compared}" if agreed.compared else "–"


def _from(oldest: int | None, head: int) -> str:
    if oldest is None:
        return "unknown"
    return "all" if oldest == 0 else f"from {oldest} ({head - oldest} back)"


def _limit(most: int | None, tried: int | None, *, more: int = 0) -> str:
    """A limit, or how far was tried without meeting one, and `more`: a range of blocks is one longer than the
    difference of its last and first block."""
    if tried is None:
        return "unknown"
    return f"{most + more}" if most is not None else f"no limit to {tried + more}"


def _roles(examination: Examination) -> str:
    return ", ".join(role if has else f"not {role}" for role, has in examination.shown.items()) or "–"


EXAMINATIONS = (
    TableColumn("network", lambda pair: pair[0][0]),
    TableColumn("node", lambda pair: pair[0][1]),
    TableColumn("state", lambda pair: _from(pair[1].state_from, pair[1].head)),
    TableColumn("logs", lambda pair: _from(pair[1].logs_from, pair[1].head)),
    TableColumn("log range", lambda pair: _limit(pair[1].range_most, pair[1].range_tried, more=1)),
    TableColumn("batch", lambda pair: _limit(pair[1].batch_most, pair[1].batch_tried)),
    TableColumn("traces", lambda pair: {None: "–", True: "yes", False: "no"}[pair[1].traces]),
    TableColumn("roles", lambda pair: _roles(pair[1])),
    TableColumn(
        "agreement",
        lambda pair: _agreement(pair[1]),
        style=lambda pair: "bold red" if pair[1].agreement.differing else "",
    ),
    right("latency", lambda pair: _median(pair[1])),
    right("calls", lambda pair: str(pair[1].calls)),
)
"""The columns of a table of examinations; a row is a pair: the names of network and node, and the examination."""
