"""How blocks and logs are fetched for subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from rpcaccel.config.model import Settings
from rpcaccel.core.live.block import LiveBlock
from rpcaccel.core.live.log_filter import EVERYTHING, LogFilter
from rpcaccel.dataplane.live.block_source import ANSWERS, ANSWERS_TO_A_GUESS, BlockSource, NotFetched
from tests.support.dataplane.live_tree import ADDRESSES
from tests.support.dataplane.live_world import LiveWorld

T = TypeVar("T")


@pytest.fixture
def final() -> Iterator[LiveWorld]:
    """A chain whose blocks are final at once. Only one node has the newest block, which has logs."""
    with LiveWorld("harmony") as made:
        grow(made)
        yield made


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


BLOOM = b'{"logsBloom":"0x%b"}' % (b"f" * 511 + b"e")
"""A header whose bloom has almost every word."""
ONE, TWO = LogFilter.of(ADDRESSES[:1]), LogFilter.of(ADDRESSES)


def hide(world: LiveWorld, *names: str) -> LiveBlock:
    """All nodes are known to have the newest block, but some machines behind these are a block behind."""
    block = newest(world, BLOOM)
    for node in world.nodes:
        node.tip = block.hash
    world.tell(block.hash)
    for node in world.nodes:
        node.tip = block.parent if node.name in names else block.hash
    return block


def say(world: LiveWorld, blocks: BlockSource, block: LiveBlock, wanted: LogFilter, tries: int) -> tuple[str, int]:
    """What becomes of asking for logs once: the node that was asked, and the number of logs; -1: not believed."""
    task = start(world, blocks.logs(block, wanted, tries))
    (node,) = [call.node.name for call in world.sent]
    arrive(world, 1.0)
    error = task.exception()
    assert error is None or (isinstance(error, NotFetched) and error.lacked)
    return node, len(task.result()) if error is None else -1


def test_where_the_bloom_has_logs_a_node_that_gives_none_is_not_believed_and_another_one_asked(
    final: LiveWorld,
) -> None:
    block, blocks = hide(final, "n0", "n1"), source(final)
    said = [say(final, blocks, block, EVERYTHING, 0)]
    while said[-1][1] < 0:
        said.append(say(final, blocks, block, EVERYTHING, len(said)))
    assert said[-1] == ("n2", len(final.tree.blocks[block.hash].logs))


@pytest.mark.parametrize(
    ("kind", "wanted", "answers"),
    [
        ("harmony", EVERYTHING, ANSWERS),
        ("harmony", ONE, ANSWERS),
        ("harmony", TWO, ANSWERS_TO_A_GUESS),
        ("ethereum", EVERYTHING, ANSWERS),
        ("ethereum", ONE, ANSWERS_TO_A_GUESS),
    ],
)
def test_no_logs_are_believed_when_nodes_have_said_so_often_enough(kind: str, wanted: LogFilter, answers: int) -> None:
    with LiveWorld(kind) as world:
        tip = world.tree.grow(world.tree.trunk)
        while world.tree.blocks[tip].logs:
            tip = world.tree.grow(tip)
        for node in world.nodes:
            node.tip = tip
        world.tell(tip)
        blocks, block, said = source(world), newest(world, BLOOM), []
        for tries in range(answers):
            said.append(say(world, blocks, block, wanted, tries))
            start(world, blocks.block(tries))  # the balancer goes on
            arrive(world, 1.0)
        assert [logs for _, logs in said] == [-1] * (answers - 1) + [0]
        assert len({node for node, _ in said}) == min(answers, len(world.nodes)), "of different nodes while there are"


@pytest.mark.parametrize("header", [b"{}", b'{"logsBloom":"0x%b"}' % (b"0" * 512)])
def test_without_a_bloom_one_answer_is_enough(final: LiveWorld, header: bytes) -> None:
    block = hide(final, "n0", "n1", "n2")
    assert say(final, source(final), replace(block, header=header), EVERYTHING, 0)[1] == 0


@pytest.mark.parametrize(("depth", "final_at_once"), [(None, True), (0, True), (20, False)])
def test_blocks_are_final_at_once_unless_the_operator_set_a_depth(depth: int | None, final_at_once: bool) -> None:
    settings = {"chain": "harmony", "finality_depth": depth, "nodes": [{"id": "n0", "url": "http://n0.test"}]}
    with LiveWorld("harmony") as world:
        build = world.state.build()
        build.make(Settings.model_validate({"networks": {"other": settings}}))
        other = BlockSource(build.networks["other"], world.engine)
        assert other.final_at_once is final_at_once


def everybody_lacks(world: LiveWorld) -> LiveBlock:
    """The machines behind all nodes are a block behind, though the nodes are known to have it."""
    return hide(world, "n0", "n1", "n2")


def test_an_answer_that_several_share_is_the_word_of_one_node(final: LiveWorld) -> None:
    block, blocks = everybody_lacks(final), source(final)
    tasks = [start(final, blocks.logs(block, EVERYTHING)) for _ in range(ANSWERS + 1)]
    assert len(final.sent) == 1
    arrive(final, 1.0)
    assert all(isinstance(task.exception(), NotFetched) for task in tasks)


def test_no_logs_that_were_believed_are_believed_of_the_next_who_asks(final: LiveWorld) -> None:
    block, blocks = everybody_lacks(final), source(final)
    said = [say(final, blocks, block, EVERYTHING, tries)[1] for tries in range(ANSWERS)]
    assert said == [-1] * (ANSWERS - 1) + [0]
    again = start(final, blocks.logs(block, EVERYTHING))
    arrive(final, 1.0)
    assert again.result() == ()
