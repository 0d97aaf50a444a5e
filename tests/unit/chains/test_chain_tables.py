"""Reading a chain's file: what it gives, and what is said when it is wrong."""

from __future__ import annotations

from datetime import date
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.chains import ChainError
from rpcaccel.config.model import NodeSettings
from rpcaccel.config.value_types import named_nodes
from rpcaccel.core.agreement.equality import comparable
from rpcaccel.core.plan.rules import UNKNOWN_RULE, CacheClass, Spelling
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind

SMALL = """
[chain]
block_time = 2.0
finality = "depth"
finality_depth = 10
tags = ["latest"]
[chain.identity]
head = { method = "eth_blockNumber" }
eth_chain_id = { method = "eth_chainId" }

[[rules]]
why = "a test"
namespaces = ["a", "b"]
names = ["one", "two"]
cache = "by-number"
block = { at = 0, spelling = "hex-or-tag" }

[[rules]]
why = "another"
methods = ["c_three"]
cache = "head"

[[errors]]
kind = "unknown"
why = "not known"

[[errors]]
kind = "pruned"
why = "gone"
codes = [-32000]
contains = ["Missing", ["old", "state"]]
"""


def test_every_file_is_a_chain_and_each_loads() -> None:
    assert {"ethereum", "harmony"} <= set(chains.names())
    for name in chains.names():
        chain = chains.load(name)
        assert chain.name == name
        assert len(chain.rules) > 100
        assert chain.errors.default.kind is FailureKind.UNKNOWN


@pytest.mark.parametrize("name", chains.names())
def test_public_endpoints_are_urls_of_one_chain_with_the_day_of_the_list(name: str) -> None:
    chain = chains.load(name)
    assert [one.shard for one in chain.public] == sorted({one.shard for one in chain.public})
    assert chain.public[0].shard == 0
    for one in chain.public:
        assert date.fromisoformat(one.looked_at) >= date(2026, 11, 29)
        assert not chain.chain_ids or one.chain_id in chain.chain_ids
        assert len(set(one.endpoints)) == len(one.endpoints) > 0
        for url, node in zip(one.endpoints, named_nodes(one.endpoints), strict=True):
            assert urlsplit(url).scheme == "https"
            assert NodeSettings.model_validate(node).id


def test_a_chain_id_is_claimed_by_one_file_at_most() -> None:
    every = [chains.load(name) for name in chains.names()]
    claimed = [chain_id for chain in every for chain_id in chain.chain_ids]
    assert sorted(claimed) == sorted(set(claimed)) == [10, 56, 100, 137, 8453, 42161, 43114]
    assert all(bool(chain.chain_ids) == bool(chain.base) for chain in every)
    assert all(chains.of_chain_id(chain_id) in every for chain_id in claimed)
    assert chains.of_chain_id(1337) is chains.of_chain_id(None) is None


@pytest.mark.parametrize("name", [name for name in chains.names() if chains.load(name).base])
def test_a_chain_with_a_base_differs_from_it_and_drops_none_of_its_methods(name: str) -> None:
    own = chains.load(name)
    base = chains.load(own.base)
    told = ("block_time", "finality_depth", "provable", "rules")
    assert any(getattr(own, member) != getattr(base, member) for member in told)
    assert {rule.method for rule in base.rules} <= {rule.method for rule in own.rules}
    for rule in base.rules:
        assert own.rules.get(rule.method).cache is rule.cache
    assert own.finality == "tag"
    assert own.finality_depth >= base.finality_depth


def test_what_a_chain_hashes_otherwise_than_ethereum_is_not_judged() -> None:
    polygon, avalanche = chains.load("polygon"), chains.load("avalanche")
    assert not polygon.provable.transactions
    assert not any(polygon.rules.get(method).shows for method in ("eth_getLogs", "eth_getTransactionReceipt"))
    assert not avalanche.provable.header.members
    assert chains.load("base").provable == chains.load("ethereum").provable


def test_a_chain_is_read_once() -> None:
    assert chains.load("harmony") is chains.load("harmony")


def test_a_chain_nobody_wrote_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ChainError, match=r"no chain is called 'dogecoin': there are .*ethereum.*, harmony"):
        chains.load("dogecoin")


def test_a_group_holds_for_every_name_in_every_namespace() -> None:
    rules = chains.read("small", SMALL).rules
    assert {rule.method for rule in rules} == {"a_one", "a_two", "b_one", "b_two", "c_three"}
    rule = rules.get("b_two")
    assert (rule.cache, rule.why) == (CacheClass.BY_NUMBER, "a test")
    assert rule.block is not None
    assert rule.block.spelling is Spelling.HEX_OR_TAG
    assert rules.get("c_one") is UNKNOWN_RULE


