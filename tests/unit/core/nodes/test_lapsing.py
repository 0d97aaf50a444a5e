from __future__ import annotations

import sys

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.nodes.lapsing import Lapsing

MOST = 2_000


def test_a_name_holds_until_the_time_last_told() -> None:
    held = Lapsing(MOST)
    held.hold("a", 1.0)
    held.hold("a", 3.0)
    assert held.until == {"a": 3.0}
    held.clear()
    assert (len(held), repr(held)) == (0, "<0 names, 0 bytes>")


def test_what_was_held_longest_ago_goes_first() -> None:
    held = Lapsing(MOST)
    for name in ("a", "b", "a", *(f"{number:090}" for number in range(6))):
        held.hold(name, 1.0)
    assert "a" in held.until
    assert "b" not in held.until


def test_a_name_longer_than_all_the_room_is_not_held_and_displaces_nothing() -> None:
    held = Lapsing(MOST)
    held.hold("a", 1.0)
    held.hold("x" * 5_000_000, 1.0)
    assert held.until == {"a": 1.0}


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=300), max_size=60))
@example(["𝐓"] + ["𝐓𝐡𝐞 𝐪𝐮𝐢𝐜𝐤" * 3 + str(number) for number in range(9)])
def test_the_names_never_take_more_bytes_than_they_may(names: list[str]) -> None:
    held = Lapsing(MOST)
    for name in names:
        msgspec.json.encode(name)  # Python keeps the UTF-8 form that a library asks for
        held.hold(name, 1.0)
        assert sum(sys.getsizeof(kept) + sys.getsizeof(1.0) + 100 for kept in held.until) <= MOST
