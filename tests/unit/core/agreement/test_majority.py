"""Who is believed when nodes answer differently, and whether a difference is anybody's fault."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.agreement.majority import believed, is_fixed, is_proven, join
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule
from tests.support.plans import plan_of

VIEW = ChainSnapshot(head=100, final=100, doubt=10)


def plan(block: int | None = 50, *, final: bool = True, **rule: Any) -> Plan:
    return plan_of(cache=CacheClass.BY_NUMBER, block=block, final=final, **rule)


def same(one: int, other: int) -> bool:
    return one == other


def grouped(answers: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for answer in answers:
        join(found, answer, same)
    return found


@given(st.lists(st.integers(0, 3), max_size=9))
def test_every_answer_is_in_one_group_of_equals(answers: list[int]) -> None:
    found = grouped(answers)
    assert sorted(answer for group in found for answer in group) == sorted(answers)
    assert all(len(set(group)) == 1 for group in found)
    assert len(found) == len(set(answers))


@given(st.lists(st.integers(0, 3), max_size=9), st.integers(1, 4))
def test_only_a_group_that_is_larger_than_any_other_is_believed(answers: list[int], wanted: int) -> None:
    found = believed(grouped(answers), wanted)
    counts = sorted((answers.count(value) for value in set(answers)), reverse=True)
    if found is None:
        assert not counts or counts[0] < wanted or counts[:2] == [counts[0]] * 2
    else:
        assert len(found) == counts[0] >= wanted
        assert counts[1:2] != counts[:1]


def proven(made: Plan, results: list[bytes], heads: list[int], *, may_reorganise: bool = False) -> bool:
    return is_proven(made, results, heads, VIEW, may_reorganise=may_reorganise)


def test_values_that_differ_about_a_final_block_are_somebodys_fault() -> None:
    assert proven(plan(95), [b'"0x1"', b'"0x2"'], [100, 100])


@pytest.mark.parametrize("empty", [b"null", b"[]", b'"0x"', b'"0x0"', b"0"])
def test_an_empty_result_counts_only_where_a_machine_that_lags_would_have_the_block(empty: bytes) -> None:
    assert proven(plan(90), [empty, b'"0x2"'], [100, 100])
    assert not proven(plan(91), [empty, b'"0x2"'], [100, 100])
    assert not proven(plan(90), [empty, b'"0x2"'], [99, 100])
    assert not proven(plan(None), [empty, b'"0x2"'], [100, 100])


@pytest.mark.parametrize("split", ["logs", "blocks"])
def test_ranges_which_are_cut_short_without_a_word_count_only_there_too(split: str) -> None:
    logs = plan(91, split=split)
    assert not proven(logs, [b"[1,2]", b"[1]"], [100, 100])
    assert proven(plan(90, split=split), [b"[1,2]", b"[1]"], [100, 100])


def test_the_block_of_a_transaction_is_read_from_the_answer_that_names_it() -> None:
    mined = b'{"blockNumber":"0x5a"}'
    assert proven(plan(None), [b"null", mined], [100, 100])
    assert not proven(plan(None), [b"null", b'{"blockNumber":"0x5b"}'], [100, 100])


def test_what_a_reorganisation_may_move_is_fixed_once_a_settled_block_is_named() -> None:
    moving = plan(None, final=False)
    assert is_fixed(moving, [b"null", b'{"blockNumber":"0x5a"}'], VIEW)
    assert not is_fixed(moving, [b'{"blockNumber":"0x5b"}'], VIEW)
    assert not is_fixed(moving, [b"null", b"not JSON"], VIEW)
    assert is_fixed(plan(), [b"null"], VIEW)


def test_a_transaction_that_was_pooled_when_one_node_was_asked_is_nobodys_fault() -> None:
    lookup = plan(None, skip=("not-mined",))
    pooled, mined = b'{"blockHash":null,"blockNumber":null}', b'{"blockHash":"0x01","blockNumber":"0x5a"}'
    assert not proven(lookup, [pooled, mined, mined], [100, 100, 100])
    assert proven(lookup, [b"null", mined, mined], [100, 100, 100])


def test_a_block_by_its_hash_that_some_nodes_never_saw_is_nobodys_fault_where_branches_are_abandoned() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER)
    by_hash = plan_of(rule=rule, cache=CacheClass.FOREVER, final=True)
    answers = [b'{"number":"0x32"}', b"null", b"null"]
    assert not proven(by_hash, answers, [100] * 3, may_reorganise=True)
    assert proven(by_hash, answers, [100] * 3)
    assert proven(by_hash, [b'{"number":"0x32"}', b'{"number":"0x33"}'], [100] * 2, may_reorganise=True)
