"""A document is judged whole: every fault, its place, and what was expected."""

from __future__ import annotations

from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.errors import Fault
from rpcaccel.config.model import Settings
from rpcaccel.config.resilience import QuotaSettings
from rpcaccel.config.validate import NO_NETWORK, Misfit, validate

WRONG = {
    "default_network": "x",
    "lissten": 3,
    "workers": True,
    "memory": {"size": "1X"},
    "networks": {
        "H!": {"nodes": []},
        "harmony-s0": {
            "chain": "harmny",
            "shard": "x",
            "atempts": 3,
            "nodes": [{"url": "ftp://u:hunter2@x", "weight": 1001, "id": "a"}, {"id": "a"}, "https://q,wieght=3", 7],
        },
    },
}


def faults_of(document: dict[str, object]) -> dict[str, Fault]:
    result = validate(document)
    assert isinstance(result, list)
    assert len({fault.path for fault in result}) == len(result)
    return {fault.path: fault for fault in result}


def test_all_faults_are_told_at_once_with_place_and_expectation() -> None:
    faults = faults_of(WRONG)
    nodes = "networks.harmony-s0.nodes"
    assert {path: fault.found for path, fault in faults.items()} == {
        "lissten": "",
        "workers": "true",
        "memory.size": '"1X"',
        'networks."H!"': "this name",
        'networks."H!".nodes': "an empty list",
        "networks.harmony-s0.chain": '"harmny"',
        "networks.harmony-s0.shard": '"x"',
        "networks.harmony-s0.atempts": "",
        f"{nodes}[0].url": "ftp://x",
        f"{nodes}[0].weight": "1001",
        f"{nodes}[1].url": "nothing",
        f"{nodes}[2]": "https://q",
        f"{nodes}[3]": "a number",
    }
    assert faults["networks.harmony-s0.atempts"].expected == "unknown key; did you mean attempts?"
    assert faults["lissten"].expected == "unknown key; did you mean listen?"
    assert faults[f"{nodes}[0].weight"].expected == "at most 1000"
    assert faults[f"{nodes}[2]"].expected.endswith("did you mean weight= for wieght=?")


def test_a_setting_that_is_no_more_says_what_to_do_instead() -> None:
    faults = faults_of({"networks": {"x": {"nodes": ["http://a"], "weights": "auto"}}})
    assert str(faults["networks.x.weights"]) == (
        "networks.x.weights: no longer a setting; take it out: suggested weights are applied by people alone. "
        'balancer = "peak_ewma" follows by itself how quick nodes are'
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, "a number"), ("x", "a number"), ([], "a number"), (nan, "a finite number")],
)
def test_a_number_is_no_switch_and_no_text(value: object, expected: str) -> None:
    network = {"nodes": ["http://a"], "refresh": value, "hedge": {"quantile": value}, "transactions": {"share": value}}
    faults = faults_of({"networks": {"x": network}, "clients": {"anonymous": {"rate": value}}})
    assert len(faults) == 4
    assert faults["clients.anonymous.rate"].expected == expected


@pytest.mark.parametrize("document", [{}, {"networks": {}}, {"networks": None}])
def test_no_network_at_all_is_one_fault_that_says_what_to_do(document: dict[str, object]) -> None:
    assert [fault.expected for fault in faults_of(document).values()] == [NO_NETWORK]


@pytest.mark.parametrize("document", [{}, {"networks": {}}])
def test_networks_may_come_later_where_that_is_said_and_all_else_is_judged(document: dict[str, object]) -> None:
    settings = validate(document, networks_later=True)
    assert isinstance(settings, Settings)
    assert (settings.networks, settings.main_network) == ({}, "")
    wrong = validate({**document, "listen": "x", "default_network": "gone"}, networks_later=True)
    assert isinstance(wrong, list)
    assert [fault.path for fault in wrong] == ["listen"]


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
KEYS = st.sampled_from(
    ["networks", "nodes", "url", "id", "weight", "http", "deny", "default_network", "listen"]
) | st.text(max_size=5)


