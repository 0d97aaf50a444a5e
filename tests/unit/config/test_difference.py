"""The difference between two settings: shown without secrets, told in words, enough to get from one to the other."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.model import Settings
from rpcaccel.config.patch import Edit, apply, difference, listing, patch_between, to_table, touches


def settings(nodes: Any = ("http://a,weight=1", "http://b"), **more: Any) -> Settings:
    return Settings.model_validate({"networks": {"x": {"nodes": list(nodes)}}, **more})


def test_a_weight_is_one_edit_at_the_path_of_its_node() -> None:
    edits = difference(settings(), settings(["http://a,weight=5", "http://b"]))
    assert edits == (Edit("networks.x.nodes.a.weight", 1, 5),)
    assert listing(edits) == "networks.x.nodes.a.weight: 1 -> 5"


def test_a_node_that_comes_or_goes_is_one_edit() -> None:
    edits = difference(settings(), settings(["http://b", "http://c"]))
    assert [(edit.path, edit.before is None, edit.after is None) for edit in edits] == [
        ("networks.x.nodes.a", False, True),
        ("networks.x.nodes.c", True, False),
    ]
    assert listing(edits) == "networks.x.nodes.a: {…} -> nothing; networks.x.nodes.c: nothing -> {…}"


def test_a_network_that_comes_or_goes_is_named() -> None:
    x, y = (Settings.model_validate({"networks": {name: {"nodes": ["http://a"]}}}) for name in "xy")
    assert listing(difference(x, y)) == "networks.x: {…} -> nothing; networks.y: nothing -> {…}"


def test_a_secret_that_changed_is_said_and_not_shown() -> None:
    before = settings([{"url": "https://u:pw1@a/k1", "headers": {"X": "h1"}}])
    after = settings([{"url": "https://u:pw2@a/k2", "headers": {"X": "h2"}}])
    edits = difference(before, after)
    assert {edit.path for edit in edits} == {"networks.x.nodes.a.url", "networks.x.nodes.a.headers.X"}
    assert not any(secret in repr(edits) + listing(edits) for secret in ("pw1", "pw2", "k1", "k2", "h1", "h2"))
    assert 'networks.x.nodes.a.headers.X: "***" -> "***"' in listing(edits)


def test_many_edits_are_counted_and_not_listed() -> None:
    edits = [Edit(f"http.{number}", number, number + 1) for number in range(9)]
    assert listing(edits).endswith("; and 5 more")


def test_a_long_value_is_cut() -> None:
    assert listing([Edit("redis.prefix", "a", "b" * 200)]).endswith(f'"a" -> "{"b" * 79}…')


def test_a_listing_holds_the_values_as_json() -> None:
    edits = [Edit("http.deny", [], ["debug_*"]), Edit("networks.x.chain_id", None, 5), Edit("log.access", False, True)]
    told = 'http.deny: [] -> ["debug_*"]; networks.x.chain_id: nothing -> 5; log.access: false -> true'
    assert listing(edits) == told


def test_paths_below_a_prefix_are_found_and_not_those_that_begin_alike() -> None:
    edits = [Edit(path, 1, 2) for path in ("redis.url", "redis.replicas[0]", "redis", "rediser", "workers")]
    assert touches(edits, ["redis"]) == ("redis.url", "redis.replicas[0]", "redis")


nodes = st.lists(
    st.fixed_dictionaries(
        {"url": st.sampled_from(["http://a/k1", "http://a/k2", "http://b", "http://c"]), "weight": st.integers(1, 9)},
        optional={"drain": st.booleans(), "headers": st.dictionaries(st.sampled_from(["X", "Y"]), st.just("v"))},
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda node: node["url"],
)
documents = st.fixed_dictionaries(
    {
        "networks": st.dictionaries(
            st.sampled_from(["x", "y"]),
            st.fixed_dictionaries(
                {"nodes": nodes.map(lambda found: [{**node, "id": f"n{i}"} for i, node in enumerate(found)])},
                optional={"chain_id": st.integers(0, 9), "balancer": st.sampled_from(["peak_ewma", "consistent_hash"])},
            ),
            min_size=1,
        )
    },
    optional={"memory": st.fixed_dictionaries({"size": st.integers(0, 10**9)}), "workers": st.integers(1, 9)},
)


@given(documents, documents)
def test_the_patch_between_two_settings_leads_from_one_to_the_other(one: dict[str, Any], other: dict[str, Any]) -> None:
    before, after = Settings.model_validate(one), Settings.model_validate(other)
    patch = patch_between(before, after)
    led = apply(before, patch)
    assert isinstance(led, Settings)
    assert to_table(led, reveal=True) == to_table(after, reveal=True)
    assert bool(patch) == bool(difference(before, after))
