"""Whatever the caches hold, a range is to the byte what a node says: many stories of it."""

from __future__ import annotations

from tests.support.dataplane.ranges import ask_a_harmony_node, ask_an_ethereum_node


def test_ranges_of_a_harmony_node() -> None:
    ask_a_harmony_node(90)


def test_ranges_of_an_ethereum_node() -> None:
    ask_an_ethereum_node(90)
