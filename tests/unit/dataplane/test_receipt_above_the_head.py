"""A receipt may name a block that is not served yet. What a client reads after it knows that block."""

from __future__ import annotations

import json
from asyncio import Task
from collections.abc import Iterator
from typing import Any

import pytest

from rpcaccel.dataplane.rpc.calls import Answered
from tests.support.dataplane.world import World

LOOKUPS = {"three": "eth_getTransactionReceipt", "one": "hmyv2_getTransactionReceipt"}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def start(world: World, network: str, method: str, *params: Any) -> Task[Answered]:
    """A call that every node answers at once."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    call = world.start(world.hosts[0].ask(network, body.encode()))
    world.let_through()
    return call


def result(call: Task[Answered]) -> Any:
    return json.loads(call.result().body)["result"]


def mined(world: World, network: str) -> str:
    """The hash of a transaction in a new block, which no host has heard of."""
    sent = world.send(network)
    world.chains[network].advance()
    return "0x" + sent.hash.hex()


@pytest.mark.parametrize("network", LOOKUPS)
def test_it_is_given_once_its_block_is_the_head_that_is_served(world: World, network: str) -> None:
    receipt = start(world, network, LOOKUPS[network], mined(world, network))
    assert not receipt.done()
    world.loop.call_soon(world.hosts[0].state.networks[network].sight.wake)
    world.settle()
    assert not receipt.done(), "a node came along, and the head is the same"
    world.look(network)
    number = result(receipt)["blockNumber"]
    named = number if isinstance(number, int) else int(number, 16)
    assert named == world.chains[network].head == world.hosts[0].state.networks[network].view.head


@pytest.mark.parametrize("network", LOOKUPS)
def test_it_waits_no_longer_than_a_look_takes(world: World, network: str) -> None:
    receipt = start(world, network, LOOKUPS[network], mined(world, network))
    world.clock.advance(0.09)
    world.settle()
    assert not receipt.done()
    world.clock.advance(0.02)
    world.settle()
    assert result(receipt) is not None


@pytest.mark.parametrize("method", ["hmyv2_latestHeader", "hmyv2_getNodeMetadata"])
def test_what_names_no_transaction_waits_for_nothing(world: World, method: str) -> None:
    mined(world, "one")
    assert result(start(world, "one", method)) is not None


@pytest.mark.parametrize("network", LOOKUPS)
def test_one_that_is_not_mined_or_below_the_head_waits_for_nothing(world: World, network: str) -> None:
    sent = world.send(network)
    name = "0x" + sent.hash.hex()
    assert result(start(world, network, LOOKUPS[network], name)) is None
    world.chains[network].advance()
    world.look(network)
    assert result(start(world, network, LOOKUPS[network], name)) is not None
