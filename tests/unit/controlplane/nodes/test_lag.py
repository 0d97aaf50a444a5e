"""How nodes are shown whose blocks come a little later than those of others, and how one that lags: probes on a clock
moved by hand, and everything that is made from them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from rpcaccel.config.model import NodeSettings, Settings
from rpcaccel.controlplane.admin.event_stream import LiveEvents
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.nodes.prober import Prober
from rpcaccel.controlplane.stats.attention import attention
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.prometheus import render
from rpcaccel.controlplane.stats.snapshot import Frame, SupervisorView
from rpcaccel.core.heads.served_head import NetworkHeads
from rpcaccel.core.messages import NodeReport, WorkerReport
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.stats.counters import TallySnapshot
from tests.support.described_answers import sent
from tests.support.manual_clock import ManualClock
from tests.support.sample_control import SampleControl
from tests.support.scripted_socket import closed_door
from tests.support.waiting import settle

BLOCK_TIME = 2.0
NAMES = ("a", "b", "c")


class TimedNode:
    """A Harmony node that has each block `skew` seconds after it was made, and is `lag` blocks behind that."""

    def __init__(self, clock: ManualClock, skew: float) -> None:
        self.clock, self.skew, self.lag = clock, skew, 0

    async def send(self, method: str, params: bytes, *, timeout: float) -> Answer:
        head = int((self.clock.now() - self.skew) // BLOCK_TIME) - self.lag
        facts: dict[str, object] = {
            "hmyv2_blockNumber": head,
            "eth_chainId": "0x6357d2e0",
            "hmyv2_getShardID": 0,
            "hmyv2_getEpoch": 1,
            "hmyv2_getHeaderByNumber": {"blockHash": "0x" + "1a" * 32},
            "hmyv2_getNodeMetadata": {"role": "Validator", "is-archival": False},
        }
        return Answer(result=msgspec.json.encode(facts.get(method, 1)), elapsed=0.05)

    async def close(self) -> None:
        """Nothing is open."""


class Reported:
    """A worker that would ask every node, whatever its head is."""

    def report(self) -> WorkerReport:
        plain: dict[str, Any] = {"head": 0, "in_flight": 0, "breaker": "closed", "latency": None, "parked": 0.0}
        nodes = tuple(NodeReport(network="n", id=name, refusal="", **plain) for name in NAMES)
        return WorkerReport(
            worker="w1", pid=7, revision=1, uptime=5.0, port=80, tally=TallySnapshot(), nodes=nodes, flights=0
        )


class LaggingWorld:
    """Three nodes, their prober, and what the admin side makes of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.nodes = {name: TimedNode(self.clock, skew) for name, skew in zip(NAMES, (0.0, 0.3, 0.8), strict=True)}
        listed = [{"id": name, "url": f"http://{name}.example"} for name in NAMES]
        self.settings = Settings.model_validate({"networks": {"n": {"chain": "harmony", "nodes": listed}}})
        self.heads: dict[str, NetworkHeads] = {}
        links: Any = [Reported()]
        self.view = SupervisorView(lambda: self.settings, self.heads.get, links, clock=self.clock.now)
        self.control = SampleControl()
        self.live = LiveEvents(self.control)
        self.prober = Prober(
            "n",
            self.settings.networks["n"],
            publish=lambda heads: self.heads.update(n=heads),
            clock=self.clock.now,
            sleep=self.clock.sleep,
            rng=random.Random(3),
            connect=self._connect,
            open_socket=closed_door,
        )

    def _connect(self, settings: NodeSettings) -> Any:
        return self.nodes[settings.id]

    async def looks(self, number: int, every: float = 0.5) -> list[Frame]:
        """That many looks at everything."""
        frames = []
        for _ in range(number):
            for _ in range(5):
                self.clock.advance(every / 5)
                await settle()
            frames.append(self.view.frame())
            self.live.tell(frames[-1], History(), self.clock.now())
        return frames


@pytest.fixture
async def world() -> AsyncIterator[LaggingWorld]:
    made = LaggingWorld()
    await made.prober.start()
    await settle()
    await made.looks(1)
    yield made
    await made.prober.stop()


def states(frame: Frame) -> dict[str, str]:
    return {node.id: node.state for node in frame.nodes}


async def test_in_sixty_looks_nodes_that_get_blocks_a_little_later_are_all_eligible(world: LaggingWorld) -> None:
    frames = await world.looks(60)
    assert world.heads["n"].block_time == BLOCK_TIME == frames[-1].heads[0].block_time
    assert any(node.lag for frame in frames for node in frame.nodes)
    for frame in frames:
        assert set(states(frame).values()) == {"serving"}
        listed = sent(current_figures.nodes(frame, History()))["nodes"]
        assert [(node["eligible"], node["share_wanted"]) for node in listed] == [(True, 1 / 3)] * 3
        (network,) = sent(current_figures.moment(frame, History()))["networks"]
        assert (network["eligible"], network["state"]) == (3, "ok")
        assert attention(frame) == []
        assert render(frame).count(b'rpcaccel_node_eligible{network="n",node="') == 3
        assert render(frame).count(b"} 1.0\n# HELP rpcaccel_node_calls_total") == 1
    assert world.control.events.last == 0


@pytest.mark.parametrize(("lag", "within"), [(3, 10.0), (1, 40.0)])
async def test_a_node_that_lags_is_behind_within_a_bounded_time_and_takes_no_share_until_it_keeps_up(
    world: LaggingWorld, lag: int, within: float
) -> None:
    await world.looks(60)
    world.nodes["c"].skew, world.nodes["c"].lag = 0.0, lag
    frame = (await world.looks(int(within / 0.5)))[-1]
    assert states(frame) == {"a": "serving", "b": "serving", "c": "behind"}
    listed = sent(current_figures.nodes(frame, History()))["nodes"]
    assert [(node["eligible"], node["share_wanted"]) for node in listed] == [(True, 0.5), (True, 0.5), (False, 0.0)]
    (network,) = sent(current_figures.moment(frame, History()))["networks"]
    assert (network["eligible"], network["state"]) == (2, "part")
    (said,) = attention(frame)
    assert (said.level, said.subject) == ("warn", "n/c")
    later = await world.looks(60)
    assert {states(frame)["c"] for frame in later} == {"behind"}
    assert world.control.events.last == 1
    world.nodes["c"].lag = 0
    assert states((await world.looks(50))[-1])["c"] == "serving"
