"""Do two endpoints answer alike? What JSON means is compared, not how it is written; ids are left aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, field

from rpcaccel.bench.load.client import Outcome
from rpcaccel.bench.load.http_reader import LoadReply

EXAMPLES = 3
"""Kept of each method."""
_SHOWN = 80


class Example(Struct, frozen=True):
    """A call that was answered in two ways."""

    method: str
    params: str
    where: str
    """The place of the first difference: result.transactions[3].hash."""
    a: str
    b: str


class Compared(Struct):
    """Of one method."""

    alike: int = 0
    different: int = 0
    unanswered: int = 0
    """One side, or both, gave no answer at all."""
    examples: list[Example] = field(default_factory=list)


class Differences(Struct):
    """What the comparison of two targets came to so far."""

    allowed: tuple[str, ...] = ()
    """Methods, or patterns of them (fnmatch), whose answers may differ."""
    methods: dict[str, Compared] = field(default_factory=dict)

    def add(self, method: str, params: bytes, a: Outcome, b: Outcome) -> None:
        """Both targets are done with a call."""
        found = self.methods.setdefault(method, Compared())
        if not isinstance(a, LoadReply) or not isinstance(b, LoadReply):
            found.unanswered += 1
            return
        where = difference(a.body, b.body)
        if where is None:
            found.alike += 1
            return
        found.different += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append(Example(method, _short(params.decode("utf-8", "replace")), *where))

    @property
    def forbidden(self) -> int:
        """Differences in methods of which none was allowed."""
        return sum(found.different for method, found in self.methods.items() if not self.allows(method))

    def allows(self, method: str) -> bool:
        """May the answers of this method differ?"""
        return any(fnmatchcase(method, pattern) for pattern in self.allowed)

    def examples(self) -> Iterator[Example]:
        """Of methods that may not differ first."""
        for _, found in sorted(self.methods.items(), key=lambda item: (self.allows(item[0]), -item[1].different)):
            yield from found.examples


def difference(a: bytes, b: bytes) -> tuple[str, str, str] | None:
    """Where two reply bodies differ first, and the two texts there; None when they say the same."""
    if a == b:
        return None
    try:
        found = _first("", _said(a), _said(b))
    except (ValueError, RecursionError):
        return "body", _short(a.decode("utf-8", "replace")), _short(b.decode("utf-8", "replace"))
    return None if found is None else (found[0].lstrip(".") or "reply", _text(found[1]), _text(found[2]))


def _said(body: bytes) -> Any:
    """What is said beside the id; numbers as what they are, however they are written. Raises ValueError."""
    reply = json.loads(body, parse_float=Decimal)
    if not isinstance(reply, dict):
        return reply
    return {name: value for name, value in reply.items() if name in ("result", "error")}


_NOTHING = object()


def _first(path: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in (*a, *(name for name in b if name not in a)):
            found = _first(f"{path}.{name}", a.get(name, _NOTHING), b.get(name, _NOTHING))
            if found is not None:
                return found
        return None
    if isinstance(a, list) and isinstance(b, list):
        for place in range(max(len(a), len(b))):
            pair = (items[place] if place < len(items) else _NOTHING for items in (a, b))
            found = _first(f"{path}[{place}]", *pair)
            if found is not None:
                return found
        return None
    alike = isinstance(a, bool) == isinstance(b, bool) and a == b  # in Python, True == 1
    return None if alike else (path, a, b)


def _text(value: Any) -> str:
    return "nothing there" if value is _NOTHING else _short(json.dumps(value, default=str))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
