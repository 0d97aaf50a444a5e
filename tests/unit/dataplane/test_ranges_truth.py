"""Whatever the caches hold, a range is to the byte what a node says. tests/deep/truth goes on for longer."""

from __future__ import annotations

from tests.support.dataplane.ranges import ask_a_harmony_node, ask_an_ethereum_node


def test_ranges_of_a_harmony_node() -> None:
    ask_a_harmony_node(8)


def test_ranges_of_an_ethereum_node() -> None:
    ask_an_ethereum_node(8)
