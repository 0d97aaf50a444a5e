"""Delivery: who is sent what, in which order, and how long the loop is held."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.live.block import LiveBlock, Log
from rpcaccel.core.live.log_filter import LogFilter, covers
from rpcaccel.core.live.subscription import Topic
from rpcaccel.core.stats.counters import CutReason, NetworkCell
from rpcaccel.dataplane.event_loop import TURN_SECONDS
from rpcaccel.dataplane.live.live_session import LiveSession, LiveSubscription
from rpcaccel.dataplane.live.topics import Topics
from tests.support.dataplane.fake_live import FakeSink

HEADS, PENDING = Topic("newHeads", "eth"), Topic("newPendingTransactions", "eth")


class Clients:
    """Topics with clients, and no follower: the topics are told directly."""

    def __init__(self, clock: Callable[[], float] = lambda: 100.0) -> None:
        self.cell = NetworkCell("n")
        self.topics = Topics(self.cell, clock)
        self._ids = itertools.count()

    def join(self, topic: Topic = HEADS, sink: FakeSink | None = None) -> tuple[FakeSink, LiveSubscription]:
        sink = sink or FakeSink()
        session = LiveSession(sink, 100)
        made = LiveSubscription(f"0x{next(self._ids)}", topic, session, self)
        session.hold(made)
        self.begin(made)
        return sink, made

    def begin(self, subscription: LiveSubscription) -> None:
        self.topics.add(subscription)

    def joined(self, subscription: LiveSubscription) -> None:
        """Do nothing."""

    def ended(self, subscription: LiveSubscription) -> None:
        self.topics.remove(subscription)


def block(number: int) -> LiveBlock:
    return LiveBlock(number, f"0x{number}", f"0x{number - 1}", b'{"number":%d}' % number)


def log(address: str, *topics: str, text: bytes = b'"log","removed":false') -> Log:
    return Log(address, topics, b"{" + text.replace(b'"log"', b'"from":"%b"' % address.encode()) + b"}")


def logs_of(addresses: list[str] | None = None, *topics: list[str]) -> Topic:
    return Topic("logs", "eth", filter=LogFilter.of(addresses or [], topics))


async def test_every_subscriber_of_heads_gets_each_head_under_its_own_id_and_namespace() -> None:
    clients = Clients()
    one, _ = clients.join()
    other, _ = clients.join(Topic("newHeads", "hmy"))
    await clients.topics.heads(block(7), since=99.0)
    assert one.sent == [
        b'{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x0","result":{"number":7}}}'
    ]
    assert other.sent == [
        b'{"jsonrpc":"2.0","method":"hmy_subscription","params":{"subscription":"0x1","result":{"number":7}}}'
    ]


async def test_logs_go_to_those_whose_filters_match_in_their_order() -> None:
    clients = Clients()
    everything, _ = clients.join(logs_of())
    of_b, _ = clients.join(logs_of(["0xb"]))
    of_topic, _ = clients.join(logs_of(None, [], ["0x2"]))
    await clients.topics.logs([log("0xa"), log("0xb", "0x1"), log("0xc", "0x1", "0x2")], since=99.0)
    assert [each["from"] for each in everything.results] == ["0xa", "0xb", "0xc"]
    assert [each["from"] for each in of_b.results] == ["0xb"]
    assert [each["from"] for each in of_topic.results] == ["0xc"]


async def test_what_was_sent_is_counted_by_kind_with_how_late_it_was() -> None:
    clients = Clients()
    for _ in range(3):
        clients.join()
    clients.join(logs_of())
    clients.join(PENDING)
    await clients.topics.heads(block(1), since=99.75)
    await clients.topics.logs([log("0xa"), log("0xb")], since=98.0)
    await clients.topics.pending([b'"0x1"'])
    assert clients.cell.delivered == {"newHeads": 3, "logs": 2, "newPendingTransactions": 1}
    assert clients.cell.lateness.count == 5
    assert clients.cell.lateness.seconds == pytest.approx(3 * 0.25 + 2 * 2.0)


async def test_different_topics_are_counted() -> None:
    clients = Clients()
    first = [clients.join(topic)[1] for topic in (HEADS, HEADS, logs_of(["0xa"]), logs_of(["0xa"]), logs_of(["0xb"]))]
    assert clients.cell.topics == 3
    for one in first:
        one.end()
    assert clients.cell.topics == 0
    assert not clients.topics.heads_wanted
    assert clients.topics.logs_wanted is None


def ticking(step: float) -> Callable[[], float]:
    """A clock that moves by so much whenever it is read."""
    ticks = itertools.count()
    return lambda: next(ticks) * step


def test_nothing_is_held_of_a_filter_that_has_gone() -> None:
    clients, wanted = Clients(), LogFilter.of(["0xa"])
    clients.join(logs_of(["0xb"]))
    before = sys.getrefcount(wanted)
    _, one = clients.join(Topic("logs", "eth", filter=wanted))
    assert sys.getrefcount(wanted) > before
    assert one.session.end(one.id)
    del one
    assert clients.topics.logs_wanted == LogFilter.of(["0xb"])
    assert sys.getrefcount(wanted) == before


async def test_a_delivery_to_many_lets_others_have_their_turn() -> None:
    clients = Clients(ticking(2 * TURN_SECONDS))
    sinks = [clients.join()[0] for _ in range(100)]
    delivery = asyncio.create_task(clients.topics.heads(block(1), since=0.0))
    reached = []
    while not delivery.done():
        await asyncio.sleep(0)
        reached.append(sum(bool(sink.sent) for sink in sinks))
    assert reached[0] < reached[-1] == 100
    assert max(after - before for before, after in itertools.pairwise(reached)) <= 8
    assert clients.cell.lateness.count == 100


async def test_logs_that_nobody_wants_let_others_have_their_turn_too() -> None:
    clients = Clients(ticking(2 * TURN_SECONDS))
    clients.join(logs_of(["0xnone"]))
    delivery = asyncio.create_task(clients.topics.logs([log("0xa")] * 100, since=0.0))
    turns = 0
    while not delivery.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


async def test_one_that_joins_during_a_delivery_is_not_in_it_and_one_that_leaves_gets_nothing_more() -> None:
    clients = Clients(ticking(2 * TURN_SECONDS))
    everybody = [clients.join(logs_of()) for _ in range(20)]
    delivery = asyncio.create_task(clients.topics.logs([log("0xa"), log("0xb")], since=0.0))
    await asyncio.sleep(0)
    late, _ = clients.join(logs_of())
    left, leaving = everybody[-1]
    assert not left.sent
    leaving.session.close()
    await delivery
    assert not late.sent
    assert not left.sent
    assert all(len(sink.sent) == 2 for sink, _ in everybody[:-1])


async def test_a_short_delivery_does_not_overtake_a_long_one() -> None:
    clients = Clients(ticking(2 * TURN_SECONDS))
    sink, _ = clients.join(logs_of(["0xa"]))
    others = [log("0xb")] * 100
    await asyncio.gather(
        clients.topics.logs([*others, log("0xa", text=b'"block":1')], since=0.0),
        clients.topics.logs([log("0xa", text=b'"block":2')], since=0.0),
    )
    assert sink.results == [{"block": 1}, {"block": 2}]


async def test_a_client_whose_connection_ended_is_sent_nothing_and_forgotten() -> None:
    clients = Clients()
    gone, subscription = clients.join()
    stays, _ = clients.join()
    gone.alive = False
    await clients.topics.heads(block(1), since=99.0)
    assert not subscription.open
    assert clients.cell.delivered == {"newHeads": 1}
    assert len(stays.sent) == 1


async def test_a_replay_is_sent_to_one_client_alone_through_its_filter() -> None:
    clients = Clients()
    other, _ = clients.join(logs_of())
    sink, one = clients.join(logs_of(["0xa"]))
    assert one.logs([log("0xa"), log("0xb")])
    assert one.logs([log("0xa")], removed=True)
    assert [each["removed"] for each in sink.results] == [False, True]
    assert not other.sent
    sink.unread = 7
    assert one.unread == 7
    one.end()
    assert not one.logs([log("0xa")])
    head_sink, head = clients.join()
    assert head.head(block(5))
    assert head_sink.results == [{"number": 5}]
    head_sink.alive = False
    assert not head.head(block(6))
    assert clients.cell.delivered == {"logs": 2, "newHeads": 1}


async def test_a_cut_closes_the_connections_of_a_kind_once_and_counts_them() -> None:
    clients = Clients()
    sink, of_logs = clients.join(logs_of())
    second = LiveSubscription("0xff", logs_of(["0xa"]), of_logs.session, clients)
    of_logs.session.hold(second)
    clients.begin(second)
    heads, _ = clients.join()
    clients.topics.cut("logs", CutReason.LATE, "subscribe again")
    assert sink.closed == [(1012, "subscribe again")]
    assert not heads.closed
    assert clients.cell.cut == {"late": 1}
    assert clients.topics.logs_wanted is None
    assert clients.topics.heads_wanted


_WORDS = st.sampled_from(["0xa", "0xb", "0xc"])
_FILTERS = st.builds(LogFilter.of, st.lists(_WORDS, max_size=2), st.lists(st.lists(_WORDS, max_size=2), max_size=3))


@given(st.lists(st.tuples(st.booleans(), _FILTERS), max_size=15))
def test_the_filter_of_all_topics_covers_each_of_them_whoever_comes_and_goes(
    steps: list[tuple[bool, LogFilter]],
) -> None:
    clients, held = Clients(), list[LiveSubscription]()
    for coming, wanted in steps:
        if coming or not held:
            held.append(clients.join(Topic("logs", "eth", filter=wanted))[1])
        else:
            held.pop(0).end()
        together = clients.topics.logs_wanted
        assert (together is None) == (not held)
        assert together is None or all(covers(together, one.topic.filter or LogFilter()) for one in held)


def test_the_filter_of_all_topics_becomes_narrow_again_when_a_wide_one_goes() -> None:
    clients = Clients()
    clients.join(logs_of(["0xa"]))
    _, wide = clients.join(logs_of())
    assert clients.topics.logs_wanted == LogFilter()
    wide.end()
    assert clients.topics.logs_wanted == LogFilter.of(["0xa"])
