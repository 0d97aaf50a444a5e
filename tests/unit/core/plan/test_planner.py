"""Plans: what a call means at a head, and which calls are the same call."""

from __future__ import annotations

import gc
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.core.memo import Memos
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import HashKey, Planner, full_method
from rpcaccel.core.plan.rules import BlockArgument, CacheClass, LocalAnswer, Rule, RuleTable, Spelling
from rpcaccel.core.stepwise import at_once

ADDRESS = '"one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3"'
HASH = "0x" + "ab" * 32
NUMBER = Spelling.HARMONY_NUMBER
RULES = [
    Rule(method="n_blockNumber", cache=CacheClass.HEAD, local=LocalAnswer("head", "hex")),
    Rule(method="n_chainId", cache=CacheClass.STATIC, local=LocalAnswer("eth_chain_id", "hex")),
    Rule(method="n_version", cache=CacheClass.STATIC, local=LocalAnswer("network_id", "string")),
    Rule(method="n_block", cache=CacheClass.BY_NUMBER, block=BlockArgument(0, NUMBER), depth_if=("withSigners",)),
    Rule(method="n_signers", cache=CacheClass.BY_NUMBER, block=BlockArgument(0, NUMBER), depth=1),
    Rule(
        method="n_call",
        cache=CacheClass.BY_NUMBER,
        block=BlockArgument(1, Spelling.HARMONY_NUMBER_OR_HASH),
        copy_input_to_data=True,
    ),
    Rule(
        method="e_call",
        cache=CacheClass.BY_NUMBER,
        block=BlockArgument(1, Spelling.HEX_TAG_OR_HASH, default="latest"),
        pending_class=CacheClass.NODE,
    ),
    Rule(
        method="e_logs",
        cache=CacheClass.BY_NUMBER,
        block=BlockArgument(0, Spelling.HEX_OR_TAG, path=("blockHash", "fromBlock", "toBlock"), default="latest"),
        split="logs",
        heavy=True,
    ),
    Rule(method="n_blocks", cache=CacheClass.BY_NUMBER, block=BlockArgument(1, NUMBER, start=0), split="blocks"),
    Rule(method="n_validator", cache=CacheClass.HEAD, block=BlockArgument(1, NUMBER)),
    Rule(method="n_receipt", cache=CacheClass.FOREVER, null_may_fill=True, may_move=True),
    Rule(method="n_epoch", cache=CacheClass.EPOCH),
    Rule(method="n_validators", cache=CacheClass.EPOCH, epoch_at=0),
    Rule(method="n_peers", cache=CacheClass.NODE),
    Rule(method="n_send", cache=CacheClass.NEVER, kind="send", repeat=False),
]
HARMONY_TAGS = frozenset({"latest", "earliest", "pending"})
ETHEREUM_TAGS = HARMONY_TAGS | {"finalized", "safe"}
VIEW = ChainSnapshot(serial=1, head=100, best=101, final=100, eth_chain_id=1666600000, network_id=1, epoch=7)
FORKING = ChainSnapshot(serial=1, head=100, best=101, final=64, finalized=64, eth_chain_id=1)


def planner(*, final_at_once: bool = True, hash_key: str = "params", network: str = "net") -> Planner:
    table = RuleTable({rule.method: rule for rule in RULES})
    tags = HARMONY_TAGS if final_at_once else ETHEREUM_TAGS
    return Planner(network, table, tags, final_at_once=final_at_once, hash_key=hash_key)  # type: ignore[arg-type]


def key(method: str, params: str, view: ChainSnapshot = VIEW, **options: object) -> bytes | None:
    return planner(**options).plan(method, params.encode(), view).key  # type: ignore[arg-type]


def test_a_method_without_a_rule_is_forwarded_as_it_is_and_shared_with_nobody() -> None:
    plan = planner().plan("foo_bar", b'[ "latest" ]', VIEW)
    assert (plan.params, plan.key, plan.head_key, plan.flight_key) == (b'[ "latest" ]', None, None, None)
    assert not plan.repeat
    assert not plan.hedge
    assert plan.min_head == 100


@pytest.mark.parametrize(
    ("method", "answer"), [("n_blockNumber", b'"0x64"'), ("n_chainId", b'"0x63564c40"'), ("n_version", b'"1"')]
)
def test_the_proxy_answers_what_it_knows_itself(method: str, answer: bytes) -> None:
    assert planner().plan(method, b"[]", VIEW).local == answer


