"""Keep or skip: the answers that must never be kept, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.core.cache.retention import TESTS, Keep, KeepDecision, judge
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.rules import CacheClass, Rule

MAX = 10_000
ZERO_HASH = b'"0x' + b"0" * 64 + b'"'


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


def test_an_answer_about_a_known_block_is_kept_for_good() -> None:
    assert verdict(plan(), b'{"to":null,"text":"error"}') == KeepDecision(Keep.LASTING)


def test_a_call_without_a_key_is_not_kept() -> None:
    assert verdict(plan(key=None, head_key=None), b"1") == KeepDecision(Keep.SKIP, "class")


def test_an_answer_longer_than_the_bound_is_not_kept() -> None:
    assert verdict(plan(), b'"' + b"x" * MAX + b'"') == KeepDecision(Keep.SKIP, "too-large")


def test_an_answer_about_a_block_above_the_answering_nodes_head_is_not_kept() -> None:
    assert verdict(plan(block=101), b'"0x"') == KeepDecision(Keep.SKIP, "above-head")
    assert verdict(plan(block=100, depth=1), b"[1]") == KeepDecision(Keep.SKIP, "above-head")
    assert verdict(plan(block=50), b"1", node_head=-1) == KeepDecision(Keep.SKIP, "above-head")
    assert verdict(plan(block=100), b"1").keep is Keep.LASTING


def test_null_is_kept_at_most_until_the_next_head() -> None:
    assert verdict(plan(), b"null") == KeepDecision(Keep.UNTIL_HEAD, "null")
    assert verdict(plan(head_key=None), b"null") == KeepDecision(Keep.SKIP, "null")


def test_a_null_that_is_the_constant_of_a_chain_is_kept() -> None:
    assert verdict(plan(cache=CacheClass.STATIC, block=None, head_key=None), b"null").keep is Keep.LASTING


@pytest.mark.parametrize(
    ("test", "result"),
    [
        ("null", b"null"),
        ("empty-list", b"[]"),
        ("empty-list-unless-genesis", b"[]"),
        ("empty-string", b'""'),
        ("0x", b'"0x"'),
    ],
)
def test_a_result_its_rule_distrusts_is_kept_at_most_until_the_next_head(test: str, result: bytes) -> None:
    distrusting = plan(rule=Rule(method="m", cache=CacheClass.BY_NUMBER, skip=(test,)))
    assert verdict(distrusting, result) == KeepDecision(Keep.UNTIL_HEAD, test)
    assert verdict(distrusting, b'"0x1"').keep is Keep.LASTING


def test_the_genesis_block_has_no_signers_and_that_is_kept() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, skip=("empty-list-unless-genesis",))
    assert verdict(plan(rule=rule, block=0), b"[]").keep is Keep.LASTING


@pytest.mark.parametrize("block_hash", [b"null", ZERO_HASH])
def test_a_pooled_transaction_is_not_kept_at_all(block_hash: bytes) -> None:
    rule = Rule(method="m", cache=CacheClass.FOREVER, skip=("not-mined",))
    pooled = b'{"blockHash":%b,"blockNumber":null}' % block_hash
    assert verdict(plan(rule=rule, cache=CacheClass.FOREVER, block=None), pooled) == KeepDecision(Keep.SKIP, "pending")


def test_a_mined_transaction_is_kept() -> None:
    rule = Rule(method="m", cache=CacheClass.FOREVER, skip=("not-mined",))
    mined = b'{"blockHash":"0x7a","blockNumber":26}'
    assert verdict(plan(rule=rule, cache=CacheClass.FOREVER, block=None), mined).keep is Keep.LASTING


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


def test_a_range_that_came_back_short_is_not_kept() -> None:
    rule = Rule(method="m", cache=CacheClass.BY_NUMBER, split="blocks")
    asked = plan(rule=rule, first_block=10, block=12)
    assert verdict(asked, b"[1,2]") == KeepDecision(Keep.SKIP, "short-range")
    assert verdict(asked, b"7") == KeepDecision(Keep.SKIP, "short-range")
    assert verdict(asked, b"[1,2,3]").keep is Keep.LASTING
    assert verdict(plan(rule=rule, first_block=12, block=10), b"[]").keep is Keep.LASTING


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


def test_an_empty_answer_about_a_block_named_by_its_hash_shows_nothing() -> None:
    made = plan(cache=CacheClass.FOREVER, block=None)
    assert verdict(made, b"0").keep is Keep.UNTIL_HEAD
    assert verdict(made, b"3").keep is Keep.LASTING


def test_logs_may_lack_the_newest_blocks_whatever_is_among_them() -> None:
    logs = plan(rule=Rule(method="m", cache=CacheClass.BY_NUMBER, split="logs"), first_block=10, block=95)
    assert verdict(logs, b'[{"blockNumber":"0x5f"}]', doubt=10) == KeepDecision(Keep.UNTIL_HEAD, "unproven")
    assert verdict(logs, b"[]").keep is Keep.LASTING


def test_a_constant_is_no_word_about_a_block() -> None:
    assert verdict(plan(cache=CacheClass.STATIC, block=None, head_key=None), b"0", doubt=10).keep is Keep.LASTING


def test_an_answer_true_at_one_head_goes_under_that_heads_key() -> None:
    assert verdict(plan(cache=CacheClass.HEAD, key=None, block=None), b"1") == KeepDecision(Keep.UNTIL_HEAD)


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
