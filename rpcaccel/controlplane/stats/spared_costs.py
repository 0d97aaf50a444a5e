"""What calls that the cache spared would have cost at the nodes, in the units that providers bill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings
from rpcaccel.core.stats.counters import AnswerSource, Cell
from rpcaccel.dataplane.networks import settings_mapping


class SparedCosts:
    """What a call of each method would cost, by the settings alone: the mean over the nodes that would be asked, by
    their weights. Those are the nodes of the lowest tier that take calls, of the tag that a route asks for. Which of
    them were down meanwhile, and what a retry would have cost, is left out."""

    def __init__(self, networks: Mapping[str, NetworkSettings] | None = None) -> None:
        self.networks = networks or {}
        self.billed = frozenset(
            name
            for name, network in self.networks.items()
            if any(node.quota.method_costs.billed for node in network.nodes)
        )
        """The networks of which any node has costs."""
        self._routes = {name: settings_mapping.routes(self.networks[name]) for name in self.billed}
        self._known: dict[tuple[str, str], tuple[float, float]] = {}

    def __repr__(self) -> str:
        return f"<SparedCosts of {len(self.billed)} networks>"

    def together(self, cells: Iterable[Cell]) -> tuple[float, float]:
        """What `of` says of all calls of these cells that cost no node a call of their own: those answered without a
        node, and those that shared the call of an earlier one."""
        units = share = 0.0
        for cell in cells if self.billed else ():
            cost, billed = self.of(cell.network, cell.method)
            calls = cell.hits + cell.latency[AnswerSource.FLIGHT].count
            units, share = units + calls * cost, share + calls * billed
        return units, share

    def of(self, network: str, method: str) -> tuple[float, float]:
        """The units that one call would cost at nodes with costs, and the share of such calls (0..1) that would go to
        those nodes. `method` is a name under which calls are counted, of which there are few."""
        if network not in self.billed:
            return 0.0, 0.0
        key = network, method
        if key not in self._known:
            self._known[key] = self._mean(network, method)
        return self._known[key]

    def _mean(self, name: str, method: str) -> tuple[float, float]:
        network, tag = self.networks[name], self._routes[name].tag_of(method)
        heavy = chains.load(network.chain).rules.get(method).heavy
        nodes = [node for node in network.nodes if node.weight and not node.drain and (not tag or tag in node.tags)]
        lowest = min((node.tier for node in nodes), default=0)
        asked = [node for node in nodes if node.tier == lowest]
        billed = [node for node in asked if node.quota.method_costs.billed]
        weights = sum(node.weight for node in asked) or 1
        units = sum(node.weight * node.quota.method_costs.of(method, heavy) for node in billed)
        return units / weights, sum(node.weight for node in billed) / weights
