"""What is used of quotas, over workers that come, go and die, and over restarts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.nodes.quotas import QUOTA_LOOK_SECONDS, KeptQuotas, Quotas
from rpcaccel.controlplane.nodes.shadow_calls import ProbeBudget
from rpcaccel.controlplane.settings.kept_file import KeptFile
from rpcaccel.controlplane.workers.link import News
from rpcaccel.core.messages import NodeReport, QuotaBrought, WorkerReport
from rpcaccel.core.nodes.limits import Brought, MethodCosts, Quota, QuotaLimits
from rpcaccel.core.stats.tally import Tally
from rpcaccel.stores.shared_board import QuotaSums
from tests.support.waiting import until

NOON = datetime(2026, 2, 10, 12, tzinfo=UTC).timestamp()
MIDNIGHT = NOON + 43_200
APRIL = datetime(2026, 4, 1, tzinfo=UTC).timestamp()


QuotaFile = KeptFile[KeptQuotas]


@pytest.fixture
def file(tmp_path: Path) -> QuotaFile:
    return KeptFile(tmp_path / "quota.json", KeptQuotas)


def used_of_day(used: float = 9, renews: float = MIDNIGHT, host: str = "") -> KeptQuotas:
    """What an earlier run kept."""
    use = Brought(network="n", node="a", window="day", used=used, since=NOON, renews=renews)
    return KeptQuotas(uses=(use,), host=host)


class Counting:
    """A link with a worker that counts as workers do."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.pid = 1
        self._world = world
        self.quota = Quota(QuotaLimits(day=100, month=1000).shared_by(2), now=0.0, epoch=world.now)
        self.tell(QuotaBrought(world.quotas.brought()))

    def spend(self, calls: int) -> None:
        for _ in range(calls):
            self.quota.spend("eth_call", False, self._passed)

    def tell(self, news: News) -> None:
        assert isinstance(news, QuotaBrought)
        for brought in news.uses:
            self.quota.bring(brought, self._passed)

    def report(self) -> WorkerReport:
        node = NodeReport(
            network="n", id="a", head=1, in_flight=0, breaker="closed", latency=None, parked=0.0, refusal="",
            quota=self.quota.uses(self._passed),
        )  # fmt: skip
        return WorkerReport(
            worker=self.name, pid=1, revision=1, uptime=1.0, port=1, tally=Tally().snapshot(), nodes=(node,), flights=0
        )

    @property
    def used(self) -> float:
        """What is used of the day, as this worker knows it."""
        return self.quota.uses(self._passed)[0].used

    @property
    def _passed(self) -> float:
        return self._world.now - self.quota.epoch


class World:
    """Workers, and a clock on the wall."""

    def __init__(self, file: KeptFile[KeptQuotas] | None, now: float = NOON, every: float = QUOTA_LOOK_SECONDS) -> None:
        self.now = now
        self.settings = Settings.model_validate(
            {"networks": {"n": {"nodes": [{"id": "a", "url": "http://a.example", "quota": {"day": 100}}]}}}
        )
        self.links: list[Any] = []
        self.quotas = Quotas(lambda: self.settings, self.links, lambda: self.now, every)
        self.quotas.open(file)

    def join(self, name: str) -> Counting:
        place = Counting(self, name)
        self.links.append(place)
        return place

    def die(self, place: Counting) -> None:
        self.quotas.bury(place.report())
        self.links.remove(place)

    @property
    def used(self) -> float:
        """What is shown of the day."""
        node = self.settings.networks["n"].nodes[0]
        told = [node for link in self.links for node in link.report().nodes]
        return self.quotas.of("n", node, told)[0].used


async def test_what_was_used_is_used_after_a_restart(file: QuotaFile) -> None:
    before = World(file)
    before.join("w1").spend(30)
    before.join("w2").spend(10)
    await before.quotas.save()
    after = World(file, NOON + 60)
    one, two = after.join("w1"), after.join("w2")
    assert (one.used, two.used, after.used) == (40, 40, 40)
    one.spend(5)
    assert after.used == 45
    (use,) = after.quotas.of("n", after.settings.networks["n"].nodes[0], one.report().nodes)
    assert (use.limit, use.since, use.renews) == (100, NOON, MIDNIGHT)


