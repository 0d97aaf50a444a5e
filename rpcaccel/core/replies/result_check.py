"""Results that are none: HTTP 200 and JSON-RPC in good order, and something that this method never answers.

Decided from the first character, so that a large result costs nothing. Only what a chain's table says for certain is
judged; null is left to core.cache.retention, which knows when it may fill (facts: errors.md, "HTTP 200 can lie"),
except where the table says that a node answers null for want of a role.
"""

from __future__ import annotations

from rpcaccel.core.plan.rules import Form, Rule
from rpcaccel.core.replies.failure import FailureKind

_FIRST: dict[Form, frozenset[int]] = {
    "object": frozenset(b"{n"),
    "list": frozenset(b"[n"),
    "object-or-bool": frozenset(b"{tfn"),
}
_EMPTY = b"{}"


def judge_result(rule: Rule, result: bytes | memoryview) -> FailureKind | None:
    """What is wrong with the raw JSON text of a result; None: nothing that can be told."""
    if rule.form and not _fits(rule.form, result):
        return FailureKind.IMPOSSIBLE
    if any(result == text.encode() for text in rule.lacks_when):
        return FailureKind.ROLE_MISSING
    if rule.gave_up and any(fragment.encode() in bytes(result) for fragment in rule.gave_up):
        return FailureKind.NODE_TIMEOUT
    return None


def _fits(form: Form, result: bytes | memoryview) -> bool:
    first = result[0]
    if form == "scalar":
        return first not in b"[{"
    return first in _FIRST[form] and not (len(result) == len(_EMPTY) and bytes(result) == _EMPTY)
