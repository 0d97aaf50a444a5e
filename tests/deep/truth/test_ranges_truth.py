"""Whatever the caches hold, a range is to the byte what a node says: many stories of it."""

from __future__ import annotations

import pytest

from tests.support.dataplane.ranges import STORIES, ask_nodes


@pytest.mark.parametrize("kind", STORIES)
def test_ranges_are_those_of_a_node(kind: str) -> None:
    ask_nodes(kind, 90)
