"""Hosts that share settings: on a board of the test's own, which can be cut off from any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.model import Settings
from rpcaccel.config.patch import compose, difference, merge
from rpcaccel.controlplane.hosts.shared_purges import Purges
from rpcaccel.controlplane.hosts.sharing import Sharing
from rpcaccel.controlplane.settings.ledger import Author, ChangedMeanwhileError, Ledger
from rpcaccel.controlplane.workers.operations import Reached
from rpcaccel.stores.shared_board import Board, MessagesSince, SharedDocument, UnreachableError
from tests.support.waiting import until

ME = Author("me", "page")


class Wall:
    """What a Redis holds."""

    def __init__(self) -> None:
        self.posted: SharedDocument | None = None
        self.words: list[bytes] = []


class Side(Board):
    """One host's way to the wall. `down`: nothing gets through. `deaf`: answers do not. `held`: answers to this
    wait for an event."""

    def __init__(self, wall: Wall) -> None:
        self.wall = wall
        self.down = False
        self.deaf = False
        self.held: dict[str, asyncio.Event] = {}

    async def open(self) -> None:
        self.down = False

    async def close(self) -> None:
        self.down = True

    async def _pass(self) -> None:
        await asyncio.sleep(0)
        if self.down:
            raise UnreachableError

    async def mark(self) -> str:
        await self._pass()
        return self.wall.posted.mark if self.wall.posted else ""

    async def _answer(self, what: str) -> None:
        if what in self.held:
            self.held[what].clear()
            await self.held[what].wait()

    async def read(self) -> SharedDocument | None:
        await self._pass()
        found = self.wall.posted
        await self._answer("read")
        return found

    async def post(self, before: str, mark: str, document: bytes) -> bool:
        if await self.mark() != before:
            return False
        self.wall.posted = SharedDocument(mark, document)
        await self._answer("post")
        if self.deaf:
            raise UnreachableError
        return True

    def notices(self) -> list[str]:
        return []

    async def say(self, word: bytes) -> bytes:
        await self._pass()
        self.wall.words.append(word)
        return await self.last()

    async def last(self) -> bytes:
        await self._pass()
        return b"%d" % len(self.wall.words)

    async def heard(self, place: bytes) -> MessagesSince:
        await self._pass()
        return MessagesSince(b"%d" % len(self.wall.words), self.wall.words[int(place) :])


class Host:
    """A ledger that shares."""

    def __init__(self, wall: Wall, name: str, nodes: str = "ab", again: float = 0.0, **more: Any) -> None:
        base = Settings.model_validate(
            {"networks": {"x": {"nodes": [f"http://{node},id={node}" for node in nodes]}}, **more}
        )
        self.ledger = Ledger(base)
        self.side = Side(wall)
        self.purges: list[bytes] = []
        self.told: list[bool] = []
        self.now = 0.0
        self.sharing = Sharing(
            self.side,
            self.ledger,
            Purges(self.side, name, self._purged),
            told=self.told.append,
            every=0.01,
            again=again,
            clock=lambda: self.now,
        )

    async def _purged(self, body: bytes) -> Reached:
        self.purges.append(body)
        return Reached(store=True, disk=True)

    async def weigh(self, node: str, weight: int) -> None:
        await self.ledger.change({"networks": {"x": {"nodes": {node: {"weight": weight}}}}}, ME)

    def weights(self) -> dict[str, int]:
        return {node.id: node.weight for node in self.ledger.settings.networks["x"].nodes}


@pytest.fixture
async def wall() -> Wall:
    return Wall()


async def hosts(wall: Wall, count: int = 2, **more: Any) -> list[Host]:
    made = [Host(wall, f"h{number}", **more) for number in range(count)]
    for host in made:
        host.sharing.begin()
    await looked(made)
    return made


async def looked(made: list[Host], rounds: int = 1) -> None:
    for _ in range(rounds):
        for host in made:
            await host.sharing.look()


async def test_what_is_changed_on_one_host_is_in_force_on_the_other(wall: Wall) -> None:
    one, other = await hosts(wall)
    await one.weigh("a", 5)
    await other.sharing.look()
    assert other.weights() == {"a": 5, "b": 1}
    line = other.ledger.audit[-1]
    assert (line.by, line.action, line.text) == ("me at h0", "shared", "networks.x.nodes.a.weight: 1 -> 5")
    await other.ledger.undo(ME)
    await one.sharing.look()
    assert one.weights() == {"a": 1, "b": 1}


async def test_what_belongs_to_a_host_stays_there(wall: Wall) -> None:
    one, other = await hosts(wall)
    await one.ledger.change({"workers": 4, "log": {"level": "debug"}, "disk": {"size": "1GB"}}, ME)
    assert wall.posted is None
    await one.weigh("a", 2)
    await other.ledger.change({"listen": "127.0.0.1:7"}, ME)
    await other.sharing.look()
    assert (other.ledger.settings.workers, other.ledger.settings.listen, other.weights()["a"]) == (1, "127.0.0.1:7", 2)


async def test_a_host_keeps_its_own_name_in_alerts_and_shares_the_rest_of_their_settings(wall: Wall) -> None:
    one, other = await hosts(wall)
    await one.ledger.change({"alerts": {"host": "edge-1"}}, ME)
    assert wall.posted is None
    await other.ledger.change({"alerts": {"host": "edge-2", "after": 60}}, ME)
    await one.sharing.look()
    found = [(host.ledger.settings.alerts.host, host.ledger.settings.alerts.after) for host in (one, other)]
    assert found == [("edge-1", 60), ("edge-2", 60)]


async def test_of_two_changes_at_once_the_later_is_told_to_look_again(wall: Wall) -> None:
    one, other = await hosts(wall)
    await one.weigh("a", 5)
    with pytest.raises(ChangedMeanwhileError):
        await other.weigh("a", 6)
    assert other.weights()["a"] == 1
    await other.sharing.look()
    await other.weigh("a", 6)
    await one.sharing.look()
    assert one.weights()["a"] == other.weights()["a"] == 6


async def test_without_redis_changes_are_in_force_here_and_go_to_the_others_once_it_is_back(wall: Wall) -> None:
    one, other = await hosts(wall)
    one.side.down = True
    await one.weigh("a", 5)
    await one.weigh("a", 6)
    assert one.weights()["a"] == 6
    assert one.told == [True, False]
    await other.weigh("b", 3)
    one.side.down = False
    await looked([one, other])
    assert one.weights() == other.weights() == {"a": 6, "b": 3}
    assert one.told == [True, False, True]


async def test_what_is_read_late_undoes_nothing_that_is_changed_here_meanwhile(wall: Wall) -> None:
    one, _ = await hosts(wall)
    await one.weigh("a", 5)
    one.sharing.mark = "0-older"
    reading = asyncio.Event()
    reading.set()
    one.side.held = {"read": reading}
    looking = asyncio.create_task(one.sharing.look())
    while reading.is_set():
        await asyncio.sleep(0)
    changing = asyncio.create_task(one.weigh("b", 7))
    for _ in range(5):
        await asyncio.sleep(0)
    one.side.held = {}
    reading.set()
    await looking
    await changing
    assert one.weights() == {"a": 5, "b": 7}
    await one.weigh("a", 6)
    assert [change.action for change in list(one.ledger.audit)[-3:]] == ["change"] * 3


async def test_what_was_shared_counts_more_than_what_a_host_brings_from_before(wall: Wall) -> None:
    one, _ = await hosts(wall)
    await one.weigh("a", 5)
    late = Host(wall, "late")
    await late.weigh("a", 9)
    await late.weigh("b", 9)
    late.sharing.begin()
    await late.sharing.look()
    assert late.weights() == {"a": 5, "b": 1}


async def test_an_empty_board_gets_what_is_in_force(wall: Wall) -> None:
    first = Host(wall, "first")
    await first.weigh("a", 9)
    first.sharing.begin()
    await first.sharing.look()
    second = Host(wall, "second")
    second.sharing.begin()
    await second.sharing.look()
    assert second.weights()["a"] == 9
    wall.posted = None
    first.side.down = second.side.down = True
    await first.weigh("a", 8)
    await second.weigh("b", 7)
    first.side.down = second.side.down = False
    await looked([second, first, second])
    assert first.weights() == second.weights() == {"a": 8, "b": 7}
    await second.weigh("b", 4)
    await first.sharing.look()
    assert first.weights() == {"a": 8, "b": 4}


async def test_a_node_that_only_the_others_have_is_left_out_here_and_not_lost_there(wall: Wall) -> None:
    one = Host(wall, "one", nodes="abc")
    other = Host(wall, "other", nodes="ab")
    for host in (one, other):
        host.sharing.begin()
    await one.weigh("c", 7)
    await other.sharing.look()
    await other.weigh("a", 2)
    await one.sharing.look()
    assert (one.weights(), other.weights()) == ({"a": 2, "b": 1, "c": 7}, {"a": 2, "b": 1})


async def test_what_does_not_fit_here_is_said_and_changes_here_go_on(wall: Wall) -> None:
    one = Host(wall, "one", nodes="abc")
    other = Host(wall, "other", nodes="ab")
    for host in (one, other):
        host.sharing.begin()
    await looked([one, other])
    await one.ledger.change({"networks": {"x": {"nodes": {"a": None, "b": None}}}}, ME)
    await other.sharing.look()
    assert other.weights() == {"a": 1, "b": 1}
    assert "not in force here" in other.sharing.note
    await other.ledger.change({"memory": {"size": 5000}}, ME)
    await one.sharing.look()
    assert one.ledger.settings.memory.size == 5000
    await one.ledger.undo(ME, to=1)
    await other.sharing.look()
    assert other.sharing.note == ""


def refuse(host: Host, which: Callable[[Settings], bool] = lambda _settings: True) -> None:
    """Let a worker of a host refuse settings."""

    async def publish(settings: Settings, _revision: int) -> str:
        return "worker w1: no" if which(settings) else ""

    host.ledger.publish = publish


async def test_a_worker_that_refuses_is_asked_again(wall: Wall) -> None:
    one, other = await hosts(wall)
    refuse(other)
    await one.weigh("a", 5)
    await other.sharing.look()
    assert other.weights()["a"] == 1
    assert other.sharing.note == "what other hosts changed is not in force here: worker w1: no"
    refuse(other, lambda _settings: False)
    await other.sharing.look()
    assert other.weights()["a"] == 5
    assert other.sharing.note == ""


async def test_while_a_worker_refuses_purges_are_heard_and_changes_here_go_on(wall: Wall) -> None:
    one, other = await hosts(wall)
    refuse(other, lambda settings: settings.networks["x"].nodes[0].weight == 5)
    await one.weigh("a", 5)
    await one.sharing.tell_purge(b"{}")
    await other.sharing.look()
    assert other.purges == [b"{}"]
    await other.weigh("b", 3)
    await one.sharing.look()
    assert one.weights() == {"a": 5, "b": 3}
    assert other.weights() == {"a": 1, "b": 3}


async def test_a_worker_that_goes_on_refusing_does_not_fill_the_audit(wall: Wall) -> None:
    one, other = await hosts(wall, again=5.0)
    refuse(other)
    await one.weigh("a", 5)
    for _ in range(1000):
        other.now += 1.0
        await other.sharing.look()
    refused = [line for line in other.ledger.audit if line.outcome == "refused"]
    assert 3 < len(refused) < 12
    await one.weigh("a", 6)
    await other.sharing.look()
    again = [line for line in other.ledger.audit if line.outcome == "refused"]
    assert len(again) == len(refused) + 1, "what is new is tried at once"


async def test_what_was_changed_while_redis_was_away_is_posted_under_the_name_of_who_changed_it(wall: Wall) -> None:
    one, other = await hosts(wall)
    one.side.down = True
    await one.weigh("a", 5)
    await other.ledger.change({"networks": {"x": {"nodes": {"b": {"weight": 3}}}}}, Author("you", "page"))
    one.side.down = False
    await looked([one, other])
    assert other.ledger.audit[-1].by == "me at h0"


async def test_the_config_file_of_a_host_is_its_own(wall: Wall) -> None:
    one, other = await hosts(wall)
    heavier = await one.ledger.preview({"networks": {"x": {"nodes": {"a": {"weight": 9}}}}})
    one.ledger.origin = type(one.ledger.origin)("f", lambda: heavier, None)
    await one.ledger.reload(ME)
    await looked([one, other])
    assert (one.weights()["a"], other.weights()["a"]) == (9, 1)


async def test_a_purge_is_carried_out_by_the_others_and_not_twice_here(wall: Wall) -> None:
    one, other = await hosts(wall)
    await one.sharing.tell_purge(b'{"all": true}')
    wall.words.append(b"no word")
    await looked([one, other], 2)
    assert (one.purges, other.purges) == ([], [b'{"all": true}'])
    one.side.down = True
    await one.sharing.tell_purge(b"{}")


async def test_it_follows_by_itself(wall: Wall) -> None:
    one, other = Host(wall, "one"), Host(wall, "other")
    for host in (one, other):
        await host.sharing.start()
    await one.weigh("a", 5)
    await until(lambda: other.weights()["a"] == 5)
    assert repr(other.sharing) == "<Sharing other r1 up>"
    for host in (one, other):
        await host.sharing.stop()
    await one.weigh("a", 6)
    assert other.weights()["a"] == 5


async def test_to_share_no_more_waits_for_what_is_being_adopted(wall: Wall) -> None:
    one, other = await hosts(wall)
    adopting, may_end = asyncio.Event(), asyncio.Event()
    in_force: list[Settings] = []

    async def publish(settings: Settings, _revision: int) -> str:
        adopting.set()
        await may_end.wait()
        in_force.append(settings)
        return ""

    one.ledger.publish = publish
    await other.weigh("a", 5)
    await one.sharing.start()
    await adopting.wait()
    stopping = asyncio.create_task(one.sharing.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping
    assert in_force == [one.ledger.settings]
    assert one.weights()["a"] == 5


@pytest.mark.parametrize("seed", range(30))
async def test_however_hosts_are_cut_off_they_agree_in_the_end(wall: Wall, seed: int) -> None:
    rng = Random(seed)
    made = await hosts(wall, 3)
    for _ in range(40):
        host = rng.choice(made)
        what = rng.random()
        if what < 0.03:
            wall.posted = None
        elif what < 0.2:
            host.side.down = not host.side.down
        elif what < 0.3:
            host.side.deaf = not host.side.deaf
        elif what < 0.6:
            await host.sharing.look()
        else:
            try:
                await host.weigh(rng.choice("ab"), rng.randrange(1, 9))
            except ChangedMeanwhileError:
                continue
    for host in made:
        host.side.down = host.side.deaf = False
    await looked(made, 4)
    assert all(difference(made[0].ledger.settings, host.ledger.settings) == () for host in made)


leaves = st.sampled_from([None, 1, 2])
patches = st.fixed_dictionaries(
    {},
    optional={
        "a": st.dictionaries(st.sampled_from("xy"), leaves),
        "b": leaves,
        "c": st.dictionaries(st.sampled_from("xy"), st.dictionaries(st.sampled_from("pq"), leaves)),
    },
)


@given(patches, patches)
def test_two_patches_in_one_do_what_they_do_one_after_the_other(first: Any, second: Any) -> None:
    document = {"a": {"x": 1, "z": 3}, "b": 3, "c": {"x": {"p": 7}}}
    assert merge(document, compose(first, second)) == merge(merge(document, first), second)


@pytest.mark.parametrize("document", [b"", b"garbage", b"[]", b'{"overlay": []}', b"[" * 5000, b"\xff", b"1e999"])
async def test_a_document_of_another_program_changes_nothing_and_is_said_until_the_next_change(
    wall: Wall, document: bytes
) -> None:
    one, other = await hosts(wall)
    await one.weigh("a", 5)
    await looked([one, other])
    wall.posted = SharedDocument("9" * 5000 + "-\xff", document)
    await looked([one, other], rounds=2)
    assert one.weights() == other.weights() == {"a": 5, "b": 1}
    assert "no settings of rpcaccel" in one.sharing.notices()[0]
    await other.weigh("b", 7)
    await looked([one, other])
    assert one.weights() == other.weights() == {"a": 5, "b": 7}
    assert one.sharing.notices() == []
