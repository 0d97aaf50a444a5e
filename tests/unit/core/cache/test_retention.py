"""Keep or skip: the answers that must never be kept, one by one."""

from __future__ import annotations

from math import inf
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.core.cache.retention import TESTS, Keep, KeepDecision, judge, lifetime
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule, SkipTest

MAX = 10_000
ZERO_HASH = b'"0x' + b"0" * 64 + b'"'
EMPTY: list[tuple[SkipTest, bytes]] = [
    ("null", b"null"), ("empty-list", b"[]"), ("empty-list-unless-genesis", b"[]"), ("empty-string", b'""'),
    ("0x", b'"0x"'),
]  # fmt: skip


def plan(
    *,
    cache: CacheClass = CacheClass.BY_NUMBER,
    key: bytes | None = b"k",
    head_key: bytes | None = b"h",
    block: int | None = 50,
    final: bool = True,
    depth: int = 0,
    first_block: int | None = None,
    rule: Rule | None = None,
) -> Plan:
    return Plan(
        network="net",
        method="m",
        rule=rule or Rule(method="m", cache=cache),
        params=b"[]",
        asked=b"[]",
        cache=cache,
        key=key,
        head_key=head_key,
        block=block,
        first_block=first_block,
        final=final,
        depth=depth,
        min_head=-1 if block is None else block + depth,
    )


def verdict(made: Plan, result: bytes, *, node_head: int = 100, final: int = 100, doubt: int = 0) -> KeepDecision:
    return judge(made, result, node_head, ChainSnapshot(head=final, final=final, doubt=doubt), MAX)


def of(split: Literal["", "blocks", "logs"] = "", *skip: SkipTest) -> Rule:
    return Rule(method="m", cache=CacheClass.BY_NUMBER, split=split, skip=skip)


LASTING, SKIP, UNTIL_HEAD = Keep.LASTING, Keep.SKIP, Keep.UNTIL_HEAD
CONSTANT = plan(cache=CacheClass.STATIC, block=None, head_key=None)
BY_HASH = plan(cache=CacheClass.FOREVER, block=None)
POOLED = plan(cache=CacheClass.FOREVER, block=None, rule=of("", "not-mined"))
RANGE = plan(rule=of("blocks"), first_block=10, block=12)
LOGS = plan(rule=of("logs"), first_block=10, block=95)
VERDICTS: dict[str, tuple[Plan, bytes, Keep, str]] = {
    "about a known block": (plan(), b'{"to":null,"text":"error"}', LASTING, ""),
    "without a key": (plan(key=None, head_key=None), b"1", SKIP, "class"),
    "longer than the bound": (plan(), b'"' + b"x" * MAX + b'"', SKIP, "too-large"),
    "about a block above the head of its node": (plan(block=101), b'"0x"', SKIP, "above-head"),
    "about a block whose successor the node lacks": (plan(block=100, depth=1), b"[1]", SKIP, "above-head"),
    "about the block at the head of its node": (plan(block=100), b"1", LASTING, ""),
    "true at one head": (plan(cache=CacheClass.HEAD, key=None, block=None), b"1", UNTIL_HEAD, ""),
    "null": (plan(), b"null", UNTIL_HEAD, "null"),
    "null without a key of the head": (plan(head_key=None), b"null", SKIP, "null"),
    "null that is a constant": (CONSTANT, b"null", LASTING, ""),
    **{f"distrusted by the test {test}": (plan(rule=of("", test)), result, UNTIL_HEAD, test) for test, result in EMPTY},
    **{f"let pass by the test {test}": (plan(rule=of("", test)), b'"0x1"', LASTING, "") for test, _ in EMPTY},
    "no signers of genesis": (plan(rule=of("", "empty-list-unless-genesis"), block=0), b"[]", LASTING, ""),
    "a transaction of no block": (POOLED, b'{"blockHash":null,"blockNumber":null}', SKIP, "pending"),
    "a transaction of block hash zero": (POOLED, b'{"blockHash":%b,"blockNumber":null}' % ZERO_HASH, SKIP, "pending"),
    "a transaction that was mined": (POOLED, b'{"blockHash":"0x7a","blockNumber":26}', LASTING, ""),
    "a short range": (RANGE, b"[1,2]", SKIP, "short-range"),
    "a range that is no list": (RANGE, b"7", SKIP, "short-range"),
    "a whole range": (RANGE, b"[1,2,3]", LASTING, ""),
    "nothing of a range that ends before it begins": (
        plan(rule=of("blocks"), first_block=12, block=10), b"[]", LASTING, ""),
    "nothing about a block named by its hash": (BY_HASH, b"0", UNTIL_HEAD, "unproven"),
    "something about a block named by its hash": (BY_HASH, b"3", LASTING, ""),
    "logs of settled blocks": (LOGS, b"[]", LASTING, ""),
}  # fmt: skip


@pytest.mark.parametrize("answer", VERDICTS)
def test_an_answer_is_kept_if(answer: str) -> None:
    made, result, keep, reason = VERDICTS[answer]
    assert verdict(made, result) == KeepDecision(keep, reason)


def test_an_answer_of_a_node_whose_head_is_not_known_is_not_kept() -> None:
    assert verdict(plan(block=50), b"1", node_head=-1) == KeepDecision(SKIP, "above-head")


