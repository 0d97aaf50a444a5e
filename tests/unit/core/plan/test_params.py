"""Shapes: what follows from the params alone does not move with the head."""

from __future__ import annotations

import pytest

from rpcaccel import chains
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.params import read_shape
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.rules import BlockArgument, CacheClass, Rule, Spelling

TAGS = frozenset({"latest", "earliest", "pending"})
BALANCE = Rule(method="m", cache=CacheClass.BY_NUMBER, block=BlockArgument(1, Spelling.HARMONY_NUMBER))


def test_params_that_need_no_change_are_forwarded_byte_for_byte() -> None:
    shape = read_shape("m", b'[ "one1" , "0x1A" ]', BALANCE, TAGS)
    resolved = shape.resolve(ChainSnapshot(head=100))
    assert resolved.params == b'[ "one1" , "0x1A" ]'
    assert resolved.key_params == b'["one1",26]'


def test_a_shape_is_resolved_anew_at_each_head() -> None:
    shape = read_shape("m", b'["one1","latest"]', BALANCE, TAGS)
    assert [shape.resolve(ChainSnapshot(head=head)).last for head in (5, 6)] == [5, 6]
    assert shape.resolve(ChainSnapshot()).params == b'["one1","latest"]'


def test_a_missing_block_argument_without_a_default_is_left_to_the_node_to_refuse() -> None:
    shape = read_shape("m", b'["one1"]', BALANCE, TAGS)
    assert shape.opaque
    assert shape.note == "the block argument is missing"


def test_the_routing_text_does_not_follow_the_head() -> None:
    assert read_shape("m", b'[ "one1", "latest" ]', BALANCE, TAGS).route_params == b'["one1","latest"]'


@pytest.mark.parametrize("name", chains.names())
@pytest.mark.parametrize("params", [b"[]", b"[null]", b"[ ]", b'["latest"]', b'["finalized",{"a":1}]'])
def test_what_is_kept_for_ever_is_named_by_the_call(name: str, params: bytes) -> None:
    """Harmony refuses getBlockReceipts without a block, and with a tag; a node that takes it must not be believed."""
    chain = chains.load(name)
    planner = Planner("n", chain.rules, chain.tags, final_at_once=True)
    for rule in chain.rules:
        if rule.cache is CacheClass.FOREVER:
            plan = planner.plan(rule.method, params, ChainSnapshot(head=100, final=100, eth_chain_id=1, network_id=1))
            assert (plan.key, plan.head_key, plan.flight_key) == (None, None, None), rule.method
            assert plan.params == params


def test_a_hash_or_an_epoch_names_what_is_kept_for_ever() -> None:
    rule = Rule(method="m", cache=CacheClass.FOREVER)
    for params in (b'["0x00"]', b"[0]", b'[{"a":1}]', b'[""]'):
        assert not read_shape("m", params, rule, TAGS).opaque
