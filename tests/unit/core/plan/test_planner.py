"""Plans: what a call means at a head, and which calls are the same call."""

from __future__ import annotations

from typing import Any

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
from tests.support.held_memory import bytes_held

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


LATER = replace(VIEW, serial=2, head=101, final=101)
TURNED = replace(FORKING, serial=2, fork_epoch=1)
"""The view after a reorganisation."""


def planner(*, final_at_once: bool = True, hash_key: HashKey = "params", network: str = "net") -> Planner:
    table = RuleTable({rule.method: rule for rule in RULES})
    tags = HARMONY_TAGS if final_at_once else ETHEREUM_TAGS
    return Planner(network, table, tags, final_at_once=final_at_once, hash_key=hash_key)


def made(method: str, params: str, view: ChainSnapshot = VIEW, **options: Any) -> Plan:
    """The plan of a call on a chain whose blocks are final at once."""
    return planner(**options).plan(method, params.encode(), view)


def forked(method: str, params: str, view: ChainSnapshot = FORKING) -> Plan:
    """The plan of a call on a chain that can reorganise."""
    return made(method, params, view, final_at_once=False)


IS: dict[str, tuple[str, str, dict[str, object]]] = {
    "without a rule it is forwarded as it is and shared with nobody": (
        "foo_bar", '[ "latest" ]', {"params": b'[ "latest" ]', "kept": False, "flight_key": None, "repeat": False,
                                    "hedge": False, "min_head": 100}),
    "the head is known": ("n_blockNumber", "[]", {"local": b'"0x64"'}),
    "the chain id is known": ("n_chainId", "[]", {"local": b'"0x63564c40"'}),
    "the network id is known": ("n_version", "[]", {"local": b'"1"'}),
    "nobody here answers with params that the method does not take": ("n_chainId", "[1]", {"local": None}),
    "it says at which head it was made": ("n_block", "[90,{}]", {"head": 100}),
    "only nodes that have the block are asked": ("n_block", "[90,{}]", {"min_head": 90}),
    "only nodes that have the block's successor are asked": ("n_signers", "[90]", {"min_head": 91}),
    "an option wants the successor": ("n_block", '[90,{"withSigners":true}]', {"min_head": 91}),
    "an option does not want the successor": ("n_block", '[90,{"withSigners":false}]', {"min_head": 90}),
    "a block above every head is asked of the nodes furthest ahead": ("n_block", "[5000,{}]", {"min_head": 101}),
    "signers at latest are left to the node to refuse": ("n_signers", '["latest"]', {"params": b'["latest"]',
                                                                                     "key": None, "kept": True}),
    "input is copied to data": ("n_call", '[{"to":"0x1","input":"0x2"},"0x1a"]',
                                {"params": b'[{"to":"0x1","data":"0x2"},"0x1a"]'}),
    "data beside input is left as it is": ("n_call", '[{"data":"0x1","input":"0x2"},"0x1a"]',
                                           {"params": b'[{"data":"0x1","input":"0x2"},"0x1a"]'}),
    "pending is never kept": ("n_call", '[{},"pending"]', {"kept": False, "pending": True}),
    "a range carries both ends": ("n_blocks", '[90,"latest",{}]', {"first_block": 90, "block": 100, "min_head": 100}),
    "a range from a tag is not kept": ("n_blocks", '["latest","latest",{}]', {"kept": False}),
    "a head-class answer about an old block is keyed by the head": (
        "n_validator", f"[{ADDRESS},50]", {"key": None, "kept": True, "min_head": 100,
                                           "params": f"[{ADDRESS},50]".encode()}),
    "a past epoch never changes": ("n_validators", "[6]", {"cache": CacheClass.FOREVER}),
    "the present epoch is read at each head": ("n_validators", "[7]", {"cache": CacheClass.EPOCH}),
    "the epoch is keyed by the head": ("n_epoch", "[]", {"key": None, "kept": True}),
    "what differs by node is shared with nobody": ("n_peers", "[]", {"kept": False, "block": None, "flight_key": None,
                                                                     "min_head": -1}),
    "a send is not kept and not hedged": ("n_send", '["0x1"]', {"kept": False, "hedge": False, "min_head": -1}),
    "a transaction is final by its hash": ("n_receipt", f'["{HASH}"]', {"final": True}),
}  # fmt: skip
IS_FORKED: dict[str, tuple[str, str, dict[str, object]]] = {
    "pending differs by node": ("e_call", '[{},"pending"]', {"cache": CacheClass.NODE}),
    "finalized is its number": ("e_call", '[{},"finalized"]', {"params": b'[{},"0x40"]', "final": True,
                                                               "key": forked("e_call", '[{},"0x40"]').key}),
    "safe that no node tells is left to the node": ("e_call", '[{},"safe"]', {"params": b'[{},"safe"]', "key": None}),
    "a block named by hash is kept for ever": ("e_call", f'[{{}},"{HASH}"]', {"cache": CacheClass.FOREVER}),
    "unless it must be canonical": ("e_call", f'[{{}},{{"blockHash":"{HASH}","requireCanonical":true}}]',
                                    {"key": None}),
    "a transaction may move": ("n_receipt", f'["{HASH}"]', {"final": False}),
    "a missing bound of logs is the head": (
        "e_logs", '[{"fromBlock":"0x10","address":"0x1"}]',
        {"params": b'[{"fromBlock":"0x10","address":"0x1","toBlock":"0x64"}]', "first_block": 16, "block": 100,
         "key": forked("e_logs", '[{"address":"0x1","toBlock":"latest","fromBlock":"0x10"}]').key}),
    **{f"a missing block means latest in {params}": (
        "e_call", params, {"params": b'[{},"0x64"]', "key": forked("e_call", '[{},"0x64"]').key})
       for params in ("[{}]", "[{},null]", '[{},"latest"]')},
    "a key with a fork epoch stays out of the second tier": ("e_call", '[{},"0x60"]', {"shared_keys": ()}),
}  # fmt: skip


