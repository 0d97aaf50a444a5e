"""The cache never lies, at length: tests/unit/dataplane/test_truth.py has short runs of the same, and the stories.

What can happen stands in `tests/support/dataplane/truth.py`, what must hold in `witness.py`; the world, in
`world.py`.
"""

from __future__ import annotations

import pytest

from tests.support.dataplane.truth import MORE_STORMS, STORMS, tell_stories, weather


def test_no_answer_is_ever_a_lie() -> None:
    tell_stories(36)


@pytest.mark.parametrize("storm", [*STORMS, *MORE_STORMS])
def test_no_answer_is_a_lie_in_a_storm(storm: int) -> None:
    weather(storm)
