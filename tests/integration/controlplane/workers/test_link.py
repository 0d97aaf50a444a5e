"""Links: a worker here and a worker in a process of its own are the same to the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from eth_account import Account
from msgspec import structs

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.workers.link import Link, LocalLink
from rpcaccel.controlplane.workers.process_link import ProcessLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.recent_writes import Sent
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.messages import Announced, Heads, Hint
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.proxy import HARMONY_ID, settings_for
from tests.support.waiting import until

HINTS: list[Hint | Sent] = []
TRANSACTION = {"to": "0x" + "22" * 20, "value": 7, "gas": 21000, "gasPrice": 10**11, "nonce": 0, "chainId": HARMONY_ID}


@pytest.fixture(params=[LocalLink, ProcessLink])
def make(request: pytest.FixtureRequest) -> Callable[[], Link]:
    kind = request.param
    return lambda: kind("w1", bind("127.0.0.1:0", "listen"), HINTS.append)  # type: ignore[no-any-return]


@pytest.fixture
async def nodes() -> AsyncIterator[list[SimNode]]:
    async with harmony_nodes(1) as started:
        yield started


def heads(node: SimNode, head: int) -> NetworkHeads:
    return NetworkHeads(
        network="harmony-s0",
        served=Served(head=head, final=head),
        eth_chain_id=HARMONY_ID,
        network_id=2,
        nodes=(NodeHead(id=node.name, head=head, chain_ok=True, answering=True),),
    )


def heads_of(nodes: list[SimNode]) -> NetworkHeads:
    told = tuple(NodeHead(id=node.name, head=node.head, chain_ok=True, answering=True) for node in nodes)
    return structs.replace(heads(nodes[0], nodes[0].head), nodes=told)


async def ask(port: int, method: str, *params: object) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with aiohttp.ClientSession() as http, http.post(f"http://127.0.0.1:{port}/", json=body) as reply:
        return (await reply.json())["result"]


async def test_a_worker_serves_reports_purges_adopts_and_drains(make: Callable[[], Link], nodes: list[SimNode]) -> None:
    """What an answer tells of a node's head comes back as well."""
    HINTS.clear()
    link, (node,) = make(), nodes
    port = await link.start(settings_for(nodes), 1)
    link.tell(Heads(heads(node, node.head - 3)))
    while await ask(port, "hmyv2_blockNumber") != node.head - 3:
        await asyncio.sleep(0.01)
    await ask(port, "hmyv2_getNodeMetadata")
    await until(lambda: Hint("harmony-s0", node.name, node.head) in HINTS)
    link.tell(Announced("harmony-s0", node.head, "0x" + "ab" * 32, b"{}"))
    link.tell(Heads(heads(node, node.head)))
    while await ask(port, "hmyv2_blockNumber") != node.head:
        await asyncio.sleep(0.01)
    await ask(port, "hmyv2_getBlockByNumber", 5, {})

    def counted() -> bool:
        report = link.report()
        return report is not None and any(cell.method == "hmyv2_getBlockByNumber" for cell in report.tally.cells)

    await until(counted)
    report = link.report()
    assert (report.worker, report.port, report.revision) == ("w1", port, 1)
    assert (await link.purge(Selection(method="hmyv2_getBlockByNumber"))).memory == 1
    assert (await link.purge(Selection())).memory >= 0
    assert await link.adopt(_heavier(nodes), 2) == ""
    await until(lambda: (found := link.report()) is not None and found.revision == 2)
    await link.drain(1.0)
    with pytest.raises(aiohttp.ClientConnectorError):
        await ask(port, "hmyv2_blockNumber")


async def test_a_link_that_was_never_started_has_nothing_to_say() -> None:
    link = LocalLink("w1", bind("127.0.0.1:0", "listen"), HINTS.append)
    assert link.report() is None
    assert (await link.purge(Selection())).memory == 0
    await link.drain(0.1)


def _heavier(nodes: list[SimNode]) -> Settings:
    weighted = [{"id": node.name, "url": node.url, "weight": 7} for node in nodes]
    return settings_for(nodes, net={"nodes": weighted})


async def test_a_worker_tells_what_it_sent_and_hears_what_others_sent(make: Callable[[], Link]) -> None:
    async with harmony_nodes(2, gossip=60.0) as pair:
        link = make()
        port = await link.start(settings_for(pair), 1)
        link.tell(Heads(heads_of(pair)))
        raw = str(Account.sign_transaction(TRANSACTION, "0x" + "11" * 32).raw_transaction.to_0x_hex())
        name = await ask(port, "eth_sendRawTransaction", raw)
        await until(lambda: any(isinstance(hint, Sent) and name.encode() in hint.hash for hint in HINTS))
        other = "0x" + "ab" * 32
        link.tell(Sent("harmony-s0", f'"{other}"'.encode(), (pair[1].name,)))
        asked = pair[1].counts.asked("eth_getTransactionByHash")
        for _ in range(4):
            await ask(port, "eth_getTransactionByHash", other)
        assert pair[1].counts.asked("eth_getTransactionByHash") == asked + 4
        await link.drain(1.0)


async def test_a_worker_that_lingers_still_hears_of_heads_and_purges(
    make: Callable[[], Link], nodes: list[SimNode]
) -> None:
    link, (node,) = make(), nodes
    port = await link.start(settings_for(nodes), 1, [heads(node, node.head - 5)])
    calls = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_blockNumber", "params": []}
    async with aiohttp.ClientSession() as http:
        async with http.post(f"http://127.0.0.1:{port}/", json=calls) as reply:
            assert (await reply.json())["result"] == node.head - 5
        draining = asyncio.create_task(link.drain(5.0, linger=60.0))
        await asyncio.sleep(0)
        link.tell(Heads(heads(node, node.head)))
        async with asyncio.timeout(20):
            assert (await link.purge(Selection())).complete
        async with asyncio.timeout(20):
            told_to_close = False
            while not told_to_close:
                async with http.post(f"http://127.0.0.1:{port}/", json=calls) as reply:
                    assert (await reply.json())["result"] == node.head
                    told_to_close = reply.headers.get("Connection") == "close"
            await draining


async def test_one_that_lingers_and_is_to_end_now_lingers_no_more(
    make: Callable[[], Link], nodes: list[SimNode]
) -> None:
    link = make()
    port = await link.start(settings_for(nodes), 1)
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    leaving = asyncio.create_task(link.drain(5.0, linger=60.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(4):
        await link.drain(5.0)
        await leaving
    writer.close()
