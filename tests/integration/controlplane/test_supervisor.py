"""The supervisor: up, following heads, shown, and down again."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog

from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.config.model import Settings
from rpcaccel.config.secrets import hash_password
from rpcaccel.controlplane.hosts.shared_purges import PurgeWord
from rpcaccel.controlplane.settings.ledger import (
    Author,
    ChangedMeanwhileError,
    InvalidSettingsError,
    Origin,
    state_file,
)
from rpcaccel.controlplane.stats.notices import trouble
from rpcaccel.controlplane.supervisor import RunningInfo, Supervisor
from rpcaccel.controlplane.workers.link import News
from rpcaccel.controlplane.workers.sockets import ListenError, address_of, bind
from rpcaccel.core.messages import Spent
from rpcaccel.core.stats.counters import Tier
from rpcaccel.core.stats.error_log import PARAMS_OFF, ErrorNews
from rpcaccel.simnode.server.factories import harmony_nodes
from rpcaccel.simnode.server.sim_server import SimNode
from rpcaccel.stores.redis.board import RedisBoard
from tests.support.proxy import settings_for
from tests.support.sample_errors import TIMEOUT, seen_of
from tests.support.services import RedisServer
from tests.support.waiting import until

ANY = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}, "drain_timeout": 1}


@pytest.fixture
async def nodes() -> AsyncIterator[list[SimNode]]:
    async with harmony_nodes(2) as started:
        yield started


async def block_number(info: RunningInfo) -> int:
    body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_blockNumber"}
    async with aiohttp.ClientSession() as http, http.post(f"http://{info.listen}/", json=body) as reply:
        return int((await reply.json())["result"])


async def refused(info: RunningInfo) -> None:
    """Wait until new connections are refused."""
    host, port = info.listen.rsplit(":", 1)
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)


async def test_a_node_of_another_chain_is_never_asked(nodes: list[SimNode]) -> None:
    nodes[1].knobs.chain_id = 5
    running = Supervisor(settings_for(nodes, **ANY, net={"chain_id": 1666700000}))
    info = await running.start()
    try:
        body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getNodeMetadata", "params": []}
        async with aiohttp.ClientSession() as http:
            for _ in range(6):
                async with http.post(f"http://{info.listen}/", json=body) as reply:
                    assert reply.headers["X-Rpcaccel-Node"] == nodes[0].name
        wrong = next(node for node in running.overview.frame().nodes if node.id == nodes[1].name)
        assert wrong.state == "wrong-chain"
        assert "5" in wrong.why
    finally:
        await running.stop()


async def test_an_address_that_is_taken_is_said_and_nothing_stays_open(nodes: list[SimNode]) -> None:
    with bind("127.0.0.1:0", "x") as taken:
        taken.listen()
        for key in ("listen", "admin"):
            where = address_of(taken)
            settings = settings_for(nodes, **{**ANY, key: where if key == "listen" else {"listen": where}})
            running = Supervisor(settings)
            name = re.escape("listen" if key == "listen" else "admin.listen")
            with pytest.raises(ListenError, match=f"^{name}: cannot listen on {where}: Address already in use; --"):
                await running.start()
            await running.stop()


async def test_the_admin_side_stays_on_this_machine(nodes: list[SimNode]) -> None:
    running = Supervisor(settings_for(nodes, **{**ANY, "admin": {"listen": "0.0.0.0:0"}}))
    with pytest.raises(ValueError, match="has no password"):
        await running.start()
    await running.stop()


async def test_a_call_is_run_where_calls_are_taken_until_the_restart(nodes: list[SimNode]) -> None:
    """An address that was changed is listened on after a restart: until then the page names the old one."""
    running = Supervisor(settings_for(nodes, **ANY))
    info = await running.start()
    call = {"call": {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_blockNumber", "params": []}}
    try:
        assert await running.ledger.change({"listen": "127.0.0.1:1"}, Author("ops"))
        url, proof = f"http://{info.admin}/api/v1", {"X-Rpcaccel-Request": "page"}
        async with aiohttp.ClientSession(headers=proof) as http:
            async with http.post(f"{url}/run", json=call) as reply:
                assert (await reply.json(content_type=None))["status"] == 200
            async with http.get(f"{url}/overview") as reply:
                assert (await reply.json())["settings"]["listen"] == info.listen
    finally:
        await running.stop()


async def test_the_last_account_stays_as_long_as_others_reach_the_admin_side(nodes: list[SimNode]) -> None:
    account = {"password": hash_password("x", log_n=4), "role": "admin"}
    admin = {"listen": "0.0.0.0:0", "accounts": {"ops": account}}
    running = Supervisor(settings_for(nodes, **{**ANY, "admin": admin}))
    await running.start()
    try:
        moved = {"admin": {"listen": "127.0.0.1:8889", "accounts": {"ops": None}}}
        with pytest.raises(InvalidSettingsError, match="has no password"):
            await running.ledger.change(moved, Author("ops"))
        assert await running.ledger.change({"admin": {"listen": "127.0.0.1:8889"}}, Author("ops"))
    finally:
        await running.stop()


async def starting(running: Supervisor) -> asyncio.Task[RunningInfo]:
    """Let it start, until its workers are on their way."""
    task = asyncio.create_task(running.start())
    while not running.workers():
        await asyncio.sleep(0)
    return task


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_change_while_it_starts_reaches_every_worker_and_first_calls_find_heads_that_were_asked_for(
    nodes: list[SimNode], workers: int
) -> None:
    running = Supervisor(settings_for(nodes, **ANY, workers=workers))
    started = await starting(running)
    try:
        weight = {"networks": {"harmony-s0": {"nodes": {nodes[0].name: {"weight": 7}}}}}
        assert await running.ledger.change(weight, Author("ops"))
        info = await started
        assert await block_number(info) == nodes[0].head
        assert [worker.revision for worker in running.workers()] == [running.ledger.revision] * workers
        assert (running.adopted(), len(running.links)) == (workers, workers)
        async with aiohttp.ClientSession() as http, http.get(f"http://{info.admin}/api/v1/nodes") as reply:
            assert reply.status == 200
            assert {node["id"] for node in (await reply.json())["nodes"]} == {node.name for node in nodes}
    finally:
        await running.stop()
    with pytest.raises(aiohttp.ClientConnectorError):
        await block_number(info)


async def test_params_that_were_noted_are_gone_when_the_settings_keep_them_out(nodes: list[SimNode]) -> None:
    running = Supervisor(settings_for(nodes, **ANY))
    await running.start()
    try:
        running.errors.take(ErrorNews((seen_of(TIMEOUT),)), 0.0)
        (group,) = running.errors.groups()
        assert group.samples[0].params
        assert await running.ledger.change({"errors": {"params": False}}, Author("ops"))
        assert [(sample.params, sample.params_note) for sample in group.samples] == [("", PARAMS_OFF)]
    finally:
        await running.stop()


@pytest.mark.parametrize("workers", [1, 2])
async def test_to_renew_while_it_starts_waits_for_the_start_and_neither_it_nor_a_stop_calls_redis_lost(
    nodes: list[SimNode], redis_server: RedisServer, workers: int
) -> None:
    running = Supervisor(settings_for(nodes, **ANY, workers=workers, redis={"url": redis_server.url}))
    heard = running.events.subscribe().queue
    started = await starting(running)
    running.hang_up()
    told: list[str] = []
    lost: set[str] = set()

    def look() -> None:
        lost.update(filter(None, map(trouble, running.overview.frame().snapshot.tiers)))

    try:
        info = await started
        assert info.notes == ()
        async with asyncio.timeout(30):
            while len([text for text in told if "ended" in text or "drained" in text]) < workers:
                event = await heard.get()
                told += [event.data["text"]] if event is not None and event.kind == "worker" else []
                look()
        assert not [text for text in told if "replaced" in text]
        assert len([text for text in told if "serves" in text]) == 2 * workers
        assert len(running.links) == workers
        assert await block_number(info) == nodes[0].head
    finally:
        stopping = asyncio.create_task(running.stop())
        while not stopping.done():
            look()
            await asyncio.sleep(0.01)
    await stopping
    look()
    assert lost == set()


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_start_purges_the_disk_of_what_other_hosts_purged_meanwhile(
    nodes: list[SimNode], redis_server: RedisServer, tmp_path: Path, workers: int
) -> None:
    settings = settings_for(nodes, **ANY, redis={"url": redis_server.url}, disk={"path": str(tmp_path / "cache")})

    async def disk_comes_to(wanted: Callable[[Tier], bool]) -> None:
        await until(
            lambda: any(wanted(tier) for tier in running.overview.frame().snapshot.tiers if tier.name == "disk")
        )

    running = Supervisor(settings)
    info = await running.start()
    try:
        body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [3, {}]}
        async with aiohttp.ClientSession() as http, http.post(f"http://{info.listen}/", json=body) as reply:
            assert "result" in await reply.json()
        await disk_comes_to(lambda tier: bool(tier.entries))
        await until(lambda: list((tmp_path / "cache").glob("heard-*.json")))
    finally:
        await running.stop()
    board = RedisBoard(settings.redis)
    await board.open()
    await board.say(msgspec.json.encode(PurgeWord("another", b'{"all":true}')))
    await board.close()
    running = Supervisor(settings.model_copy(update={"workers": workers}))
    await running.start()
    try:
        await disk_comes_to(lambda tier: tier.purged == 1)
    finally:
        await running.stop()


async def test_a_host_that_lingers_hears_the_purges_of_other_hosts_and_renews_nothing(
    nodes: list[SimNode], redis_server: RedisServer
) -> None:
    settings = settings_for(nodes, **ANY, redis={"url": redis_server.url}, drain_linger=60)
    running = Supervisor(settings)
    info = await running.start()

    def kept() -> int:
        return sum(tier.entries for tier in running.overview.frame().snapshot.tiers if tier.name == "memory")

    body = {"jsonrpc": "2.0", "id": 1, "method": "hmyv2_getBlockByNumber", "params": [3, {}]}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=60)) as http:
        async with http.post(f"http://{info.listen}/", json=body) as reply:
            assert "result" in await reply.json()
        await until(lambda: kept() > 0)
        stopping = asyncio.create_task(running.stop())
        await refused(info)
        with structlog.testing.capture_logs() as logged:
            running.hang_up()
            await until(lambda: bool(logged))
        assert [line["event"] for line in logged] == [
            "the program ends: the config file is not read again, and no worker is renewed"
        ]
        board = RedisBoard(settings.redis)
        await board.open()
        await board.say(msgspec.json.encode(PurgeWord("another", b'{"all":true}')))
        await board.close()
        await until(lambda: kept() == 0)
        assert not stopping.done()
    await stopping  # the last connection is closed


async def test_a_redis_that_is_not_reached_is_named_at_the_start_with_the_reason(nodes: list[SimNode]) -> None:
    running = Supervisor(settings_for(nodes, **ANY, redis={"url": "redis://:s3cret@127.0.0.1:1"}))
    try:
        (note,) = (await running.start()).notes
        assert "127.0.0.1:1: the connection was refused" in note
        assert "s3cret" not in note
    finally:
        await running.stop()


async def test_a_file_that_is_refused_renews_no_worker(nodes: list[SimNode]) -> None:
    def broken() -> Settings:
        raise ConfigError([Fault("workers", "", "is not valid TOML")])

    running = Supervisor(settings_for(nodes, **ANY), Origin(reread=broken))
    info = await running.start()
    try:
        before = list(running.links)
        running.hang_up()
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "renew"))
        assert running.links == before
        assert await block_number(info) == nodes[0].head
    finally:
        await running.stop()


async def test_a_change_that_is_taken_back_takes_the_log_back_as_well(nodes: list[SimNode]) -> None:
    async def slower(_patch: Mapping[str, Any], _author: str) -> bool:
        return False

    running = Supervisor(settings_for(nodes, **ANY))
    await running.start()
    running.ledger.offer = slower
    try:
        with pytest.raises(ChangedMeanwhileError):
            await running.ledger.change({"log": {"level": "debug"}, "memory": {"size": 5000}}, Author("ops"))
        assert not structlog.get_logger().bind().is_enabled_for(logging.DEBUG)
        running.ledger.offer = None
        assert await running.ledger.change({"log": {"level": "debug"}}, Author("ops"))
        assert structlog.get_logger().bind().is_enabled_for(logging.DEBUG)
    finally:
        await running.stop()


class Listener:
    """A link that notes what clients spent elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[dict[str, int]] = []

    def tell(self, news: News) -> None:
        assert isinstance(news, Spent)
        self.heard.append(news.tokens)


