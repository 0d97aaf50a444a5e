"""Which methods go to tagged nodes only: logs to the archive node, sends to a relay."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

_MOST_REMEMBERED = 4096


class Route(Struct, frozen=True):
    """Methods of these names or patterns (fnmatch, case-sensitive) go to nodes with `tag`."""

    methods: tuple[str, ...]
    tag: str


class Routes:
    """The routes of a network; the first that fits a method decides."""

    __slots__ = ("_routes", "_tags")

    def __init__(self, routes: Sequence[Route] = ()) -> None:
        self._routes = tuple(routes)
        self._tags: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Routes {', '.join(route.tag for route in self._routes) or 'none'}>"

    def tag_of(self, method: str) -> str:
        """The tag that a node must have to be asked; empty when any will do."""
        if not self._routes:
            return ""
        tag = self._tags.get(method)
        if tag is None:
            tag = next((route.tag for route in self._routes if _fits(route, method)), "")
            if len(self._tags) >= _MOST_REMEMBERED:  # clients invent names
                self._tags.clear()
            self._tags[method] = tag
        return tag


def _fits(route: Route, method: str) -> bool:
    return any(fnmatchcase(method, pattern) for pattern in route.methods)
