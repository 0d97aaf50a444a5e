"""The method tables of a Harmony and of a geth-like node, which the methods_*.py files fill, and what they share."""

from __future__ import annotations

from .blocks import ChainSpec
from .registry import Asked, Registry, failed

HARMONY = Registry()
CHAIN = {"hmy": "v1", "hmyv2": "v2", "eth": "eth"}
"""Most services are registered in all three namespaces (docs/harmony.md section 2)."""
STAKING = {"hmy": "v1", "hmyv2": "v2"}
FILTERS = {"hmy": "v1", "eth": "eth"}
NOT_BEACON = "cannot call this rpc on non beaconchain node"
HARMONY_VERSION = "Harmony (C) 2025. harmony, version v8500-v2025.1.1-5-gdc52025a8 (simulated)"

ETHEREUM = Registry()
ETH = {"eth": "geth"}
GETH_VERSION = "Geth/v1.16.0-simulated/linux-amd64/go1.24"


def beacon_only(spec: ChainSpec) -> bool:
    """Whether this is the beacon shard."""
    return spec.shard == 0


def not_v2_or_v1(asked: Asked) -> None:
    """Refuse the eth namespace, where some methods stand by accident."""
    if asked.version == "eth":
        raise failed("API service has an unknown version")