def test_a_local_answer_needs_the_fact_and_the_params_the_method_takes() -> None:
    assert planner().plan("n_chainId", b"[1]", VIEW).local is None
    assert planner().plan("n_chainId", b"[]", ChainSnapshot()).local is None


@pytest.mark.parametrize("spelling", ["26", '"26"', '"0x1a"', '"0x1A"', " 26 "])
def test_every_spelling_the_node_reads_as_one_block_is_one_key(spelling: str) -> None:
    assert key("n_block", f"[{spelling},{{}}]") == key("n_block", "[26,{}]")


@pytest.mark.parametrize("other", ['"0x0026"', "27", "26.0", '"0x026"', "-26"])
def test_a_spelling_the_node_reads_otherwise_is_another_key_or_none(other: str) -> None:
    assert key("n_block", f"[{other},{{}}]") != key("n_block", "[26,{}]")


def test_latest_and_the_head_by_number_share_a_key_and_the_node_is_sent_the_number() -> None:
    latest = planner().plan("n_call", b'[{"to":"0x1"},"latest"]', VIEW)
    number = planner().plan("n_call", b'[{"to":"0x1"},"0x64"]', VIEW)
    assert latest.key == number.key
    assert latest.params == b'[{"to":"0x1"},"0x64"]'
    assert latest.min_head == 100
    assert (latest.cache, number.cache) == (CacheClass.HEAD, CacheClass.BY_NUMBER)


def test_a_new_head_gives_latest_a_new_key() -> None:
    makes = planner()
    before = makes.plan("n_call", b'[{},"latest"]', VIEW)
    after = makes.plan(
        "n_call", b'[{},"latest"]', ChainSnapshot(serial=2, head=101, best=101, final=101, eth_chain_id=1666600000)
    )
    assert before.key != after.key
    assert after.params == b'[{},"0x65"]'


def test_a_call_about_a_block_asks_only_nodes_that_have_it_and_its_successor_where_that_is_needed() -> None:
    assert planner().plan("n_block", b"[90,{}]", VIEW).min_head == 90
    assert planner().plan("n_signers", b"[90]", VIEW).min_head == 91
    assert planner().plan("n_block", b'[90,{"withSigners":true}]', VIEW).min_head == 91
    assert planner().plan("n_block", b'[90,{"withSigners":false}]', VIEW).min_head == 90


def test_a_block_above_every_head_is_asked_of_the_nodes_furthest_ahead() -> None:
    assert planner().plan("n_block", b"[5000,{}]", VIEW).min_head == 101


def test_signers_at_the_tag_latest_are_left_to_the_node_to_refuse() -> None:
    plan = planner().plan("n_signers", b'["latest"]', VIEW)
    assert plan.params == b'["latest"]'
    assert plan.key is None
    assert plan.head_key is not None


def test_input_is_copied_to_data_and_the_two_forms_share_a_key() -> None:
    plan = planner().plan("n_call", b'[{"to":"0x1","input":"0x2"},"0x1a"]', VIEW)
    assert plan.params == b'[{"to":"0x1","data":"0x2"},"0x1a"]'
    assert plan.key == key("n_call", '[{"data":"0x2","to":"0x1"},26]')


def test_data_beside_input_is_left_as_it_is() -> None:
    text = b'[{"data":"0x1","input":"0x2"},"0x1a"]'
    assert planner().plan("n_call", text, VIEW).params == text


@pytest.mark.parametrize(
    "params",
    ['{"a":1}', '[{"a":1,"a":2},"latest"]', "[{}]", '[{},"LATEST"]', "[{},null]", '[{},{"blockNumber":"0x1","x":1}]'],
)
def test_what_cannot_be_read_with_certainty_is_forwarded_unchanged_and_never_kept(params: str) -> None:
    plan = planner().plan("n_call", params.encode(), VIEW)
    assert plan.params == params.encode()
    assert not plan.kept
    assert plan.flight_key is None
    assert plan.note


