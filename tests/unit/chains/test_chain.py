"""What a chain knows beside its methods."""

from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.planner import Planner


def test_harmony_is_final_at_once_and_ethereum_by_a_tag() -> None:
    harmony, ethereum = chains.load("harmony"), chains.load("ethereum")
    assert (harmony.finality, harmony.block_time) == ("instant", 2.0)
    assert "finalized" not in harmony.tags
    assert (ethereum.finality, ethereum.finality_depth, ethereum.block_time) == ("tag", 64, 12.0)
    assert ethereum.tags == {"latest", "pending", "safe", "finalized"}
    assert ethereum.identity.final is not None


@pytest.mark.parametrize(
    ("name", "depth", "finality"),
    [
        ("harmony", None, ("instant", 0)),
        ("harmony", 0, ("instant", 0)),
        ("harmony", 20, ("depth", 20)),
        ("ethereum", None, ("tag", 64)),
        ("ethereum", 0, ("depth", 0)),
        ("ethereum", 5, ("depth", 5)),
    ],
)
def test_the_depth_that_an_operator_sets_comes_before_the_chains_own(
    name: str, depth: int | None, finality: tuple[str, int]
) -> None:
    assert chains.load(name).finality_with(depth) == finality


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_getBlockByNumber", b'["earliest",false]'),
        ("eth_getBalance", b'["0xab","earliest"]'),
        ("eth_getLogs", b'[{"fromBlock":"earliest","toBlock":"0x5"}]'),
    ],
)
def test_the_earliest_block_is_each_nodes_own_where_history_is_pruned(method: str, params: bytes) -> None:
    chain = chains.load("ethereum")
    view = ChainSnapshot(serial=1, head=100, best=100, final=90, finalized=90, eth_chain_id=1)
    plan = Planner("net", chain.rules, chain.tags, final_at_once=False).plan(method, params, view)
    assert (plan.key, plan.head_key, plan.flight_key, plan.range) == (None, None, None, None)
    assert plan.params == params


def test_the_paths_that_harmony_users_know_give_a_namespace() -> None:
    assert chains.load("harmony").paths == {
        "/api/v1/hmy/v1": "hmy_",
        "/api/v1/hmy/v2": "hmyv2_",
        "/api/v1/eth": "eth_",
    }
    assert chains.load("ethereum").paths == {}


def test_probes_ask_methods_that_have_a_rule() -> None:
    for name in chains.names():
        chain = chains.load(name)
        identity = chain.identity
        probes = (identity.head, identity.eth_chain_id, identity.network_id, identity.shard, identity.final)
        for probe in (*probes, identity.role, identity.archive, identity.version):
            assert probe is None or chain.rules.get(probe.method).known


def test_the_limits_of_ranges_carry_the_nodes_own_words() -> None:
    blocks = chains.load("harmony").ranges["blocks"]
    assert (blocks.most, blocks.code) == (1024, -32000)
    assert blocks.message == "GetBlocks query must be smaller than size 1024"
    assert chains.load("harmony").ranges["logs"].message == "GetLogs query must be smaller than size 1024"
    assert not chains.load("ethereum").ranges


def test_every_way_of_splitting_stands_on_a_range() -> None:
    for name in chains.names():
        for rule in chains.load(name).rules:
            if rule.split:
                assert rule.block is not None
                assert rule.block.start is not None or "fromBlock" in rule.block.path


def test_a_chain_shows_itself_in_one_line() -> None:
    assert repr(chains.load("harmony")).startswith("<Chain harmony: 333 methods, ")
    assert repr(chains.load("harmony").rules) == "<RuleTable 333 methods>"
