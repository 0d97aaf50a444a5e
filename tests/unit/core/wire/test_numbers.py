"""Numbers in results."""

from __future__ import annotations

import pytest

from rpcaccel.core.wire.json_params import number_at, value_at


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
    ],
)
def test_a_number_is_found_in_the_spellings_nodes_use(result: bytes, path: str, number: int | None) -> None:
    assert number_at(result, path) == number


def test_whatever_stands_at_a_path_is_found() -> None:
    assert value_at(b'{"a":{"b":[true]}}', "a.b") == [True]
    assert value_at(b'"x"', ".") == "x"
    assert (value_at(b"[]", "a"), value_at(b"{", ".")) == (None, None)
