"""How blocks and logs are fetched for subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.log_filter import EVERYTHING
from rpcaccel.dataplane.live.block_source import BlockSource, NotFetched
from tests.support.dataplane.live_world import LiveWorld

T = TypeVar("T")


@pytest.fixture
def final() -> Iterator[LiveWorld]:
    """A chain whose blocks are final at once. Only one node has the newest block, which has logs."""
    made = LiveWorld("harmony")
    grow(made)
    yield made
    assert not made.errors
    made.close()


def grow(world: LiveWorld) -> None:
    tip = world.tree.grow(world.tree.trunk)
    while not world.tree.blocks[tip].logs:
        tip = world.tree.grow(tip)
    for node in world.nodes:
        node.tip = world.tree.blocks[tip].parent
    world.tell(world.nodes[0].tip)
    world.nodes[0].tip = tip
    world.tell(tip)


def newest(world: LiveWorld, header: bytes = b"{}") -> LiveBlock:
    block = world.tree.blocks[world.nodes[0].tip]
    return LiveBlock(block.number, block.hash, block.parent, header)


def start(world: LiveWorld, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = world.loop.create_task(work)
    world.settle()
    return task


def source(world: LiveWorld) -> BlockSource:
    return BlockSource(world.network, world.engine)


def arrive(world: LiveWorld, seconds: float = 12.0, *, dead: str = "") -> list[str]:
    """Calls are answered, except by a dead node; the names of the nodes that answered."""
    asked = []
    for _ in range(int(seconds * 2)):
        for call in world.sent:
            if call.node.name == dead:
                call.lose()
            else:
                asked.append(call.node.name)
                call.deliver()
        world.settle()
        world.wait(0.5)
    return asked


def fall(world: LiveWorld) -> None:
    """The node that has the newest block loses it, and what it was asked meanwhile; the head falls."""
    world.nodes[0].tip = world.tree.blocks[world.nodes[0].tip].parent
    world.tell(world.nodes[0].tip)
    for call in world.sent:
        call.lose()
    world.settle()


@pytest.mark.parametrize("dead", ["n0", ""])
@pytest.mark.parametrize("tries", [0, 1])
def test_a_node_that_lacks_the_block_is_not_believed_about_its_logs(final: LiveWorld, tries: int, dead: str) -> None:
    block = newest(final)
    task = start(final, source(final).logs(block, EVERYTHING, tries))
    assert [call.node.name for call in final.sent] == ["n0"]
    fall(final)
    asked = arrive(final, dead=dead)
    assert isinstance(task.exception(), NotFetched)
    if tries:
        assert set(asked) <= {"n0"}, "nobody who is behind is asked"


def test_logs_above_the_served_head_are_asked_of_the_node_that_has_them(final: LiveWorld) -> None:
    block = newest(final)
    final.tell(block.parent)
    task = start(final, source(final).logs(block, EVERYTHING))
    assert arrive(final) == ["n0"]
    assert task.result()


def test_a_range_that_was_shared_is_not_believed_of_a_node_that_lacks_its_end(final: LiveWorld) -> None:
    block = newest(final)
    task = start(final, source(final).logs_between(block.number - 20, block.number, EVERYTHING))
    assert [call.node.name for call in final.sent] == ["n0"]
    fall(final)
    arrive(final, dead="n0")
    assert isinstance(task.exception(), NotFetched)


def test_logs_that_nobody_had_for_a_while_are_asked_of_the_node_that_comes_along(final: LiveWorld) -> None:
    block = newest(final)
    task = start(final, source(final).logs(block, EVERYTHING, 1))
    fall(final)
    for call in final.sent:
        call.lose()
    final.settle()
    assert not final.sent
    final.nodes[1].tip = block.hash
    final.tell(block.hash)
    assert arrive(final) == ["n1"]
    assert task.result()
