"""Detects impossible results: well-formed JSON-RPC replies with a result that the method never has.

The first character decides, so that a large result costs nothing. Only what a chain's table states for certain is
judged. Null is left to core.cache.retention, which knows when null may become a value, except where the table says that
a node without a role answers null.
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
    """What is wrong with the raw JSON text of a result; None when nothing certainly is."""
    form = rule.form
    if form and (result[0] in b"[{" if form == "scalar" else not _fits(form, result)):
        return FailureKind.IMPOSSIBLE
    if rule.lacks_when and any(result == text.encode() for text in rule.lacks_when):
        return FailureKind.ROLE_MISSING
    if rule.gave_up and any(fragment.encode() in bytes(result) for fragment in rule.gave_up):
        return FailureKind.NODE_TIMEOUT
    return None


def _fits(form: Form, result: bytes | memoryview) -> bool:
    return result[0] in _FIRST[form] and not (len(result) == len(_EMPTY) and bytes(result) == _EMPTY)
