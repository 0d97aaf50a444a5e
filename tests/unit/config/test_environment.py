"""Settings from environment variables."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.load import overlay, put


def laid(document: dict[str, Any], **environ: str) -> tuple[dict[str, Any], list[str]]:
    _, faults = overlay(document, {f"RPCACCEL_{name}": value for name, value in environ.items()})
    return document, [str(fault) for fault in faults]


def test_a_variable_is_a_path_with_double_underscores() -> None:
    document = laid({}, LISTEN=":80", REDIS__READ_TIMEOUT="30ms", HTTP__DENY="a_*,b_*")
    assert document == ({"listen": ":80", "redis": {"read_timeout": "30ms"}, "http": {"deny": "a_*,b_*"}}, [])


def test_a_network_is_found_whatever_its_dashes_and_a_new_one_gets_dashes() -> None:
    networks = {"harmony.s-0": {"shard": 1}}
    made = laid({"networks": networks}, NETWORKS__HARMONY_S_0__SHARD="0", NETWORKS__ETH_MAIN__CHAIN="ethereum")
    assert made == ({"networks": {"harmony.s-0": {"shard": "0"}, "eth-main": {"chain": "ethereum"}}}, [])


def test_nodes_are_given_as_texts_or_json_and_addressed_by_id() -> None:
    made, faults = laid(
        {},
        NETWORKS__H__NODES="https://a.b,weight=2 https://c",
        NETWORKS__H__NODES__A_B__WEIGHT="5",
        NETWORKS__H__NODES__C__HEADERS__X_API_KEY="k",
        NETWORKS__J__NODES='[{"url": "https://j"}]',
    )
    first, second = made["networks"]["h"]["nodes"]
    assert (first["id"], first["weight"], second["headers"], faults) == ("a.b", "5", {"x-api-key": "k"}, [])
    assert made["networks"]["j"] == {"nodes": [{"url": "https://j"}]}


def test_what_cannot_be_placed_is_told_with_the_variable() -> None:
    document = {"networks": {"h": {"nodes": ["https://a", 7]}}}
    _, faults = laid(
        document,
        HTTP__DENI="x",
        REDIS__URL__X="x",
        NETWORKS__H__NODES__Z__WEIGHT="1",
        NETWORKS__N__NODES__A__WEIGHT="1",
    )
    assert faults == [
        "http.deni: unknown key; did you mean deny? (from RPCACCEL_HTTP__DENI)",
        "redis.url: no keys below this one (from RPCACCEL_REDIS__URL__X)",
        "networks.h.nodes.z: found no such node, expected one of the nodes: a "
        "(from RPCACCEL_NETWORKS__H__NODES__Z__WEIGHT)",
        "networks.n.nodes.a: found no such node, expected nodes, which are not there yet "
        "(from RPCACCEL_NETWORKS__N__NODES__A__WEIGHT)",
    ]


def test_other_variables_are_let_be() -> None:
    others = {"CONFIG": "x", "NODES": "x", "DEBUG": "1", "ADMIN": "x", "LISTEN": " "}
    services = {"SERVICE_HOST": "10.0.0.1", "PORT_80_TCP_ADDR": "x", "ADMIN_SERVICE_PORT_HTTP": "80", "PORT": "tcp://x"}
    assert laid({}, **others, **services) == ({}, [])


def test_broken_json_is_left_for_the_model_to_refuse() -> None:
    assert laid({}, NETWORKS__H="{") == ({"networks": {"h": "{"}}, [])


def test_putting_makes_tables_and_a_star_means_all_of_them() -> None:
    document: dict[str, Any] = {"networks": {"a": {}, "b": {"balancer": "x"}}, "log": 3}
    put(document, ("networks", "*", "balancer"), "y")
    put(document, ("log", "level"), "info")
    assert document == {"networks": {"a": {"balancer": "y"}, "b": {"balancer": "y"}}, "log": {"level": "info"}}


WORDS = ["NETWORKS", "NODES", "H", "A", "HEADERS", "X", "REDIS", "URL", "HTTP", "", "0", "LISTEN"]


@given(
    st.dictionaries(st.lists(st.sampled_from(WORDS), max_size=6).map("__".join), st.text(max_size=8)),
    st.sampled_from([{}, {"networks": 3}, {"networks": {"h": 3}}, {"networks": {"h": {"nodes": [3, "http://a"]}}}]),
)
def test_any_variables_are_placed_or_told(environ: dict[str, str], document: dict[str, Any]) -> None:
    laid({**document}, **environ)