def test_methods_denied_by_a_pattern_need_no_rule_and_another_chain_can_take_them_over() -> None:
    text = SMALL + '\n[[denied]]\nwhy = "drives the node"\npatterns = ["c_t*", "admin_*"]\n'
    rules = chains.read("small", text).rules
    assert [rules.get(method).deny for method in ("c_three", "admin_any", "a_one", "b_none")] == [
        True,
        True,
        False,
        False,
    ]
    assert (rules.get("admin_any").why, rules.get("admin_any").known) == ("drives the node", False)
    taken_over = chains.read("small", SMALL.replace("block_time", 'denied_from = "ethereum"\nblock_time')).rules
    assert taken_over.get("personal_unlockAccount").deny
    assert taken_over.get("debug_cpuProfile").deny, "ethereum denies it by a rule"
    assert not taken_over.get("c_three").deny


def test_what_differs_without_meaning_is_read_with_what_the_rules_say_and_what_another_chain_says() -> None:
    own = """
    [[chain.differences.members]]
    why = "a test"
    methods = ["a_*"]
    names = ["logs.x"]
    way = "optional"
    [[chain.differences.never]]
    why = "another test"
    methods = ["c_three"]
    """
    text = SMALL.replace("[[rules]]", own + "[[rules]]", 1).replace('cache = "by-number"', 'cache = "node"')
    read = chains.read("small", text).differences
    assert [(row.names, row.way) for row in read.members] == [(("logs.x",), "optional")]
    assert [row.why for row in read.never] == ["another test", *["a test"] * 4]
    assert not any(comparable(method, read) for method in ("a_one", "b_two", "c_three"))
    assert comparable("a_three", read)
    more = chains.read("small", text.replace("block_time", 'base = "ethereum"\nblock_time')).differences
    assert more.members == read.members + chains.load("ethereum").differences.members
    assert not comparable("trace_block", more)


def test_what_results_look_like_is_said_for_many_methods_at_once() -> None:
    forms = '\n[[forms]]\nform = "list"\nnamespaces = ["a"]\nnames = ["one"]\nmethods = ["c_three"]\n'
    rules = chains.read("small", SMALL + forms).rules
    assert {rule.method for rule in rules if rule.form == "list"} == {"a_one", "c_three"}
    with pytest.raises(ChainError, match=r"\[\[forms\]\] number 1 \(one …\), key names: c_four has no rule"):
        chains.read("small", SMALL + forms.replace("c_three", "c_four"))


def test_error_texts_are_compared_in_lower_case_and_a_list_means_all_of_it() -> None:
    errors = chains.read("small", SMALL).errors
    assert classify(errors, -32000, "MISSING trie").kind is FailureKind.PRUNED
    assert classify(errors, -32000, "the State is too OLD").kind is FailureKind.PRUNED
    assert classify(errors, -32000, "the state is fine").kind is FailureKind.UNKNOWN
    assert classify(errors, -32001, "missing").kind is FailureKind.UNKNOWN


def test_members_that_fill_later_are_those_of_the_file_and_of_its_base() -> None:
    tags = 'tags = ["latest"]'
    text = SMALL.replace(tags, tags + '\nbase = "ethereum"\nfills_later = ["provenAt"]', 1)
    starts = [member.start for member in chains.read("small", text).rules.get("eth_getBlockByHash").fills_later]
    assert starts == [b'"provenAt', b'"l1Batch']


@pytest.mark.parametrize("name", ["*", "ab*", "a*b", 'a"b', ""])
def test_a_member_that_fills_later_has_a_name_or_a_beginning(name: str) -> None:
    tags = 'tags = ["latest"]'
    text = SMALL.replace(tags, tags + f"\nfills_later = ['{name}']", 1)
    with pytest.raises(ChainError, match=r"small.toml: \[chain\], key fills_later: .* expected the name of a member"):
        chains.read("small", text)


def test_a_chain_of_the_kind_of_another_says_only_what_is_different() -> None:
    text = '[chain]\nbase = "ethereum"\nblock_time = 1.0\nchain_ids = [42220]\nlive.port_offsets = [7]'
    own, base = chains.read("celo", text), chains.load("ethereum")
    for name in ("finality_depth", "tags", "identity", "errors", "examination", "differences", "late", "untraced"):
        assert getattr(own, name) == getattr(base, name), name
    assert {rule.method for rule in own.rules} == {rule.method for rule in base.rules}
    assert (own.block_time, own.chain_ids, base.chain_ids) == (1.0, {42220}, set())
    assert own.live == replace(base.live, port_offsets=(7,))
    final = chains.read("celo", text + '\nidentity.final = { method = "celo_final" }').identity.final
    assert final == chains.Probe("celo_final"), "a call is one value: nothing of the base's params is in it"


