"""Balancers: each chooses a node among the eligible ones, and is one file that is found by its name.

A file here defines one class `Choice` that implements `Balancer` and whose `name` is that of the file.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from random import Random

    from rpcaccel.core.nodes.node import Node


class Balancer(Protocol):
    """Chooses a node for each call. A node of weight 0 is never chosen among several."""

    name: ClassVar[str]
    aim: ClassVar[str]
    """What the balancer aims at instead of shares of the calls by weight alone, as words that follow "it aims at";
    empty where it aims at those."""

    @property
    def penalised(self) -> Container[str]:
        """The ids of the nodes whose answers the balancer wants to note."""
        ...

    def adopt(self, nodes: Sequence[Node]) -> None:
        """Take a new set of nodes; what is known about a node is carried over by its id.

        It must not raise for as many nodes as the settings allow (config.model.MOST_NODES), because other networks may
        have adopted their nodes already.
        """

    def pick(self, eligible: Sequence[Node], *, route_key: bytes, now: float, rng: Random) -> Node:
        """Choose the node for one call. Raises ValueError when `eligible` is empty."""
        ...

    def failed(self, node: Node) -> None:
        """Note that an attempt on `node` failed and the node is at fault."""

    def succeeded(self, node: Node) -> None:
        """Note that a penalised node answered."""

    def preview(self, eligible: Sequence[Node], route_key: bytes) -> list[Node]:
        """The order in which nodes would be chosen for the next call, best first. Changes nothing."""
        ...


@cache
def names() -> tuple[str, ...]:
    """The names of all balancers. The folder is listed once: no file may be opened where descriptors are scarce."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def load(name: str) -> Balancer:
    """Make a balancer. Raises ValueError, naming all balancers, when the name is unknown."""
    made: Balancer = _named(name)()
    return made


def aim(name: str) -> str:
    """The aim of a balancer. Raises ValueError, naming all balancers, when the name is unknown."""
    return _named(name).aim


def _named(name: str) -> type[Balancer]:
    if name not in names():
        raise ValueError(f"there is no balancer {name!r}; there are {', '.join(names())}")
    choice: type[Balancer] = import_module(f"{__name__}.{name}").Choice
    return choice