@given(
    st.dictionaries(KEYS, st.recursive(PLAIN, lambda some: st.lists(some) | st.dictionaries(KEYS, some), max_leaves=20))
)
def test_any_document_is_settings_or_faults(document: dict[str, object]) -> None:
    result = validate(document)
    assert isinstance(result, Settings) or result


@given(st.text("abcdefXYZ0189", min_size=8, max_size=20))
def test_no_fault_shows_a_secret(text: str) -> None:
    secret = f"s3cr3t{text}"
    places: list[object] = [
        {"url": f"ftp://u:{secret}@host/{secret}?{secret}"},
        {"url": secret, "headers": {"X-Key": f"{secret}\n", "Bad Name": secret}},
        {"url": f"http://{secret}@host:0"},
        f"ftp://{secret}@host/{secret},weight=x",
        f"https://{secret}@host,wieght=3",
        secret,
        {"url": {"value": secret}, "headers": secret, "id": "A"},
        {"url": [secret], "token": secret},
    ]
    redis = {
        "url": f"redis://:{secret}?{secret}@host",
        "replicas": [f"http://:{secret}@host", secret],
        "password": secret,
    }
    document = {"redis": redis, "networks": {"x": {"nodes": places}, "y": {"nodes": secret}}, "workers": 0}
    for fault in faults_of(document).values():
        assert "s3cr3t" not in f"{fault} {fault!r}"


def test_a_route_to_a_tag_that_no_node_has_is_told_with_the_tag() -> None:
    node = {"url": "http://a", "tags": ["own"]}
    routes = [{"methods": ["eth_getLogs"], "tag": "archive"}]
    (fault,) = faults_of({"networks": {"x": {"nodes": [node, "http://b"], "routes": routes}}}).values()
    assert str(fault) == 'networks.x.routes[0].tag: found "archive", expected a tag that some node of x has: own'
    (fault,) = faults_of({"networks": {"x": {"nodes": "http://a http://b", "routes": routes}}}).values()
    assert fault.expected == "a tag that some node of x has; none has any"


@pytest.mark.parametrize(
    ("route", "says"),
    [
        ({"methods": ["eth_getLogs"], "broadcast": False},
         "broadcast: found false, expected true: the route names none of eth_sendRaw"),
        ({"methods": ["*_sendRaw*"], "fallback": 5}, "fallback: found 5, expected 0, or broadcast = false beside it"),
        ({"methods": ["*_sendRaw*"], "broadcast": False, "fallback": 5}, ""),
    ],
)  # fmt: skip
def test_a_private_route_is_one_of_transactions(route: dict[str, Any], says: str) -> None:
    nodes = [{"url": "http://a", "tags": ["relay"]}]
    found = validate({"networks": {"x": {"nodes": nodes, "routes": [{"tag": "relay", **route}]}}})
    if says:
        assert isinstance(found, list)
        assert str(found[0]).startswith(f"networks.x.routes[0].{says}")
    else:
        assert isinstance(found, Settings)


def test_a_key_s_tag_is_one_that_every_network_has() -> None:
    nodes = {"a": [{"url": "http://a", "tags": ["paid"]}], "b": [{"url": "http://b"}]}
    clients = {"keys": {"dapp": {"hashes": [f"sha256:{'0' * 64}"], "tag": "paid"}}}
    found = validate({"networks": {name: {"nodes": of} for name, of in nodes.items()}, "clients": clients})
    assert [str(one) for one in found] == [
        'clients.keys.dapp.tag: found "paid", expected a tag that some node of b has'
    ]


@pytest.mark.parametrize(
    "document",
    [
        {"admin": {"accounts": {"ops": "s3cr3t"}}},
        {"admin": {"accounts": {"ops": 53637}}},
        {"admin": {"accounts": "s3cr3t"}},
        {"admin": "s3cr3t"},
        {"clients": {"keys": {"dapp": "s3cr3t"}}},
        {"redis": "s3cr3t"},
    ],
)
def test_a_secret_in_place_of_the_table_it_belongs_into_is_not_shown(document: dict[str, object]) -> None:
    (said,) = faults_of({"networks": {"x": {"nodes": ["http://a"]}}, **document}).values()
    assert said.found in ("a text", "a number")
    assert said.expected == "a table"


