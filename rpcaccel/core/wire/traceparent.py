"""The `traceparent` header, which carries a trace from one program to the next (W3C Trace Context, section 3.2)."""

from __future__ import annotations

import re

from msgspec import Struct

TRACEPARENT = "traceparent"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


class TraceParent(Struct, frozen=True):
    """The parent of a span: ids of its trace and of itself."""

    trace: int
    span: int
    sampled: bool = True
    """Does the caller record the trace?"""

    def __str__(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-{self.sampled:02x}"


def read(text: str) -> TraceParent | None:
    """Parse a header; None when it is malformed. Of future versions the known part is read."""
    found = _FORM.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5] is not None):
        return None
    trace, span = int(found[2], 16), int(found[3], 16)
    return TraceParent(trace, span, bool(int(found[4], 16) & _SAMPLED)) if trace and span else None
