"""Errors of nodes that no rule knew: collected by their folded text, bounded, so that the operator can class them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Struct

from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.wire.printable import printable

MOST = 100
"""Errors told apart by one worker; the one not seen for longest is forgotten first."""
LONGEST_METHOD = 64
"""Characters: names of methods are what clients send."""


class UnclassedError(Struct, frozen=True, kw_only=True):
    """One error that the default row was used for."""

    network: str
    code: int
    text: str
    """Folded: numbers, hashes and addresses are replaced by signs."""
    count: int
    first_seen: float
    last_seen: float
    """Seconds since 1970."""
    http_status: int
    node: str
    method: str
    """Of the latest time, as is the message."""
    message: str
    """As the node wrote it, shortened and printable."""

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells errors apart."""
        return self.network, self.code, self.text


LONGEST_MESSAGE = 200
"""Characters kept of a message."""


class Unclassed:
    """What one worker has met. Only errors come here, so its cost is none of the hit path's."""

    __slots__ = ("_found", "_most", "forgotten")

    def __init__(self, most: int = MOST) -> None:
        self._found: OrderedDict[tuple[str, int, str], UnclassedError] = OrderedDict()
        self._most = most
        self.forgotten = 0
        """Errors dropped because there were too many different ones."""

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<unclassed {len(self)} errors, {self.forgotten} forgotten>"

    def note(
        self, network: str, node: str, method: str, code: int, message: str, http_status: int, *, at: float
    ) -> None:
        """A node answered a call of `method` with this error, `at` seconds since 1970."""
        text = fold(message)
        key = network, code, text
        before = self._found.pop(key, None)
        self._found[key] = UnclassedError(
            network=network,
            code=code,
            text=text,
            count=1 if before is None else before.count + 1,
            first_seen=at if before is None else before.first_seen,
            last_seen=at,
            http_status=http_status,
            node=node,
            method=printable(method[:LONGEST_METHOD])[:LONGEST_METHOD],
            message=printable(message[:LONGEST_MESSAGE])[:LONGEST_MESSAGE],
        )
        if len(self._found) > self._most:
            self._found.popitem(last=False)
            self.forgotten += 1

    def keep(self, still: Callable[[UnclassedError], bool]) -> None:
        """Rules changed: only what is `still` known by none stays."""
        for key, error in list(self._found.items()):
            if not still(error):
                del self._found[key]

    def all(self) -> tuple[UnclassedError, ...]:
        """Everything collected."""
        return tuple(self._found.values())


def together(parts: Iterable[Iterable[UnclassedError]]) -> list[UnclassedError]:
    """What several workers collected, the most frequent first."""
    found: dict[tuple[str, int, str], UnclassedError] = {}
    for error in (error for part in parts for error in part):
        other = found.get(error.key)
        found[error.key] = error if other is None else _sum(error, other)
    return sorted(found.values(), key=lambda error: (-error.count, error.key))


def _sum(one: UnclassedError, other: UnclassedError) -> UnclassedError:
    latest = max(one, other, key=lambda error: error.last_seen)
    return UnclassedError(
        network=one.network,
        code=one.code,
        text=one.text,
        count=one.count + other.count,
        first_seen=min(one.first_seen, other.first_seen),
        last_seen=latest.last_seen,
        http_status=latest.http_status,
        node=latest.node,
        method=latest.method,
        message=latest.message,
    )