def test_rules_over_several_settings_are_told_once_each_value_is_right_and_all_of_them_at_once() -> None:
    document = {
        "listen": ":9",
        "workers": "no",
        "admin": {"listen": "localhost:9", "tls_cert": "x"},
        "memory": {"size": 1000, "max_entry": 2000},
        "default_network": "x",
        "networks": {
            "a": {"nodes": ["http://a"], "rules": {"zzz": {}}},
            "d": {"nodes": "http://a,weight=0"},
            "e": {"nodes": "http://a,id=one http://b http://c,id=one"},
        },
    }
    assert set(faults_of(document)) == {"workers"}
    faults = faults_of({**document, "workers": 1})
    rules = {"admin.listen", "admin.tls_key", "memory.max_entry", "networks.a.rules.zzz", "networks.d.nodes"}
    assert set(faults) == rules | {"default_network", "networks.e.nodes[2].id"}
    assert str(faults["default_network"]) == 'default_network: found "x", expected one of the networks: a, d, e'
    assert faults["networks.e.nodes[2].id"].found == '"one"'
    assert faults["networks.e.nodes[2].id"].expected == "another id than that of networks.e.nodes[0]"


def test_two_nodes_that_are_one_would_outvote_a_third() -> None:
    same = [{"url": "http://a/k", "id": "one"}, {"url": "http://a/k", "id": "two"}]
    faults = faults_of({"networks": {"x": {"nodes": same}}})
    assert str(faults["networks.x.nodes[1].url"]).endswith("expected another address than that of node one")
    keys = [{**node, "headers": {"X-Key": node["id"]}} for node in same]  # two keys of one provider are two nodes
    assert isinstance(validate({"networks": {"x": {"nodes": keys}}}), Settings)


def test_a_home_directory_in_the_folder_of_the_disk_is_told_and_not_taken_for_a_name() -> None:
    document = {"networks": {"a": {"nodes": "http://a"}}, "disk": {"path": "~/cache"}}
    said = 'disk.path: found "~/cache", expected the path of a folder; "~" stands for no home directory here'
    assert [str(fault) for fault in faults_of(document).values()] == [said]
    assert isinstance(validate({**document, "disk": {"path": "cache"}}), Settings)


def test_a_judge_is_asked_about_right_values_and_told_beside_the_rules() -> None:
    def judge(settings: Settings) -> list[Misfit]:
        return [Misfit(("admin", "tls_cert"), settings.admin.tls_cert, "a file")]

    document = {"admin": {"tls_cert": "c"}, "networks": {"x": {"nodes": ["http://a"]}}}
    result = validate(document, {}, judge)
    assert isinstance(result, list)
    assert [fault.path for fault in result] == ["admin.tls_key", "admin.tls_cert"]
    assert validate({**document, "workers": "x"}, {}, judge) == validate({**document, "workers": "x"})


def test_proof_that_no_answer_could_have_is_told() -> None:
    prove: Any = {
        "rules": {"eth_getBalance": {"prove": True}, "eth_get*": {"prove": True}, "eth_call": {"prove": True}}
    }
    nodes = ["http://a"]
    document = {
        "one": {"chain": "ethereum", "nodes": nodes, **prove},
        "two": {"chain": "ethereum", "nodes": nodes, **prove, "prove": "off"},
        "harmony-s0": {"nodes": nodes, "rules": {"eth_getBalance": {"prove": True}, "eth_get*": {"prove": True}}},
    }
    faults = faults_of({"networks": document})
    reads = "eth_getBalance, eth_getCode, eth_getStorageAt, eth_getTransactionCount"
    none = f"false: eth_call is none of the reads of ethereum that can be proved: {reads}"
    off = 'false: networks.two.prove is "off", so that no answer is judged'
    harmony = "false: {} is none of the reads of harmony that can be proved: there are none"
    assert {path: fault.expected for path, fault in faults.items()} == {
        "networks.one.rules.eth_call.prove": none,
        "networks.two.rules.eth_call.prove": none,
        "networks.two.rules.eth_getBalance.prove": off,
        'networks.two.rules."eth_get*".prove': off,
        "networks.harmony-s0.rules.eth_getBalance.prove": harmony.format("eth_getBalance"),
        'networks.harmony-s0.rules."eth_get*".prove': harmony.format("eth_get*"),
    }


