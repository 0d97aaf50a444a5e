"""The calls by which nodes are examined are calls that the chain's table describes."""

from __future__ import annotations

import json

import pytest

from rpcaccel import chains
from rpcaccel.chains import chain_tables
from rpcaccel.core.agreement.equality import comparable

BLOCKS = {"{block}": '"0x1"', "{first}": '"0x1"', "{last}": '"0x2"'}


@pytest.mark.parametrize("name", chains.names())
def test_every_call_of_an_examination_has_a_rule_and_params_that_are_json(name: str) -> None:
    chain = chains.load(name)
    table = chain.examination
    single = (table.state, table.logs, table.range, table.batch, table.traces)
    probes = [*(probe for probe in single if probe is not None), *table.roles.values(), *table.reads]
    assert len(probes) > 8 or name not in ("ethereum", "harmony")  # a chain may do without
    for probe in probes:
        assert probe.method in chain.rules
        params = probe.params
        for placeholder, block in BLOCKS.items():
            params = params.replace(placeholder, block)
        assert isinstance(json.loads(params), list)


@pytest.mark.parametrize("name", chains.names())
def test_what_is_compared_may_be_compared_and_names_its_block(name: str) -> None:
    chain = chains.load(name)
    for probe in chain.examination.reads:
        assert comparable(probe.method, chain.differences)
        assert "{block}" in probe.params


def test_a_node_without_traces_lacks_the_methods_that_the_table_names() -> None:
    untraced = chains.load("ethereum").untraced
    assert {"debug_traceTransaction", "debug_traceCall"} <= untraced
    assert all(method.startswith("debug_") for method in untraced), "nethermind has trace_* without them by default"
    assert not chains.load("harmony").untraced, "the rules of Harmony name a role for them"


def test_a_mistake_in_the_table_is_named() -> None:
    head = 'block_time = 1\nfinality = "depth"\ntags = []\n'
    identity = '[chain.identity]\nhead = {method = "m"}\neth_chain_id = {method = "m"}\n'
    rows = '[[errors]]\nkind = "unknown"\nwhy = "any"\n'
    with pytest.raises(chain_tables.ChainError, match=r"key examination: .*ledger"):
        chain_tables.read("x", f"[chain]\n{head}{identity}[chain.examination]\nledger = 1\n{rows}")
