"""Filter ids that carry their node."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.plan import filter_id

NODES = ["node-0", "node-1", "https-api.example:443"]
IDS = st.integers(0, 1 << 128).map(hex) | st.from_regex(r"[0-9A-Za-z_-]{1,40}", fullmatch=True)


def quoted(text: str) -> bytes:
    return json.dumps(text).encode()


@given(IDS, st.sampled_from(NODES), st.lists(st.integers() | st.text(), max_size=2))
def test_what_was_attached_is_read_back(own: str, node: str, rest: list[object]) -> None:
    shown = json.loads(filter_id.attach(quoted(own), "net", node))
    read = filter_id.read(json.dumps([shown, *rest]).encode(), "net", NODES)
    assert read is not None
    assert read.node == node
    assert json.loads(read.params) == ["0x0" if own == "0x" else own, *rest]


@given(st.integers(0, 1 << 128))
def test_a_hex_quantity_stays_one(own: int) -> None:
    shown = json.loads(filter_id.attach(quoted(hex(own)), "net", "node-0"))
    assert re.fullmatch("0x[1-9a-f][0-9a-f]*", shown)


def test_clients_may_write_the_id_in_capitals() -> None:
    shown = json.loads(filter_id.attach(b'"0xabc"', "net", "node-0"))
    read = filter_id.read(quoted(shown.upper().replace("X", "x")).join((b"[", b"]")), "net", NODES)
    assert read is not None
    assert (read.node, json.loads(read.params)) == ("node-0", ["0xABC"])


def test_networks_and_nodes_have_tags_of_their_own() -> None:
    tags = {filter_id.tag(network, node) for network in ("a", "b") for node in NODES}
    assert len(tags) == 6
    assert filter_id.tag("harmony-s0", "node-0") == b"a2428831"  # the same in every version: ids outlive an upgrade


@pytest.mark.parametrize("result", [b"null", b"17", b'"with \\u0022 quotes"', b'{"id":"0x1"}', b'""'])
def test_what_is_no_plain_text_is_left_as_the_node_said_it(result: bytes) -> None:
    assert filter_id.attach(result, "net", "node-0") == result


@pytest.mark.parametrize("params", [b"[]", b"{}", b"[17]", b"[null]", b'["a b"]', b"nonsense", b'[["0x1"]]'])
def test_params_without_an_id_name_no_filter(params: bytes) -> None:
    assert filter_id.read(params, "net", NODES) is None


@pytest.mark.parametrize("shown", ["0x1", "0x", "12345678", "0x1deadbeef"])
def test_an_id_without_the_tag_of_a_node_names_none(shown: str) -> None:
    read = filter_id.read(json.dumps([shown]).encode(), "net", NODES)
    assert read is not None
    assert read.node == ""
