"""The types of what the admin API is sent and answers about settings: those in force, and their changes."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta, Struct

from rpcaccel.config.patch import Edit
from rpcaccel.config.schema import Described
from rpcaccel.controlplane.settings.audit import Change


class Difference(TypedDict):
    """The difference from the config file, environment and flags."""

    revision: int
    base: Annotated[str | None, Meta(description="The config file; null without one.")]
    difference: list[Edit]


class Preview(TypedDict):
    """The difference that a change would make, asked for with dry_run."""

    revision: int
    difference: list[Edit]
    restart: Annotated[list[str], Meta(description="Paths of those that would wait for a restart.")]


class SettingsDescribed(TypedDict):
    """The settings that can be changed."""

    settings: list[Described]
    restart: Annotated[list[str], Meta(description="Paths that take a restart, those below them included.")]


MergePatch = Annotated[
    dict[str, Any],
    Meta(
        description="A JSON merge patch (RFC 7396) of the settings, with each network's nodes as a table by id; "
        "null removes a node and puts a setting back to its default."
    ),
]


class UndoRequest(Struct, frozen=True):
    """Which revision to go back to."""

    to: Annotated[int | None, Meta(description="A revision; the last one if unset.")] = None


class WeightsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The suggested weights to apply: those that were shown, or those of this moment if none are named."""

    weights: Annotated[
        dict[str, Annotated[int, Meta(ge=1, le=1000)]],
        Meta(description="By node id; all that are suggested now if unset."),
    ] = {}


class ChangeLine(Change, frozen=True, kw_only=True):
    """A line of the audit."""

    undo: Annotated[bool, Meta(description="Can the settings before this change be brought back?")]


class Changes(TypedDict):
    """The audit, newest first."""

    changes: list[ChangeLine]


class WorkerRevision(TypedDict):
    """A worker and the revision that it runs."""

    id: str
    revision: int


class SettingsNow(TypedDict):
    """The settings in force."""

    revision: int
    document: Annotated[dict[str, Any], Meta(description="As the config file, but nodes as a table by id.")]
    workers: list[WorkerRevision]
    adopted: Annotated[int, Meta(description="Workers that run this revision.")]
    restart: Annotated[list[str], Meta(description="Paths that take a restart, those below them included.")]
    waiting: Annotated[list[str], Meta(description="Paths that were changed and wait for a restart.")]
    persisted: Annotated[str | None, Meta(description="The state file; null without one.")]
    note: Annotated[str, Meta(description="A sentence when changes will not outlive a restart.")]
    shared: Annotated[dict[str, Any] | None, Meta(description="How it goes with the hosts of one Redis.")]
    undo: Annotated[int | None, Meta(description="The revision that undo goes back to.")]
    change: NotRequired[ChangeLine | None]
