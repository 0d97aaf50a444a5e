"""Nodes that were watched for a while: the history of what they did, without a proxy and without waiting."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.documents.worth import Gathered
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.core.stats.tally import Tally

NETWORK = "harmony-s0"
METHODS = ("hmyv2_getBlockByNumber", "hmyv2_getBalance", "hmyv2_call")
AT = 1_790_000_000.0


class WatchedNodes:
    """The nodes of one network, which take calls by their weights; `seconds`: how long each takes for a call."""

    def __init__(self, seconds: Mapping[str, float], settings: Settings | None = None, **network: Any) -> None:
        nodes = [{"id": id, "url": f"http://{id}.example"} for id in seconds]
        self.settings = settings or Settings.model_validate({"networks": {NETWORK: {"nodes": nodes, **network}}})
        self.seconds = dict(seconds)
        self.history = History()
        self.tally = Tally(METHODS)
        self.rng = Random(11)
        self.now = 0.0
        self.at = AT
        self.more: dict[str, dict[str, Any]] = {}
        """More members of the view of a node, by its id."""
        self._tell()

    def views(self) -> list[NodeView]:
        """The nodes as the control plane sees them."""
        return [
            NodeView(**{"network": NETWORK, "id": node.id, "weight": node.weight, "tier": node.tier, "lag": 0,
                        "state": "serving", "unit": node.quota.unit, **self.more.get(node.id, {})})
            for node in self.settings.networks[NETWORK].nodes
        ]  # fmt: skip

    def live(self, minutes: int, calls: int = 120) -> None:
        """Let minutes pass with some calls each."""
        nodes = self.settings.networks[NETWORK].nodes
        for _ in range(minutes):
            for _ in range(calls):
                node = self.rng.choices(nodes, [node.weight for node in nodes])[0]
                cell = self.tally.node(NETWORK, node.id)
                cell.calls += 1
                took = self.seconds[node.id] * self.rng.lognormvariate(-0.02, 0.2)
                method = self.rng.choice(METHODS)
                cell.answered(took, 100, methods=[method])
                if (costs := node.quota.method_costs).billed:
                    cell.credits += costs.of(method, heavy=False)
                    cell.credited += 1
            self.now, self.at = self.now + 60.0, self.at + 60.0
            self._tell()

    def _tell(self) -> None:
        self.history.add(self.tally.snapshot(), self.now, self.at, self.views())

    def gathered(self) -> Gathered:
        """What is known of them now."""
        return Gathered(self.history.nodes, self.views(), self.settings, self.at)
