"""A decorator for fixtures of tests that share one event loop."""

from __future__ import annotations

import pytest_asyncio

shared = pytest_asyncio.fixture(loop_scope="session")
"""An asynchronous fixture made anew for each test, on the loop that all tests in tests/e2e run on."""
