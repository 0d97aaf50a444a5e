"""Which kind of failure a node's error is: one table per chain, read from the top, the first row that fits decides.

The row for what nobody foresaw stands first in the table and is used last: such an error is unknown, and its folded
text is collected so that the operator can class it (docs/architecture.md, Failures; docs/harmony.md section 5).

Messages quote what clients sent (method names, arguments, revert reasons). A kind from which something is learnt about
the node, or that counts as success, is therefore not found in words that may be a client's: else a client could have a
node parked by writing "rate limit" into an argument. How far a message is the node's own is said by `reach`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.wire.printable import printable

LONGEST_READ = 600
"""Characters at the beginning of a message that are looked at,"""
END_READ = 200
"""and at its end, where it stands whose words they are."""
LONGEST_FOLDED = 200
"""Characters of a folded text."""


_ABOUT_THE_NODE = frozenset(
    {
        FailureKind.RATE_LIMITED,
        FailureKind.UNAUTHORIZED,
        FailureKind.MISCONFIGURED,
        FailureKind.METHOD_MISSING,
        FailureKind.ROLE_MISSING,
        FailureKind.ALREADY_KNOWN,
    }
)
"""Kinds that keep the node from being asked, or make a refusal a success. Nodes and providers say so in plain words."""
_OF_WHAT_IT_HAS = frozenset(
    {
        FailureKind.PRUNED,
        FailureKind.BEYOND_WINDOW,
        FailureKind.NODE_BEHIND,
        FailureKind.NODE_TIMEOUT,
        FailureKind.FILTER_NOT_FOUND,
    }
)
"""Kinds from which limits of the node are learnt. Programs say so after what they were doing: `getting header: ...`."""
_QUOTE = re.compile(r"""["`]|(?<!\w)'""")
"""The beginning of a quotation; an apostrophe within a word is none."""
_DETAIL = re.compile(r"""["`]|(?<!\w)'|:(?!//)|[=(\[{]""")
"""The beginning of a quotation or of anything else that may be the client's words."""


def reach(kind: FailureKind, text: str) -> str:
    """The part of a message in which words for this kind are looked for: as far as it is the node's own."""
    if kind in _ABOUT_THE_NODE:
        return _DETAIL.split(text, maxsplit=1)[0]
    if kind in _OF_WHAT_IT_HAS:
        return _QUOTE.split(text, maxsplit=1)[0]
    return text


class ErrorRule(Struct, frozen=True):
    """One row: it fits when every condition it names holds. Texts are compared in lower case."""

    kind: FailureKind
    why: str
    """One sentence for the operator: what the node is saying."""
    codes: frozenset[int] = frozenset()
    """JSON-RPC error codes, any of them."""
    statuses: frozenset[int] = frozenset()
    """HTTP statuses, any of them."""
    equals: tuple[str, ...] = ()
    """Whole messages; one with a sign of `fold` in it (`<hex>`, `#`) is compared with the folded message."""
    starts: tuple[str, ...] = ()
    contains: tuple[tuple[str, ...], ...] = ()
    """Each a group of fragments that must all be there, within `reach`. Of all the texts a row names, one has to
    hold."""

    def fits(self, code: int, message: str, http_status: int) -> bool:
        """Does the row fit? `message` is in lower case."""
        if self.codes and code not in self.codes:
            return False
        if self.statuses and http_status not in self.statuses:
            return False
        if not (self.equals or self.starts or self.contains):
            return True
        return (
            message in self.equals
            or any(("<" in whole or "#" in whole) and whole == fold(message) for whole in self.equals)
            or message.startswith(self.starts)
            or (bool(self.contains) and self._contained(reach(self.kind, message)))
        )

    def _contained(self, text: str) -> bool:
        return any(all(fragment in text for fragment in group) for group in self.contains)

    @property
    def unconditional(self) -> bool:
        """Does it fit everything?"""
        return not (self.codes or self.statuses or self.equals or self.starts or self.contains)


class ErrorTable(Struct, frozen=True):
    """The rows of one chain in the order of trying, and the row for everything else."""

    default: ErrorRule
    rows: tuple[ErrorRule, ...] = ()

    def __repr__(self) -> str:
        return f"<ErrorTable {len(self.rows)} rows>"


class ErrorClass(NamedTuple):
    """What an error is, and by which row."""

    kind: FailureKind
    rule_text: str


def classify(table: ErrorTable, code: int, message: str, http_status: int = 200) -> ErrorClass:
    """The kind of a node's JSON-RPC error with this `code` and `message`, answered with this HTTP status."""
    return find(table, code, message, http_status) or ErrorClass(table.default.kind, table.default.why)


def find(table: ErrorTable, code: int, message: str, http_status: int = 200) -> ErrorClass | None:
    """The verdict of the first row that fits; None when only the default is left."""
    text = (message[:LONGEST_READ] + message[LONGEST_READ:][-END_READ:]).strip().lower()
    for row in table.rows:
        if row.fits(code, text, http_status):
            return ErrorClass(row.kind, row.why)
    return None


_FOLDS = (
    (re.compile(r"0x[0-9a-fA-F]*"), "<hex>"),
    (re.compile(r"\bone1[02-9ac-hj-np-z]{6,}\b"), "<address>"),
    (re.compile(r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{16,}\b"), "<hex>"),
    (re.compile(r"[0-9]+(?:\.[0-9]+)*"), "#"),
)
"""What is told apart in an error but not in its cause. The signs hold no digit, so a folded text folds to itself."""


def fold(text: str) -> str:
    """`text` with numbers, hashes and addresses folded, so that errors of one cause become one line to count."""
    folded = printable(" ".join(text[:LONGEST_READ].split()))
    for pattern, sign in _FOLDS:
        folded = pattern.sub(sign, folded)
    return folded.strip()[:LONGEST_FOLDED]
