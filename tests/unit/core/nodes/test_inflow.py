"""What comes within a second is bounded in number and in bytes."""

from __future__ import annotations

from rpcaccel.core.nodes.sliding_window import Inflow

MIB = 1 << 20


def test_each_second_has_its_own_bounds() -> None:
    inflow = Inflow("messages", 3, 2 * MIB)
    for now in (0.0, 0.5, 0.9, 1.0, 1.1, 1.9, 5.0):
        assert inflow.take(0, now) == ""
    assert [inflow.take(0, 5.99) for _ in range(3)] == ["", "", "more than 3 messages a second"]
    assert inflow.take(2 * MIB, 6.0) == ""
    assert inflow.take(1, 6.1) == "more than 2 MiB of messages a second"
    assert inflow.take(2 * MIB, 7.0) == ""
