"""Compares the answers of two endpoints: by what the JSON means, not by how it is written; ids are left aside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any

from msgspec import Struct, field

from rpcaccel.bench.load.client import LoadReply, Outcome

EXAMPLES = 3
"""Differences kept of each method."""
_SHOWN = 80
_NOTHING = object()


class Example(Struct, frozen=True):
    """A call that was answered in two ways."""

    method: str
    params: str
    where: str
    """The place of the first difference: result.transactions[3].hash."""
    a: str
    b: str


class Compared(Struct):
    """The comparison of the answers of one method."""

    alike: int = 0
    different: int = 0
    unanswered: int = 0
    """Calls that one side, or both, did not answer at all."""
    examples: list[Example] = field(default_factory=list)


class AnswerDiffs(Struct):
    """The differences between the answers of two targets so far."""

    allowed: tuple[str, ...] = ()
    """Methods, or patterns of them (fnmatch), whose answers may differ."""
    methods: dict[str, Compared] = field(default_factory=dict)

    def add(self, method: str, params: bytes, a: Outcome, b: Outcome) -> None:
        """Compare the outcomes of a call at both targets."""
        found = self.methods.setdefault(method, Compared())
        if not isinstance(a, LoadReply) or not isinstance(b, LoadReply):
            found.unanswered += 1
        elif (where := difference(a.body, b.body)) is None:
            found.alike += 1
        else:
            found.different += 1
            if len(found.examples) < EXAMPLES:
                found.examples.append(Example(method, _text_of(params), *where))

    @property
    def forbidden(self) -> int:
        """Differences in methods whose answers may not differ."""
        return sum(found.different for method, found in self.methods.items() if not self.allows(method))

    def allows(self, method: str) -> bool:
        """Whether the answers of this method may differ."""
        return any(fnmatchcase(method, pattern) for pattern in self.allowed)

    def examples(self) -> Iterator[Example]:
        """All examples, those of methods that may not differ first."""
        for _, found in sorted(self.methods.items(), key=lambda item: (self.allows(item[0]), -item[1].different)):
            yield from found.examples


def difference(a: bytes, b: bytes) -> tuple[str, str, str] | None:
    """The place of the first difference between two reply bodies, and the two texts there; None when they mean the
    same."""
    if a == b:
        return None
    try:
        found = _first("", _said(a), _said(b))
    except (ValueError, RecursionError):
        return "body", _text_of(a), _text_of(b)
    return None if found is None else (found[0].lstrip(".") or "reply", _text(found[1]), _text(found[2]))


def _said(body: bytes) -> Any:
    """Result and error of a reply; numbers as what they are, however they are written. Raises ValueError."""
    reply = json.loads(body, parse_float=Decimal)
    if not isinstance(reply, dict):
        return reply
    return {name: value for name, value in reply.items() if name in ("result", "error")}


def _first(path: str, a: Any, b: Any) -> tuple[str, Any, Any] | None:
    if isinstance(a, dict) and isinstance(b, dict):
        parts = ((f".{name}", a.get(name, _NOTHING), b.get(name, _NOTHING)) for name in {**a, **b})
    elif isinstance(a, list) and isinstance(b, list):
        pairs = enumerate(zip_longest(a, b, fillvalue=_NOTHING))
        parts = ((f"[{place}]", one, other) for place, (one, other) in pairs)
    else:
        alike = isinstance(a, bool) == isinstance(b, bool) and a == b  # in Python, True == 1
        return None if alike else (path, a, b)
    found = (_first(path + step, one, other) for step, one, other in parts)
    return next((difference for difference in found if difference is not None), None)


def _text(value: Any) -> str:
    return "nothing there" if value is _NOTHING else _short(json.dumps(value, default=str))


def _text_of(body: bytes) -> str:
    return _short(body.decode("utf-8", "replace"))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
