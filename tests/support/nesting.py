"""How deeply a JSON text may nest before msgspec gives it up, which depends on Python: about 1,000 levels up to 3.12,
some thousands on 3.13, and as many as the stack holds since 3.14 (40,000 in 8 MB)."""

from __future__ import annotations

import sys

import msgspec
import pytest

DEFAULT_LIMIT = 1_000
"""Python's own limit of recursion, which tests run with (tests/conftest.py)."""


def reads(levels: int) -> bool:
    """Does msgspec read a text of so many levels here, with Python's own limit of recursion? A library of another test
    may have raised that limit while tests are collected."""
    raised = sys.getrecursionlimit()
    sys.setrecursionlimit(DEFAULT_LIMIT)
    try:
        msgspec.json.decode(b"[" * levels + b"]" * levels)
    except RecursionError:
        return False
    finally:
        sys.setrecursionlimit(raised)
    return True


def refused(levels: int) -> pytest.MarkDecorator:
    """The mark of a test for the Pythons on which msgspec gives up at so many levels."""
    return pytest.mark.skipif(reads(levels), reason=f"msgspec reads {levels:,} levels on this Python")
