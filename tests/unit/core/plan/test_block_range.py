"""Which range calls may be cut, and what their pieces are called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.plan.block_range import MOST_TRACES, Range
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner

ADDRESS = "0x" + "a5" * 20
TOPIC = "0x" + "dd" * 32


def plan(method: str, *params: Any, chain: str = "harmony", head: int = 500, final: int = 500) -> Plan:
    rules = chains.load(chain)
    planner = Planner("net", rules.rules, rules.tags, final_at_once=rules.finality == "instant")
    view = ChainSnapshot(serial=1, head=head, best=head, final=final, finalized=final, eth_chain_id=1, network_id=1)
    return planner.plan(method, json.dumps(params, ensure_ascii=False).encode(), view)


def span(method: str, *params: Any, **view: Any) -> Range:
    found = plan(method, *params, **view).range
    assert found is not None
    return found


def test_a_range_of_blocks_is_read_in_every_spelling_of_its_ends() -> None:
    found = span("hmyv2_getBlocks", "10", "0x1e", {"fullTx": True})
    assert (found.way, found.first, found.last, found.length) == ("blocks", 10, 30, 21)
    assert span("hmyv2_getBlocks", 10, "latest", {}).last == 500
    assert span("hmyv2_getBlocks", "earliest", 30, {}).first == 0


def test_logs_are_read_with_the_defaults_filled_in() -> None:
    assert span("eth_getLogs", {"fromBlock": "0x1f0"}).last == 500
    narrow = {"fromBlock": "0x1", "toBlock": "0x2", "address": [ADDRESS], "topics": [None, [TOPIC]]}
    assert span("eth_getLogs", narrow).way == "logs"


@pytest.mark.parametrize(
    "params",
    [
        (10, 20),
        (10, 20, None),
        (10, 20, True),
        (10, 20, {"fullTx": "yes"}),
        (10, 20, {}, 1),
        ("0x0026", 20, {}),
        ("latest", "latest", {}),
        (10, "pending", {}),
        (10, 10, {}),
        (10, "latest", {"withSigners": True}),
    ],
)
def test_blocks_that_are_not_wholly_understood_are_not_cut(params: tuple[Any, ...]) -> None:
    assert plan("hmyv2_getBlocks", *params).range is None


@pytest.mark.parametrize(
    "criteria",
    [
        {"blockHash": TOPIC},
        {"fromBlock": "0x9", "toBlock": "0x5"},
        {"fromBlock": "0x5", "toBlock": "pending"},
        {"fromBlock": "0x5", "toBlock": 9},
        {"fromBlock": "0x5", "toBlock": "0x9", "limit": 5},
        {"fromBlock": "0x5", "toBlock": "0x9", "address": "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3"},
        {"fromBlock": "0x5", "toBlock": "0x9", "address": [ADDRESS, 5]},
        {"fromBlock": "0x5", "toBlock": "0x9", "topics": TOPIC},
        {"fromBlock": "0x5", "toBlock": "0x9", "topics": [5]},
        {"fromBlock": "0x5", "toBlock": "0x9", "topics": [["0xdd"]]},
        {"fromBlock": "0x5", "toBlock": "0x9", "topics": [None] * 5},
    ],
)
def test_logs_that_are_not_wholly_understood_are_not_cut(criteria: dict[str, Any]) -> None:
    assert plan("eth_getLogs", criteria).range is None


def traces(**criteria: Any) -> Range | None:
    return plan("trace_filter", {"fromBlock": "0x5", "toBlock": "0x9", **criteria}, chain="ethereum").range


def test_traces_are_cut_by_block_and_those_of_some_addresses_on_the_grid() -> None:
    for criteria, by_block in (({}, True), ({"toAddress": []}, True), ({"fromAddress": [ADDRESS]}, False)):
        found = traces(**criteria)
        assert found is not None
        assert (found.way, found.first, found.last, found.by_block) == ("traces", 5, 9, by_block)


def test_all_traces_of_a_piece_are_asked_for_since_nodes_leave_some_out_without_a_word() -> None:
    found = traces(toAddress=[ADDRESS])
    assert found is not None
    asked = {"fromBlock": "0x5", "toBlock": "0x6", "toAddress": [ADDRESS], "count": MOST_TRACES}
    assert json.loads(found.params(5, 6)) == [asked]
    alone = plan("trace_filter", {name: value for name, value in asked.items() if name != "count"}, chain="ethereum")
    assert found.key(5, 6) != alone.key
    assert found.key(5, 6) == plan("trace_filter", asked, chain="ethereum").key


@pytest.mark.parametrize(
    "criteria",
    [
        {"count": 5},
        {"after": 5},
        {"mode": "intersection"},
        {"toBlock": "0x4"},
        {"toBlock": "pending"},
        {"fromAddress": ADDRESS},
        {"toAddress": ["0xa5"]},
    ],
)
def test_traces_that_are_not_wholly_understood_or_a_page_of_them_are_not_cut(criteria: dict[str, Any]) -> None:
    assert traces(**criteria) is None


def test_methods_that_no_rule_says_to_split_are_not_cut() -> None:
    assert plan("hmyv2_getBlockByNumber", 5, {}).range is None
    assert plan("erigon_getLogs", {"fromBlock": "0x1", "toBlock": "0x9"}, chain="ethereum").range is None


def test_nothing_is_cut_before_it_is_known_which_chain_this_is() -> None:
    rules = chains.load("harmony")
    planner = Planner("net", rules.rules, rules.tags, final_at_once=True)
    assert planner.plan("hmyv2_getBlocks", b"[1,9,{}]", ChainSnapshot(head=50, best=50, final=50)).range is None


def test_settled_is_what_is_final_and_deep_enough() -> None:
    assert span("hmyv2_getBlocks", 490, 510, {}).settled == 500
    assert span("hmyv2_getBlocks", 490, 510, {"withSigners": True}).settled == 499
    logs = {"fromBlock": "0x0", "toBlock": "latest"}
    assert span("eth_getLogs", logs, chain="ethereum", final=436).settled == 436


BLOCKS = st.tuples(st.integers(0, 400), st.integers(0, 400)).filter(lambda ends: ends[0] < ends[1])
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "address": st.sampled_from([None, ADDRESS, [ADDRESS, "0x" + "B6" * 20], [f"0x{i:040x}" for i in range(9)]]),
        "topics": st.sampled_from([None, [], [TOPIC], [None, [TOPIC, None]]]),
    },
)


@given(
    ends=BLOCKS, part=BLOCKS, options=st.dictionaries(st.sampled_from(["fullTx", "withSigners", "é"]), st.booleans())
)
def test_a_piece_of_blocks_has_the_key_of_a_call_for_it_alone(
    ends: tuple[int, int], part: tuple[int, int], options: dict[str, bool]
) -> None:
    found = span("hmyv2_getBlocks", *ends, options)
    asked = json.loads(found.params(*part))
    assert found.key(*part) == plan("hmyv2_getBlocks", *part, options).key == plan("hmyv2_getBlocks", *asked).key
    assert asked == [hex(part[0]), hex(part[1]), options]
    assert found.key(part[0], part[0]) == plan("hmyv2_getBlocks", part[0], str(part[0]), options).key


@given(ends=BLOCKS, part=BLOCKS, criteria=FILTERS, turned=st.booleans())
def test_a_piece_of_logs_has_the_key_of_a_call_for_it_alone(
    ends: tuple[int, int], part: tuple[int, int], criteria: dict[str, Any], turned: bool
) -> None:
    whole = {"fromBlock": hex(ends[0]), "toBlock": hex(ends[1])}
    found = span("eth_getLogs", {**whole, **criteria} if turned else {**criteria, **whole})
    one = {"fromBlock": hex(part[0]), "toBlock": hex(part[1]), **criteria}
    assert json.loads(found.params(*part)) == [one]
    assert found.key(*part) == plan("eth_getLogs", one).key


def test_other_options_are_other_pieces() -> None:
    keys = {span("hmyv2_getBlocks", 1, 9, options).key(5, 5) for options in ({}, {"fullTx": True}, {"fullTx": False})}
    assert len(keys) == 3
    assert span("hmyv2_getBlocks", 1, 9, {}).key(5, 5) != span("eth_getBlocks", 1, 9, {}).key(5, 5)
