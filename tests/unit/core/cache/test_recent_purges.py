"""The purges that are remembered, so that a purged answer of another process does not come back."""

from __future__ import annotations

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.cache.recent_purges import MAX_PURGES, PURGE_SECONDS, RecentPurges

KEY = b"n@1:m:n:[1]"


def test_what_was_stored_before_a_purge_of_it_is_covered_and_what_came_later_is_not() -> None:
    purges = RecentPurges()
    assert not purges.cover(KEY, 5.0, 10.0)
    purges.add(Selection(network="n"), 10.0)
    assert purges.cover(KEY, 5.0, 11.0)
    assert not purges.cover(KEY, 10.5, 11.0)
    assert not purges.cover(b"other@1:m:n:[1]", 5.0, 11.0)


def test_a_purge_is_forgotten_after_a_while() -> None:
    purges = RecentPurges()
    purges.add(Selection(), 10.0)
    assert purges.cover(KEY, 5.0, 10.0 + PURGE_SECONDS)
    assert not purges.cover(KEY, 5.0, 10.1 + PURGE_SECONDS)


def test_very_many_purges_are_one_of_everything() -> None:
    purges = RecentPurges()
    for number in range(MAX_PURGES + 1):
        purges.add(Selection(network=f"other{number}"), 10.0)
    assert purges.cover(KEY, 5.0, 11.0)
