"""Classifies a node's error: one table for each chain, of which the first row that fits decides.

The default row stands first in the table and is used last: the error is unknown, and its folded text is collected so
that the operator can classify it (architecture section 6; docs/harmony.md section 5).

Messages quote text from clients (method names, arguments, revert reasons). If a kind teaches something about the node
or counts as success, its words are searched only in the part of a message that is the node's own (`reach`). Otherwise a
client could park a node by writing "rate limit" into an argument.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.wire.printable import printable

MAX_SEARCHED_CHARACTERS = 600
"""Characters at the beginning of a message that are searched."""
END_READ = 200
"""Characters at the end of a message that are searched as well."""
LONGEST_FOLDED = 200
"""Characters of the longest folded text."""


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
"""Kinds that shut out the node or turn a refusal into a success. Their words come before any detail of the message."""
_OF_WHAT_IT_HAS = frozenset(
    {
        FailureKind.PRUNED,
        FailureKind.BEYOND_WINDOW,
        FailureKind.NODE_BEHIND,
        FailureKind.NODE_TIMEOUT,
        FailureKind.FILTER_NOT_FOUND,
    }
)
"""Kinds that teach the limits of a node. Their words may follow a prefix, as in `getting header: ...`."""
_PREFIX = re.compile(r"(?:rpc error: code = \w+ desc = |[a-z]+_[a-z]+: |(?:error on )?broadcast[a-z]*(?: [a-z]+)?: )?")
"""What programs of the family of gRPC, and those that hand a transaction on, write before the words of another."""
_QUOTE = re.compile(r"""["`]|(?<!\w)'""")
"""The beginning of a quotation. An apostrophe within a word does not count."""
_DETAIL = re.compile(r"""["`]|(?<!\w)'|:(?!//)|[=(\[{]""")
"""The beginning of a quotation or of anything else that may hold a client's words."""


def reach(kind: FailureKind, text: str) -> str:
    """The part of a message in which the words of this kind are searched: its beginning, as far as the node wrote
    it."""
    if kind in _ABOUT_THE_NODE:
        return _DETAIL.split(_PREFIX.sub("", text, count=1), maxsplit=1)[0]
    if kind in _OF_WHAT_IT_HAS:
        return _QUOTE.split(text, maxsplit=1)[0]
    return text


class ErrorRule(Struct, frozen=True):
    """One row of a table. It fits when every condition that it states holds. Texts are compared in lower case."""

    kind: FailureKind
    why: str
    """A sentence for the operator, saying what the error means."""
    codes: frozenset[int] = frozenset()
    """JSON-RPC error codes, one of which must match."""
    statuses: frozenset[int] = frozenset()
    """HTTP statuses, one of which must match."""
    equals: tuple[str, ...] = ()
    """Whole messages. One that holds a placeholder of `fold` (`<hex>`, `#`) is compared with the folded message."""
    starts: tuple[str, ...] = ()
    contains: tuple[tuple[str, ...], ...] = ()
    """Groups of fragments. A group matches when all its fragments are within `reach`."""
    words: tuple[re.Pattern[str], ...] = ()
    """Sets of words, of each of which `reach` holds one. One of all texts and groups in `equals`, `starts` and
    `contains` must match, or `words`."""
    unless: tuple[re.Pattern[str], ...] = ()
    """Words of a different cause: the row does not fit where `reach` holds one of them."""

    def fits(self, code: int, message: str, http_status: int) -> bool:
        """Does the row fit? `message` must be in lower case."""
        if self.codes and code not in self.codes:
            return False
        if self.statuses and http_status not in self.statuses:
            return False
        if not (self.equals or self.starts or self.contains or self.words):
            return True
        if message in self.equals or any(
            ("<" in whole or "#" in whole) and whole == fold(message) for whole in self.equals
        ):
            return True
        text = reach(self.kind, message)
        said = (
            message.startswith(self.starts)
            or text.startswith(self.starts)
            or any(all(fragment in text for fragment in group) for group in self.contains)
            or (bool(self.words) and all(words.search(text) for words in self.words))
        )
        return said and not any(words.search(text) for words in self.unless)

    @property
    def unconditional(self) -> bool:
        """Does the row fit every error?"""
        return not (self.codes or self.statuses or self.equals or self.starts or self.contains or self.words)


class ErrorTable(Struct, frozen=True):
    """The rows of one chain in order, and the default row for everything else."""

    default: ErrorRule
    rows: tuple[ErrorRule, ...] = ()

    def __repr__(self) -> str:
        return f"<ErrorTable {len(self.rows)} rows>"


class ErrorClass(NamedTuple):
    """The kind of an error, and the sentence of the row that decided."""

    kind: FailureKind
    rule_text: str


def classify(table: ErrorTable, code: int, message: str, http_status: int = 200) -> ErrorClass:
    """Classify a node's JSON-RPC error."""
    return find(table, code, message, http_status) or ErrorClass(table.default.kind, table.default.why)


def find(table: ErrorTable, code: int, message: str, http_status: int = 200) -> ErrorClass | None:
    """Classify an error by the first row that fits; None when only the default row fits."""
    said = (message[:MAX_SEARCHED_CHARACTERS] + message[MAX_SEARCHED_CHARACTERS:][-END_READ:]).strip()
    texts = {said.lower(): None, _NAME.sub(_spelt, said, count=1).lower(): None}
    for row in table.rows:
        if any(row.fits(code, text, http_status) for text in texts):
            return ErrorClass(row.kind, row.why)
    return None


_NAME = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+)*(?=[:,(.]|$)")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_")


def _spelt(name: re.Match[str]) -> str:
    """The words of a name that stands for a text, as in `BlockRangeTooLarge` or `TX_ALREADY_EXISTS`."""
    return _HUMP.sub(" ", name[0]) if name.start() == 0 else name[0]


_FOLDS = (
    (re.compile(r"0x[0-9a-fA-F]*"), "<hex>"),
    (re.compile(r"\bone1[02-9ac-hj-np-z]{6,}\b"), "<address>"),
    (re.compile(r"\b(?=[a-fA-F]*[0-9])[0-9a-fA-F]{16,}\b"), "<hex>"),
    (re.compile(r"[0-9]+(?:\.[0-9]+)*"), "#"),
)
"""Parts of messages that differ between errors of one cause, with placeholders. A folded text folds to itself."""


def fold(text: str) -> str:
    """Replace numbers, hashes and addresses by placeholders, so that errors of one cause are counted as one."""
    folded = printable(" ".join(text[:MAX_SEARCHED_CHARACTERS].split()))
    for pattern, sign in _FOLDS:
        folded = pattern.sub(sign, folded)
    return folded.strip()[:LONGEST_FOLDED]