@pytest.mark.parametrize("what", IS)
def test_a_plan_says(what: str) -> None:
    method, params, told = IS[what]
    plan = made(method, params)
    assert {name: getattr(plan, name) for name in told} == told


@pytest.mark.parametrize("what", IS_FORKED)
def test_where_the_chain_can_reorganise_a_plan_says(what: str) -> None:
    method, params, told = IS_FORKED[what]
    plan = forked(method, params)
    assert {name: getattr(plan, name) for name in told} == told


@pytest.mark.parametrize("spelling", ["26", '"26"', '"0x1a"', '"0x1A"', " 26 "])
def test_every_spelling_the_node_reads_as_one_block_is_one_key(spelling: str) -> None:
    assert made("n_block", f"[{spelling},{{}}]").key == made("n_block", "[26,{}]").key


@pytest.mark.parametrize("other", ['"0x0026"', "27", "26.0", '"0x026"', "-26"])
def test_a_spelling_the_node_reads_otherwise_is_another_key_or_none(other: str) -> None:
    assert made("n_block", f"[{other},{{}}]").key != made("n_block", "[26,{}]").key


def test_the_two_names_of_a_calls_data_share_a_key() -> None:
    assert (
        made("n_call", '[{"to":"0x1","input":"0x2"},"0x1a"]').key
        == made("n_call", '[{"data":"0x2","to":"0x1"},26]').key
    )


def test_latest_and_the_head_by_number_share_keys_until_the_head_moves_and_the_node_is_sent_the_number() -> None:
    latest, number = made("n_call", '[{"to":"0x1"},"latest"]'), made("n_call", '[{"to":"0x1"},"0x64"]')
    assert (latest.key, latest.head_key) == (number.key, number.head_key)
    assert (latest.params, latest.min_head) == (b'[{"to":"0x1"},"0x64"]', 100)
    assert (latest.cache, number.cache) == (CacheClass.HEAD, CacheClass.BY_NUMBER)
    assert latest.flight_key != number.flight_key, "a tag may be read anew on the way"
    assert forked("e_call", '[{},"latest"]').flight_key != forked("e_call", '[{},"0x64"]').flight_key
    after = made("n_call", '[{"to":"0x1"},"latest"]', LATER)
    assert (after.params, after.key == latest.key) == (b'[{"to":"0x1"},"0x65"]', False)


@pytest.mark.parametrize(
    "params",
    ['{"a":1}', '[{"a":1,"a":2},"latest"]', "[{}]", '[{},"LATEST"]', "[{},null]", '[{},{"blockNumber":"0x1","x":1}]'],
)
def test_what_cannot_be_read_with_certainty_is_forwarded_unchanged_and_never_kept(params: str) -> None:
    plan = made("n_call", params)
    assert (plan.params, plan.kept, plan.flight_key, bool(plan.note)) == (params.encode(), False, None, True)


@pytest.mark.parametrize(
    "params", ['[{"FromBlock":"0x1"}]', f'[{{"blockHash":"{HASH}","toBlock":"0x1"}}]', '[{"fromBlock":5}]']
)
def test_a_filter_that_readers_may_disagree_on_is_passed_on(params: str) -> None:
    plan = forked("e_logs", params)
    assert (plan.params, plan.kept) == (params.encode(), False)


def test_a_block_that_is_not_settled_is_kept_at_one_head_of_one_branch_only() -> None:
    doubted = replace(FORKING, serial=3, doubt=37)
    one, other = (forked("e_call", '[{},"0x60"]', view) for view in (FORKING, TURNED))
    assert (one.key, other.key, one.head_key == other.head_key) == (None, None, False)
    settled = [forked("e_call", '[{},"0x40"]', view).key for view in (FORKING, TURNED, doubted)]
    assert settled[0] == settled[1]
    assert settled[2] is None, "a machine hidden behind a URL may still be on another branch"
    assert made("n_call", '[{},"0x40"]', doubted).key is not None, "there are no branches"


def test_the_second_tier_holds_final_answers_and_those_at_a_head_where_there_are_no_branches() -> None:
    final, harmony = forked("e_call", '[{},"0x40"]'), made("n_call", '[{},"0x40"]')
    assert final.shared_keys == (final.key,)
    assert harmony.shared_keys == (harmony.key, harmony.head_key)


