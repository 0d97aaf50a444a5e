"""Whatever a client sends is answered as a node asked directly answers it, byte for byte, and so it is when the cache
takes part; nothing is kept under another call's key."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.plan.rules import Rule
from rpcaccel.simnode.server.envelope import parse
from tests.support.dataplane import odd
from tests.support.dataplane.world import World, at_once
from tests.support.properties import examples

NO_JSON = b""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def directly(world: World, network: str, body: str) -> bytes:
    """What a node says to it."""
    try:
        (call,) = parse(body.encode()).calls
    except msgspec.DecodeError:
        return NO_JSON
    return at_once(world.nodes[network][0].brain.reply(call)) or b""


def through(world: World, network: str, body: str) -> bytes:
    """What the proxy says to it."""
    task = world.start(world.hosts[0].ask(network, body.encode()))
    world.let_through()
    while not task.done():  # a node that lacks a recent block is asked again after a pause
        world.clock.advance(0.5)
        world.settle()
        world.let_through()
    return task.result().body


def compare(world: World, network: str, bodies: list[str]) -> None:
    """Each twice, in an empty cache that fills."""
    for host in world.hosts:
        world.run(host.purge(Selection()))
    told = [(body, directly(world, network, body)) for body in bodies]
    for turn in ("first", "again"):
        for body, wanted in told:
            said = through(world, network, body)
            assert said == wanted or (wanted == NO_JSON and b'"code":-32700' in said), f"{turn}: {body}"


WORLD_FOR_SHAPES = World()
HARMONY, ETHEREUM = WORLD_FOR_SHAPES.chains["one"], WORLD_FOR_SHAPES.chains["three"]
WORLD_FOR_SHAPES.close()


@settings(max_examples=examples(200))
@given(bodies=odd.bodies(HARMONY))
def test_odd_calls_to_harmony_are_answered_as_a_node_answers_them(world: World, bodies: list[str]) -> None:
    compare(world, "one", bodies)


@settings(max_examples=examples(100))
@given(bodies=odd.bodies(ETHEREUM))
def test_odd_calls_to_ethereum_are_answered_as_a_node_answers_them(world: World, bodies: list[str]) -> None:
    compare(world, "three", bodies)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("network", "rule"),
    [
        *(pytest.param("one", rule, id=rule.method) for rule in odd.rules("harmony")),
        *(pytest.param("three", rule, id=f"geth's {rule.method}") for rule in odd.rules("ethereum")),
    ],
)
def test_every_spelling_of_a_block_names_what_it_names_to_a_node(world: World, network: str, rule: Rule) -> None:
    """All in one cache: none is answered with what was kept for another."""
    compare(world, network, odd.every_spelling(world.chains[network], rule))


def test_every_method_with_a_block_argument_that_the_simulated_node_serves_is_among_them() -> None:
    assert (len(odd.rules("harmony")), len(odd.rules("ethereum"))) == (75, 15)


ACCOUNT = '"0x19b588ac7c4ba055767d8c89dfd43a655de4d61a"'
LARGE = '{"to":' + ACCOUNT + ',"data":"0x' + "5a" * 500_000 + '"}'


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_call", f'[{LARGE}, "0x1a"]'),
        ("eth_call", "[" * 50 + "]" * 50),
        ("eth_call", '[{"to":' + ACCOUNT + ',"data":' + "[" * 700 + "]" * 700 + '},"0x1a"]'),
        ("eth_getLogs", '[{"topics":' + "[" * 900 + "]" * 900 + ',"fromBlock":"0x1","toBlock":"0x2"}]'),
        ("eth_getBalance", f'[{ACCOUNT}, "0x1a" , {"[" * 100}{"]" * 100}]'),
        ("eth_getBalance", '{"address": 1}'),
        ("hmyv2_getBlocks", "[0,1000000,{}]"),
        ("hmyv2_getBlocks", "[0,1024,{}]"),
        ("hmyv2_getBlocks", "[0,1025,{}]"),
        ("hmyv2_getBlocks", "[30,20,{}]"),
        ("hmyv2_getBlocks", "[1000000,0,{}]"),
        ("hmyv2_getBlocks", '[40,"latest",{}]'),
        ("hmyv2_getBlocks", f"[0,{2**63 - 1},{{}}]"),
        ("hmyv2_getBlocks", f"[{2**63 - 1},{2**63 - 1},{{}}]"),
        ("hmyv2_getBlocks", f"[0,{2**63},{{}}]"),
        ("eth_getLogs", '[{"fromBlock":"0x0","toBlock":"0xffffffff"}]'),
        ("eth_getLogs", '[{"fromBlock":"0x20","toBlock":"0x10"}]'),
        ("eth_getLogs", '[{"fromBlock":"0x7fffffffffffffff","toBlock":"latest"}]'),
        ("hmyv2_getBlockByNumber", f"[{2**63 - 1},{{}}]"),
        ("hmyv2_getBlockByNumber", f"[{10**400},{{}}]"),
    ],
)
def test_large_deep_and_far_reaching_params_are_answered_as_a_node_answers_them(
    world: World, method: str, params: str
) -> None:
    compare(world, "one", [odd.body(method, params)])


@pytest.mark.parametrize(
    "params",
    [f'[{LARGE},"0x1a"]', '[ {"To":null, "to":null} , "0x1A" ]', '[{"data":"\\u0030x"},"0x0026"]', '[{},  "LATEST"]'],
)
def test_what_is_not_read_with_certainty_reaches_a_node_as_it_was_sent_and_is_kept_by_nobody(
    world: World, params: str
) -> None:
    compare(world, "one", [odd.body("eth_call", params)])
    reached = [sent for node in world.nodes["one"] for sent in node.counts.log if sent == ("eth_call", params.encode())]
    assert len(reached) >= 3, "twice through the proxy, once directly; a second node may be asked about an error"
    assert len(world.hosts[0].memory) == 0


@pytest.mark.parametrize(
    "body",
    [
        '{"id":7,"method":"hmyv2_blockNumber"}',
        '{"jsonrpc":"1.0","id":7,"method":"hmyv2_blockNumber","params":null}',
        '{"jsonrpc":"2.0","method":"eth_chainId","method":"hmyv2_blockNumber","id":7}',
        '{"jsonrpc":"2.0","params":[26,{}],"params":[27,{}],"method":"hmyv2_getBlockByNumber","id":7}',
        '{"jsonrpc":"2.0","id":1.50,"method":"hmyv2_getBlockByNumber","params":[26,{}]}',
        '{"jsonrpc":"2.0","id":"\\u0061","method":"hmyv2\\u005fgetBlockByNumber","params":[26,{}]}',
        '{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"HMYV2_blockNumber","params":[]}',
        ' \n{ "jsonrpc" : "2.0" , "id" : null , "method" : "hmyv2_getBlockByNumber" , "params" : [ 26 , { } ] } ',
    ],
)
def test_odd_envelopes_are_answered_as_a_node_answers_them(world: World, body: str) -> None:
    compare(world, "one", [body])
