"""Values of the --gate options: times such as 250ms or 1.5s, shares such as 1.5%, each within bounds."""

from __future__ import annotations

from argparse import ArgumentTypeError

from rpcaccel.config.value_types import parse_duration

MIN_MILLISECONDS, MAX_MILLISECONDS = 1.0, 600_000.0
"""Milliseconds."""
TIME = "a time from 1ms to 10m such as 250ms or 1.5s (a number alone: milliseconds)"
SHARE = "a share from 0% to 100% such as 1.5% (a number alone: 0 to 1)"


def milliseconds(text: str) -> float:
    """Milliseconds of a time. Raises ArgumentTypeError, to which the parser adds the option."""
    try:
        found = float(text) if _is_number(text) else parse_duration(text) * 1000
    except ValueError:
        found = -1.0
    if not MIN_MILLISECONDS <= found <= MAX_MILLISECONDS:
        raise ArgumentTypeError(f"found {text!r}, expected {TIME}")
    return found


def share(text: str) -> float:
    """0..1 of a share. Raises ArgumentTypeError, to which the parser adds the option."""
    number = text.strip().removesuffix("%")
    try:
        found = float(number) / 100 if number != text.strip() else float(number)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise ArgumentTypeError(f"found {text!r}, expected {SHARE}")
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


GATES = (
    ("mean", milliseconds, 200.0, "200ms", f"Longest mean of all calls: {TIME}"),
    ("p99", milliseconds, 2000.0, "2s", f"Longest time that 99 of 100 calls take: {TIME}"),
    ("errors", share, 0.001, "0.1%", f"Largest share of calls that may fail: {SHARE}"),
    ("hits", share, 0.0, "0%", f"Smallest share of answers that the proxy gives by itself: {SHARE}"),
)
"""Name of each gate, what reads its value, its default as a number and as it is written, and its help."""


def written(name: str, value: float) -> str:
    """A gate as it is told: which way it is kept, and its value with its unit."""
    if name in ("mean", "p99"):
        return f"≤ {value:g} ms"
    return f"{'≥' if name == 'hits' else '≤'} {value * 100:g} %"
