"""How many examples a property test tries: few in the lanes of `make test`, all in `make test-all`."""

from __future__ import annotations

from hypothesis import settings

from tests.support import services

QUICK, THOROUGH = 25, 100
"""Examples of a test that names no number of its own."""


def prepare() -> None:
    """Register both profiles and load the quick one; `--hypothesis-profile=thorough` asks for the other.

    A deadline of single examples says nothing on a busy machine. With CI=true the examples are the same every time.
    """
    for name, count in (("quick", QUICK), ("thorough", THOROUGH)):
        settings.register_profile(
            name, max_examples=count, deadline=None, derandomize=services.in_ci(), print_blob=services.in_ci()
        )
    settings.load_profile("quick")


def examples(count: int) -> int:
    """What `count` examples of the thorough profile come to in the profile that is loaded."""
    return max(count * settings().max_examples // THOROUGH, 1)
