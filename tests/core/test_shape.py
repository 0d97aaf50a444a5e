"""Shapes: what follows from the params alone does not move with the head."""

from __future__ import annotations

from rpcaccel.core.rules import BlockArgument, CacheClass, Rule, Spelling
from rpcaccel.core.shape import read_shape
from rpcaccel.core.view import View

TAGS = frozenset({"latest", "earliest", "pending"})
BALANCE = Rule(method="m", cache=CacheClass.BY_NUMBER, block=BlockArgument(1, Spelling.HARMONY_NUMBER))


def test_params_that_need_no_change_are_forwarded_byte_for_byte() -> None:
    shape = read_shape("m", b'[ "one1" , "0x1A" ]', BALANCE, TAGS)
    resolved = shape.resolve(View(head=100))
    assert resolved.params == b'[ "one1" , "0x1A" ]'
    assert resolved.key_params == b'["one1",26]'


def test_a_shape_is_resolved_anew_at_each_head() -> None:
    shape = read_shape("m", b'["one1","latest"]', BALANCE, TAGS)
    assert [shape.resolve(View(head=head)).last for head in (5, 6)] == [5, 6]
    assert shape.resolve(View()).params == b'["one1","latest"]'


def test_a_missing_block_argument_without_a_default_is_left_to_the_node_to_refuse() -> None:
    shape = read_shape("m", b'["one1"]', BALANCE, TAGS)
    assert shape.opaque
    assert shape.note == "the block argument is missing"


def test_the_routing_text_does_not_follow_the_head() -> None:
    assert read_shape("m", b'[ "one1", "latest" ]', BALANCE, TAGS).route_params == b'["one1","latest"]'
