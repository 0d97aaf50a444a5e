"""What a request says about how its call is answered: read from headers and the URL, and turned into rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.directives import (
    DIRECTIVE_HEADERS,
    DIRECTIVE_NAMES,
    NO_DIRECTIVES,
    DirectiveError,
    Directives,
    read_directives,
)
from rpcaccel.core.nodes.eligibility import is_named
from rpcaccel.core.nodes.node import Node
from rpcaccel.core.plan.rules import Override, Routes, Rule, TagRoute, apply

ALL = frozenset(DIRECTIVE_NAMES)
RULES = [rule for name in chains.names() for rule in chains.load(name).rules]
DIRECTIVES = st.builds(
    Directives,
    cache=st.sampled_from(["", "no-store", "refresh", "only"]),
    node=st.sampled_from(["", "own"]),
    agree=st.integers(1, 5),
    prove=st.booleans(),
)


def read(query: str = "", own: Directives = NO_DIRECTIVES, allowed: Any = ALL, **headers: str) -> Directives:
    given = {f"x-rpcaccel-{name}": [value] for name, value in headers.items()}
    return read_directives(given.get, query, allowed, own)


def test_a_header_says_the_same_as_a_parameter_of_the_url() -> None:
    wanted = Directives(cache="no-store", node="own:8545", agree=3, prove=True)
    assert read(cache="no-store", node="own:8545", agree="3", prove="1") == wanted
    assert read("key=k&cache=no-store&node=own%3A8545&agree=3&prove=1&cached=no") == wanted
    assert read("cache=only&cache=no-store", agree="2") == Directives(cache="only", agree=2)
    assert read("cache=only", cache=" No-Store ") == Directives(cache="no-store")
    assert read("") == NO_DIRECTIVES


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"cache": "off"}, "X-Rpcaccel-Cache: found off, expected one of no-store, refresh, only"),
        ({"agree": "6"}, "X-Rpcaccel-Agree: found 6, expected one of 1, 2, 3, 4, 5"),
        ({"agree": "two"}, "X-Rpcaccel-Agree: found two"),
        ({"prove": "yes\x1b[2J"}, r"X-Rpcaccel-Prove: found yes\x1b[2J, expected one of 1, 0"),
        ({"cache": "only", "node": "own"}, "X-Rpcaccel-Cache: only cannot be followed beside X-Rpcaccel-Node"),
        ({"cache": "refresh", "node": "own"}, "refresh cannot be followed beside X-Rpcaccel-Node: what the nodes say"),
        ({"cache": "only, no-store"}, "X-Rpcaccel-Cache: found only, no-store, expected one of"),
        ({"cache": "x" * 5000}, f"found {'x' * 64}, expected"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(headers: dict[str, str], words: str) -> None:
    with pytest.raises(DirectiveError) as refused:
        read(**headers)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", DIRECTIVE_NAMES)
def test_each_directive_is_allowed_by_its_name(name: str) -> None:
    value = {"cache": "no-store", "node": "own", "agree": "2", "prove": "1"}[name]
    assert read(allowed=frozenset({name}), **{name: value}) != NO_DIRECTIVES
    assert read(f"{name}={value}", allowed=frozenset()) == NO_DIRECTIVES, "other programs' parameters"
    for given_by in ({"query": f"{name}={value}"}, {name: value}):
        with pytest.raises(DirectiveError, match=f"X-Rpcaccel-{name.title()} is not allowed for you"):
            read(allowed=ALL - {name}, **given_by)


def test_what_an_operator_gave_a_key_stays_where_a_call_says_nothing_of_it() -> None:
    own = Directives(cache="no-store", tag="premium")
    assert read(own=own) == own
    assert read(own=own, agree="2") == Directives(cache="no-store", tag="premium", agree=2)
    assert read(own=own, cache="refresh").cache == "refresh"


@given(st.sampled_from(RULES), DIRECTIVES, st.integers(1, 5), st.booleans())
def test_no_directive_weakens_what_the_operator_demands(rule: Rule, asked: Directives, agree: int, prove: bool) -> None:
    before = apply(rule, Override(pattern=rule.method, agree=agree, prove=prove, origin="rules.x"))
    after = asked.changed(before)
    assert after.prove >= before.prove
    assert after.fully >= before.fully
    assert after.agree >= before.agree or (after.prove and after.part), "a proof is worth more than agreement"
    assert (after.agree == before.agree) or after.agreeable, "a write is sent to no second node"
    for member in ("cache", "tag_class", "kind", "repeat", "deny", "max_age", "off", "needs"):
        assert getattr(after, member) == getattr(before, member)
    if asked == NO_DIRECTIVES:
        assert after == before


@given(DIRECTIVES)
def test_what_is_not_kept_is_not_looked_for_either(asked: Directives) -> None:
    rule = asked.changed(RULES[0])
    assert rule.fresh >= rule.unkept
    assert rule.unkept >= bool(asked.node), "what one chosen node says is for who chose it"


def test_a_key_s_own_tag_gives_way_to_a_route_and_a_named_node_has_what_both_demand() -> None:
    routes = Routes([TagRoute(("debug_*",), "archive")])
    own = Directives(tag="premium").routed(routes)
    assert [own.tag_of(method) for method in ("debug_x", "eth_x")] == ["archive", "premium"]
    named = Directives(tag="premium", node="own").routed(routes)
    asked = [named.tag_of(method) for method in ("debug_x", "eth_x")]
    own, archive, premium = Node("own", tags={"archive"}), Node("other", tags={"own", "archive"}), Node("own")
    premium.tags = frozenset({"premium"})
    assert [[is_named(node, tag) for node in (own, archive, premium)] for tag in asked] == [
        [True, True, False],
        [False, False, True],
    ]
    assert Directives().routed(routes).tag_of("eth_x") == ""


def test_every_directive_has_a_header() -> None:
    assert DIRECTIVE_HEADERS == ("x-rpcaccel-cache", "x-rpcaccel-node", "x-rpcaccel-agree", "x-rpcaccel-prove")