def test_what_clients_spend_at_a_worker_that_drains_counts_at_the_one_in_its_place(nodes: list[SimNode]) -> None:
    running = Supervisor(settings_for(nodes, **ANY, workers=2))
    old, new, other = (Listener(name) for name in ("w1", "w1", "w2"))
    running.links.extend([old, new, other])
    running._spent(old, Spent({"key:a": 3}))
    running._spent(new, Spent({"key:a": 1}))
    assert [one.heard for one in (old, new, other)] == [[{"key:a": 1}], [{"key:a": 3}], [{"key:a": 3}, {"key:a": 1}]]


async def test_who_logged_in_stays_so_over_a_restart(nodes: list[SimNode], tmp_path: Path) -> None:
    accounts = {name: {"password": hash_password("right-pw", log_n=4)} for name in ("ops", "eye")}
    jar = aiohttp.CookieJar(unsafe=True)
    told = []
    for changed in ({}, {}, {"eye": {"password": hash_password("other-pw", log_n=4)}}):
        settings = settings_for(nodes, **{**ANY, "admin": {"listen": "127.0.0.1:0", "accounts": accounts | changed}})
        running = Supervisor(settings, Origin(state=state_file(tmp_path / "rpcaccel.state.json")))
        info = await running.start()
        async with aiohttp.ClientSession(cookie_jar=jar, headers={"X-Rpcaccel-Request": "page"}) as http:
            url = f"http://{info.admin}/api/v1/session"
            if not told:
                await (await http.post(url, json={"user": "eye", "password": "right-pw"})).read()
            async with http.get(url) as reply:
                told.append((await reply.json())["user"])
        await running.stop()
    assert told == ["eye", "eye", None]
