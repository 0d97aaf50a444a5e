"""Workers come, adopt together, die, are replaced and renewed: with links that do as they are told."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.workers.link import GONE, Link, News
from rpcaccel.controlplane.workers.workers import REMEMBERED, WorkerEvent, Workers
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.heads.served_head import NetworkHeads, Served
from rpcaccel.core.messages import Heads, PurgeDone, WorkerReport
from rpcaccel.core.stats.tally import Tally
from tests.support.sample_control import sample_settings
from tests.support.waiting import until

HEADS = NetworkHeads(network="harmony-s0", served=Served(head=5))


class FakeLink:
    """Implements Link: a worker that refuses, hangs or dies when told to."""

    made: int = 0

    def __init__(self, name: str, sock: socket.socket) -> None:
        self.name = name
        self.pid = 0
        self.revisions: list[int] = []
        self.heads: list[NetworkHeads] = []
        self.refuses: set[int] = set()
        self.refusal = "no"
        self.fails = False
        self.may_start = asyncio.Event()
        self.may_start.set()
        self.lingered: float | None = None
        self._socket = sock
        self.heard_at = 0.0
        self._over = asyncio.Event()
        self._how = ""

    async def start(self, _settings: Settings, revision: int, heads: Sequence[NetworkHeads] = ()) -> int:
        await asyncio.sleep(0)
        await self.may_start.wait()
        if self.fails:
            raise RuntimeError(f"worker {self.name} ended before it listened")
        FakeLink.made += 1
        self.pid = FakeLink.made
        self.revisions.append(revision)
        self.heads += heads
        return 1

    async def adopt(self, _settings: Settings, revision: int) -> str:
        await asyncio.sleep(0)
        if revision in self.refuses:
            return self.refusal
        self.revisions.append(revision)
        return ""

    def tell(self, news: News) -> None:
        assert isinstance(news, Heads)
        self.heads.append(news.heads)

    def report(self) -> WorkerReport | None:
        tally = Tally()
        tally.requests = 10
        return WorkerReport(
            worker=self.name, pid=self.pid, revision=self.revisions[-1], uptime=1.0, port=1, tally=tally.snapshot(),
            nodes=(), flights=0,
        )  # fmt: skip

    async def explain(self, network: str, method: str, params: bytes) -> Explanation | None:
        raise AssertionError((network, method, params))

    async def purge(self, selection: Selection, *, dry: bool = False) -> PurgeDone:
        raise AssertionError((selection, dry))

    async def drain(self, _timeout: float, linger: float = 0.0) -> None:
        self.lingered = linger
        self.die("was drained")

    def ask_to_end(self, why: str) -> None:
        self._how = f"{why} and was ended"

    def kill(self) -> None:
        self.die("was killed")

    async def ended(self) -> str:
        await self._over.wait()
        return self._how

    def die(self, how: str) -> None:
        self._socket.close()
        self._how = self._how or how
        self._over.set()


class World:
    """Two workers on fake links."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.made: list[FakeLink] = []
        self.fail_next = 0
        self.hold_next = False
        self.now = 0.0
        self.buried: list[WorkerReport] = []
        self.events: list[WorkerEvent] = []
        self.workers = Workers(
            self._make,
            self.links,
            heads=lambda: [HEADS],
            bury=self.buried.append,
            heard=self.events.append,
            clock=lambda: self.now,
        )

    def _make(self, name: str, sock: socket.socket) -> Link:
        link = FakeLink(name, sock)
        link.fails, self.fail_next = self.fail_next > 0, max(0, self.fail_next - 1)
        if self.hold_next:
            self.hold_next = False
            link.may_start.clear()
        self.made.append(link)
        return link

    async def start(self, count: int = 2) -> None:
        self.workers.own([socket.socket() for _ in range(count)])
        await self.workers.start(sample_settings(drain_timeout=3), 1)

    def requests(self) -> int:
        """What a overview would add up."""
        alive = [report for link in self.links if (report := link.report())]
        return sum(report.tally.requests for report in (*alive, *self.buried))


@pytest.fixture
async def world() -> World:
    return World()


async def test_all_adopt_and_say_so(world: World) -> None:
    await world.start()
    assert await world.workers.adopt(sample_settings(), 2) == ""
    assert [link.revisions for link in world.made] == [[1, 2], [1, 2]]
    assert world.workers.adopted() == 2
    assert [state.revision for state in world.workers.states()] == [2, 2]
    assert repr(world.workers) == "<Workers w1 serving w2 serving>"
    await world.workers.stop(0.0)


async def test_one_refusal_takes_all_of_them_back(world: World) -> None:
    await world.start()
    world.made[1].refuses = {2}
    assert await world.workers.adopt(sample_settings(), 2) == "worker w2: no"
    assert [link.revisions for link in world.made] == [[1, 2, 1], [1, 1]]
    assert world.workers.adopted() == 2
    await world.workers.stop(0.0)


async def test_a_worker_that_is_gone_stands_in_nobodys_way(world: World) -> None:
    await world.start()
    world.made[1].refuses, world.made[1].refusal = {2}, GONE
    assert await world.workers.adopt(sample_settings(), 2) == ""
    await world.workers.stop(0.0)


async def test_a_worker_that_dies_is_replaced_its_counts_stay_and_it_is_said(world: World) -> None:
    await world.start()
    await world.workers.adopt(sample_settings(), 2)
    world.made[0].die("was killed by SIGKILL")
    await until(lambda: world.workers.replaced.total() == 1)
    assert world.made[2].revisions == [2]
    assert world.made[2].heads[0] == HEADS
    assert world.requests() == 30
    assert [state.id for state in world.workers.states()] == ["w1", "w2"]
    assert "worker w1 was killed by SIGKILL and is being replaced" in [event.text for event in world.events]
    assert world.workers.notices() == ["worker w1 was killed by SIGKILL (0 s ago); it was replaced"]
    world.now = REMEMBERED
    assert world.workers.notices() == []
    await world.workers.stop(0.0)


