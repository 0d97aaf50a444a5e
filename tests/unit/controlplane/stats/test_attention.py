"""What needs attention, in sentences."""

from __future__ import annotations

import pytest

from rpcaccel.controlplane.stats.attention import attention
from rpcaccel.controlplane.stats.snapshot import Frame, HeadView, NodeView
from rpcaccel.core.stats.counters import TallySnapshot
from rpcaccel.core.stats.tally import Tally


def frame(nodes: tuple[NodeView, ...] = (), heads: tuple[HeadView, ...] = (), tally: Tally | None = None) -> Frame:
    snapshot = tally.snapshot() if tally else TallySnapshot()
    return Frame(snapshot=snapshot, nodes=nodes, heads=heads, workers=())


def test_what_needs_attention_is_said_in_sentences() -> None:
    tally = Tally()
    redis = tally.tier("redis", shared=True)
    redis.up, redis.fault = False, "h:1: it asks for a password"
    seen = frame(
        (
            NodeView(network="s0", id="b", eligible=False, state="behind", why="14 blocks behind"),
            NodeView(network="s0", id="c", eligible=False, state="wrong-chain", why="it serves shard 1, not 0"),
            NodeView(network="s0", id="e", eligible=False, state="behind", why="node e is 1 block behind"),
            NodeView(network="s0", id="d", eligible=False, state="drained", why="drained by hand"),
        ),
        (
            HeadView(
                network="s0", chain="harmony", head=5, age=120.0, block_time=2.0, note="following the best node left"
            ),
        ),
        tally,
    )
    assert [(notice.level, notice.text) for notice in attention(seen)] == [
        ("bad", "s0 has no node that can take calls"),
        ("warn", "s0 has seen no new block for 120 s (a block takes 2 s)"),
        ("warn", "s0: following the best node left"),
        ("warn", "node s0/b: 14 blocks behind"),
        ("bad", "node s0/c: it serves shard 1, not 0"),
        ("warn", "node s0/e is 1 block behind"),
        ("warn", "redis is not reached (h:1: it asks for a password); its calls count as misses until it is back"),
    ]


@pytest.mark.parametrize(
    ("block_time", "age", "said"),
    [(2.0, 21.0, True), (2.0, 19.0, False), (12.0, 119.0, False), (None, 119.0, False), (None, 121.0, True)],
)
def test_a_head_that_stands_is_said_by_the_block_time(block_time: float | None, age: float, said: bool) -> None:
    head = HeadView(network="s0", chain="harmony", head=5, age=age, block_time=block_time)
    found = attention(frame((NodeView(network="s0", id="a", state="serving"),), (head,)))
    assert bool(found) is said
    assert all("None" not in notice.text for notice in found)


def test_when_all_is_well_nothing_needs_attention() -> None:
    seen = frame(
        (NodeView(network="s0", id="a", state="serving"),), (HeadView(network="s0", chain="harmony", age=1.0),)
    )
    assert attention(seen) == []
