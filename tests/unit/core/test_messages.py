"""What the planes say to each other survives the wire."""

from __future__ import annotations

from rpcaccel.core import messages
from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.messages import (
    Adopt,
    Adopted,
    Drain,
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


def test_every_order_arrives_as_what_it_was() -> None:
    orders = [Adopt(3, b"\x00x"), PurgeOrder(1, Selection(network="n", key=b"k")), Drain(2.5)]
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
