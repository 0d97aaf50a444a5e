"""How a node is chosen among those that may be asked: one file each, found by its name.

A file here defines one class, `Choice`, that satisfies `Balancer` and whose `name` is the file's.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node


class Balancer(Protocol):
    """Chooses a node for each call. `eligible` is never empty; a node of weight 0 is never chosen among several."""

    name: ClassVar[str]

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Take a new set of nodes; what is known of a node is carried over by its id. Raises nothing for as many nodes
        as the settings allow a network (config.model.MOST_NODES): other networks may have taken theirs already."""

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:
        """The node for one call. Raises ValueError when `eligible` is empty."""
        ...

    def failed(self, node: Node) -> None:
        """An attempt on `node` failed by the node's fault."""

    def succeeded(self, node: Node) -> None:
        """An attempt on `node` was answered."""

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:
        """The order in which nodes stand for the next call, best first; changes nothing."""
        ...


def names() -> tuple[str, ...]:
    """The balancers there are."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def load(name: str) -> Balancer:
    """A new balancer. Raises ValueError, naming those there are, when there is none of that name."""
    if name not in names():
        raise ValueError(f"there is no balancer {name!r}; there are {', '.join(names())}")
    choice: Balancer = import_module(f"{__name__}.{name}").Choice()
    return choice
