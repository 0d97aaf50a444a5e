"""Why a call took long."""

from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.outcome import Outcome, reason
from rpcaccel.core.stats.counters import AnswerSource, Step


def outcome(
    *steps: tuple[str, float], node: str = "", attempts: int = 0, source: AnswerSource = AnswerSource.NODE
) -> Outcome:
    return Outcome(source=source, result=b"1", steps=steps, node=node, attempts=attempts)


@pytest.mark.parametrize(
    ("ended", "seconds", "said"),
    [
        (outcome((Step.FORWARD, 2.0), node="a", attempts=1), 2.1, "node a answered after 2.000 s"),
        (outcome((Step.FORWARD, 2.0), node="a", attempts=3), 2.1, "node a answered after 2.000 s, 3 attempts"),
        (outcome((Step.FORWARD, 2.0)), 2.1, "waited 2.000 s for the nodes"),
        (outcome((Step.REDIS, 0.9), (Step.FORWARD, 0.1)), 1.0, "waited 0.900 s for Redis"),
        (outcome((Step.DISK, 0.8), (Step.REDIS, 0.1)), 1.0, "waited 0.800 s for the disk"),
        (outcome((Step.FLIGHT, 3.0)), 3.0, "waited 3.000 s for the same call under way"),
        (outcome((Step.FORWARD, 0.5)), 3.0, "the proxy itself was busy: 2.500 s in no step"),
        (outcome(), 3.0, "the proxy itself was busy"),
        (outcome(source=AnswerSource.REFUSED), 3.0, "refused"),
    ],
)
def test_what_took_longest_is_named(ended: Outcome, seconds: float, said: str) -> None:
    assert reason(ended, seconds) == said
