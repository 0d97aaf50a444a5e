"""Which methods somebody may call, and which nobody may, as names and patterns (fnmatch, case-sensitive)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate


class Permission:
    """What one client may call. What is denied is denied, whatever else is allowed."""

    __slots__ = ("_allow", "_deny", "allow", "deny")

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        """`allow` empty: everything that is not denied."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self._allow = any_of(allow)
        self._deny = any_of(deny)

    def __repr__(self) -> str:
        return f"<permission allow {','.join(self.allow) or '*'} deny {','.join(self.deny) or '-'}>"

    def allows(self, method: str) -> bool:
        """May this method be called?"""
        if self._deny is not None and self._deny.match(method):
            return False
        return self._allow is None or self._allow.match(method) is not None


class Exposure:
    """What the proxy takes at all, whoever calls."""

    __slots__ = ("_deny", "_expose")

    def __init__(self, deny: Sequence[str] = (), expose: Sequence[str] = ()) -> None:
        """`deny` is refused in any case; `expose` is taken though the chain's table denies it."""
        self._deny = any_of(deny)
        self._expose = any_of(expose)

    def refusal(self, method: str, *, denied: bool) -> str:
        """Why a method is refused, in words for its caller; empty when it is taken. `denied`: by the chain's table."""
        if self._deny is not None and self._deny.match(method):
            return f"the method {method} is refused by this proxy"
        if denied and (self._expose is None or not self._expose.match(method)):
            return (
                f"the method {method} is for a node's operator and refused by this proxy, "
                "unless its setting http.expose names it"
            )
        return ""


def any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """An expression that matches the names that some pattern means; None where there is no pattern."""
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None
