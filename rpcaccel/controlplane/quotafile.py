"""The file that keeps what is used of nodes' quotas over a restart, beside the state file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rpcaccel.controlplane.statefile import write_whole
from rpcaccel.core.jsontext import UNREADABLE
from rpcaccel.core.quota import Window

VERSION = 1


class Kept(Struct, frozen=True, kw_only=True):
    """What was used of one node's quota in one window, all workers together. Times are Unix seconds."""

    network: str
    node: str
    window: Window
    used: Annotated[float, Meta(ge=0)]
    since: float
    renews: float
    """When the window ends, by which it is known."""


class _Content(Struct, frozen=True, kw_only=True):
    version: int = VERSION
    uses: tuple[Kept, ...]


class DamagedError(Exception):
    """The file cannot be used; says why in words that follow its name."""


class QuotaFile:
    """One file, replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, state: Path) -> QuotaFile:
        """The one that belongs to a state file: rpcaccel.state.json -> rpcaccel.quota.json."""
        name = state.name.removesuffix(".json").removesuffix(".state")
        return cls(state.with_name(f"{name}.quota.json"))

    def __repr__(self) -> str:
        return f"<QuotaFile {self.path}>"

    def load(self) -> tuple[Kept, ...]:
        """What was kept; nothing when there is no file. Raises DamagedError."""
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise DamagedError(f"cannot be read: {error.strerror or type(error).__name__}") from None
        except UNREADABLE:
            raise DamagedError("is damaged") from None
        if content.version != VERSION:
            raise DamagedError(f"has version {content.version}, which this rpcaccel does not read")
        return content.uses

    def save(self, uses: Sequence[Kept]) -> None:
        """Write and rename. Raises OSError. Blocks."""
        write_whole(self.path, msgspec.json.encode(_Content(uses=tuple(uses))) + b"\n")
