"""Which methods may be called: by one client, and by anybody. Given as names and fnmatch patterns (case-sensitive)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate


class Permission:
    """The methods that one client may call. `deny` comes before `allow`."""

    __slots__ = ("_allow", "_deny", "allow", "deny")

    def __init__(self, allow: Sequence[str] = (), deny: Sequence[str] = ()) -> None:
        """An empty `allow` allows every method that is not denied."""
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
    """The methods that the proxy accepts from anybody."""

    __slots__ = ("_deny", "_expose")

    def __init__(self, deny: Sequence[str] = (), expose: Sequence[str] = ()) -> None:
        """`deny` is always refused; `expose` is accepted although the chain's table denies it."""
        self._deny = any_of(deny)
        self._expose = any_of(expose)

    def refusal(self, method: str, *, denied: bool) -> str:
        """A sentence for the caller saying why a method is refused; empty when it is accepted.

        `denied`: the chain's table denies the method.
        """
        if self._deny is not None and self._deny.match(method):
            return f"the method {method} is refused by this proxy"
        if denied and (self._expose is None or not self._expose.match(method)):
            return (
                f"the method {method} is for a node's operator and refused by this proxy, "
                "unless its setting http.expose names it"
            )
        return ""


def any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    """A regular expression for names that match any of the patterns; None without patterns."""
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None
