"""What nodes and providers say, each with the kind that it has to be read as.

`python -m tests.support.provider_errors` writes the table of it in docs/monitoring.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rpcaccel.core.replies.failure import FailureKind, policy
from tests.support.services import ROOT

PAGE = ROOT / "docs" / "monitoring.md"
FACTS = Path(__file__).parent / "facts"


class ProviderError(NamedTuple):
    """One error, as it was seen."""

    who: str
    code: int
    status: int
    kind: str
    text: str


def rows_of(name: str) -> list[list[str]]:
    """The rows of a table in the folder of facts, without its heading."""
    return [line.split("\t") for line in (FACTS / name).read_text("utf-8").splitlines()[1:]]


PROVIDER_ERRORS = [
    ProviderError(who, int(code), int(status), kind, text)
    for who, code, status, kind, text in rows_of("provider_errors.tsv")
]

_ALSO = {
    FailureKind.TOO_LARGE: "a range is asked for in pieces, as short as the text says, and so are later ranges",
    FailureKind.PRUNED: "the node is not asked about blocks as old",
    FailureKind.RATE_LIMITED: "the call rests, and the method once several were refused",
    FailureKind.METHOD_MISSING: "the node is not asked for the method for some minutes",
    FailureKind.UNAUTHORIZED: "the node is not asked for the method for some minutes",
    FailureKind.UNKNOWN: "the error is listed, so that it can be classed",
}
_RETRY = {
    "never": "no other node is asked",
    "always": "another node is asked",
    "one-other": "one other node is asked",
    "if-repeatable": "another node is asked if the call may be repeated",
}


def follows(kind: FailureKind) -> str:
    """What the proxy does about an error of this kind."""
    row = policy(kind)
    client = {
        "pass-through": "",  # the page says that clients get a node's error where nothing else is said
        "own-error": f"the client gets {row.code}, HTTP {row.http}",
        "success-with-hash": "a client that sent this very transaction gets its hash",
    }[row.client]
    return "; ".join(part for part in (_RETRY[row.retry], _ALSO.get(kind, ""), client) if part)


def table() -> str:
    """The table of docs/monitoring.md, a row with an example for each kind."""
    lines = ["| what nodes and providers say, for example | kind | what follows |", "|---|---|---|"]
    first = {error.kind: error for error in reversed(PROVIDER_ERRORS)}
    for kind in dict.fromkeys(error.kind for error in PROVIDER_ERRORS):
        one = first[kind]
        lines.append(f"| {_shown(one.text)} ({one.who}, {_numbers(one)}) | `{kind}` | {follows(FailureKind(kind))} |")
    return "\n".join(lines) + "\n"


def _shown(text: str) -> str:
    short = text if len(text) <= 80 else f"{text[:79]}…"
    return "“" + re.sub(r"([|<>`*_])", r"\\\1", short) + "”"


def _numbers(error: ProviderError) -> str:
    return f"{error.code}" if error.status == 200 else f"{error.code}, HTTP {error.status}"


def written(page: str) -> str:
    """The page with the table as it is now."""
    return re.sub(r"\| what nodes and providers say.*?\n(?!\|)", lambda _: table(), page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
