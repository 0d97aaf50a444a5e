"""Compares the answers of two nodes to one call by value, and says where they differ.

Nodes spell one fact in several ways: another order of members, other capitals in addresses, members that only one
client has. What may differ without meaning stands in the chain's table ([chain.differences]), each entry with its
reason; everything else that differs is a difference. These rules hold without any entry:

- The order of an object's members means nothing; that of an array's items does. A member that is null equals a missing
  one.
- Numbers are equal when their decimal values are: 0 equals 0.0, and no number passes through a float.
- Texts of hex digits behind 0x are equal whatever their capitals, and other texts only when they are the same.
- Leading zeros count: 0x00 and 0x0 are two values, because the one is data and the other a quantity, and no text shows
  which of the two it is. Where a member is known to be a number or to have a fixed size, the table says so
  ("number"), and only its value counts. No entry may say that of data whose length varies (input, data, code).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

import msgspec
from msgspec import Struct

from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.printable import printable

ComparisonMode = Literal["ignored", "optional", "empty", "number", "set", "rounded", "alike"]
"""How the values of a member may differ.

ignored: they are not compared · optional: one node may leave the member out; two values are compared · empty: a missing
value equals an empty one ([], {}, "", "0x", "0x0", 0 or false) · number: hex, decimal text and bare integer are
compared by value · set: an array whose order means nothing, while each item counts as often as it is there · rounded:
numbers that differ by 1e-9 at the most · alike: any two of `values` are equal.
"""

NOT_COMPARED = "not compared: "
"""The beginning of a text that says why two answers could not be compared, which says nothing about either node."""
MAX_COMPARED_BYTES = 4 << 20
"""Bytes of the longest answers that are compared unless they are equal to the byte. Two lists of logs of this length
take about a twentieth of a second."""
MOST_VALUES = 200_000
"""Values that are compared in one pair of answers, so that no answer blocks the event loop for longer than about a
third of a second."""
LONGEST_SHOWN = 80
"""Characters of each value that a difference shows."""
LONGEST_PATH = 160
"""Characters of the path that a difference shows."""
_CLOSE = 1e-9
_ROOT = "."
"""The name under which an entry means the result itself."""


class MemberDifference(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Members that may differ in one way: a table [[chain.differences.members]]."""

    why: str
    """The reason: which nodes differ, and why that says nothing about the chain."""
    methods: tuple[str, ...]
    """Names of methods and fnmatch patterns, case-sensitive."""
    names: tuple[str, ...]
    """Names of members at any depth: `blockHash`; `logs.blockHash` for those of items of `logs` only; `.` for the
    result itself. An entry for a member that is an array holds for its items too."""
    way: ComparisonMode
    values: tuple[str, ...] = ()
    """For the way "alike" alone: the values that mean the same, in lower case."""

    def __post_init__(self) -> None:
        if bool(self.values) != (self.way == "alike"):
            raise ValueError('`values` belongs to the way "alike", and to no other')