def test_safe_stands_for_its_number_and_is_not_final() -> None:
    view = replace(FORKING, safe=0x50)
    safe, named = (forked("e_call", f'[{{}},"{name}"]', view) for name in ("safe", "0x50"))
    assert (safe.params, safe.final, safe.key, safe.head_key) == (named.params, False, None, named.head_key)
    assert forked("e_call", '[{},"safe"]', replace(view, serial=2, fork_epoch=1)).head_key != safe.head_key


def test_byte_identical_raw_transactions_share_a_flight() -> None:
    one, same, other = (made("n_send", raw).flight_key for raw in ('["0x1"]', '["0x1"]', '["0x2"]'))
    assert one == same != other


def test_nothing_is_kept_before_the_chain_is_known() -> None:
    assert not made("n_call", '[{},"0x1"]', ChainSnapshot(serial=1, head=100, best=100, final=100)).kept
    assert not made("n_call", '[{},"latest"]', ChainSnapshot(serial=1, eth_chain_id=1)).kept
    assert made("n_chainId", "[]", ChainSnapshot()).local is None


def test_two_networks_and_two_chains_never_share_a_key() -> None:
    plans = made("n_block", "[26,{}]"), made("n_block", "[26,{}]", replace(VIEW, eth_chain_id=2))
    assert len({plan.key for plan in (*plans, made("n_block", "[26,{}]", network="b"))}) == 3


def test_long_params_are_in_the_key_by_their_digest_and_still_apart() -> None:
    one, other = (made("n_call", f'[{{"data":"0x{digit * 4000}"}},26]').key for digit in "12")
    assert one is not None
    assert one != other
    assert len(one) < 120


@pytest.mark.parametrize(
    ("hash_key", "route_key"),
    [("method", b"n_call"), ("first-param", b'{"a":1}'), ("params", b'n_call|[{"a":1},"latest"]'), ("client", b"")],
)
def test_the_routing_key_is_what_the_operator_chose_and_stays_when_the_head_moves(
    hash_key: HashKey, route_key: bytes
) -> None:
    assert made("n_call", '[{"a": 1}, "latest"]', hash_key=hash_key).route_key == route_key


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
    memos = Memos(1)
    makes = Planner(
        "net", RuleTable({rule.method: rule for rule in RULES}), HARMONY_TAGS, final_at_once=True, memos=memos
    )
    for number in range(2000):
        remembered(makes, "n_block", b"[%d,{}]" % number)
    assert 200 < len(makes._plans) < 1000
    assert memos.size <= memos.limit
    assert makes.uses("n_block", b"[1999,{}]") is not None


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


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("n_receipt", f'["{HASH}"]'),  # null now, mined in the next block
        ("n_block", "[101,{}]"),  # above the head now
        ("n_signers", "[100]"),  # the signers of the head stand in the next block
    ],
)
def test_who_comes_after_a_new_head_does_not_wait_for_an_answer_that_may_be_older(method: str, params: str) -> None:
    assert made(method, params).flight_key != made(method, params, LATER).flight_key


@pytest.mark.parametrize(("method", "params"), [("n_receipt", f'["{HASH}"]'), ("e_call", '[{"to":"0x1"},"0x60"]')])
def test_who_comes_after_a_reorganisation_does_not_wait_for_an_answer_of_the_old_branch(
    method: str, params: str
) -> None:
    assert forked(method, params).flight_key != forked(method, params, TURNED).flight_key


def test_what_is_settled_is_one_flight_whatever_the_head() -> None:
    assert made("n_block", "[99,{}]").flight_key == made("n_block", "[99,{}]", LATER).flight_key is not None


def test_a_call_that_was_made_before_is_remembered_with_its_uses() -> None:
    makes = planner()
    assert makes.uses("n_block", b"[5,{}]") is None
    makes.plan("n_block", b"[5,{}]", VIEW)
    assert makes.uses("n_block", b"[5,{}]") is None
    remembered(makes, "n_block", b"[5,{}]")
    uses = makes.uses("n_block", b"[5,{}]")
    assert uses is not None
    assert uses.count == 2
    remembered(makes, "n_block", b"[5,{}]")
    assert uses.count == 3
    assert at_once(makes.hottest()) == [("n_block", b"[5,{}]")]


FORMS = {
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


@pytest.mark.parametrize(("form", "hash_key"), [*((form, "params") for form in FORMS), ("nothing moves", "method")])
def test_a_remembered_plan_weighs_what_it_is_counted_with(form: str, hash_key: HashKey) -> None:
    (method, params), chain, memos = FORMS[form], chains.load("harmony"), Memos(64 << 20)
    makes = Planner("net", chain.rules, chain.tags, final_at_once=True, hash_key=hash_key, memos=memos)
    remembered(makes, method, params % 1)
    before = memos.size

    def remember() -> None:
        for number in range(2, 82):
            remembered(makes, method, params % number)
        makes._patterns.clear()  # bounded in number and no part of a plan, but a range has one for each of its blocks

    held, counted = bytes_held(remember), memos.size - before
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