@pytest.mark.parametrize("params", ["[{}]", "[{},null]", '[{},"latest"]'])
def test_a_missing_block_means_latest_where_the_chain_says_so(params: str) -> None:
    plan = planner(final_at_once=False).plan("e_call", params.encode(), FORKING)
    assert plan.params == b'[{},"0x64"]'
    assert plan.key == key("e_call", '[{},"0x64"]', FORKING, final_at_once=False)


def test_pending_is_never_kept() -> None:
    assert not planner().plan("n_call", b'[{},"pending"]', VIEW).kept
    assert planner(final_at_once=False).plan("e_call", b'[{},"pending"]', FORKING).cache is CacheClass.NODE


def test_a_block_that_is_not_settled_is_kept_at_one_head_of_one_branch_only() -> None:
    other_branch = ChainSnapshot(serial=2, head=100, best=101, final=64, finalized=64, fork_epoch=1, eth_chain_id=1)
    doubted = ChainSnapshot(serial=3, head=100, best=101, final=64, finalized=64, doubt=37, eth_chain_id=1)
    makes = planner(final_at_once=False)
    plans = [makes.plan("e_call", b'[{},"0x60"]', view) for view in (FORKING, other_branch)]
    assert [plan.key for plan in plans] == [None, None]
    assert plans[0].head_key != plans[1].head_key
    settled = [makes.plan("e_call", b'[{},"0x40"]', view).key for view in (FORKING, other_branch, doubted)]
    assert settled[0] == settled[1]
    assert settled[2] is None, "a machine hidden behind a URL may still be on another branch"
    assert planner().plan("n_call", b'[{},"0x40"]', doubted).key is not None, "there are no branches"


def test_a_key_with_a_fork_epoch_in_it_stays_out_of_the_second_tier() -> None:
    makes = planner(final_at_once=False)
    assert makes.plan("e_call", b'[{},"0x60"]', FORKING).shared_keys == ()
    final = makes.plan("e_call", b'[{},"0x40"]', FORKING)
    assert final.shared_keys == (final.key,)
    harmony = planner().plan("n_call", b'[{},"0x40"]', VIEW)
    assert harmony.shared_keys == (harmony.key, harmony.head_key)


def test_finalized_and_safe_stand_for_their_numbers_and_safe_is_not_final() -> None:
    makes, view = planner(final_at_once=False), replace(FORKING, safe=0x50)
    plan = makes.plan("e_call", b'[{},"finalized"]', view)
    assert (plan.params, plan.final, plan.key) == (b'[{},"0x40"]', True, makes.plan("e_call", b'[{},"0x40"]', view).key)
    safe, named = (makes.plan("e_call", b'[{},"%b"]' % name, view) for name in (b"safe", b"0x50"))
    assert (safe.params, safe.final, safe.key, safe.head_key) == (named.params, False, None, named.head_key)
    assert makes.plan("e_call", b'[{},"safe"]', replace(view, serial=2, fork_epoch=1)).head_key != safe.head_key
    unknown = makes.plan("e_call", b'[{},"safe"]', replace(FORKING, serial=3))
    assert (unknown.params, unknown.key) == (b'[{},"safe"]', None), "no node tells it"


def test_a_block_named_by_hash_is_kept_for_ever_unless_it_must_be_canonical() -> None:
    makes = planner(final_at_once=False)
    assert makes.plan("e_call", f'[{{}},"{HASH}"]'.encode(), FORKING).cache is CacheClass.FOREVER
    canonical = f'[{{}},{{"blockHash":"{HASH}","requireCanonical":true}}]'.encode()
    assert makes.plan("e_call", canonical, FORKING).key is None


def test_a_transaction_is_final_by_its_hash_only_where_blocks_are_final_at_once() -> None:
    assert planner().plan("n_receipt", f'["{HASH}"]'.encode(), VIEW).final
    assert not planner(final_at_once=False).plan("n_receipt", f'["{HASH}"]'.encode(), FORKING).final


def test_the_bounds_of_logs_are_resolved_and_missing_ones_are_the_head() -> None:
    makes = planner(final_at_once=False)
    plan = makes.plan("e_logs", b'[{"fromBlock":"0x10","address":"0x1"}]', FORKING)
    assert plan.params == b'[{"fromBlock":"0x10","address":"0x1","toBlock":"0x64"}]'
    assert (plan.first_block, plan.block) == (16, 100)
    assert plan.key == makes.plan("e_logs", b'[{"address":"0x1","toBlock":"latest","fromBlock":"0x10"}]', FORKING).key


