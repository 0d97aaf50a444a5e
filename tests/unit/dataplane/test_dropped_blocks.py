"""One of three nodes has dropped its old blocks: it answers null where there is a block, a balance or a receipt, and an
empty list where there are logs. The others have them, so nobody is told that there is nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.server.sim_server import SimNode
from tests.support.dataplane.world import World, say

HEAD, OLDEST = 400, 250
HARMONY, ETHEREUM = "one", "three"
NETWORKS = (HARMONY, ETHEREUM)
KNOWN, LIMIT = 200, 600


@pytest.fixture
def world() -> Iterator[World]:
    made = World(kinds={HARMONY: "harmony", ETHEREUM: "ethereum"}, head=HEAD)
    for network in NETWORKS:
        made.nodes[network][0].knobs.oldest = OLDEST
    yield made
    made.close()


def ask(world: World, network: str, method: str, *params: Any) -> Any:
    """The members of the answer to a client's call."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    call = world.start(world.hosts[0].ask(network, body))
    world.let_through()
    return json.loads(call.result().body)


def truth(world: World, network: str, method: str, *params: Any) -> Any:
    """What a node that has everything answers."""
    answer = say(world.oracles[network], method, json.dumps(params).encode())
    return json.loads(bytes(answer.result if answer.result is not None else b"0"))


def asked(world: World, network: str) -> int:
    """The calls that the node without old blocks got."""
    return world.nodes[network][0].brain.counts.calls


ADDRESS = f"0x{7:040x}"
BY_NUMBER = {
    HARMONY: {
        "eth_getBlockByNumber": lambda n: [hex(n), False],
        "hmyv2_getBlockByNumber": lambda n: [n, {"fullTx": False, "inclStaking": True}],
        "hmy_getBlockByNumber": lambda n: [hex(n), False],
        "hmyv2_getHeaderByNumber": lambda n: [n],
        "hmyv2_getBlocks": lambda n: [n, n + 2, {"fullTx": False, "inclStaking": True}],
        "eth_getBalance": lambda n: [ADDRESS, hex(n)],
        "hmyv2_getBalanceByBlockNumber": lambda n: [ADDRESS, n],
        "eth_getLogs": lambda n: [{"fromBlock": hex(n), "toBlock": hex(n + 1)}],
    },
    ETHEREUM: {
        "eth_getBlockByNumber": lambda n: [hex(n), False],
        "eth_getBlockReceipts": lambda n: [hex(n)],
        "eth_getBlockTransactionCountByNumber": lambda n: [hex(n)],
        "eth_getTransactionByBlockNumberAndIndex": lambda n: [hex(n), "0x0"],
        "eth_getBalance": lambda n: [ADDRESS, hex(n)],
        "eth_getCode": lambda n: [ADDRESS, hex(n)],
        "eth_call": lambda n: [{"to": ADDRESS}, hex(n)],
        "eth_getLogs": lambda n: [{"fromBlock": hex(n), "toBlock": hex(n + 1)}],
    },
}
CALLS = [(network, method) for network, methods in BY_NUMBER.items() for method in methods]


@pytest.mark.parametrize(("network", "method"), CALLS, ids=[f"{network}-{method}" for network, method in CALLS])
def test_no_client_is_told_that_there_is_nothing_about_a_block_that_others_have(
    world: World, network: str, method: str
) -> None:
    rng, before = Random(method), asked(world, network)
    for number in rng.sample(range(2, OLDEST - 4), 120):
        params = BY_NUMBER[network][method](number)
        assert ask(world, network, method, *params).get("result") == truth(world, network, method, *params), number
    assert asked(world, network) - before <= 20, "it is left alone with what it does not have"
    params = BY_NUMBER[network][method](OLDEST + 20)
    assert ask(world, network, method, *params)["result"] == truth(world, network, method, *params)


@pytest.mark.parametrize("network", NETWORKS)
def test_what_a_hash_names_is_looked_for_on_another_node(world: World, network: str) -> None:
    rng, before = Random(network), asked(world, network)
    for number in rng.sample(range(2, OLDEST), 120):
        block = truth(world, network, "eth_getBlockByNumber", hex(number), False)
        for method, params in [
            ("eth_getBlockByHash", [block["hash"], False]),
            *(("eth_getTransactionReceipt", [hash]) for hash in block["transactions"][:1]),
            *(("eth_getTransactionByHash", [hash]) for hash in block["transactions"][:1]),
        ]:
            assert ask(world, network, method, *params).get("result") == truth(world, network, method, *params), method
    assert asked(world, network) - before <= 40