class Incomparable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Methods whose answers are no facts of the chain: a table [[chain.differences.never]]."""

    why: str
    methods: tuple[str, ...]
    """Names of methods and fnmatch patterns, case-sensitive."""


class Differences(Struct, frozen=True, forbid_unknown_fields=True, cache_hash=True):
    """What may differ between the answers of right nodes of a chain: the table [chain.differences]."""

    members: tuple[MemberDifference, ...] = ()
    never: tuple[Incomparable, ...] = ()


def comparable(method: str, differences: Differences) -> bool:
    """Whether the answers of two nodes to this method should say the same."""
    return _judge(differences, method).compares


def difference(one: bytes, other: bytes, method: str, differences: Differences) -> str:
    """The first difference of two results, as `result.logs[2].data: 0x12… against nothing`; empty when they are equal.

    The path names members and items, and both values are cut to LONGEST_SHOWN characters and made printable. A text
    that begins with NOT_COMPARED says that the results are too long (MAX_COMPARED_BYTES, MOST_VALUES) or nest too
    deeply to be compared. Nothing is raised, whatever the results hold.

    Args:
        one: a result, JSON text in UTF-8.
        other: another node's result of the same call.
        method: the method that both answer.
        differences: what may differ on this chain.
    """
    if one == other:
        return ""
    lengths = sorted((len(one), len(other)))
    if lengths[1] > MAX_COMPARED_BYTES:
        if lengths[0] < lengths[1] // 4:
            return f"result: {len(one)} bytes against {len(other)} bytes"
        return f"{NOT_COMPARED}longer than {MAX_COMPARED_BYTES} bytes"
    read = [_decoded(text) for text in (one, other)]
    if any(isinstance(value, _Unreadable) for value in read):
        if all(isinstance(value, _Unreadable) and value.deep for value in read):
            return f"{NOT_COMPARED}nested too deeply"
        return f"result: {_shown(read[0])} against {_shown(read[1])}"
    try:
        found = _Comparison(_judge(differences, method)).first(*read)
    except _TooMuch:
        return f"{NOT_COMPARED}more than {MOST_VALUES} values"
    except (RecursionError, ValueError, OverflowError):
        return f"{NOT_COMPARED}nested too deeply, or with too long a number"
    return "" if found is None else f"{_written(found[0])}: {_shown(found[1])} against {_shown(found[2])}"


# -- values ------------------------------------------------------------------------------------------------------------


class _Number(Struct, frozen=True):
    """A number as it was written, because it has a fraction or an exponent."""

    written: str


class _TooMuch(Exception):
    """There are more than MOST_VALUES values."""


class _Unreadable(Struct, frozen=True):
    """What stands for a text that is no JSON, or nests too deeply."""

    deep: bool


def _exact(number: int | _Number) -> tuple[bool, str, int]:
    """The value of a number as (negative, digits, scale): digits * 10**scale, with no zero at either end of the
    digits."""
    written = number.written.lower() if isinstance(number, _Number) else str(number)
    mantissa, _, exponent = written.partition("e")
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return False, "", 0
    shortest = digits.rstrip("0")
    return written[0] == "-", shortest, int(exponent or 0) - len(fraction) + len(digits) - len(shortest)


_DECODER = msgspec.json.Decoder(float_hook=_Number)
_HEX = re.compile(r"0[xX][0-9a-fA-F]*\Z")
_QUANTITY = re.compile(r"0[xX][0-9a-fA-F]{1,64}\Z|[0-9]{1,80}\Z")
_EMPTY_TEXTS = frozenset({"", "0x", "0x0"})
_NUMBERS = (int, _Number)


def _decoded(text: bytes) -> Any:
    try:
        return _DECODER.decode(text)
    except UNREADABLE as fault:
        return _Unreadable(isinstance(fault, RecursionError))


def _quantity(value: Any) -> int | None:
    """The integer that is written in hex, in decimal or bare; None for anything else."""
    if isinstance(value, str) and _QUANTITY.match(value):
        return int(value, 16) if value[:2] in ("0x", "0X") else int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_empty(value: Any) -> bool:
    """Whether a value says nothing more than a missing one does."""
    if isinstance(value, str):
        return value in _EMPTY_TEXTS
    return value is False or value in (0, [], {})


def _close(one: int | _Number, other: int | _Number) -> bool:
    """Whether two numbers differ by little enough to be the same one, rounded."""
    left, right = (float(number.written) if isinstance(number, _Number) else float(number) for number in (one, other))
    return abs(left - right) <= _CLOSE


# -- the rules of a method ---------------------------------------------------------------------------------------------

_Path = tuple[Any, Any] | None
"""The way to a value: the path of what holds it, and its name or index there; None for the result."""


class _Leave(Struct, frozen=True):
    """How one member may differ."""

    ways: frozenset[ComparisonMode] = frozenset()
    alike: tuple[frozenset[str], ...] = ()

    def joined(self, row: MemberDifference) -> _Leave:
        alike = (*self.alike, frozenset(row.values)) if row.values else self.alike
        return _Leave(self.ways | {row.way}, alike)

    def of_items(self) -> _Leave:
        return _Leave(self.ways - {"set"}, self.alike) if "set" in self.ways else self

    def same(self, one: Any, other: Any) -> bool:
        """Whether two values are equal that are not two objects or two arrays."""
        if isinstance(one, bool) or isinstance(other, bool):
            return one is other
        if isinstance(one, _NUMBERS) and isinstance(other, _NUMBERS):
            if one == other or _exact(one) == _exact(other):
                return True
            return "rounded" in self.ways and _close(one, other)
        if isinstance(one, str) and isinstance(other, str):
            if one == other:
                return True
            lower = {one.lower(), other.lower()}
            if len(lower) == 1 and _HEX.match(one) and _HEX.match(other):
                return True
            if any(lower <= values for values in self.alike):
                return True
        if "number" in self.ways:
            quantity = _quantity(one)
            return quantity is not None and quantity == _quantity(other)
        return False


_STRICT = _Leave()


class _Judge:
    """What the table says of one method."""

    def __init__(self, differences: Differences, method: str) -> None:
        self.compares = not any(_names(row.methods, method) for row in differences.never)
        self._rows: dict[str, list[tuple[list[str], MemberDifference]]] = {}
        for row in differences.members:
            if _names(row.methods, method):
                for name in row.names:
                    *holders, last = [name] if name == _ROOT else name.split(".")
                    self._rows.setdefault(last, []).append((holders[::-1], row))

    def leave(self, name: str, path: _Path) -> _Leave:
        """How the member of this name of the object at `path` may differ."""
        found = _STRICT
        for holders, row in self._rows.get(name, ()):
            if not holders or list(_holders(path, len(holders))) == holders:
                found = found.joined(row)
        return found


class _Comparison:
    """One comparison of two results, with the number of values that it may still look at."""

    def __init__(self, judge: _Judge) -> None:
        self._leave = judge.leave
        self._left = MOST_VALUES

    def _spend(self, value: Any) -> None:
        """Count a value and those in it. Raises _TooMuch."""
        self._left -= 1 + (len(value) if isinstance(value, dict | list) else 0)
        if self._left < 0:
            raise _TooMuch

    def first(self, one: Any, other: Any) -> tuple[_Path, Any, Any] | None:
        """The first difference with its path; None when there is none. Raises _TooMuch."""
        waiting: list[tuple[_Path, Any, Any, _Leave]] = [(None, one, other, self._leave(_ROOT, None))]
        while waiting:
            path, one, other, leave = waiting.pop()
            self._spend(one)
            if isinstance(one, dict) and isinstance(other, dict):
                waiting += reversed(list(self._members(path, one, other)))
            elif isinstance(one, list) and isinstance(other, list):
                if len(one) != len(other):
                    return path, one, other
                if "set" in leave.ways:
                    one, other = ([item for _, item in self._sorted(path, array, leave)] for array in (one, other))
                items, last = leave.of_items(), len(one) - 1
                waiting += [((path, index), one[index], other[index], items) for index in range(last, -1, -1)]
            elif one is not other and not leave.same(one, other):
                return path, one, other
        return None

    def _members(
        self, path: _Path, one: dict[str, Any], other: dict[str, Any]
    ) -> Iterator[tuple[_Path, Any, Any, _Leave]]:
        """The members of two objects that must be compared, in the order of the first object."""
        more = [name for name in other if name not in one]
        for name in (*one, *more):
            left, right = one.get(name), other.get(name)
            if left is right or (left.__class__ is str and right.__class__ is str and left == right):
                continue
            leave = self._leave(name, path)
            if "ignored" in leave.ways:
                continue
            if left is None or right is None:
                if "optional" in leave.ways:
                    continue
                if "empty" in leave.ways and _is_empty(right if left is None else left):
                    continue
            yield (path, name), left, right, leave

    def _sorted(self, path: _Path, array: list[Any], leave: _Leave) -> list[tuple[str, Any]]:
        """The items of a set with their keys, in the order of their keys."""
        items = leave.of_items()
        return sorted(((repr(self._key((path, 0), item, items)), item) for item in array), key=lambda pair: pair[0])

    def _key(self, path: _Path, value: Any, leave: _Leave) -> Any:
        """What is the same for equal items of a set, so that they come to stand in the same places."""
        self._spend(value)
        if isinstance(value, dict):
            pairs = []
            for name, member in sorted(value.items()):
                of_member = self._leave(name, path)
                skipped = of_member.ways & {"ignored", "optional"} or ("empty" in of_member.ways and _is_empty(member))
                if member is not None and not skipped:
                    pairs.append((name, self._key((path, name), member, of_member)))
            return pairs
        if isinstance(value, list):
            if "set" in leave.ways:
                return [key for key, _ in self._sorted(path, value, leave)]
            return [self._key((path, 0), item, leave) for item in value]
        if "number" in leave.ways and (quantity := _quantity(value)) is not None:
            return quantity
        if isinstance(value, _NUMBERS) and not isinstance(value, bool):
            return _exact(value)
        return value.lower() if isinstance(value, str) and _HEX.match(value) else value


@lru_cache(maxsize=512)
def _judge(differences: Differences, method: str) -> _Judge:
    """The rules of one method, made once."""
    return _Judge(differences, method)


def _names(patterns: tuple[str, ...], method: str) -> bool:
    return any(fnmatchcase(method, pattern) for pattern in patterns)


def _holders(path: _Path, most: int) -> Iterator[str]:
    """The names of what holds a member, the nearest first; indices of arrays are passed over."""
    while path is not None and most:
        path, step = path
        if isinstance(step, str):
            most -= 1
            yield step


# -- words -------------------------------------------------------------------------------------------------------------


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _written(path: _Path) -> str:
    """A path in words; the middle of a long one is left out."""
    steps: list[Any] = []
    while path is not None:
        path, step = path
        steps.append(step)
    shown = steps if len(steps) <= 16 else [*steps[:8], "…", *steps[-8:]]
    words = (f"[{step}]" if isinstance(step, int) else f".{printable(_cut(step, 40))}" for step in reversed(shown))
    return _cut("result" + "".join(words), LONGEST_PATH)


def _shown(value: Any) -> str:
    """A value in words."""
    if value is None:
        return "nothing"
    if isinstance(value, _Unreadable):
        return "a text that nests too deeply" if value.deep else "a text that is no JSON"
    if isinstance(value, dict):
        return f"an object of {len(value)} members"
    if isinstance(value, list):
        return f"an array of {len(value)} items"
    if isinstance(value, _Number):
        return _cut(value.written, LONGEST_SHOWN)
    if isinstance(value, str):
        return _cut(printable(value[:LONGEST_SHOWN]) if value else '""', LONGEST_SHOWN)
    return _cut(json.dumps(value), LONGEST_SHOWN)
