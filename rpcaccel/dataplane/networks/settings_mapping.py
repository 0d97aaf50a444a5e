"""Maps the settings, as the operator writes them, to those that the core reads."""

from __future__ import annotations

from math import ceil, inf

from rpcaccel.config.model import NetworkSettings, NodeSettings
from rpcaccel.core.dispatch.broadcast import BroadcastSettings
from rpcaccel.core.dispatch.dispatch_policy import DispatchSettings, Hedging
from rpcaccel.core.dispatch.sampling import SamplingSettings
from rpcaccel.core.nodes.breaker import BreakerPolicy
from rpcaccel.core.nodes.limits import ConcurrencyPolicy, Limit, QuotaLimits
from rpcaccel.core.nodes.outliers import OutlierPolicy
from rpcaccel.core.plan.rules import Routes, TagRoute

MOST_DOUBT = 16
"""The blocks in doubt are at most this many times those that `hidden_lag` stands for, however far behind a machine was
seen."""


def broadcast(network: NetworkSettings) -> BroadcastSettings:
    """How many nodes a transaction is sent to."""
    return BroadcastSettings(share=network.transactions.share, at_least=network.transactions.at_least)


def routes(network: NetworkSettings) -> Routes:
    """Which methods are routed to tagged nodes."""
    return Routes(
        [
            TagRoute(route.methods, route.tag, route.agree if route.agree > 1 else 0, route.broadcast, route.fallback)
            for route in network.routes
        ]
    )


def sampling(network: NetworkSettings, workers: int) -> SamplingSettings:
    """How many answers one worker compares."""
    said = network.agreement
    return SamplingSettings(share=said.share if len(network.nodes) > 1 else 0.0, budget=said.budget / workers)


def block_time(network: NetworkSettings, usual: float, measured: float | None) -> float:
    """The seconds that a block takes, by which calls wait: as the operator or the chain (`usual`) says, or less where
    that was measured."""
    return min(network.block_time or usual, measured or inf)


def dispatch(network: NetworkSettings, block_time: float) -> DispatchSettings:
    """How far a call is taken. It waits half a block at the most for a block that is not there yet."""
    return DispatchSettings(
        attempts=network.attempts,
        behind_attempts=network.behind_attempts,
        patience=2 * block_time + 1,
        behind_pause=block_time / 2,
    )


def most_lag(network: NetworkSettings, block_time: float) -> int:
    """The number of blocks that a machine hidden behind a node's URL is believed to be behind at most."""
    return MOST_DOUBT * _usual_doubt(network, block_time) // 2


def doubt(network: NetworkSettings, block_time: float, seen: int) -> int:
    """Blocks under the head about which a machine hidden behind a node's URL may say something else than the others.

    Args:
        seen: how many blocks behind its node such a machine was seen. Twice that is doubted, within a bound: a node
            that begins anew far behind is no reason to keep nothing.
    """
    usual = _usual_doubt(network, block_time)
    return min(max(usual, 2 * seen), MOST_DOUBT * usual)


def _usual_doubt(network: NetworkSettings, block_time: float) -> int:
    return ceil(network.hidden_lag / block_time)


def hedging(network: NetworkSettings) -> Hedging | None:
    """When a call is hedged."""
    return Hedging(at_least=network.hedge.at_least) if network.hedge.quantile else None


def outliers(network: NetworkSettings) -> OutlierPolicy:
    """When a node is much slower than the others."""
    said = network.outliers
    return OutlierPolicy(factor=said.factor, by=said.by, share=said.share, rest=said.rest)


def limit(network: NetworkSettings, node: NodeSettings) -> Limit:
    """The number of calls that the node may have at once, to begin with."""
    return Limit(node.max_connections, ConcurrencyPolicy(least=network.concurrency.least))


def breaker(network: NetworkSettings) -> BreakerPolicy:
    """When failures open the breaker of a node."""
    said = network.breaker
    return BreakerPolicy(
        failures=said.failures, ratio=said.ratio, volume=said.volume, rest=said.rest, rest_max=said.rest_max
    )


def quota(node: NodeSettings, workers: int) -> QuotaLimits:
    """The part of the quotas of a node that one worker may use."""
    said = node.quota
    return QuotaLimits(second=said.second, day=said.day, month=said.month, costs=said.method_costs).shared_by(workers)