async def test_a_change_while_a_worker_is_being_replaced_reaches_the_new_one(world: World) -> None:
    await world.start()
    world.made[0].die("was killed by SIGKILL")
    await until(lambda: len(world.made) == 3)
    assert await world.workers.adopt(sample_settings(), 2) == ""
    await until(lambda: world.workers.replaced.total() == 1)
    assert world.made[2].revisions[-1] == 2
    assert world.workers.adopted() == 2
    await world.workers.stop(0.0)


async def test_a_replacement_that_does_not_come_up_is_tried_again(world: World) -> None:
    await world.start()
    world.fail_next = 1
    world.made[1].die("ended with exit code 1")
    await until(lambda: len(world.made) == 3)
    await until(lambda: len(world.workers.notices()) == 2)
    assert world.workers.notices()[1] == (
        "a new worker did not come up in place w2: worker w2 ended before it listened"
    )
    await until(lambda: world.workers.replaced.total() == 1)
    assert len(world.made) == 4
    assert len(world.workers.notices()) == 1
    await world.workers.stop(0.0)


async def test_a_replacement_that_refuses_what_changed_meanwhile_is_replaced_itself(world: World) -> None:
    await world.start()
    world.hold_next = True
    world.made[0].die("was killed by SIGKILL")
    await until(lambda: len(world.made) == 3)
    assert await world.workers.adopt(sample_settings(), 2) == ""
    late = world.made[2]
    late.refuses = {2}
    late.may_start.set()
    await until(lambda: late.lingered is not None)
    assert late.lingered, "clients had come to it"
    assert late not in world.links
    assert world.workers.notices()[1] == (
        "a new worker did not come up in place w1: worker w1: no (revision 2, which the others have)"
    )
    await until(lambda: world.workers.replaced.total() == 1)
    assert [link.revisions for link in world.made[1:]] == [[1, 2], [1], [2]]
    assert (world.workers.adopted(), len(world.workers.notices())) == (2, 1)
    await world.workers.stop(0.0)


async def test_a_renewal_that_refuses_what_changed_meanwhile_leaves_the_old_one_serving(world: World) -> None:
    await world.start()
    world.hold_next = True
    renewing = asyncio.create_task(world.workers.renew())
    await until(lambda: len(world.made) == 3)
    assert await world.workers.adopt(sample_settings(), 2) == ""
    world.made[2].refuses = {2}
    world.made[2].may_start.set()
    with pytest.raises(RuntimeError, match="worker w1: no"):
        await renewing
    assert [one.link for one in world.workers.serving()] == world.made[:2]
    await until(lambda: len(world.buried) == 1)
    assert world.made[2].lingered, "clients had come to it"
    assert [state.revision for state in world.workers.states()] == [2, 2]
    await world.workers.renew()
    assert world.workers.notices() == []
    await world.workers.stop(0.0)


async def test_one_that_dies_again_and_again_is_replaced_with_patience(world: World) -> None:
    await world.start()
    world.made[0].die("ended with exit code 1")
    await until(lambda: world.workers.replaced.total() == 1)
    begun = asyncio.get_running_loop().time()
    world.made[2].die("ended with exit code 1")
    await until(lambda: world.workers.replaced.total() == 2)
    assert asyncio.get_running_loop().time() - begun >= 0.25
    await world.workers.stop(0.0)


async def test_all_are_renewed_one_after_the_other_before_the_old_ones_leave(world: World) -> None:
    await world.start()
    told: list[int] = []
    await world.workers.renew(lambda: told.append(len(world.made)))
    assert told == [4]
    assert [link.lingered for link in world.made] == [3.0, 3.0, None, None]
    await until(lambda: len(world.buried) == 2)
    assert (world.workers.replaced.total(), world.requests()) == (0, 40)
    assert world.workers.notices() == []
    assert [event.what for event in world.events if event.id == "w1"] == ["started", "started", "draining", "ended"]
    await world.workers.stop(0.0)


async def test_when_a_new_one_does_not_come_up_the_old_one_serves_on(world: World) -> None:
    await world.start()
    world.fail_next = 1
    with pytest.raises(RuntimeError):
        await world.workers.renew()
    assert world.made[0].lingered is None
    assert await world.workers.adopt(sample_settings(), 2) == ""
    assert world.made[0].revisions == [1, 2]
    await world.workers.stop(0.0)


async def test_one_that_dies_while_it_is_being_renewed_leaves_one_worker_in_its_place(world: World) -> None:
    await world.start()
    world.hold_next = True
    renewing = asyncio.create_task(world.workers.renew())
    await until(lambda: len(world.made) == 3)
    world.made[0].die("was killed by SIGKILL")
    await until(lambda: any("is being replaced" in event.text for event in world.events))
    world.made[2].may_start.set()
    await renewing
    await until(lambda: world.workers.replaced.total() == 1)
    serving = {id(one.link) for one in world.workers.serving()}
    await until(lambda: {id(link) for link in world.links} == serving)
    assert len(serving) == 2
    assert [state.state for state in world.workers.states()] == ["serving", "serving"], "the dead one is forgotten"
    await world.workers.stop(0.0)


async def test_a_start_that_fails_leaves_no_socket_open(world: World) -> None:
    world.fail_next = 1
    with pytest.raises(RuntimeError):
        await world.start()
    await world.workers.stop(0.0)


async def test_stopping_is_no_death(world: World) -> None:
    await world.start()
    await world.workers.stop(0.0)
    assert world.workers.notices() == []
    assert len(world.made) == 2