def test_a_chain_may_take_rules_and_error_rows_from_another_and_change_some() -> None:
    text = SMALL.replace("block_time", 'base = "ethereum"\nblock_time')
    chain = chains.read("layer2", text.replace('methods = ["c_three"]', 'methods = ["eth_gasPrice", "eth_accounts"]'))
    assert chain.rules.get("eth_accounts").why == "another"
    assert chain.rules.get("eth_call") == chains.load("ethereum").rules.get("eth_call")
    assert classify(chain.errors, -32000, "missing link").rule_text == "gone"
    assert classify(chain.errors, -32000, "nonce too low").kind is FailureKind.NONCE_TOO_LOW
    assert classify(chain.errors, -32000, "what?").rule_text == "not known"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('cache = "head"', 'cache = "heads"', r"\[\[rules\]\] number 2 \(c_three …\), key cache: Invalid enum value"),
        ('cache = "head"', 'cash = "head"', r"\[\[rules\]\] number 2 .*unknown field `cash`"),
        (
            'spelling = "hex-or-tag"',
            'spelling = "roman"',
            r"number 1 \(one …\), key block.spelling: Invalid enum value",
        ),
        ('methods = ["c_three"]', 'methods = ["a_one"]', r"number 2 \(a_one …\), key names: a_one has a rule already"),
        ('methods = ["c_three"]', "", r"number 2, key names: give namespaces and names, or methods"),
        ('namespaces = ["a", "b"]', "", r"number 1 \(one …\), key names: give namespaces and names"),
        ('cache = "head"', 'cache = "head"\nmethod = "a_one"', r"key method: expected full names under methods"),
        ('cache = "head"', 'cache = "head"\nskip = ["odd"]', r"key skip\[0\]: Invalid enum value 'odd'"),
        ('cache = "head"', 'cache = "head"\nneeds = ["luck"]', r"key needs\[0\]: Invalid enum value 'luck'"),
        ('kind = "pruned"', 'kind = "lost"', r"\[\[errors\]\] number 2, key kind: Invalid enum value 'lost'"),
        ("codes = [-32000]\n" + 'contains = ["Missing", ["old", "state"]]', "", r"number 2, key codes: without codes"),
        ('why = "not known"', 'why = "not known"\ncodes = [1]', r"\[\[errors\]\] number 1: the row for what nobody"),
        ("block_time = 2.0", "", r"\[chain\]: Object missing required field `block_time`"),
        ("block_time = 2.0", 'block_time = "2"', r"\[chain\], key block_time: Expected `float`"),
        (
            "block_time = 2.0",
            'block_time = 2.0\nbase = "x"',
            r"\[chain\], key base: there is no other chain 'x'",
        ),
        (
            "[chain.identity]",
            "[[forms]]\nid = 1\n[chain.identity]",
            r"\[\[forms\]\] number 1: Object contains unknown field `id`",
        ),
        ("[chain.identity]", "[forms]\n[chain.identity]", r"forms is written \[\[forms\]\]"),
        (
            "[chain.identity]",
            "[[nets]]\n[chain.identity]",
            r"unknown table 'nets': expected one of chain, denied, errors, forms, rules",
        ),
        (
            "[[rules]]",
            '[[chain.differences.members]]\nwhy = ""\nmethods = []\nnames = []\nway = "odd"\n[[rules]]',
            r"\[chain\], key differences.members\[0\].way: Invalid enum value 'odd'",
        ),
        (
            "[[rules]]",
            '[[chain.differences.members]]\nwhy = ""\nmethods = []\nnames = []\nway = "alike"\n[[rules]]',
            r"\[chain\], key differences.members\[0\]: `values` belongs to the way",
        ),
        ("block_time", 'errors_from = "x"\nblock_time', r"key errors_from: there is no other chain 'x'"),
        ("[chain]", "[chain", r"not TOML"),
    ],
)
def test_a_wrong_file_is_told_by_file_table_and_key(old: str, new: str, words: str) -> None:
    assert old in SMALL
    with pytest.raises(ChainError, match=words) as caught:
        chains.read("small", SMALL.replace(old, new, 1))
    assert str(caught.value).startswith("small.toml: ")


def test_a_file_without_the_chain_table_or_errors_is_refused() -> None:
    with pytest.raises(ChainError, match=r"the table \[chain\] is missing"):
        chains.read("small", "")
    with pytest.raises(ChainError, match=r"\[\[errors\]\] number 1"):
        chains.read("small", SMALL[: SMALL.index("[[errors]]")])
    with pytest.raises(ChainError, match="there is no other chain 'harmony'"):
        chains.read("harmony", SMALL.replace("block_time", 'base = "harmony"\nblock_time'))
    with pytest.raises(ChainError, match=r"\[\[rules\]\] number 1: Expected `object`"):
        chains.read("small", 'rules = ["x"]\n' + SMALL[: SMALL.index("[[rules]]")])
