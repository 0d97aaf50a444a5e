"""What a store says about a purge."""

from __future__ import annotations

from rpcaccel.stores.base import PurgeResult


def test_a_purge_is_complete_unless_it_says_otherwise() -> None:
    assert PurgeResult(3).complete