async def test_the_next_day_begins_with_nothing_and_the_month_goes_on(file: QuotaFile) -> None:
    world = World(file)
    place = world.join("w1")
    place.spend(30)
    await world.quotas.save()
    world.now = MIDNIGHT + 1
    world.quotas.tell()
    assert (place.used, world.used) == (0, 0)
    place.spend(2)
    await world.quotas.save()
    assert {one.window: one.used for one in kept(file).uses} == {"day": 2, "month": 32}
    again = World(file, MIDNIGHT + 86_401)
    assert again.used == 0
    assert [use.used for use in again.join("w1").quota.uses(0.0)] == [0, 32]
    assert World(file, APRIL + 1).join("w1").quota.uses(0.0)[1].used == 0


def test_what_one_worker_used_is_used_at_all_of_them() -> None:
    world = World(None)
    one, two = world.join("w1"), world.join("w2")
    one.spend(60)
    two.spend(30)
    world.quotas.tell()
    assert (one.used, two.used, world.used) == (90, 90, 90)
    two.spend(10)
    assert two.quota.parked_until(1.0), "the whole quota is used up"
    assert not one.quota.parked_until(1.0), "which the other worker is told with the next report"
    world.quotas.tell()
    assert one.quota.parked_until(1.0)


def test_what_a_dead_worker_used_stays_used() -> None:
    world = World(None)
    dead, other = world.join("w1"), world.join("w2")
    dead.spend(49)
    other.spend(3)
    world.die(dead)
    assert world.used == 52
    successor = world.join("w1")
    assert (successor.used, world.used) == (52, 52)
    successor.spend(1)
    world.quotas.tell()
    assert (successor.used, other.used) == (53, 53)
    world.die(successor)
    assert world.join("w1").used == 53


def test_what_a_draining_worker_still_uses_counts_once() -> None:
    world = World(None)
    old = world.join("w1")
    old.spend(10)
    new = world.join("w1")
    old.spend(5)
    new.spend(1)
    assert (new.used, world.used) == (11, 16)
    world.quotas.tell()
    assert (new.used, old.used, world.used) == (16, 16, 16)
    world.die(old)
    world.quotas.tell()
    assert (new.used, world.used) == (16, 16)


async def test_a_damaged_file_is_said_and_counting_begins_anew(file: QuotaFile) -> None:
    file.path.write_text("{")
    world = World(file)
    assert "is damaged" in world.quotas.notices()[0]
    place = world.join("w1")
    await world.quotas.save()
    assert file.path.read_text() == "{", "kept for a look as long as there is nothing to be kept"
    place.spend(3)
    await world.quotas.save()
    assert kept(file).uses[0].used == 3


async def test_without_a_place_to_write_it_is_said_where_there_is_a_quota(tmp_path: Path) -> None:
    world = World(None)
    assert world.quotas.notices() == ["the use of quotas lives until the restart: there is no state file"]
    world.settings = Settings.model_validate({"networks": {"n": {"nodes": ["http://a.example"]}}})
    assert world.quotas.notices() == []
    lost = World(KeptFile(tmp_path / "no" / "folder.json", KeptQuotas))
    lost.join("w1").spend(1)
    await lost.quotas.save()
    assert "cannot be written (No such file" in lost.quotas.notices()[0]
    (tmp_path / "no").mkdir()
    await lost.quotas.save()
    assert lost.quotas.notices() == []


async def test_it_is_written_when_it_ends_and_not_for_nothing(file: QuotaFile) -> None:
    world = World(file)
    world.quotas.start()
    place = world.join("w1")
    await world.quotas.stop()
    assert not file.path.exists()
    place.spend(2)
    await world.quotas.stop()
    written = file.path.stat().st_mtime_ns
    await world.quotas.stop()
    assert file.path.stat().st_mtime_ns == written
    assert str(file.path) in repr(world.quotas)


def kept(file: QuotaFile) -> KeptQuotas:
    found = file.load()
    assert found is not None
    return found


