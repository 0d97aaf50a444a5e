"""What holds for the comparison of any two answers."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.agreement.equality import (
    LONGEST_PATH,
    LONGEST_SHOWN,
    Differences,
    MemberDifference,
    difference,
)

METHOD = "eth_getTransactionReceipt"
TABLES = [Differences(), *(chains.load(name).differences for name in chains.names())]
NAMES = ["a", "b", "logs", "data", "to", "blockHash", "type", "r", "status", "blockTimestamp", "x y", "é"]
HEX = st.integers(0, 1 << 70).map(hex) | st.binary(max_size=8).map(lambda data: "0x" + data.hex())
LEAVES = (
    HEX
    | st.booleans()
    | st.none()
    | st.integers()
    | st.floats(-1e9, 1e9)
    | st.text(max_size=5)
    | st.sampled_from(NAMES)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
)
ROWS = st.builds(
    MemberDifference,
    why=st.just("a test"),
    methods=st.just(("*",)),
    names=st.lists(st.sampled_from([*NAMES, ".", "logs.data"]), max_size=3).map(tuple),
    way=st.sampled_from(["ignored", "optional", "empty", "number", "set", "rounded"]),
)
ANY_TABLE = st.sampled_from(TABLES) | st.lists(ROWS, max_size=3).map(lambda rows: Differences(members=tuple(rows)))


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def respelled(value: Any, rng: Random) -> Any:
    """The same value with its members in another order, hex digits in other capitals, and nulls left out."""
    if isinstance(value, dict):
        pairs = [(name, respelled(member, rng)) for name, member in value.items() if member is not None]
        return dict(rng.sample(pairs, len(pairs)))
    if isinstance(value, list):
        return [respelled(item, rng) for item in value]
    if isinstance(value, str) and value.startswith("0x") and value[2:].isalnum() and value.isascii():
        return "0x" + "".join(rng.choice((digit.upper(), digit)) for digit in value[2:])
    return value


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for step, item in items for place in places(item, (*path, step)))]


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@given(VALUES, ANY_TABLE, st.randoms(use_true_random=False))
def test_a_value_equals_itself_however_it_is_spelled(value: Any, table: Differences, rng: Random) -> None:
    other = json.dumps(respelled(value, rng), indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5).encode()
    assert difference(text(value), other, METHOD, table) == ""


@given(VALUES, VALUES, ANY_TABLE)
def test_both_sides_are_treated_alike(one: Any, other: Any, table: Differences) -> None:
    there, back = (difference(text(a), text(b), METHOD, table) for a, b in ((one, other), (other, one)))
    assert bool(there) == bool(back)


@given(VALUES, st.data(), st.randoms(use_true_random=False))
def test_another_value_in_any_place_is_found(value: Any, data: st.DataObject, rng: Random) -> None:
    path = data.draw(st.sampled_from(places(value)))
    marked = replaced(value, path, data.draw(st.sampled_from(["0xfeed5eed", [["n"]], {"n": {"n": 1}}, 7.25, "new"])))
    if text(marked) != text(value) and respelled(marked, rng) != respelled(value, rng):
        found = difference(text(value), text(respelled(marked, rng)), METHOD, Differences())
        assert found
        assert found.startswith("result")


@given(st.lists(LEAVES, min_size=1, max_size=6), LEAVES, st.randoms(use_true_random=False))
def test_a_set_has_no_order_and_each_item_counts(items: list[Any], more: Any, rng: Random) -> None:
    row = MemberDifference(why="a test", methods=("*",), names=(".",), way="set")
    table, mixed = Differences(members=(row,)), rng.sample(items, len(items))
    assert difference(text(items), text([respelled(item, rng) for item in mixed]), METHOD, table) == ""
    assert difference(text(items), text([*mixed, more]), METHOD, table)
    assert difference(text([*items, "one more"]), text([*mixed, mixed[0]]), METHOD, table)


@given(st.integers(0, 10**40), st.integers(-30, 30), st.booleans())
def test_numbers_are_compared_to_the_last_digit(number: int, scale: int, more: bool) -> None:
    exact = f"{number}e{scale}".encode()
    digits = str((number + more) * 10 ** max(scale, 0)).rjust(1 - scale, "0")
    written = digits if scale >= 0 else f"{digits[:scale]}.{digits[scale:]}"
    assert bool(difference(exact, written.encode(), METHOD, Differences())) == more


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:0123456789-.eE\\ux tfn', max_size=40).map(str.encode), VALUES)
def test_no_bytes_raise_and_all_words_are_short(stranger: bytes, value: Any) -> None:
    for table in TABLES:
        found = difference(stranger, text(value), METHOD, table)
        assert found.isprintable()
        assert len(found) <= LONGEST_PATH + 2 * LONGEST_SHOWN + 20
