"""How many connections a process may have."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from rpcaccel.dataplane import event_loop


@pytest.fixture
def few() -> Iterator[int]:
    """A process that begins with fewer open files than it may have; the most that it may have."""
    usual, most = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(usual, most - 1), most))
    yield most
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_allows_itself_all_the_files_it_may_have(few: int) -> None:
    event_loop.allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few, few)
