"""The paths served: which network a path means, and which namespace a method without a prefix belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rpcaccel.core.plan.rules import Rule
from rpcaccel.core.stats.counters import Cell
from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls


class PathRoute(Struct, frozen=True):
    """Everything that calls on one path have in common, under one revision of the settings."""

    network: Network
    known: KnownCalls
    """What is known of calls that were answered at once before."""
    prefix: str = ""
    """The prefix of a method that has none of its own: "hmyv2_" on `/api/v1/hmy/v2`."""
    accepted: dict[str, tuple[Rule, Cell]] = {}
    """Methods with a rule that the proxy accepts, by the name that clients call: their rules and counters. Names
    without a rule are not held, because clients can invent them."""


def routes(networks: Iterable[Network], main: str) -> dict[str, PathRoute]:
    """Every path served: `/` for the main network, `/<network>`, and the chain's own paths under both."""
    table: dict[str, PathRoute] = {}
    for network in networks:
        bases = ["", f"/{network.name}"] if network.name == main else [f"/{network.name}"]
        for base in bases:
            for path, prefix in {"": "", "/": "", **network.chain.paths}.items():
                table[base + path or "/"] = PathRoute(network, KnownCalls(network), prefix)
    return table