ETHEREUM = chains.load("ethereum")
READS = [rule for rule in ETHEREUM.rules if rule.kind == "read" and rule.cache in ("forever", "by-number")]


@given(
    rule=st.sampled_from(READS),
    name=st.sampled_from(["l1BatchNumber", "l1BatchTimestamp", "l1BatchTxIndex"])
    | st.from_regex(r"l1Batch[A-Za-z0-9]{0,8}", fullmatch=True),
    space=st.sampled_from(["", " ", "\n  "]),
    depth=st.integers(0, 3),
    known=st.booleans(),
)
def test_an_answer_with_a_member_that_fills_later_is_not_kept_for_good_whatever_the_method(
    rule: Rule, name: str, space: str, depth: int, known: bool
) -> None:
    value = '"0x1"' if known else "null"
    mined = f'{{"blockHash":"0x7a","blockNumber":"0x5","{name}"{space}:{space}{value}}}'
    result = ('[{"x":"0x1","y":' * depth + mined + "}]" * depth).encode()
    made = plan(rule=replace(rule, skip=(), split=""), cache=rule.cache)
    late = KeepDecision(Keep.UNTIL_HEAD, "fills-later")
    assert (verdict(made, result) == late) is not known


@pytest.mark.parametrize(
    ("result", "keep"),
    [
        (b'{"blockNumber":"0x32"}', Keep.LASTING),
        (b'{"blockNumber":50}', Keep.LASTING),
        (b'{"blockNumber":"0x65"}', Keep.UNTIL_HEAD),
        (b'{"blockNumber":"x"}', Keep.UNTIL_HEAD),
        (b'{"other":1}', Keep.UNTIL_HEAD),
        (b"[1]", Keep.UNTIL_HEAD),
    ],
)
def test_where_branches_can_be_abandoned_a_transaction_is_kept_once_its_block_is_final(
    result: bytes, keep: Keep
) -> None:
    made = plan(cache=CacheClass.FOREVER, block=None, final=False)
    assert verdict(made, result, final=100).keep is keep


@pytest.mark.parametrize(
    "result",
    [b'"0x"', b'"0x0"', b"0", b'"0"', b"[]", b"{}", b'""', b"false", b'"0x%064d"' % 0],
)
def test_what_a_lagging_machine_would_say_is_kept_for_good_only_where_none_can_be_so_far_behind(result: bytes) -> None:
    near, deep = plan(block=91), plan(block=90)
    assert verdict(near, result, doubt=10) == KeepDecision(Keep.UNTIL_HEAD, "unproven")
    assert verdict(near, b'"0x1"', doubt=10).keep is Keep.LASTING, "a machine without the block cannot say it"
    assert verdict(deep, result, doubt=10).keep is Keep.LASTING
    assert verdict(deep, result, doubt=10, node_head=99).keep is Keep.UNTIL_HEAD, "its node is not far above the block"
    assert verdict(plan(block=90, depth=1), result, doubt=10).keep is Keep.UNTIL_HEAD
    assert verdict(plan(head_key=None, block=91), result, doubt=10).keep is Keep.SKIP


def test_logs_may_lack_the_newest_blocks_whatever_is_among_them_and_a_constant_is_no_word_about_a_block() -> None:
    assert verdict(LOGS, b'[{"blockNumber":"0x5f"}]', doubt=10) == KeepDecision(UNTIL_HEAD, "unproven")
    assert verdict(CONSTANT, b"0", doubt=10).keep is LASTING


@given(st.binary(max_size=80), st.sampled_from(sorted(TESTS)), st.sampled_from(CacheClass))
def test_no_result_makes_the_judge_raise(result: bytes, test: str, cache: CacheClass) -> None:
    made = plan(
        rule=Rule(method="m", cache=cache, skip=(test,), split="blocks"), cache=cache, final=False, first_block=1
    )
    assert isinstance(verdict(made, result), KeepDecision)


@pytest.mark.parametrize("method", ["eth_getRawTransactionByHash", "debug_getRawTransaction"])
def test_a_blob_transaction_is_kept_for_one_head_since_only_a_pool_has_its_blobs(method: str) -> None:
    made = plan(cache=CacheClass.FOREVER, block=None, rule=chains.load("ethereum").rules.get(method))
    assert verdict(made, b'"0x03fa0200"').keep is Keep.UNTIL_HEAD
    assert verdict(made, b'"0x02f87001"').keep is Keep.LASTING
    assert verdict(made, b'"0xf86c0985"').keep is Keep.LASTING


@pytest.mark.parametrize("cache", CacheClass)
def test_nothing_stays_in_the_second_tier_for_ever(cache: CacheClass) -> None:
    assert 0 < lifetime(cache, 2.0).store < inf


def test_an_answer_true_at_one_head_goes_soon_and_the_sooner_the_faster_the_chain() -> None:
    assert lifetime(CacheClass.HEAD, 2.0).memory == 30.0
    assert lifetime(CacheClass.HEAD, 12.0).memory == 180.0
    assert lifetime(CacheClass.FOREVER, 2.0).memory == inf


@given(st.sampled_from(CacheClass), st.floats(0, 100), st.floats(0, 100))
def test_a_life_is_no_longer_than_the_operator_wants(cache: CacheClass, max_age: float, stale: float) -> None:
    life = lifetime(cache, 2.0, max_age=max_age, stale=stale)
    assert not max_age or life.memory <= max_age + stale
