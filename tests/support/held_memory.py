"""Bytes that code holds, without what the test runner allocates meanwhile in a thread of its own, such as for tests
that move from one of its workers to another."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

WITHOUT_RUNNER = [tracemalloc.Filter(False, f"*/{package}/*") for package in ("execnet", "xdist")]


def bytes_held(work: Callable[[], object]) -> int:
    """The bytes that are allocated during `work` and not freed when it is done."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(WITHOUT_RUNNER).traces)
    finally:
        tracemalloc.stop()