class SlowFile(KeptFile[KeptQuotas]):
    """A disk that takes its time with the first write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, KeptQuotas)
        self.writing, self.may_end = threading.Event(), threading.Event()

    def save(self, content: KeptQuotas) -> None:
        if not self.writing.is_set():
            self.writing.set()
            self.may_end.wait(20)
        super().save(content)


async def test_what_is_written_last_is_what_was_used_to_the_end_however_slow_the_disk(tmp_path: Path) -> None:
    file = SlowFile(tmp_path / "quota.json")
    world = World(file, every=0.001)
    place = world.join("w1")
    world.quotas.start()
    await asyncio.sleep(0)
    place.spend(2)
    world.now += 60
    await until(file.writing.is_set)
    place.spend(3)
    stopping = asyncio.create_task(world.quotas.stop())
    for _ in range(5):
        await asyncio.sleep(0)
    file.may_end.set()
    await stopping
    await asyncio.get_running_loop().shutdown_default_executor()
    assert {one.window: one.used for one in kept(file).uses} == {"day": 5, "month": 5}


async def test_a_look_that_fails_is_not_the_last_one() -> None:
    world = World(None, every=0.001)
    place = world.join("w1")
    world.links.append(None)
    world.quotas.start()
    with capture_logs() as logged:
        await until(lambda: bool(logged))
    world.links.remove(None)
    old = world.join("w1")
    old.spend(5)
    await until(lambda: place.used == 5)
    await world.quotas.stop()


@pytest.mark.parametrize("renews", [MIDNIGHT - 86_400, MIDNIGHT + 86_400])
def test_windows_that_are_not_ours_are_not_taken_up(file: QuotaFile, renews: float) -> None:
    file.save(used_of_day(renews=renews))
    assert World(file).join("w1").used == 0


def test_an_examination_may_use_a_hundredth_of_a_quota_and_what_is_left_of_it() -> None:
    world = World(None)
    world.settings = Settings.model_validate(
        {
            "networks": {
                "n": {
                    "nodes": [{"id": "a", "url": "http://a.example", "quota": {"day": 5000, "second": 20, "heavy": 7}}]
                },
                "other": {"nodes": ["http://b.example,id=b"]},
            }
        }
    )
    node, free = world.settings.networks["n"].nodes[0], world.settings.networks["other"].nodes[0]
    assert world.quotas.budget("n", node, alone=True) == ProbeBudget(cost=50, second=10, costs=MethodCosts(heavy=7))
    assert world.quotas.budget("n", node, alone=False).second == 2
    assert world.quotas.budget("other", free, alone=False) == ProbeBudget()
    world.quotas.spend("n", "a", 4970)
    assert world.quotas.budget("n", node, alone=True).cost == 30
    world.quotas.spend("n", "a", 100)
    assert world.quotas.budget("n", node, alone=True).cost == 0
    world.quotas.spend("n", "gone", 1)
    world.quotas.spend("other", "b", 1)
    assert [(one.node, one.used) for one in world.quotas.brought()] == [("a", 5070)]


def test_what_an_examination_used_is_told_to_the_workers() -> None:
    world = World(None)
    place = world.join("w1")
    world.quotas.spend("n", "a", 30)
    place.spend(2)
    world.quotas.tell()
    assert (place.used, world.used) == (32, 32)


class Neighbour(QuotaSums):
    """Another host as this one hears of it: it tells each time what it was made to have used."""

    def __init__(self, used: float = 0.0) -> None:
        self.used = used
        self.heard: list[Brought] = []
        self.silent = False
        self.connected = False
        self.remembers = 0.0
        """What this host itself told in an earlier run."""

    async def open(self) -> None:
        self.connected = True

    async def close(self) -> None:
        self.connected = False

    def notices(self) -> list[str]:
        return []

    async def earlier(self, own: Sequence[Brought]) -> list[Brought]:
        return [] if self.silent else [replace(one, used=self.remembers) for one in own]

    async def exchange(self, own: Sequence[Brought]) -> list[Brought]:
        if self.silent:
            return []
        self.heard = list(own)
        return [replace(one, used=self.used) for one in own]


async def test_what_another_host_used_is_used_here_and_only_the_own_use_is_told_and_kept(file: QuotaFile) -> None:
    world, other = World(file), Neighbour(60)
    one, two = world.join("w1"), world.join("w2")
    await world.quotas.share_by(other)
    one.spend(30)
    await world.quotas.exchange()
    world.quotas.tell()
    assert (one.used, two.used, world.used) == (90, 90, 90)
    assert {use.window: use.used for use in other.heard}["day"] == 30
    two.spend(10)
    assert two.quota.parked_until(1.0), "the whole quota is used up"
    world.die(two)
    assert (world.join("w2").used, world.used) == (100, 100)
    await world.quotas.exchange()
    assert {use.window: use.used for use in other.heard}["day"] == 40
    await world.quotas.save()
    assert {use.window: use.used for use in kept(file).uses} == {"day": 40, "month": 40}


async def test_what_a_host_told_before_it_was_killed_is_used_though_it_was_not_kept(file: QuotaFile) -> None:
    file.save(used_of_day(host="host"))
    world, other = World(file), Neighbour(60)
    one = world.join("w1")
    one.spend(5)
    other.remembers, other.silent = 30, True
    await world.quotas.share_by(other)
    await world.quotas.exchange()
    assert (world.used, other.heard) == (14, []), "what was told is not known yet, and is not overwritten"
    other.silent = False
    for _ in range(2):
        await world.quotas.exchange()
        world.quotas.tell()
        assert (world.used, one.used) == (90, 90)
    one.spend(5)
    await world.quotas.exchange()
    assert {use.window: use.used for use in other.heard}["day"] == 35


async def test_a_host_that_used_nothing_says_nothing_less_where_others_used_fractions() -> None:
    world, other = World(None), Neighbour()
    world.join("w1")
    await world.quotas.share_by(other)
    for used in (1.1, 6 * 1.1):  # whose difference added to the first is less than the second
        other.used = used
        await world.quotas.exchange()
        world.quotas.tell()
    await world.quotas.exchange()
    assert {use.used for use in other.heard} == {0}


async def test_while_other_hosts_are_silent_what_they_told_last_counts_until_the_window_ends() -> None:
    world, other = World(None), Neighbour(60)
    place = world.join("w1")
    await world.quotas.share_by(other)
    await world.quotas.exchange()
    other.silent = True
    await world.quotas.exchange()
    world.quotas.tell()
    assert (place.used, world.used) == (60, 60)
    world.now = MIDNIGHT + 1
    world.quotas.tell()
    assert (place.used, world.used) == (0, 0)


async def test_hosts_are_left_alone_where_no_node_has_a_quota_and_when_no_redis_is_named_any_more() -> None:
    world, other = World(None), Neighbour()
    await world.quotas.share_by(other)
    assert not other.connected
    await world.quotas.exchange()
    assert other.connected
    await world.quotas.share_by(None)
    assert not other.connected
    world.settings = Settings.model_validate({"networks": {"n": {"nodes": ["http://a.example"]}}})
    await world.quotas.share_by(other)
    await world.quotas.exchange()
    assert not other.connected


async def test_a_count_that_was_kept_without_a_name_gets_one_before_other_hosts_hear_of_it(file: QuotaFile) -> None:
    file.save(used_of_day())  # as before 0.2
    named: list[str] = []

    class Hearing(Neighbour):
        async def exchange(self, own: Sequence[Brought]) -> list[Brought]:
            named.append(kept(file).host)
            return await super().exchange(own)

    for _ in range(2):
        world = World(file)
        await world.quotas.share_by(Hearing())
        await world.quotas.exchange()
        assert world.used == 9
    assert named[0]
    assert named == [named[0]] * 2


async def test_a_host_keeps_its_name_over_a_restart(file: QuotaFile) -> None:
    for _ in range(2):
        world = World(file)
        world.join("w1").spend(1)
        name = (file.load() or KeptQuotas(uses=())).host
        await world.quotas.save()
    assert name
    assert kept(file).host == name
