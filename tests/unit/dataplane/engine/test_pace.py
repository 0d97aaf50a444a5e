"""How long calls are paused: by the pace of the chain as it was measured, whatever its table says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from rpcaccel.core.replies.answer import Answer
from tests.support.dataplane.world import World

TEXTS = ("header not found", "Unknown block")
"""What nodes say of a block that they do not have yet."""


@pytest.fixture
def world() -> Iterator[World]:
    made = World(kinds={"net": "ethereum"})
    yield made
    made.close()


def tell_pace(world: World, period: float) -> None:
    """Every worker is told how long a block takes."""
    for host in world.hosts:
        host.state.see(replace(host.probers["net"].heads(), block_time=period))


def ask(world: World, text: str) -> tuple[list[float], float]:
    """The pauses of a call that gets this error from every node, and how long it took altogether."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x%040d","latest"]}' % 0
    began = last = world.clock.now()
    call = world.start(world.hosts[0].ask("net", body))
    pauses = []
    while not call.done():
        if world.sent:
            pauses.append(world.clock.now() - last)
            last = world.clock.now()
        for sent in world.sent:
            sent.said = Answer(error=b'{"code":-32000,"message":"%b"}' % text.encode())
            sent.deliver()
        world.settle()
        if not (world.sent or call.done()):
            world.clock.advance(0.01)
            world.settle()
    return pauses, world.clock.now() - began


@pytest.mark.parametrize("period", [0.25, 0.5, 2.0, 12.0])
@pytest.mark.parametrize("block_time", [None, 12.0])
@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_call_about_a_head_that_is_not_there_waits_half_a_block_at_the_most_in_all(
    world: World, period: float, block_time: float | None, nodes: int, ahead: bool, text: str
) -> None:
    left_out = frozenset(node.name for node in world.nodes["net"][nodes:])
    world.run(world.adopt(world.settings_with(left_out, block_time=block_time)))
    if ahead:  # a node behind could be followed
        world.nodes["net"][nodes - 1].knobs.lag = 1
        world.chains["net"].advance()
        world.look("net")
    tell_pace(world, period)
    pauses, took = ask(world, text)
    assert took <= period / 2 + 0.05
    assert len(pauses) >= min(nodes, 2)


def test_a_pace_that_was_measured_is_kept_when_the_settings_change(world: World) -> None:
    tell_pace(world, 0.5)
    world.run(world.adopt(world.settings_with(attempts=2)))
    assert world.hosts[0].state.networks["net"].pool.settings.behind_pause == 0.25
