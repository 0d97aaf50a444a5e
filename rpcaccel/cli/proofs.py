"""The proofs of the nodes of a configuration, for `check --deep`: made before anything is served, shown as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from rpcaccel import chains
from rpcaccel.cli.probe import Finding
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.controlplane.nodes.prover import Peer, ProvedNode, Prover
from rpcaccel.controlplane.nodes.proving import AT_ONCE
from rpcaccel.controlplane.nodes.shadow_calls import Account, allowed
from rpcaccel.core.heads.proof import Proof
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (
    *("network", "node", "state", "logs", "log range", "batch", "traces", "roles"),
    *("agreement", "latency", "calls"),
)


async def prove_network(network: NetworkSettings, findings: Sequence[Finding]) -> dict[str, Proof]:
    """The proofs of the nodes of a network, by id; of those alone that a probe found right. What all proofs together
    ask of a node is within its quota as what one proof may ask."""
    chain = chains.load(network.chain)
    prover = Prover(chain, ahead_of(chain.errors, network.error_rules))
    heads = {finding.node: finding for finding in findings if not finding.trouble}
    async with AsyncExitStack() as closing:
        peers: dict[str, Peer] = {}
        for node in network.nodes:
            if node.id in heads:
                client = HttpNodeClient(node)
                closing.push_async_callback(client.close)
                account = Account(allowed(node.quota, alone=True))
                peers[node.id] = Peer(node.id, client, heads[node.id].head, account)
        places = asyncio.Semaphore(AT_ONCE)

        async def prove(one: Peer) -> Proof:
            others = [peer for peer in peers.values() if peer is not one]
            node = ProvedNode(one.id, one.asker, one.head, heads[one.id].version, one.account)
            async with places:
                return await prover.prove(node, others)

        return dict(zip(peers, await asyncio.gather(*map(prove, peers.values())), strict=True))


def table(proofs: Mapping[tuple[str, str], Proof]) -> Table:
    """A row for each node, by the names of its network and its node."""
    from rich.table import Table
    from rich.text import Text

    made = Table(*COLUMNS, title="What calls in the shadow showed")
    for (network, node), proof in proofs.items():
        differs = proof.agreement.differing > 0
        row = [Text(cell) for cell in (network, node, *cells(proof))]
        row[COLUMNS.index("agreement")].stylize("bold red" if differs else "")
        made.add_row(*row)
    return made


def remarks(proofs: Mapping[tuple[str, str], Proof]) -> list[str]:
    """A line for everything that is wrong, or could not be found out."""
    said = []
    for (network, node), proof in proofs.items():
        first = f"it differs from other nodes: {proof.agreement.first}" if proof.agreement.differing else ""
        said += [f"{network}/{node}: {sentence}" for sentence in (first, *proof.faults) if sentence]
    return said


def cells(proof: Proof) -> list[str]:
    """The row of a proof, behind the names of its network and node."""
    roles = [role if has else f"not {role}" for role, has in proof.shown.items()]
    agreed, taken = proof.agreement, sorted(proof.latency.values())
    return [
        _from(proof.state_from, proof.head),
        _from(proof.logs_from, proof.head),
        _limit(proof.range_most, proof.range_tried, "block"),
        _limit(proof.batch_most, proof.batch_tried),
        "-" if proof.traces is None else "yes" if proof.traces else "no",
        ", ".join(roles) or "-",
        f"{agreed.compared - agreed.differing} of {agreed.compared}" if agreed.compared else "-",
        f"{taken[len(taken) // 2] * 1000:.1f} ms" if taken else "-",
        str(proof.calls),
    ]


def _from(oldest: int | None, head: int) -> str:
    if oldest is None:
        return "unknown"
    return "all" if oldest == 0 else f"from {oldest} ({head - oldest} back)"


def _limit(most: int | None, tried: int | None, what: str = "") -> str:
    """A limit, or how far was tried without meeting one. A range of blocks is one longer than the difference of its
    last and first block."""
    if tried is None:
        return "unknown"
    more = 1 if what else 0
    return f"{most + more}" if most is not None else f"no limit to {tried + more}"
