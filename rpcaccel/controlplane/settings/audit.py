"""The lines of the audit: who changed what, and when."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rpcaccel.config.patch import Edit

LINES = 200
"""Lines that the ledger keeps."""

Action = Literal["start", "change", "undo", "reload", "shared"]


class Author(Struct, frozen=True):
    """The author of a change: the name, and the way that the change came (page, cli, api, signal)."""

    name: str
    via: str = "api"


SYSTEM = Author("rpcaccel", "start")


class Change(Struct, frozen=True, kw_only=True):
    """One line of the audit. Holds no secret."""

    revision: int
    """The revision that was made; after a refused change, the revision that stayed in force."""
    before: int
    """The revision that the change was made from."""
    at: float
    """Seconds since 1970."""
    by: str
    via: str
    action: Action
    outcome: Literal["adopted", "refused"] = "adopted"
    text: str = ""
    difference: tuple[Edit, ...] = ()
    reason: str = ""
    """Why it was refused; empty when it was adopted."""
    why: str = ""
    """Why it was made, in a sentence, where its author says so."""
