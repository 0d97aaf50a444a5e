"""The chain that docs/chains.md builds is treated as that page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rpcaccel import chains
from rpcaccel.config.errors import ConfigError
from rpcaccel.config.load import load
from rpcaccel.core.cache.retention import Keep, judge
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind
from tests.support.services import ROOT

PAGE = (ROOT / "docs" / "chains.md").read_text()
FILE = "".join(re.findall(r"^```toml example\.toml\n(.*?)^```", PAGE, re.M | re.S))
CHAIN = chains.read("example", FILE)
PLANNER = Planner("main", CHAIN.rules, CHAIN.tags, final_at_once=False)
VIEW = ChainSnapshot(serial=1, head=200, best=200, final=150, finalized=150, eth_chain_id=7)
WORDS = {Keep.LASTING: "for good", Keep.UNTIL_HEAD: "until the next block", Keep.SKIP: "no"}
CALLS = re.findall(r"^\| `(\w+_\w+)` \| `(\[.*?\])` \| ([\w-]+) \| ([\w ]+) \| ([\w ]+) \|$", PAGE, re.M)


def test_the_page_shows_a_chain_with_methods_of_its_own_and_all_of_ethereum() -> None:
    own = {rule.method for rule in CHAIN.rules} - {rule.method for rule in chains.load("ethereum").rules}
    assert own == {"example_getReward", "example_peers"}
    assert {method for method, *_ in CALLS} >= own
    assert len(CHAIN.rules) > 100


@pytest.mark.parametrize(("method", "params", "cache", "answer", "null"), CALLS)
def test_a_call_is_planned_and_kept_as_the_page_says(
    method: str, params: str, cache: str, answer: str, null: str
) -> None:
    plan = PLANNER.plan(method, params.encode(), VIEW)
    assert plan.cache == cache
    assert WORDS[judge(plan, b'"0x5"', 200, VIEW, 1000).keep] == answer
    assert WORDS[judge(plan, b"null", 200, VIEW, 1000).keep] == null


def test_what_is_said_below_the_table_of_calls_holds() -> None:
    latest = PLANNER.plan("example_getReward", b'["0xaa","latest"]', VIEW)
    assert latest.params == b'["0xaa","0xc8"]'
    assert PLANNER.plan("example_getReward", b'["0xaa","0xbe"]', VIEW).min_head == 190
    assert CHAIN.rules.get("example_adminStop").deny
    assert classify(CHAIN.errors, -32000, "block 0x64 is not executed yet").kind is FailureKind.NODE_BEHIND
    assert classify(CHAIN.errors, -32000, "nonce too low").kind is FailureKind.NONCE_TOO_LOW


def test_a_wrong_word_in_the_file_is_told_in_the_words_of_the_page() -> None:
    with pytest.raises(chains.ChainError) as told:
        chains.read("example", FILE.replace('cache = "by-number"', 'cache = "heads"'))
    assert str(told.value) in PAGE


def test_the_network_that_the_page_shows_is_valid_but_for_the_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "rpcaccel.toml"
    (shown,) = re.findall(r"^```toml rpcaccel\.toml\n(.*?)^```", PAGE, re.M | re.S)
    file.write_text(shown)
    with pytest.raises(
        ConfigError, match=r'networks\.main\.chain: found "example", expected a chain: ' + ", ".join(chains.names())
    ):
        load(file, environ={})
    file.write_text(shown.replace('"example"', '"ethereum"'))
    assert load(file, environ={}).networks["main"].nodes[0].id == "own"


def test_every_chain_there_is_has_a_row() -> None:
    assert sorted(re.findall(r"^\| \[`(\w+)`\]", PAGE, re.M)) == [*chains.names()]
