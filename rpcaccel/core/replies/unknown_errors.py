"""Collects the errors that no row of an error table classifies, bounded, so that the operator can classify them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from rpcaccel.core.replies.error_rules import fold
from rpcaccel.core.wire.printable import printable

MAX_ERRORS = 100
"""Distinct errors that one worker collects; the one not seen for longest is dropped first."""
MAX_METHOD_CHARACTERS = 64
"""Characters kept of a method's name, which a client may have invented."""


class UnclassedError(Struct, frozen=True, kw_only=True):
    """An error for which only the default row fits."""

    network: str
    code: int
    text: str
    """The folded text: numbers, hashes and addresses are replaced by placeholders."""
    count: int
    first_seen: float
    last_seen: float
    """Unix time in seconds."""
    http_status: int
    nodes: dict[str, int]
    """The occurrences by node."""
    method: str
    """The method of the latest occurrence."""
    message: str
    """The message of the latest occurrence as the node wrote it, shortened and printable."""

    @property
    def key(self) -> tuple[str, int, str]:
        """The key by which errors are told apart."""
        return self.network, self.code, self.text


LONGEST_MESSAGE = 200
"""Characters kept of a message."""


class UnclassedLog:
    """The unclassified errors that one worker has met."""

    __slots__ = ("_found", "_most", "forgotten")

    def __init__(self, most: int = MAX_ERRORS) -> None:
        self._found: OrderedDict[tuple[str, int, str], UnclassedError] = OrderedDict()
        self._most = most
        self.forgotten = 0
        """Errors dropped because there were more than `most` distinct ones."""

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<unclassed {len(self)} errors, {self.forgotten} forgotten>"

    def note(
        self, network: str, node: str, method: str, code: int, message: str, http_status: int, *, at: float
    ) -> None:
        """Note that a node answered a call of `method` with this error at the Unix time `at`."""
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
            nodes={node: 1} if before is None else {**before.nodes, node: before.nodes.get(node, 0) + 1},
            method=printable(method[:MAX_METHOD_CHARACTERS])[:MAX_METHOD_CHARACTERS],
            message=printable(message[:LONGEST_MESSAGE])[:LONGEST_MESSAGE],
        )
        if len(self._found) > self._most:
            self._found.popitem(last=False)
            self.forgotten += 1

    def keep(self, still: Callable[[UnclassedError], bool]) -> None:
        """Keep only the errors that are `still` unclassified, after a change of the tables."""
        for key, error in list(self._found.items()):
            if not still(error):
                del self._found[key]

    def all(self) -> tuple[UnclassedError, ...]:
        """All collected errors."""
        return tuple(self._found.values())


def together(parts: Iterable[Iterable[UnclassedError]]) -> list[UnclassedError]:
    """Merge the errors that several workers collected, the most frequent first."""
    found: dict[tuple[str, int, str], UnclassedError] = {}
    for error in (error for part in parts for error in part):
        other = found.get(error.key)
        found[error.key] = error if other is None else _sum(error, other)
    return sorted(found.values(), key=lambda error: (-error.count, error.key))


def _sum(one: UnclassedError, other: UnclassedError) -> UnclassedError:
    latest = max(one, other, key=lambda error: error.last_seen)
    nodes = dict(Counter(one.nodes) + Counter(other.nodes))
    first_seen = min(one.first_seen, other.first_seen)
    return replace(latest, count=one.count + other.count, nodes=nodes, first_seen=first_seen)
