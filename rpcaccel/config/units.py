"""Sizes and durations as people write them: "256MB", "5 MiB", "30ms", "2m".

Sizes follow IEC 80000-13: MB is 1,000,000 bytes, MiB is 1,048,576. Bare numbers are bytes, or seconds.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

SIZE = 'a size such as 262144, "256MB" or "5 MiB"'
DURATION = 'a duration such as 2.5 (seconds), "30ms", "10s", "2m" or "1h"'

SIZE_PATTERN = r"^\s*\d+(\.\d+)?\s*([kKmMgGtT]?[iI]?[bB]?)\s*$"
DURATION_PATTERN = r"^\s*\d+(\.\d+)?\s*(us|µs|ms|s|m|h|d)?\s*$"

_LONGEST = 40
_LARGEST_SIZE = 1 << 62
_LONGEST_SECONDS = 1e10
_LETTERS = "kmgt"
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]*)\s*", re.IGNORECASE)
_SECONDS = {
    "": Decimal(1),
    "us": Decimal("0.000001"),
    "µs": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}


def _byte_units() -> dict[str, int]:
    units = {"": 1, "b": 1}
    for power, letter in enumerate(_LETTERS, start=1):
        units[letter] = units[letter + "b"] = 1000**power
        units[letter + "i"] = units[letter + "ib"] = 1024**power
    return units


_BYTES = _byte_units()


def _split(text: str, expected: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(expected)
    return Decimal(match[1]), match[2]


def parse_size(value: object) -> int:
    """Bytes of a size; a fraction of a byte is dropped. Raises ValueError naming what was expected."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str):
        number, unit = _split(value, SIZE)
        if unit.lower() not in _BYTES:
            raise ValueError(SIZE)
        size = int(number * _BYTES[unit.lower()])
    else:
        raise ValueError(SIZE)  # noqa: TRY004 -- pydantic turns only ValueError into a fault
    if not 0 <= size <= _LARGEST_SIZE:
        raise ValueError(SIZE)
    return size


def format_size(size: int) -> str:
    """The shortest text that parses back to exactly this many bytes."""
    for power in range(len(_LETTERS), 0, -1):
        letter = _LETTERS[power - 1].upper()
        for unit, name in ((1000**power, f"{letter}B"), (1024**power, f"{letter}iB")):
            if size and size % unit == 0:
                return f"{size // unit}{name.replace('KB', 'kB')}"
    return f"{size}B"


def parse_duration(value: object) -> float:
    """Seconds of a duration. Raises ValueError naming what was expected."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        in_range = not isinstance(value, float) or math.isfinite(value)
        seconds = float(min(value, int(_LONGEST_SECONDS) * 2)) if in_range else -1.0
    elif isinstance(value, str):
        number, unit = _split(value, DURATION)
        if unit.lower() not in _SECONDS:
            raise ValueError(DURATION)
        seconds = float(number * _SECONDS[unit.lower()])
    else:
        raise ValueError(DURATION)  # noqa: TRY004 -- pydantic turns only ValueError into a fault
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(DURATION)
    return seconds
