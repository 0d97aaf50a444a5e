"""How deeply a JSON text may nest before msgspec gives it up, which depends on Python: about 1,000 levels up to 3.12,
some thousands on 3.13, and as many as the stack holds since 3.14 (40,000 in 8 MB)."""

from __future__ import annotations

import msgspec
import pytest


def reads(levels: int) -> bool:
    """Does msgspec read a text of so many levels here?"""
    try:
        msgspec.json.decode(b"[" * levels + b"]" * levels)
    except RecursionError:
        return False
    return True


def refused(levels: int) -> pytest.MarkDecorator:
    """The mark of a test for the Pythons on which msgspec gives up at so many levels."""
    return pytest.mark.skipif(reads(levels), reason=f"msgspec reads {levels:,} levels on this Python")
