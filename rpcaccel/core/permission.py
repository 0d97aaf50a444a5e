"""Which methods somebody may call, as names and patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate


class Permission:
    """Patterns as fnmatch has them, case-sensitive. What is denied is denied, whatever else is allowed."""

    __slots__ = ("_allow", "_deny", "allow", "deny")

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        """`allow` empty: everything that is not denied."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self._allow = _any_of(allow)
        self._deny = _any_of(deny)

    def __repr__(self) -> str:
        return f"<permission allow {','.join(self.allow) or '*'} deny {','.join(self.deny) or '-'}>"

    def allows(self, method: str) -> bool:
        """May this method be called?"""
        if self._deny is not None and self._deny.match(method):
            return False
        return self._allow is None or self._allow.match(method) is not None


def _any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None