@pytest.mark.parametrize(
    "params", ['[{"FromBlock":"0x1"}]', f'[{{"blockHash":"{HASH}","toBlock":"0x1"}}]', '[{"fromBlock":5}]']
)
def test_a_filter_that_readers_may_disagree_on_is_passed_on(params: str) -> None:
    plan = planner(final_at_once=False).plan("e_logs", params.encode(), FORKING)
    assert plan.params == params.encode()
    assert not plan.kept


def test_a_range_of_blocks_carries_both_ends_and_its_end_may_be_latest() -> None:
    plan = planner().plan("n_blocks", b'[90,"latest",{}]', VIEW)
    assert (plan.first_block, plan.block, plan.min_head) == (90, 100, 100)
    assert not planner().plan("n_blocks", b'["latest","latest",{}]', VIEW).kept


def test_a_head_class_answer_about_an_old_block_is_keyed_by_the_head_too() -> None:
    plan = planner().plan("n_validator", f"[{ADDRESS},50]".encode(), VIEW)
    assert plan.key is None
    assert plan.head_key is not None
    assert plan.min_head == 100
    assert plan.params == f"[{ADDRESS},50]".encode()


def test_a_past_epoch_never_changes_and_the_present_one_is_read_at_each_head() -> None:
    assert planner().plan("n_validators", b"[6]", VIEW).cache is CacheClass.FOREVER
    assert planner().plan("n_validators", b"[7]", VIEW).cache is CacheClass.EPOCH
    assert planner().plan("n_epoch", b"[]", VIEW).head_key is not None
    assert planner().plan("n_epoch", b"[]", VIEW).key is None


def test_node_local_answers_are_shared_with_nobody() -> None:
    plan = planner().plan("n_peers", b"[]", VIEW)
    assert not plan.kept
    assert plan.flight_key is None
    assert plan.min_head == -1


def test_identical_raw_transactions_share_a_flight_and_are_never_kept_or_hedged() -> None:
    one, same, other = (planner().plan("n_send", raw, VIEW) for raw in (b'["0x1"]', b'["0x1"]', b'["0x2"]'))
    assert one.flight_key == same.flight_key != other.flight_key
    assert not one.kept
    assert not one.hedge
    assert one.min_head == -1


def test_nothing_is_kept_before_the_chain_is_known() -> None:
    assert not planner().plan("n_call", b'[{},"0x1"]', ChainSnapshot(serial=1, head=100, best=100, final=100)).kept
    assert not planner().plan("n_call", b'[{},"latest"]', ChainSnapshot(serial=1, eth_chain_id=1)).kept


def test_two_networks_and_two_chains_never_share_a_key() -> None:
    elsewhere = ChainSnapshot(serial=1, head=100, best=101, final=100, eth_chain_id=2)
    keys = {key("n_block", "[26,{}]"), key("n_block", "[26,{}]", elsewhere), key("n_block", "[26,{}]", network="b")}
    assert len(keys) == 3


def test_long_params_are_in_the_key_by_their_digest_and_still_apart() -> None:
    one, other = (key("n_call", f'[{{"data":"0x{digit * 4000}"}},26]') for digit in "12")
    assert one is not None
    assert one != other
    assert len(one) < 120


@pytest.mark.parametrize(
    ("hash_key", "route_key"),
    [("method", b"n_call"), ("first-param", b'{"a":1}'), ("params", b'n_call|[{"a":1},"latest"]'), ("client", b"")],
)
def test_the_routing_key_is_what_the_operator_chose_and_stays_when_the_head_moves(
    hash_key: str, route_key: bytes
) -> None:
    assert planner(hash_key=hash_key).plan("n_call", b'[{"a": 1}, "latest"]', VIEW).route_key == route_key


def remembered(makes: Planner, method: str, params: bytes) -> Plan:
    """The plan of a call that the proxy has an answer to."""
    plan = makes.plan(method, params, VIEW)
    makes.remember(plan, VIEW)
    return plan


def test_a_remembered_plan_is_made_once_for_a_view() -> None:
    makes = planner()
    assert remembered(makes, "n_epoch", b"[]") is makes.plan("n_epoch", b"[]", VIEW)


