"""A revision is made aside: what is in force changes when it is adopted, and not before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rpcaccel.chains import ChainError
from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.core.nodes.limits import Quota
from rpcaccel.core.stats.counters import NodeCell
from rpcaccel.core.stats.tally import Tally
from rpcaccel.dataplane.networks.build import _CONNECTOR_FIELDS
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.networks.worker_state import WorkerState
from rpcaccel.dataplane.upstream.node_client import HttpNodeClient
from rpcaccel.dataplane.worker import Worker

BEFORE: dict[str, Any] = {
    "slow_start": "1s",
    "nodes": [{"id": "a", "url": "http://127.0.0.1:1", "weight": 2, "gather": True, "quota": {"day": 5}}],
}
AFTER: dict[str, Any] = {
    "slow_start": "9s",
    "balancer": "smooth_weighted",
    "concurrency": {"waiting": 3, "least": 2, "wait": "4s", "heavy_wait": "5s"},
    "budget": {"share": 0.9, "floor": 7},
    "breaker": {"failures": 77},
    "hedge": {"quantile": 0.5},
    "nodes": [
        {"id": "a", "url": "http://127.0.0.1:1", "weight": 9, "timeout": "3s", "drain": True, "tags": ["x"], "tier": 1,
         "max_connections": 7, "max_answer": "2MiB", "max_heavy": 3, "gather": True, "quota": {"day": 50}},
        {"id": "b", "url": "http://127.0.0.1:2"},
    ],
}  # fmt: skip


def settings(**networks: Any) -> Settings:
    return Settings.model_validate({"networks": networks})


def no_chain(good: Settings) -> Settings:
    """The same with a network after the others that cannot be made, as only a fault of ours would let it come here."""
    broken = next(iter(good.networks.values())).model_copy(update={"chain": "nowhere"})
    return good.model_copy(update={"networks": {**good.networks, "later": broken}})


def no_tracing(good: Settings) -> Settings:
    """The same with traces that cannot be made."""
    return good.model_copy(update={"tracing": SimpleNamespace(endpoint="http://127.0.0.1:1")})


def seen(network: Network) -> dict[str, Any]:
    """Everything of a network that settings are written into."""
    pool = network.pool
    (node,) = pool.nodes
    assert isinstance(node.quota, Quota)
    return {
        "node": (node.weight, node.timeout, node.drained, node.tags, node.tier, node.slow_start),
        "limit": (node.limit.most, node.limit.value, node.limit.settings),
        "breaker": node.breaker.settings,
        "pace": node.pace.share,
        "quota": node.quota.settings,
        "shares": [pool.balancer.pick(pool.nodes, route_key=b"", now=0.0, rng=random.Random(1)).id],
        "rooms": [(room.most, room.seconds) for room in pool.rooms],
        "heavy": node.max_heavy,
        "budget": (pool.budget.share, pool.budget.floor),
        "upstreams": dict(pool.upstreams),
    }


class Watched(HttpNodeClient):
    """Tells whether it was closed."""

    closed = False

    async def close(self, grace: float = 0.0) -> None:
        try:
            await super().close(grace)
        finally:
            self.closed = self._connector.closed


@pytest.mark.parametrize(
    ("spoil", "error"),
    [(no_chain, ChainError), (no_tracing, AttributeError)],
    ids=["a later network", "traces"],
)
async def test_a_change_that_cannot_be_made_changes_nothing_and_leaves_nothing_open(
    spoil: Callable[[Settings], Settings], error: type[Exception]
) -> None:
    first, tally = settings(one=BEFORE), Tally()
    opened: list[Watched] = []

    def connect(node: NodeSettings, cell: NodeCell) -> Watched:
        opened.append(Watched(node, cell))
        return opened[-1]

    worker = Worker("w1", first)
    worker.state = WorkerState(tally, time.monotonic, random.Random(1), connect=connect)
    worker.adopt(first, 1)
    network = worker.state.networks["one"]
    before, cells = seen(network), tally.snapshot().nodes
    with pytest.raises(error):
        worker.adopt(spoil(settings(one=AFTER)), 2)
    assert (worker.state.revision, worker.state.networks) == (1, {"one": network})
    assert seen(network) == before
    assert tally.snapshot().nodes == cells
    assert worker.state.upstreams() == opened[:1]
    await worker.drain(0.0)
    assert len(opened) == 3
    assert all(upstream.closed for upstream in opened)


async def test_what_is_made_is_in_force_only_once_it_is_adopted() -> None:
    state = WorkerState(Tally(), time.monotonic, random.Random(1))
    for number, said in enumerate((BEFORE, AFTER), 1):
        build = state.build()
        build.make(settings(one=said))
        assert state.revision == number - 1
        for upstream in state.adopt(build, number):
            await upstream.close()
    (a, b) = state.networks["one"].pool.nodes
    assert (a.weight, a.timeout, a.drained, a.slow_start) == (9, 3.0, True, 9.0)
    assert (a.limit.most, a.breaker.settings.failures, a.pace.share, a.tier) == (7, 77, 0.5, 1)
    assert a.max_heavy == 3
    rooms = state.networks["one"].pool.rooms
    assert [(room.most, room.seconds) for room in rooms] == [(3, 4.0), (3, 5.0), (3, 5.0), (3, 4.0)]
    assert a.quota
    assert a.quota.settings.day == 50
    assert (b.weight, b.quota) == (1, None)
    for upstream in state.upstreams():
        await upstream.close()


async def test_a_build_keeps_nothing_of_the_revisions_before_it() -> None:
    state, builds = WorkerState(Tally(), time.monotonic, random.Random(1)), []
    for revision in (1, 2):
        builds.append(state.build())
        builds[-1].make(settings(one=BEFORE))
        assert state.adopt(builds[-1], revision) == []
    assert (len(builds[0].opened), builds[1].opened) == (1, [])
    assert builds[0] not in vars_of(builds[1])
    await builds[0].opened[0].close()


async def test_what_is_known_of_batches_is_kept_as_long_as_the_node_gets_them() -> None:
    state, lines = WorkerState(Tally(), time.monotonic, random.Random(1)), []
    for revision, gather in enumerate((True, True, False), 1):
        build = state.build()
        build.make(settings(one={"nodes": [{"id": "a", "url": "http://127.0.0.1:1", "gather": gather}]}))
        assert state.adopt(build, revision) == []
        lines.append(build.lines["one", "a"])
    assert lines[0] == lines[1]
    assert (lines[2].client, lines[2].batcher.gathers) == (lines[0].client, False)
    await lines[0].client.close()


def vars_of(build: object) -> list[object]:
    return [getattr(build, name) for name in type(build).__slots__]  # type: ignore[attr-defined]


class Noting(NodeSettings):
    """Notes which settings are read."""

    def __getattribute__(self, name: str) -> Any:
        read.add(name)
        return super().__getattribute__(name)


read: set[str] = set()


async def test_a_client_is_made_anew_when_anything_it_is_made_from_has_changed() -> None:
    node = Noting.model_validate({"id": "a", "url": "http://127.0.0.1:1"})
    read.clear()
    await HttpNodeClient(node).close()
    assert read - {"id", "warm"} == set(_CONNECTOR_FIELDS)
