"""Params trees: nothing a node could tell apart is folded, nothing it cannot is kept apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from rpcaccel.core.wire import json_params
from rpcaccel.core.wire.json_params import Number, Unreadable, number_at, read, value_at, write

from .test_jsonrpc import JSON_VALUES


@pytest.mark.parametrize("text", ["26.0", "2.6e1", "-0", "1E5", "10000000000000000000000000000", "1.50"])
def test_a_number_keeps_its_text(text: str) -> None:
    tree = read(f"[{text}]".encode())
    assert tree == [Number(text)]
    assert write(tree) == f"[{text}]".encode()


def test_a_number_and_a_string_of_the_same_text_stay_apart() -> None:
    assert write(read(b"[1]")) != write(read(b'["1"]'))


def test_spaces_and_the_order_of_members_make_no_difference() -> None:
    one = write(read(b'[ {"b":1,\n"a":"A"} ]'), sort=True)
    other = write(read(b'[{"a":"A","b":1}]'), sort=True)
    assert one == other == b'[{"a":"A","b":1}]'


def test_without_sort_members_keep_their_order() -> None:
    assert write(read(b'[{"b":1, "a":[true,false,null]}]')) == b'[{"b":1,"a":[true,false,null]}]'


@pytest.mark.parametrize(
    "text",
    [
        b'[{"a":1,"a":2}]',
        b'[{"to":1,"To":2}]',
        b'["l\\u0061test"]',
        b'["\\ud800"]',
        b"[NaN]",
        b"[1",
        b"[" * 90_000,
        b"[" + b'"x"' * 3,
        b'["' + b"x" * 140_000 + b'"]',
    ],
)
def test_what_two_readers_could_read_differently_is_not_read(text: bytes) -> None:
    with pytest.raises(Unreadable):
        read(text)


def test_many_arrays_beside_one_another_and_brackets_in_strings_are_not_depth() -> None:
    flat = b"[" + b",".join([b'["[[[[{{{{["]'] * 500) + b"]"
    assert len(read(flat)) == 500  # type: ignore[arg-type]


def tree_of(value: object) -> json_params.Tree:
    """As read from its text, if that can be read in one way only."""
    try:
        return read(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except Unreadable:
        reject()


@given(JSON_VALUES)
def test_what_is_written_means_what_was_read(value: object) -> None:
    assert json.loads(write(tree_of(value), sort=True)) == json.loads(json.dumps(value))


@given(JSON_VALUES)
def test_writing_is_idempotent(value: object) -> None:
    once = write(tree_of(value), sort=True)
    assert write(read(once), sort=True) == once


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='"\\')))
def test_any_text_without_escapes_survives(text: str) -> None:
    encoded = json.dumps([text], ensure_ascii=False).encode()
    assert write(read(encoded)) == encoded


@pytest.mark.parametrize(
    ("result", "path", "number"),
    [
        (b"26", ".", 26),
        (b'"0x1a"', ".", 26),
        (b'"26"', ".", 26),
        (b'{"a":{"b":"0x1a"}}', "a.b", 26),
        (b'{"a":true}', "a", None),
        (b'{"a":"x"}', "a", None),
        (b'{"a":null}', "a", None),
        (b"[1]", "a", None),
        (b"{", ".", None),
        (b"26.5", ".", None),
        (b"9007199254740991", ".", 2**53 - 1),
        (b"9007199254740992", ".", None),  # what knows floats alone does not tell it from its neighbours
    ],
)
def test_a_number_is_found_in_the_spellings_nodes_use(result: bytes, path: str, number: int | None) -> None:
    assert number_at(result, path) == number


def test_whatever_stands_at_a_path_is_found() -> None:
    assert value_at(b'{"a":{"b":[true]}}', "a.b") == [True]
    assert value_at(b'"x"', ".") == "x"
    assert (value_at(b"[]", "a"), value_at(b"{", ".")) == (None, None)
