"""What the planes say to each other: it survives any way of cutting the stream, and a fault is an error, not a wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core import messages
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.heads.examination import Examination
from rpcaccel.core.heads.served_head import NetworkHeads, NodeHead, Served
from rpcaccel.core.messages import (
    Adopt,
    Adopted,
    Drain,
    Heads,
    Hint,
    Order,
    PurgeDone,
    PurgeOrder,
    Started,
    Word,
    WorkerReport,
)
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.core.stats.tally import Tally

HINTS = st.lists(st.builds(Hint, st.text(max_size=5), st.just("a"), st.integers(0, 2**62)), max_size=5)


@given(HINTS, st.lists(st.integers(1, 40), max_size=30))
def test_messages_arrive_whole_and_in_order_however_the_stream_is_cut(hints: list[Hint], cuts: list[int]) -> None:
    stream = b"".join(messages.encode(hint) for hint in hints)
    reader = messages.FrameReader(Hint)
    heard = []
    for cut in cuts:
        heard += reader.feed(stream[:cut])
        stream = stream[cut:]
    heard += reader.feed(stream)
    assert heard == hints


def test_a_frame_of_absurd_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="bytes"):
        messages.FrameReader(Hint).feed(b"\xff\xff\xff\xff")


def test_a_frame_that_is_no_message_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expected"):
        messages.FrameReader(Hint).feed(messages.encode([1, 2]))


def test_every_order_arrives_as_what_it_was() -> None:
    node = NodeHead(id="a", examination=Examination(at=1.0, head=1000, state_from=872))
    heads = Heads(NetworkHeads(network="n", served=Served(), nodes=(node,)))
    orders = [Adopt(3, b"\x00x"), PurgeOrder(1, Selection(network="n", key=b"k")), Drain(2.5), heads]
    reader = messages.FrameReader(Order)  # type: ignore[arg-type]
    assert reader.feed(b"".join(messages.encode(order) for order in orders)) == orders


def test_every_word_arrives_as_what_it_was() -> None:
    tally = Tally(["eth_call"])
    tally.cell("n", "eth_call", CacheClass.BY_NUMBER).done(1, 0.001, 10)
    report = WorkerReport(
        worker="w1", pid=1, revision=1, uptime=1.0, port=80, tally=tally.snapshot(), nodes=(), flights=0
    )
    words = [Started(8888), Adopted(3, "no"), report, Hint("n", "a", 5), PurgeDone(1, 2, 7, 3, True, False)]
    reader = messages.FrameReader(Word)  # type: ignore[arg-type]
    assert reader.feed(b"".join(messages.encode(word) for word in words)) == words
