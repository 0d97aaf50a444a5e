"""Which path means which network, and which namespace a method without a prefix belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from rpcaccel.dataplane.networks.network import Network
from rpcaccel.dataplane.rpc.hit_memo import KnownCalls


class PathRoute(Struct, frozen=True):
    """Where a path leads."""

    network: Network
    known: KnownCalls
    prefix: str = ""
    """Put before a method that has no prefix of its own: "hmyv2_" on `/api/v1/hmy/v2`."""


def routes(networks: Iterable[Network], main: str) -> dict[str, PathRoute]:
    """Every path served: `/` for the main network, `/<network>`, and the chain's own paths under both."""
    table: dict[str, PathRoute] = {}
    for network in networks:
        bases = ["", f"/{network.name}"] if network.name == main else [f"/{network.name}"]
        for base in bases:
            for path, prefix in {"": "", "/": "", **network.chain.paths}.items():
                table[base + path or "/"] = PathRoute(network, KnownCalls(network.memos), prefix)
    return table
