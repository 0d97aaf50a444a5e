"""Which nodes are examined, and when: scripted nodes, and examinations that end when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from rpcaccel.config.model import NodeSettings
from rpcaccel.controlplane.nodes.examination_schedule import (
    ABSENCE,
    BETWEEN,
    FORGET_AFTER,
    NEAR,
    RENEW_AFTER,
    RETRY_AFTER,
    START_AFTER,
    ExaminationSchedule,
)
from rpcaccel.controlplane.nodes.probe_state import ProbeState
from rpcaccel.controlplane.nodes.shadow_calls import Examined, ProbeBudget
from rpcaccel.core.heads.block_time import BlockPace
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.identity import Claims, ExpectedIdentity
from rpcaccel.core.heads.probe_schedule import ProbeSchedule
from tests.support.manual_clock import ManualClock


class Asker:
    """A session that is never used."""

    async def send(self, method: str, params: bytes, *, timeout: float) -> object:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to close."""


class World:
    """Nodes that answer probes, and examinations that end when they are told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.nodes: dict[str, ProbeState] = {}
        self.under_way: dict[str, asyncio.Future[Examination]] = {}
        self.peers: dict[str, list[str]] = {}
        self.changes = 0
        self.asked_alone: dict[str, bool] = {}
        self.spent: dict[str, float] = {}
        self.wanted = True
        self.served = -1
        self.schedule = ExaminationSchedule(
            "net",
            self.nodes,
            self._examine,
            self._changed,
            self.clock.now,
            self,  # type: ignore[arg-type]
            lambda: self.wanted,
            lambda: self.served,
        )

    def _changed(self) -> None:
        self.changes += 1

    async def _examine(self, node: Examined, peers: Sequence[Examined]) -> Examination:
        self.under_way[node.id] = asyncio.get_running_loop().create_future()
        self.peers[node.id] = [peer.id for peer in peers]
        assert all(peer.budget == ProbeBudget(second=2.0) for peer in peers)
        self.asked_alone[node.id] = node.budget.second == 1.0
        node.budget.spent = 7
        return await self.under_way[node.id]

    def budget(self, network: str, node: NodeSettings, *, alone: bool) -> ProbeBudget:
        """Stands in the place of the quotas."""
        return ProbeBudget(second=1.0 if alone else 2.0)

    def spend(self, network: str, node: str, calls: float) -> None:
        self.spent[node] = self.spent.get(node, 0.0) + calls

    def add(self, name: str, *, again: bool = False, **more: object) -> ProbeState:
        settings = NodeSettings.model_validate({"id": name, "url": "http://127.0.0.1:1", **more})
        made = ProbeState(settings, Asker(), ProbeSchedule(BlockPace(2.0), self.clock.now()))  # type: ignore[arg-type]
        self.nodes[name] = made
        self.schedule.joined(name, again=again)
        return made

    def probed(self, name: str, version: str = "v1", head: int = 100) -> None:
        """A probe of the node was answered."""
        node = self.nodes[name]
        node.claim(Claims(eth_chain_id=1, version=version), self.clock.now(), one_is_final=True)
        node.judge(ExpectedIdentity(eth_chain_id=1))
        node.see(head, 0.01, self.clock.now())
        self.schedule.seen(node)

    async def turn(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def passes(self, seconds: float) -> None:
        """Time passes in which every node answers its probes."""
        while seconds > 0:
            self.clock.advance(min(seconds, BETWEEN))
            seconds -= BETWEEN
            for name, node in self.nodes.items():
                self.probed(name, node.claims.version if node.claims else "v1")
        await self.turn()

    def restarted(self, name: str, version: str) -> None:
        """A node was away for one probe, and is back with a version."""
        self.nodes[name].fail("no connection")
        self.probed(name, version)

    async def examine_all(self) -> None:
        """The examinations of all nodes that are due begin and end."""
        self.clock.advance(START_AFTER)
        for name, node in self.nodes.items():
            self.probed(name, node.claims.version if node.claims else "v1")
        await self.turn()
        while self.under_way:
            await self.end(next(iter(self.under_way)))

    async def examined(self, *names: str) -> None:
        """Nodes that were there at the start, and were examined more than ten minutes ago."""
        await self.serving(*names)
        await self.examine_all()
        self.clock.advance(BETWEEN)
        for name in names:
            self.probed(name)

    async def end(self, name: str, **found: Any) -> Examination:
        """The examination that is under way ends."""
        examination = Examination(at=self.clock.now(), head=100, **found)
        self.under_way.pop(name).set_result(examination)
        await self.turn()
        return examination

    async def serving(self, *names: str) -> None:
        """Nodes that were there at the start."""
        for name in names:
            self.add(name)
            self.probed(name)
        self.schedule.start()
        await self.turn()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.schedule.stop()


async def test_a_node_that_joins_at_run_time_is_kept_out_until_it_is_examined(world: World) -> None:
    await world.serving("a", "b")
    joined = world.add("c")
    assert world.schedule.keeps_out("c")
    assert not world.under_way, "before it answers there is nothing to ask it"
    world.probed("c")
    await world.turn()
    assert world.peers["c"] == ["a", "b"]
    assert not world.schedule.weighs(joined)
    examination = await world.end("c")
    assert not world.schedule.keeps_out("c")
    assert world.schedule.weighs(joined)
    assert world.schedule.last("c") is examination
    assert world.changes
    assert world.spent == {"c": 7}
    assert world.asked_alone == {"c": True}


async def test_the_nodes_of_the_start_serve_at_once_and_are_examined_later_one_after_the_other(world: World) -> None:
    await world.serving("a", "b")
    assert not world.schedule.keeps_out("a")
    world.clock.advance(START_AFTER)
    for name in ("a", "b"):
        world.probed(name)
    await world.turn()
    assert list(world.under_way) == ["a"]
    assert not world.schedule.keeps_out("a")
    await world.end("a")
    assert list(world.under_way) == ["b"]
    await world.end("b")
    for name in ("a", "b"):
        world.probed(name)
    await world.turn()
    assert not world.under_way, "once is enough"


async def test_a_node_is_kept_out_only_while_another_one_serves(world: World) -> None:
    await world.serving("a")
    joined = world.add("b")
    world.probed("b")
    await world.turn()
    assert world.schedule.keeps_out("b")
    world.nodes["a"].fail("no connection")
    assert not world.schedule.keeps_out("b")
    changes = world.changes
    world.probed("b")
    assert world.changes > changes, "the workers are told"
    assert world.schedule.weighs(joined)


async def test_nodes_that_all_join_at_once_serve_at_once(world: World) -> None:
    await world.serving()
    for name in ("a", "b"):
        world.add(name)
        world.probed(name)
    assert not world.schedule.keeps_out("a")
    assert not world.schedule.keeps_out("b")


async def test_a_node_without_weight_takes_no_place_of_a_serving_one(world: World) -> None:
    world.add("a", weight=0)
    world.probed("a")
    world.schedule.start()
    world.add("b")
    world.probed("b")
    assert not world.schedule.keeps_out("b")


async def test_a_node_that_is_back_after_a_long_absence_is_examined_first(world: World) -> None:
    await world.serving("a", "b")
    world.clock.advance(ABSENCE - 1)
    world.probed("a")
    assert not world.schedule.keeps_out("a")
    world.clock.advance(1)
    world.probed("b")
    assert world.schedule.keeps_out("b")
    await world.turn()
    assert "b" in world.under_way
    await world.end("a")
    await world.end("b")
    assert not world.schedule.keeps_out("b")


async def test_a_node_that_is_back_with_another_version_is_examined_first(world: World) -> None:
    await world.examined("a", "b")
    world.restarted("b", version="v2")
    assert world.schedule.keeps_out("b")
    await world.turn()
    await world.end("b")
    assert not world.schedule.keeps_out("b")
    world.clock.advance(BETWEEN)
    world.probed("a")
    for version in ("v1", "v2", "v1"):
        world.restarted("b", version=version)
    assert not world.schedule.keeps_out("b"), "two machines stand behind its address"


async def test_another_version_of_a_node_that_was_not_away_is_another_machine_and_keeps_nothing_out(
    world: World,
) -> None:
    await world.serving("a", "b")
    world.clock.advance(5)
    world.restarted("b", version="v2")
    assert not world.schedule.keeps_out("b"), "it has not been examined at all"
    await world.examine_all()
    world.clock.advance(BETWEEN)
    world.probed("a")
    world.probed("b", version="v3")
    await world.turn()
    assert not world.schedule.keeps_out("b")
    assert list(world.under_way) == ["b"], "it is examined while it serves"


async def test_a_version_that_changes_all_the_time_costs_a_few_examinations_a_day(world: World) -> None:
    await world.examined("a", "b")
    examinations = 0
    for minute in range(2 * 24 * 60):
        world.clock.advance(60)
        world.probed("a")
        world.restarted("b", version=f"up {minute} minutes")
        await world.turn()
        examinations += len(world.under_way)
        for name in list(world.under_way):
            await world.end(name)
    assert 1 <= examinations <= 8


async def test_every_upgrade_of_a_long_life_is_seen(world: World) -> None:
    await world.examined("a", "b")
    for upgrade in range(20):
        await world.passes(FORGET_AFTER)
        world.restarted("b", version=f"v{upgrade + 2}")
        assert world.schedule.keeps_out("b")
        await world.turn()
        await world.end("b")


async def test_of_nodes_that_served_one_alone_is_kept_out_at_a_time(world: World) -> None:
    await world.examined("a", "b", "c")
    for name in ("a", "b"):
        world.restarted(name, version="v2")
    await world.turn()
    assert [name for name in world.nodes if world.schedule.keeps_out(name)] == ["a"]
    assert sorted(world.under_way) == ["a", "b"], "the other one is examined while it serves"


async def test_of_nodes_that_are_reached_in_another_way_one_alone_is_kept_out(world: World) -> None:
    await world.examined("a", "b", "c")
    for name in ("a", "b"):
        world.schedule.left(name)
        world.add(name, again=True)
    assert [name for name in world.nodes if world.schedule.keeps_out(name)] == ["a"]


async def test_a_node_is_not_kept_out_for_one_of_a_higher_tier(world: World) -> None:
    world.add("backup", tier=1)
    world.probed("backup")
    world.schedule.start()
    world.add("own")
    world.add("spare", tier=1)
    assert not world.schedule.keeps_out("own")
    assert world.schedule.keeps_out("spare")
    world.probed("own")
    await world.turn()
    assert list(world.under_way) == ["own"], "it is examined while it serves"


async def test_a_node_that_syncs_is_examined_once_it_is_near_the_served_head(world: World) -> None:
    await world.serving("a")
    world.served = 1000
    world.add("b")
    world.probed("b", head=1000 - NEAR - 1)
    await world.turn()
    assert not world.under_way
    world.probed("b", head=1000 - NEAR)
    await world.turn()
    assert list(world.under_way) == ["b"]


async def test_a_node_of_the_wrong_chain_is_not_examined(world: World) -> None:
    await world.serving("a")
    node = world.add("b")
    world.schedule.examine_now("b")
    node.claim(Claims(eth_chain_id=5), world.clock.now(), one_is_final=True)
    node.judge(ExpectedIdentity(eth_chain_id=1))
    node.see(100, 0.01, world.clock.now())
    world.schedule.seen(node)
    await world.turn()
    assert not world.under_way


@pytest.mark.parametrize(
    ("found", "after"),
    [
        ({"state_from": 0, "logs_from": 0}, None),
        ({"state_from": 50}, RENEW_AFTER),
        ({"range_most": 10, "range_tried": 90}, RENEW_AFTER),
        ({"faults": ("not found out",)}, RETRY_AFTER),
    ],
)
async def test_what_bounds_a_node_or_was_not_found_out_is_looked_for_again(
    world: World, found: dict[str, Any], after: float | None
) -> None:
    await world.serving("a")
    await world.passes(START_AFTER)
    for wait in (after, RENEW_AFTER):
        await world.end("a", **found)
        await world.passes((wait or RENEW_AFTER) - 1)
        assert not world.under_way
        await world.passes(1)
        assert list(world.under_way) == (["a"] if after else [])
        if after is None:
            break


async def test_a_node_that_is_to_be_kept_out_does_not_wait_behind_those_that_serve(world: World) -> None:
    await world.examined("a", "b", "c")
    for name in ("a", "b"):
        world.schedule.examine_now(name)
    await world.turn()
    assert list(world.under_way) == ["a"]
    world.schedule.examine_now("c")
    world.restarted("c", version="v2")
    await world.turn()
    assert list(world.under_way) == ["a", "c"]
    await world.end("a")
    assert list(world.under_way) == ["c", "b"]


async def test_an_examination_by_hand_while_one_is_under_way_asks_for_no_second_one(world: World) -> None:
    await world.serving("a")
    world.schedule.examine_now("a")
    await world.turn()
    assert world.schedule.examine_now("a")
    await world.end("a")
    world.probed("a")
    await world.turn()
    assert not world.under_way


async def test_a_node_is_examined_again_by_hand_while_it_serves(world: World) -> None:
    await world.serving("a", "b")
    assert world.schedule.examine_now("a")
    await world.turn()
    assert list(world.under_way) == ["a"]
    assert not world.schedule.keeps_out("a")
    assert world.asked_alone == {"a": False}
    assert world.schedule.examine_now("a"), "one examination at a time"
    assert not world.schedule.examine_now("nobody")
    await world.end("a")
    assert not world.under_way


async def test_where_the_settings_say_so_a_node_serves_at_once_and_is_examined_by_hand_alone(world: World) -> None:
    await world.serving("a")
    world.wanted = False
    world.add("b")
    world.probed("b")
    world.clock.advance(2 * START_AFTER)
    world.probed("a")
    world.probed("b")
    await world.turn()
    assert not world.schedule.keeps_out("b")
    assert not world.under_way
    assert world.schedule.examine_now("b")
    await world.turn()
    await world.end("b")
    assert world.schedule.last("b") is not None


async def test_a_node_that_waits_for_its_examination_serves_at_once_when_that_is_switched_off(world: World) -> None:
    await world.serving("a")
    world.add("b")
    world.probed("b")
    assert world.schedule.keeps_out("b")
    world.wanted = False
    world.probed("b")
    assert not world.schedule.keeps_out("b")


async def test_a_fault_in_an_examination_keeps_no_node_out(world: World) -> None:
    await world.serving("a", "b")
    world.add("c")
    world.probed("c")
    await world.turn()
    with capture_logs() as logged:
        world.under_way.pop("c").set_exception(RuntimeError("a bug"))
        await world.turn()
    assert not world.schedule.keeps_out("c")
    examination = world.schedule.last("c")
    assert examination.faults == ("the examination itself failed: RuntimeError",)
    assert [line["event"] for line in logged] == ["an examination failed"]


async def test_a_node_that_leaves_ends_its_examination(world: World) -> None:
    await world.serving("a", "b")
    world.add("c")
    world.probed("c")
    await world.turn()
    task = world.schedule.left("c")
    assert task is not None
    await asyncio.gather(task, return_exceptions=True)
    assert world.under_way["c"].cancelled()


async def test_a_node_is_compared_with_two_others_and_rather_with_those_whose_calls_nobody_counts(world: World) -> None:
    world.add("paid", weight=9, quota={"month": 1e6})
    world.add("free")
    world.add("strong", weight=5)
    for name in world.nodes:
        world.probed(name)
    world.schedule.start()
    world.add("new")
    world.probed("new")
    await world.turn()
    assert world.peers["new"] == ["strong", "free"]
    assert repr(world.schedule) == "<ExaminationSchedule net 4 nodes, 1 wait for their examination>"