def test_what_does_not_exist_is_asked_of_few_nodes_more_and_changes_no_share(world: World) -> None:
    """A client that asks for invented hashes and blocks to come neither doubles the load nor moves calls of others."""
    nodes, calls = world.nodes[ETHEREUM], 400
    for node in nodes:
        node.knobs.oldest = 0
    before = [node.brain.counts.calls for node in nodes]
    for number in range(calls // 2):
        assert ask(world, ETHEREUM, "eth_getTransactionReceipt", f"0x{number:064x}")["result"] is None
        assert (
            ask(world, ETHEREUM, "eth_getTransactionByBlockNumberAndIndex", hex(9 + number), "0x99")["result"] is None
        )
    asked_of = [node.brain.counts.calls - count for node, count in zip(nodes, before, strict=True)]
    assert sum(asked_of) <= calls * 1.05 + 10
    assert max(asked_of) - min(asked_of) <= 0.1 * calls
    pool = world.hosts[0].state.networks[ETHEREUM].pool
    assert not any(node.windows or node.pruned_below or node.contradictions.methods for node in pool.nodes)


def test_a_hash_that_was_seen_here_is_looked_for_whatever_others_ask_for(world: World) -> None:
    node = world.nodes[ETHEREUM][0]
    node.knobs.oldest = 0
    blocks = [ask(world, ETHEREUM, "eth_getBlockByNumber", hex(number), False)["result"] for number in range(20, 60)]
    node.knobs.oldest = OLDEST
    for number in range(200):  # more than second opinions may be given about
        assert ask(world, ETHEREUM, "eth_getTransactionReceipt", f"0x{number:064x}")["result"] is None
    for block in blocks:
        assert ask(world, ETHEREUM, "eth_getBlockTransactionCountByHash", block["hash"])["result"] is not None
        assert ask(world, ETHEREUM, "eth_getBlockByHash", block["hash"], False)["result"] == block


def test_a_null_passes_as_it_came_where_no_node_has_better_and_is_not_kept(world: World) -> None:
    for node in world.nodes[ETHEREUM]:
        node.knobs.oldest = OLDEST
    for _ in range(2):
        assert ask(world, ETHEREUM, "eth_getBalance", ADDRESS, "0x20") == {"jsonrpc": "2.0", "id": 1, "result": None}
    for node in world.nodes[ETHEREUM]:
        node.knobs.oldest = 0
    assert ask(world, ETHEREUM, "eth_getBalance", ADDRESS, "0x20")["result"] is not None


def test_a_block_to_come_is_null_at_the_first_word(world: World) -> None:
    before = [node.brain.counts.calls for node in world.nodes[ETHEREUM]]
    assert ask(world, ETHEREUM, "eth_getBlockByNumber", hex(HEAD + 9), False)["result"] is None
    assert sum(n.brain.counts.calls for n in world.nodes[ETHEREUM]) == sum(before) + 1


class OneAddress(World):
    """One address alone for each network. A call that it takes reaches a machine without old blocks, or another one."""

    def __post_init__(self) -> None:
        self.rng, self.share, self.dropped = Random(3), 0.0, dict[str, SimNode]()
        super().__post_init__()
        for name, chain in self.chains.items():
            knobs = Knobs(limiters=False, oldest=OLDEST)
            self.dropped[f"{name}-0"] = SimNode(chain, name=f"{name}-0", knobs=knobs, clock=self.clock)
        others = frozenset(node.name for nodes in self.nodes.values() for node in nodes[1:])
        self.run(self.adopt(self.settings_with(others)))

    def answering(self, node: SimNode, *, probe: bool) -> SimNode:
        return node if probe or self.rng.random() >= self.share else self.dropped[node.name]


@pytest.fixture
def one_address() -> Iterator[OneAddress]:
    made = OneAddress(kinds={HARMONY: "harmony", ETHEREUM: "ethereum"}, head=HEAD)
    yield made
    made.close()


@pytest.mark.parametrize(("network", "method"), [(ETHEREUM, "eth_getBalance"), (HARMONY, "eth_getBalance")])
def test_one_address_is_asked_again_where_some_of_its_machines_lack_old_blocks(
    one_address: OneAddress, network: str, method: str
) -> None:
    one_address.share, wrong = 0.3, 0
    for number in range(1, 201):
        params = BY_NUMBER[network][method](number)
        wrong += ask(one_address, network, method, *params).get("result") != truth(
            one_address, network, method, *params
        )
    assert wrong <= 12, "0.3 ** 3 of 200, and some by chance"


def test_an_address_without_old_blocks_is_asked_little_more_than_it_is_called(one_address: OneAddress) -> None:
    one_address.share = 1.0
    for number in range(1, 201):
        assert ask(one_address, ETHEREUM, "eth_getBalance", ADDRESS, hex(number)).get("result") is None
    assert one_address.dropped[f"{ETHEREUM}-0"].brain.counts.calls <= 220