def quota_of(**quota: object) -> dict[str, object]:
    return {"networks": {"n": {"nodes": [{"id": "a", "url": "http://a", "quota": quota}]}}}


def test_costs_of_calls_are_numbers_by_method_and_the_provider_one_that_is_known() -> None:
    where = "networks.n.nodes[0].quota"
    faults = faults_of(quota_of(provider="alchemist", costs={"eth call": 1, "eth_call": -1, "eth_*": True, "*": nan}))
    assert faults[f"{where}.provider"].found == '"alchemist"'
    assert "alchemy" in faults[f"{where}.provider"].expected
    assert "infura" in faults[f"{where}.provider"].expected
    assert 'a method name or pattern such as "debug_*"' in faults[f'{where}.costs."eth call"'].expected
    assert faults[f"{where}.costs.eth_call"].expected == "at least 0"
    assert faults[f'{where}.costs."eth_*"'].expected == "a number"
    assert f'{where}.costs."*"' in faults
    most = faults_of(quota_of(costs={"eth_call": 1_000_001}))
    assert most[f"{where}.costs.eth_call"].expected == "at most 1000000"
    (many,) = faults_of(quota_of(costs={f"m_{number}": 1 for number in range(501)})).values()
    assert (many.path, many.expected) == (f"{where}.costs", "at most 500")
    patterns = {f"m_{number}_*": 1 for number in range(101)}
    (slow,) = faults_of(quota_of(costs=patterns)).values()
    assert (slow.path, slow.expected[:21]) == (f"{where}.costs", "at most 100 patterns;")
    rows = {**dict(list(patterns.items())[1:]), "*": 1, **{f"m_{number}": 1 for number in range(300)}}
    assert not isinstance(validate(quota_of(costs=rows)), list)
    (text,) = faults_of(quota_of(costs="alchemy")).values()
    assert (text.path, text.expected) == (f"{where}.costs", "a table")


def test_own_costs_come_before_those_of_the_provider_and_say_what_units_are_called() -> None:
    def quota(**given: object) -> QuotaSettings:
        settings = validate(quota_of(**given))
        assert isinstance(settings, Settings)
        return settings.networks["n"].nodes[0].quota

    both = quota(provider="alchemy", costs={"eth_getLogs": 75, "alchemy_*": 150}, heavy=9)
    costs = both.method_costs
    assert [costs.of(method, True) for method in ("eth_getLogs", "alchemy_x", "eth_call", "eth_x")] == [75, 150, 26, 20]
    assert (both.unit, quota(costs={"eth_call": 2}).unit, quota(month=5).unit) == ("compute units", "units", "calls")
    assert not quota(month=5, heavy=9).method_costs.billed
    assert quota(month=5, heavy=9).method_costs.of("eth_getLogs", True) == 9


def test_agreement_that_no_call_could_reach_is_told() -> None:
    network = {
        "chain": "harmony",
        "nodes": [{"url": "http://a", "id": "a", "tags": ["own"]}, {"url": "http://b", "id": "b"}],
        "routes": [{"methods": ["eth_call"], "tag": "own", "agree": 2}],
        "rules": {
            "eth_getLogs": {"agree": 3},
            "eth_sendRawTransaction": {"agree": 2},
            "eth_newFilter": {"agree": 2},
            "eth_*": {"agree": 2},
            "hmyv2_getBlocks": {"agree": 2},
        },
    }
    rules = "networks.harmony-s0.rules"
    faults = faults_of({"networks": {"harmony-s0": network}})
    assert {path: (fault.found, fault.expected) for path, fault in faults.items()} == {
        "networks.harmony-s0.routes[0].agree": ("2", "at most 1: so many nodes have the tag"),
        f"{rules}.eth_getLogs.agree": ("3", "at most the 2 nodes of harmony-s0"),
        f"{rules}.eth_sendRawTransaction.agree": (
            "2", "1: eth_sendRawTransaction is no read that several nodes would answer alike"
        ),
        f"{rules}.eth_newFilter.agree": ("2", "1: eth_newFilter is no read that several nodes would answer alike"),
    }  # fmt: skip
