"""A chain that begins anew under the same ids while the proxy is down: nothing of the old one is found in Redis."""

from __future__ import annotations

import pytest

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.stats.counters import AnswerSource
from tests.support.dataplane.asked import Asked, draw
from tests.support.dataplane.witness import said
from tests.support.dataplane.world import Shared, World

BLOCK, BALANCE, LOGS = 4, 1, 6
"""Which call of `asked.py`."""


def answered(world: World, asked: Asked) -> tuple[bytes, AnswerSource]:
    """What a client of the first host is told of a final block, and where that is from."""
    task = world.start(world.hosts[0].ask(asked.network, asked.body))
    world.let_through()
    while world.shared.writes:
        world.shared.write(0)
    (outcome,) = task.result().outcomes
    return outcome.result or b"", outcome.source


def truth(world: World, asked: Asked) -> bytes:
    return said(world.truth(asked.network, asked.method, asked.params, -1, world.chains[asked.network].head))


@pytest.mark.parametrize("network", ["one", "three"])
@pytest.mark.parametrize("which", [BLOCK, BALANCE, LOGS])
def test_what_was_kept_of_a_chain_is_not_found_by_one_begun_anew_but_by_itself(network: str, which: int) -> None:
    redis = Shared()
    told = []
    for seed in (1, 2, 1):
        world = World(seed=seed, shared=redis)
        try:
            asked = draw(network, world.chains[network], which, -20, 0, 1)
            result, source = answered(world, asked)
            assert result == truth(world, asked)
            told.append((result, source))
        finally:
            world.close()
    assert told[0][0] != told[1][0], "the two chains differ"
    assert [source for _, source in told] == [AnswerSource.NODE, AnswerSource.NODE, AnswerSource.SHARED]


def test_the_keys_of_a_network_are_purged_by_its_name_whichever_block_its_chain_began_with() -> None:
    world = World()
    try:
        asked = draw("one", world.chains["one"], BLOCK, -20, 0, 1)
        answered(world, asked)
        assert world.shared.held
        world.run(world.hosts[0].purge(Selection(network="one")))
        assert not world.shared.held
    finally:
        world.close()