def test_what_is_refused_is_not_remembered() -> None:
    makes = planner()
    makes.remember(makes.unread("n_epoch", b"[]"), VIEW)
    assert makes.uses("n_epoch", b"[]") is None


def test_remembering_plans_is_bounded() -> None:
    makes = planner()
    for number in range(20_000):
        remembered(makes, "n_block", b"[%d,{}]" % number)
    assert 2_000 < len(makes._plans) < 8_000
    assert makes._memos.size <= makes._memos.limit
    assert makes.uses("n_block", b"[19999,{}]") is not None


def test_a_path_stands_for_a_namespace() -> None:
    assert full_method("getBalance", "hmyv2_") == "hmyv2_getBalance"
    assert full_method("eth_getBalance", "hmyv2_") == "eth_getBalance"
    assert full_method("getBalance", "") == "getBalance"


PARAMS = st.lists(
    st.sampled_from(
        [
            '"latest"',
            '"0x1a"',
            "26",
            "null",
            "{}",
            '{"data":"0x1"}',
            '{"withSigners":true}',
            '"pending"',
            "[]",
            f'"{HASH}"',
        ]
    ),
    max_size=4,
).map(lambda items: f"[{','.join(items)}]".encode())


@given(
    st.sampled_from([rule.method for rule in RULES] + ["x_y"]),
    PARAMS,
    st.sampled_from([VIEW, FORKING, ChainSnapshot()]),
)
def test_planning_never_raises_and_never_keeps_what_it_does_not_know(
    method: str, params: bytes, view: ChainSnapshot
) -> None:
    plan = planner().plan(method, params, view)
    if plan.kept:
        assert view.known
        assert plan.rule.known
        assert plan.cache not in (CacheClass.NEVER, CacheClass.NODE)
    if plan.block is not None and plan.cache is CacheClass.BY_NUMBER:
        assert plan.min_head >= min(plan.block, view.best)


def flight(method: str, params: str, view: ChainSnapshot, *, final_at_once: bool = True) -> bytes | None:
    return planner(final_at_once=final_at_once).plan(method, params.encode(), view).flight_key


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("n_receipt", f'["{HASH}"]'),  # null now, mined in the next block
        ("n_block", "[101,{}]"),  # above the head now
        ("n_signers", "[100]"),  # the signers of the head stand in the next block
    ],
)
def test_who_comes_after_a_new_head_does_not_wait_for_an_answer_that_may_be_older(method: str, params: str) -> None:
    later = ChainSnapshot(serial=2, head=101, best=101, final=101, eth_chain_id=1666600000)
    assert flight(method, params, VIEW) != flight(method, params, later)


def test_who_comes_after_a_reorganisation_does_not_wait_for_an_answer_of_the_old_branch() -> None:
    turned = ChainSnapshot(serial=2, head=100, best=101, final=64, finalized=64, fork_epoch=1, eth_chain_id=1)
    for method, params in (("n_receipt", f'["{HASH}"]'), ("e_call", '[{"to":"0x1"},"0x60"]')):
        before, after = (flight(method, params, view, final_at_once=False) for view in (FORKING, turned))
        assert before != after


def test_what_is_settled_is_one_flight_whatever_the_head() -> None:
    later = ChainSnapshot(serial=2, head=101, best=101, final=101, eth_chain_id=1666600000)
    assert flight("n_block", "[99,{}]", VIEW) == flight("n_block", "[99,{}]", later) is not None


def test_a_plan_says_at_which_head_it_was_made() -> None:
    assert planner().plan("n_block", b"[5,{}]", VIEW).head == 100


def test_who_asks_for_a_number_is_not_in_a_flight_whose_tag_may_be_read_anew() -> None:
    latest, number = (planner().plan("n_block", params, VIEW) for params in (b'["latest",{}]', b"[100,{}]"))
    assert (latest.key, latest.head_key) == (number.key, number.head_key)
    assert latest.flight_key != number.flight_key


def test_a_call_that_was_made_before_is_remembered_with_its_uses() -> None:
    made = planner()
    assert made.uses("n_block", b"[5,{}]") is None
    made.plan("n_block", b"[5,{}]", VIEW)
    assert made.uses("n_block", b"[5,{}]") is None
    remembered(made, "n_block", b"[5,{}]")
    uses = made.uses("n_block", b"[5,{}]")
    assert uses is not None
    assert uses.count == 2
    remembered(made, "n_block", b"[5,{}]")
    assert uses.count == 3
    assert at_once(made.hottest()) == [("n_block", b"[5,{}]")]


