"""What is called, about what."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import msgspec
import pytest

from rpcaccel.bench.load.client import ConnectionPool, parse
from rpcaccel.bench.load.workload import (
    ETHEREUM,
    HARMONY,
    LoadCall,
    NoEndpointError,
    asking,
    draw,
    learn,
    mixed,
    written,
)
from rpcaccel.simnode.server.factories import ethereum_nodes, harmony_nodes


async def test_the_ten_methods_are_answered_by_a_harmony_node_without_an_error() -> None:
    async with harmony_nodes(1) as (node,), ConnectionPool(parse(node.url), 1) as pool:
        ask = asking(pool)
        world = await learn(ask)
        assert (world.chain, world.head, world.methods) == ("harmony", node.head, HARMONY)
        assert world.validators[0].startswith("one1")
        for method in HARMONY:
            call = draw(method, world, Random(1))
            assert await ask(method, msgspec.json.decode(call.params)) is not None, method
        assert await ask("hmyv2_call", [{"to": world.contract, "data": "0x70a08231"}, "latest"]) != "0x"


async def test_an_ethereum_node_is_asked_in_its_own_words() -> None:
    async with ethereum_nodes(1) as (node,), ConnectionPool(parse(node.url), 1) as pool:
        ask = asking(pool)
        world = await learn(ask)
        assert (world.chain, world.methods, world.validators) == ("ethereum", ETHEREUM, ())
        for method in ETHEREUM:
            call = draw(method, world, Random(1))
            assert await ask(method, msgspec.json.decode(call.params)) is not None, method


async def test_what_says_no_height_is_no_endpoint() -> None:
    async def nothing(_method: str, _params: list[Any]) -> Any:
        return None

    with pytest.raises(NoEndpointError):
        await learn(nothing)


@pytest.mark.parametrize("said", ["soon", "", 7, None, ["0x1"]])
async def test_what_says_a_height_that_is_none_is_no_endpoint_either(said: object) -> None:
    async def ask(method: str, _params: list[Any]) -> Any:
        return said if method == "eth_blockNumber" else None

    with pytest.raises(NoEndpointError, match="answers neither"):
        await learn(ask)


async def test_a_node_that_knows_nothing_else_is_still_measured() -> None:
    async def height(method: str, _params: list[Any]) -> Any:
        return 5 if method == "hmyv2_blockNumber" else None

    world = await learn(height)
    assert (world.contract, world.validators) == ("0x" + "0" * 40, ())
    for call in islice(mixed(world, Random(1)), 20):
        assert msgspec.json.decode(call.body(3))["method"] == call.method


async def test_equal_seeds_make_equal_calls() -> None:
    async def height(method: str, _params: list[Any]) -> Any:
        return 5000 if method == "hmyv2_blockNumber" else None

    world = await learn(height)
    first, second, third = (list(islice(mixed(world, Random(seed)), 40)) for seed in (1, 1, 2))
    assert first == second != third
    assert {call.method for call in islice(mixed(world, Random(1), ["eth_call"]), 5)} == {"eth_call"}


def test_a_written_call_keeps_the_spelling_of_its_params() -> None:
    assert written('{"method": "a", "params": [1.50, 1e3]}') == LoadCall("a", b"[1.50, 1e3]")
    assert msgspec.json.decode(written('{"method": "a\\"b"}').body(1))["method"] == 'a"b'
    for text in ("5", "[]", '{"method": null}', '{"params": []}', "{"):
        with pytest.raises(ValueError, match=r"."):
            written(text)


def test_a_body_is_one_call() -> None:
    assert LoadCall("a_b", b"[1]").body(9) == b'{"jsonrpc":"2.0","id":9,"method":"a_b","params":[1]}'
