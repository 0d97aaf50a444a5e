from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dataplane.live_world import LiveWorld


@pytest.fixture
def world() -> Iterator[LiveWorld]:
    """Subscribers of a chain that can reorganise."""
    made = LiveWorld()
    yield made
    assert not made.errors
    made.close()