PARAMS = {
    "nothing moves": ("eth_getBalance", b'["0x%040x","0x10"]'),
    "a reference moves": ("eth_getBalance", b'["0x%040x","latest"]'),
    "long, and nothing moves": ("eth_call", b'[{"to":"0x%03900x"},"0x10"]'),
    "long, and a reference moves": ("eth_call", b'[{"to":"0x%03900x"},"latest"]'),
    "a range": ("hmyv2_getBlocks", b'["0x%x","0xfff",{"fullTx":true}]'),
    "logs": ("eth_getLogs", b'[{"fromBlock":"0x1","toBlock":"0x2","topics":["0x%064x"]}]'),
    "a long tree": ("eth_getLogs", b'[{"fromBlock":"0x1","toBlock":"latest","address":["0x%0360x"]}]'),
    "a tree of many items": ("eth_getBalance", b'["0x%040x",{"blockNumber":"0x1"},[' + b'{"b":[]},' * 150 + b"{}]]"),
    "no rule": ("foo_bar", b'["%03900x"]'),
    "not understood": ("eth_getBalance", b'{"a":"%03900x"}'),
}


@pytest.mark.parametrize("form", PARAMS)
@pytest.mark.parametrize("hash_key", ["method", "params"])
def test_a_remembered_plan_weighs_what_it_is_counted_with(form: str, hash_key: HashKey) -> None:
    (method, params), chain, memos = PARAMS[form], chains.load("harmony"), Memos(64 << 20)
    makes = Planner("net", chain.rules, chain.tags, final_at_once=True, hash_key=hash_key, memos=memos)
    remembered(makes, method, params % 1)
    gc.collect()
    tracemalloc.start()
    before, counted = tracemalloc.get_traced_memory()[0], memos.size
    for number in range(2, 82):
        remembered(makes, method, params % number)
    makes._patterns.clear()  # bounded in number and no part of a plan, but a range has one for each of its blocks
    gc.collect()
    held, counted = tracemalloc.get_traced_memory()[0] - before, memos.size - counted
    tracemalloc.stop()
    assert 0.7 < held / counted < 1.25


def test_references_are_counted_too_and_long_ones_not_remembered() -> None:
    chain, memos = chains.load("harmony"), Memos()
    makes = Planner("net", chain.rules, chain.tags, final_at_once=True, memos=memos)
    for number in range(100):
        makes.plan("eth_getBalance", b'["0x0","%01000x"]' % number, VIEW)
        makes.plan("eth_getBalance", b'["0x0","0x%x"]' % number, VIEW)
    (reader,) = makes._readers.values()
    assert len(reader._refs) == 100


def test_a_plan_at_another_view_is_not_remembered() -> None:
    chain = chains.load("harmony")
    planner = Planner("n", chain.rules, chain.tags, final_at_once=True)
    view = ChainSnapshot(serial=1, head=100, best=100, final=100, eth_chain_id=1, network_id=1)
    call = ("eth_getBalance", b'["0x01","latest"]')
    assert planner.plan_at(*call, replace(view, head=99)).block == 99
    before = planner.plan(*call, view)
    planner.remember(before, view)
    lower = planner.plan_at(*call, replace(view, head=99))
    assert (before.block, lower.block, lower.min_head) == (100, 99, 99)
    assert planner.plan(*call, view) is before


def test_keys_follow_blocks_0_and_1_and_there_are_none_while_block_1_is_yet_to_be_asked_for() -> None:
    zero, one = "0x" + "12" * 32, "0x" + "34" * 32
    makes = planner()
    keys = [
        makes.plan("n_block", b"[5]", replace(VIEW, serial=serial, genesis=genesis, block_one=block_one)).key
        for serial, (genesis, block_one) in enumerate([("", ""), (zero, ""), (zero, None), (zero, one), (zero, "")], 7)
    ]
    assert keys == [
        b"net@1666600000:n_block:n:[5]",
        b"net@1666600000.121212121212:n_block:n:[5]",
        None,
        b"net@1666600000.121212121212.34343434:n_block:n:[5]",
        b"net@1666600000.121212121212:n_block:n:[5]",
    ]
