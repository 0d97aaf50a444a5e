"""How `rpcaccel check` and `rpcaccel init` show what nodes are, and what examinations of them found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec import to_builtins

from rpcaccel import chains
from rpcaccel.cli import terminal
from rpcaccel.cli.terminal import TableColumn, right
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import ahead_of
from rpcaccel.controlplane.nodes.discovery import RIGHT
from rpcaccel.controlplane.nodes.examination_schedule import MAX_GATED_EXAMINATIONS
from rpcaccel.controlplane.nodes.examine import examine
from rpcaccel.controlplane.nodes.shadow_calls import Examined, budget_of
from rpcaccel.controlplane.stats.summaries import examination_document
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.identity import Finding
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient

Examinations = Mapping[tuple[str, str], Examination]
"""The examinations of nodes, by network and id."""


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
    TableColumn("shown to be", lambda pair: _roles(pair[1])),
    TableColumn(
        "agreement",
        lambda pair: _agreement(pair[1]),
        style=lambda pair: "bold red" if pair[1].agreement.differing else "",
    ),
    right("latency", lambda pair: _median(pair[1])),
    right("calls", lambda pair: str(pair[1].calls)),
)
"""The columns of a table of examinations; a row is a pair: the names of network and node, and the examination."""
