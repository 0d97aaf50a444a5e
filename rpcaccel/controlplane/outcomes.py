"""What the admin API answers beside figures, as types that OpenAPI is made of; tests hold real answers against them."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from rpcaccel.config.described import Described
from rpcaccel.config.difference import Edit
from rpcaccel.core.explained import Explanation
from rpcaccel.core.unclassed import UnclassedError


class Workers(TypedDict):
    """The workers that run."""

    workers: list[WorkerStanding]
    replaced: Annotated[int, Meta(description="Those that died or hung and were replaced since the start.")]


class WorkerStanding(TypedDict):
    """A worker process."""

    id: str
    pid: int
    revision: Annotated[int, Meta(description="Of the settings it runs.")]
    uptime: Annotated[float | None, Meta(description="Seconds; null before it has reported.")]
    state: Literal["starting", "serving", "draining"]


class Probed(TypedDict):
    """A node as it was just found."""

    network: str
    id: str
    head: int | None
    chain_ok: Annotated[bool | None, Meta(description="Does it serve the right chain? null: it did not say.")]
    answering: bool
    latency: Annotated[float | None, Meta(description="Seconds.")]
    note: Annotated[str, Meta(description="A sentence when something is wrong.")]


class Difference(TypedDict):
    """What differs from the config file, environment and flags."""

    revision: int
    base: Annotated[str | None, Meta(description="The config file; null without one.")]
    difference: list[Edit]


class Preview(TypedDict):
    """What a change would make differ, asked for with dry_run."""

    revision: int
    difference: list[Edit]
    restart: Annotated[list[str], Meta(description="Paths of those that would wait for a restart.")]


class SettingsDescribed(TypedDict):
    """What can be set."""

    settings: list[Described]
    restart: Annotated[list[str], Meta(description="Paths that take a restart, those below them included.")]


class NewKey(TypedDict):
    """An API key, told this once."""

    key: str
    hash: Annotated[str, Meta(description="What the settings hold of it.")]


class Session(TypedDict):
    """Who is logged in."""

    required: Annotated[bool, Meta(description="Has one to be?")]
    user: str | None
    role: Literal["admin", "read"] | None


class Purged(TypedDict):
    """How many kept answers went, or would."""

    memory: Annotated[int, Meta(description="From the memory of all workers of this host.")]
    store: Annotated[int, Meta(description="From Redis.")]
    complete: Annotated[bool, Meta(description="Was everything looked through? Redis may have been away.")]
    dry_run: bool
    workers: int


class RecordedCall(TypedDict):
    """A call that a client made, without anything about the client."""

    at: Annotated[float, Meta(description="When it came, in the monotonic seconds of that machine.")]
    network: str
    method: str
    params: Annotated[str, Meta(description="JSON, as sent.")]
    head: Annotated[int, Meta(description="The served head it was answered at.")]
    block: Annotated[int | None, Meta(description="The block it was about.")]
    first: Annotated[int | None, Meta(description="The first block, of a range.")]
    source: Annotated[str, Meta(description="Where the answer came from.")]
    seconds: float
    hashed: Annotated[bool, Meta(description="Do the params stand for a transaction, as its hash?")]


class Recorded(TypedDict):
    """The calls of all workers since the last time, oldest first."""

    calls: list[RecordedCall]
    missed: Annotated[int, Meta(description="Those that found no room.")]
    workers: int


class Ran(TypedDict):
    """How a call went that was sent through the proxy's own front."""

    status: int
    headers: Annotated[dict[str, str], Meta(description="The telling ones, in lower case.")]
    seconds: float
    size: Annotated[int, Meta(description="Bytes of the body.")]
    body: Annotated[str, Meta(description="Its beginning, as text.")]


class UnclassedErrors(TypedDict):
    """Errors of nodes that no rule knew, the most frequent first."""

    errors: list[UnclassedError]


class Treatment(TypedDict):
    """What would be done with an error."""

    kind: str
    why: str
    by: Annotated[
        Literal["tried", "settings", "chain", "nobody"],
        Meta(description="Whose rule says so: the one tried, the settings', the chain's, nobody's."),
    ]
    folded: Annotated[str, Meta(description="The message as it is compared with others.")]
    retry: str
    breaker: str
    client: str
    client_code: int


class Explained(Explanation, frozen=True, kw_only=True):
    """One call, as the workers would treat it now."""

    workers: tuple[str, ...]
    """Those that were asked."""
