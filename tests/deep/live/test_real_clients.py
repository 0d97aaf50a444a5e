"""ethers, viem and web3.py, unmodified, subscribed through the proxy while real nodes are killed and chains reorganise.

`make live BLOCKS=1000 KILLS=50` makes the long run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.deep.live.anvil_replicas import ReplicaChain, replicas
from tests.deep.live.live_clients import CLIENTS, PLAIN, LiveClient
from tests.support.running import ADDRESS, LOCAL, PAGE
from tests.support.services import Program, wait_until

BLOCKS = int(os.environ.get("LIVE_BLOCKS", "150"))
KILLS = int(os.environ.get("LIVE_KILLS", "6"))
PACE = 0.1
"""Seconds between blocks."""
REORGANISED_EVERY = 17
"""Blocks between two reorganisations: no divisor of the blocks between two kills, so that each meets the other."""
DEEPEST = 3
LATEST = 60.0
"""Seconds in which the last block reaches everybody, on a machine that does much else."""


@pytest.fixture
def chain() -> Iterator[ReplicaChain]:
    with replicas(2) as made:
        yield made


@pytest.fixture
def proxy(chain: ReplicaChain, tmp_path: Path) -> Iterator[str]:
    """The URL of the program over both nodes."""
    with Program("serve", *(node.url for node in chain.nodes), *LOCAL, cwd=tmp_path) as program:
        program.wait_for(PAGE)
        found = ADDRESS.search(program.output)
        assert found is not None, program.output
        program.wait_ready(f"{found[1]}/readyz")
        yield found[1]
        print(program.output)  # shown of a test that fails


def subscribed(names: tuple[str, ...], url: str, chain: ReplicaChain, started: ExitStack) -> list[LiveClient]:
    """The clients, once each was sent an event of every kind."""
    clients = [LiveClient(name, url, started) for name in names]
    for client in clients:

        def heard(client: LiveClient = client) -> bool:
            chain.mine()
            time.sleep(PACE)
            return client.begun()

        wait_until(f"{client} subscribed", heard)
    return clients


def judged(clients: list[LiveClient], chain: ReplicaChain) -> list[str]:
    """What is wrong with the streams of the clients once the last block has reached them all."""
    chain.mine()
    chain.settle()
    branch = chain.branch()
    with suppress(TimeoutError):  # what is missing is told below
        wait_until(
            "the last block at all clients", lambda: all(one.has(branch[max(branch)]) for one in clients), LATEST
        )
    for client in clients:
        print(client.summary())
    return [fault for client in clients for fault in client.faults(chain, branch)]


def kill_in_turn(chain: ReplicaChain, number: int) -> int:
    """Kill a node, or bring it back, when its time has come; how many were killed now."""
    each = max(2, BLOCKS // KILLS)
    turn, place = divmod(number - 1, each)
    node = chain.nodes[turn % len(chain.nodes)]
    if place == each // 2 and turn < KILLS:
        chain.settle()  # the node that stays has the whole chain
        node.kill()
        return 1
    if place == each - 1 and not node.alive:
        node.revive()
    return 0


def test_no_block_and_no_log_is_missed_or_doubled_while_nodes_die_and_the_chain_reorganises(
    chain: ReplicaChain, proxy: str
) -> None:
    with ExitStack() as started:
        clients = subscribed(CLIENTS, proxy, chain, started)
        killed = 0
        for number in range(1, BLOCKS + 1):
            chain.mine(logs=1 + number % 2)
            time.sleep(PACE)
            if number % REORGANISED_EVERY == 0:
                chain.reorganise(1 + number % DEEPEST)
            killed += kill_in_turn(chain, number)
        for node in chain.nodes:
            if not node.alive:
                node.revive()
        faults = judged(clients, chain)
    assert killed == KILLS
    assert not faults, "\n".join(faults)


def test_clients_wait_out_the_death_of_all_nodes(chain: ReplicaChain, proxy: str) -> None:
    with ExitStack() as started:
        clients = subscribed(CLIENTS, proxy, chain, started)
        for depth in (0, DEEPEST):
            for node in chain.nodes:
                node.kill()
            for _ in range(10):
                chain.mine()
            if depth:
                chain.reorganise(depth)
            for node in chain.nodes:
                node.revive()
            chain.settle()
            chain.mine()
            time.sleep(PACE)
        faults = judged(clients, chain)
    assert not faults, "\n".join(faults)


def test_the_clients_see_a_node_itself_as_they_see_the_proxy(chain: ReplicaChain) -> None:
    """What the other tests prove would be proven of nothing if the clients did not hear a node that stands alone."""
    with ExitStack() as started:
        clients = subscribed(PLAIN, chain.nodes[0].url, chain, started)
        for _ in range(10):
            chain.mine(logs=2)
        faults = judged(clients, chain)
    assert not faults, "\n".join(faults)
