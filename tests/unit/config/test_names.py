"""Names, and nodes written in one text."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.secrets import NodeUrl
from rpcaccel.config.value_types import (
    NODE_ID,
    default_id,
    header_name,
    ids_once,
    named_nodes,
    network_name,
    parse_node,
)


def test_a_network_is_named_after_its_chain_and_shard() -> None:
    assert [network_name("harmony"), network_name("harmony", 1), network_name("ethereum")] == [
        "harmony-s0",
        "harmony-s1",
        "ethereum",
    ]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("https://a", {"url": "https://a"}),
        ("https://a,weight=3", {"url": "https://a", "weight": "3"}),
        ("https://a,id=x,weight=3", {"url": "https://a", "weight": "3", "id": "x"}),
        ("https://a/?q=1,2,weight=3", {"url": "https://a/?q=1,2", "weight": "3"}),
        ("https://a/?q=1,b=2", {"url": "https://a/?q=1,b=2"}),
        ("", {"url": ""}),
    ],
)
def test_options_are_read_from_the_end_of_the_text(text: str, node: dict[str, Any]) -> None:
    assert parse_node(text) == node


@pytest.mark.parametrize(
    ("text", "said"), [("https://a,wieght=3", "did you mean weight="), ("https://a,id=x,id=y", "with id= once")]
)
def test_a_misspelt_or_repeated_option_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_node(text)


@given(
    url=st.sampled_from(["http://a", "https://u:p@b:9500/k?x=1,2&y=3", "https://c/,z"]),
    weight=st.none() | st.integers(0, 1000),
    name=st.none() | st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True),
)
def test_a_node_survives_being_written_in_one_text(url: str, weight: int | None, name: str | None) -> None:
    node = {key: str(value) for key, value in {"url": url, "weight": weight, "id": name}.items() if value is not None}
    options = [f"{option}={node[option]}" for option in ("weight", "id") if option in node]
    assert parse_node(",".join([url, *options])) == node


def test_an_id_that_was_given_before_is_left_out_with_nothing_else_of_the_node() -> None:
    texts = ["http://a,id=x", "http://b/?q=1,2,id=x,weight=2", "http://c,weight=2", "http://d,id=x", "http://e,id=y"]
    assert ids_once(texts) == ["http://a,id=x", "http://b/?q=1,2,weight=2", "http://c,weight=2", "http://d", texts[4]]
    assert ids_once(["http://a,wieght=3", "http://b,id=x,id=x", "http://c", "http://c"]) == [
        "http://a,wieght=3",
        "http://b,id=x,id=x",
        "http://c",
        "http://c",
    ]


@given(st.text())
def test_any_text_is_a_node_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert set(parse_node(text)) <= {"url", "weight", "id"}


def test_nodes_without_an_id_are_named_by_host_and_kept_apart() -> None:
    nodes = ["https://a", "https://a", {"url": "https://a", "id": "a-2"}, {"url": "http://[::1]:9500"}, 7, {"id": "x"}]
    made = named_nodes(nodes)
    assert [node["id"] if isinstance(node, dict) else node for node in made] == ["a", "a-3", "a-2", "1:9500", 7, "x"]
    assert nodes[0] == "https://a"


@given(st.text())
def test_a_default_id_is_always_a_valid_one(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}:80/x"):
        assert re.match(NODE_ID, default_id(url))


def test_a_default_id_holds_no_credentials() -> None:
    assert default_id(NodeUrl("https://user:pw@node.example:1/key")) == "node.example:1"


@pytest.mark.parametrize("name", ["", "a b", "a:", "Content-Length", "connection", "é"])
def test_headers_that_cannot_be_sent_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="header"):
        header_name(name)


def test_other_headers_are_sent_as_spelt() -> None:
    assert header_name("X-Api-Key") == "X-Api-Key"
