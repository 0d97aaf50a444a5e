from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dataplane.live_world import LiveWorld


@pytest.fixture
def world() -> Iterator[LiveWorld]:
    """Subscribers of a chain that can reorganise."""
    with LiveWorld() as made:
        yield made
