"""The proofs of the nodes of a configuration, for `check --deep`: made before anything is served, shown as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from rpcaccel import chains
from rpcaccel.cli import terminal
from rpcaccel.cli.probe import Finding
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.controlplane.nodes.examine import examine
from rpcaccel.controlplane.nodes.proving import MAX_GATED_PROOFS
from rpcaccel.controlplane.nodes.shadow_calls import Examined, budget_of
from rpcaccel.core.heads.proof import Proof
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient


async def prove_network(network: NetworkSettings, findings: Sequence[Finding]) -> dict[str, Proof]:
    """The proofs of the nodes of a network, by id; of those alone that a probe found right. What all proofs together
    ask of a node is within its quota as what one proof may ask."""
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
                nodes[node.id] = Examined(node.id, client, found.head, found.version, budget)
        places = asyncio.Semaphore(MAX_GATED_PROOFS)

        async def prove(node: Examined) -> Proof:
            async with places:
                return await examine(node, [one for one in nodes.values() if one is not node], chain, errors)

        return dict(zip(nodes, await asyncio.gather(*map(prove, nodes.values())), strict=True))


def remarks(proofs: Mapping[tuple[str, str], Proof]) -> list[str]:
    """A line for everything that is wrong, or could not be found out."""
    said = []
    for (network, node), proof in proofs.items():
        first = f"it differs from other nodes: {proof.agreement.first}" if proof.agreement.differing else ""
        said += [f"{network}/{node}: {sentence}" for sentence in (first, *proof.faults) if sentence]
    return said


def _median(proof: Proof) -> str:
    taken = sorted(proof.latency.values())
    return terminal.milliseconds(taken[len(taken) // 2] if taken else None)


def _agreement(proof: Proof) -> str:
    agreed = proof.agreement
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


def _roles(proof: Proof) -> str:
    return ", ".join(role if has else f"not {role}" for role, has in proof.shown.items()) or "–"


PROOFS = (
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
"""The columns of a table of proofs; a row is a pair: the names of network and node, and the proof."""
