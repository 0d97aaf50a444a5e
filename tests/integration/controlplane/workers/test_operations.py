"""The admin side's purge: counted first, then removed, in every process."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from rpcaccel.controlplane.workers.link import Link, LocalLink
from rpcaccel.controlplane.workers.operations import OperationRefused, PurgeRequest, Reached, purge, selected, swept
from rpcaccel.controlplane.workers.process_link import ProcessLink
from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.messages import Heads, PurgeDone
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import HARMONY_ID, settings_for
from tests.support.services import RedisServer


async def fill(port: int, block: int) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [block, {}]}
    async with aiohttp.ClientSession() as http, http.post(f"http://127.0.0.1:{port}/", json=body) as reply:
        assert "result" in await reply.json()


async def test_both_tiers_are_purged_in_every_process(redis_server: RedisServer) -> None:
    async with harmony_nodes(1) as nodes:
        heads = NetworkHeads(
            network="harmony-s0",
            served=Served(head=200, final=200),
            eth_chain_id=HARMONY_ID,
            network_id=2,
            nodes=(NodeHead(id=nodes[0].name, head=200, chain_ok=True, answering=True),),
        )
        links: list[Link] = [
            ProcessLink(name, bind("127.0.0.1:0", "listen"), lambda _hint: None) for name in ("w1", "w2")
        ]

        async def asked(**meant: Any) -> tuple[int, int]:
            done = await purge(json.dumps(meant).encode(), links)
            assert (done.complete, done.workers) == (True, 2)
            return done.memory, done.store

        try:
            for link, blocks in zip(links, ([1, 2], [2, 3]), strict=True):
                port = await link.start(settings_for(nodes, redis={"url": redis_server.url}), 1)
                link.tell(Heads(heads))
                for block in blocks:
                    await fill(port, block)
            while (counted := await asked(all=True, dry_run=True))[1] < 3:
                pass  # written in the background
            assert counted == (4, 3)
            key = f"harmony-s0@{HARMONY_ID}:hmyv2_getBlockByNumber:n:[2,{{}}]"
            assert await asked(key=key, dry_run=True) == (2, 1)
            assert await asked(key=key) == (2, 1)
            assert await asked(method="eth_call") == (0, 0)
            assert await asked(network="harmony-s0", method="hmyv2_getBlockByNumber") == (2, 2)
            assert await asked(all=True) == (0, 0)
        finally:
            for link in links:
                await link.drain(1.0)
        assert not (await purge(b'{"all": true}', links)).complete


class Reaching(LocalLink):
    """A worker that reaches some of the tiers behind memory: "r" for Redis, "d" for the disk."""

    def __init__(self, reaches: str) -> None:
        super().__init__("w1", bind("127.0.0.1:0", "listen"), lambda _hint: None)
        self._reaches = reaches

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        assert (selection.everything, dry) == (True, False)
        return PurgeDone(0, 0, store_complete="r" in self._reaches, disk_complete="d" in self._reaches)


class Sweeping(LocalLink):
    """A worker that finds as much in its memory and in the tiers that it shares with others."""

    def __init__(self, done: PurgeDone) -> None:
        super().__init__("w1", bind("127.0.0.1:0", "listen"), lambda _hint: None)
        self._done = done

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        return self._done


@pytest.mark.parametrize(("dry", "counted"), [(True, (7, 9, 11)), (False, (7, 17, 21))])
async def test_what_workers_share_is_counted_once_and_removed_by_one_of_them(
    dry: bool, counted: tuple[int, int, int]
) -> None:
    links = [Sweeping(PurgeDone(3, 11, disk=9)), Sweeping(PurgeDone(4, 10, disk=8))]
    done = await purge(json.dumps({"all": True, "dry_run": dry}).encode(), links)
    assert (done.memory, done.disk, done.store) == counted
    for link in links:
        await link.drain(0.0)


@pytest.mark.parametrize(
    ("reaching", "store", "disk"),
    [
        (["rd", "d"], True, True),
        (["d", "d"], False, True),
        (["rd", "r"], True, False),
        (["r", "d"], True, False),
        ([], False, False),
    ],
)
async def test_one_worker_is_enough_to_sweep_redis_and_all_are_needed_to_sweep_the_disk(
    reaching: list[str], store: bool, disk: bool
) -> None:
    links = [Reaching(reaches) for reaches in reaching]
    assert await swept(b'{"all": true}', links) == Reached(store, disk)
    done = await purge(b'{"all": true}', links)
    assert done.complete is all(reaches == "rd" for reaches in reaching)
    for link in links:
        await link.drain(0.0)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"all": true, "method": "m"}', b'{"key": "k", "network": "n"}', b'{"alll": true}']
)
async def test_a_body_that_does_not_say_what_is_meant_removes_nothing(body: bytes) -> None:
    with pytest.raises(OperationRefused):
        await purge(body, [])


def test_what_is_meant_becomes_a_selection() -> None:
    assert selected(PurgeRequest(all=True)).everything
    assert selected(PurgeRequest(network="n", method="m")) == Selection(network="n", method="m")
    assert selected(PurgeRequest(key="k")) == Selection(key=b"k")
