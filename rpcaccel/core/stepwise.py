"""Work on texts whose size clients and nodes choose, in steps: whoever drives a generator lets others go on between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

ITEMS_A_STEP = 8
"""Items of a list, such as logs, that are looked at in one step."""
T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Yields after each step, which takes some ten microseconds, and returns what the work came to."""


def in_one_step(work: Callable[..., T], *about: Any) -> Steps[T]:
    """What `work` comes to with these arguments, in one step."""
    yield
    return work(*about)


def at_once(steps: Steps[T]) -> T:
    """Do all steps now, and return what they come to; for texts that are known to be short."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # the generator's own type
