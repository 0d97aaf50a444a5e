"""What a proxy costs its Redis is told; the figures are not judged here."""

from __future__ import annotations

import pytest

from benchmarks import node_calls
from benchmarks.node_calls import RATE, Size
from rpcaccel.bench.load.progress import Watch


@pytest.mark.deep
def test_what_redis_bears_is_told_at_rest_and_under_misses() -> None:
    rows = [*node_calls.borne(Watch(), Size(seconds=0.5))]
    assert [row[0] for row in rows] == [
        "1 worker, nothing asked", f"1 worker, {RATE} misses/s",
        "2 workers, nothing asked", f"2 workers, {RATE} misses/s", "a kept block",
    ]  # fmt: skip
    idle, asked = (float(row[1]) for row in rows[:2])
    assert idle < asked
