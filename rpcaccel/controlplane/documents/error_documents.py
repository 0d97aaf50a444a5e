"""The documents about errors that clients got, and the notice when too many calls fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rpcaccel.config.sections import ErrorsSettings
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.stats.summaries import At, Seconds, extended
from rpcaccel.core.client_limits import ANONYMOUS
from rpcaccel.core.replies.failure import FailureKind
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import OTHER, TallySnapshot
from rpcaccel.core.stats.error_log import FINE, SLOTS, ErrorFault, ErrorGroup, ErrorLog, ErrorSample, UnknownMethod

LEAST_FAILED = 10
"""Failed calls in a minute below which nobody is called, whatever their share."""
MINUTE = 60.0
LONGEST = 60
"""Minutes that the log looks back at the most."""
TOP_METHODS = 50
_KINDS = {
    FailureKind.UNKNOWN.value: "errors no rule knows",
    FailureKind.CONNECT.value: "no connection",
    FailureKind.TLS.value: "TLS failed",
    FailureKind.DNS.value: "the host of the URL is not found",
    FailureKind.RESET_BEFORE_REPLY.value: "connections closed before the reply",
    FailureKind.BROKEN_REPLY.value: "answers that broke off",
    FailureKind.TIMEOUT.value: "no answer in time",
    FailureKind.HTTP_STATUS.value: "HTTP errors of nodes",
    FailureKind.NOT_JSON_RPC.value: "answers that are no JSON-RPC",
    FailureKind.WRONG_ID.value: "answers to other calls",
    FailureKind.IMPOSSIBLE.value: "results that cannot be",
    FailureKind.DISAGREED.value: "nodes that had to agree differ",
    FailureKind.RATE_LIMITED.value: "nodes limit the rate",
    FailureKind.UNAUTHORIZED.value: "nodes refuse the key",
    FailureKind.MISCONFIGURED.value: "no JSON-RPC at the URL",
    FailureKind.NODE_BEHIND.value: "nodes have not reached the block",
    FailureKind.NODE_TIMEOUT.value: "nodes gave up themselves",
    FailureKind.NO_NODE.value: "no node can be asked",
    FailureKind.BUSY.value: "all nodes are busy",
    FailureKind.CANCELLED.value: "calls were cancelled",
}
"""The words for every kind of failure that may be the service's doing."""
_OF_REQUESTS = ("concurrency", "batch")
"""Limits by which a client's whole request is refused before it is a call of any method."""


class ErrorGroupNow(Struct, frozen=True, kw_only=True):
    """Errors of one cause: of one method, code, folded message and fault."""

    id: str
    network: str
    method: Annotated[str, Meta(description="Shortened and printable; empty: those beyond the room of one second.")]
    code: int
    text: Annotated[str, Meta(description="The message, with numbers, hashes and addresses as placeholders.")]
    fault: Annotated[
        ErrorFault,
        Meta(description="service: the proxy or its nodes failed; client: the call itself; refused: not accepted."),
    ]
    kind: Annotated[str, Meta(description="The kind of failure; empty for what the proxy refused.")]
    minute: Annotated[int, Meta(description="In the last minute.")]
    lately: Annotated[int, Meta(description="Within the window asked for.")]
    count: Annotated[int, Meta(description="Since the group is known.")]
    first_seen: At
    last_seen: At
    clients: Annotated[dict[str, int], Meta(description="Counts since the group is known.")]
    nodes: Annotated[dict[str, int], Meta(description="Likewise, by the node that answered or failed last.")]
    client: Annotated[str | None, Meta(description="The one that has more than half of the latest ones.")]
    node: Annotated[str | None, Meta(description="Likewise.")]


class ErrorGroupOpened(ErrorGroupNow, frozen=True, kw_only=True):
    """A group with its samples."""

    samples: Annotated[list[ErrorSample], Meta(description="The newest first.")]


class CodeSeries(Struct, frozen=True):
    """The errors of one code over time."""

    network: str
    fault: ErrorFault
    code: int
    counts: list[int]


class ErrorsOverTime(Struct, frozen=True):
    """Errors by code in time slots, oldest first."""

    at: Annotated[list[float], Meta(description="The end of each slot, in seconds since 1970.")]
    spacing: Annotated[Seconds, Meta(description="The length of a slot.")]
    series: list[CodeSeries]


class Refusals(Struct, frozen=True):
    """Requests that were refused before they were a call of any method."""

    reason: str
    minute: int
    total: Annotated[int, Meta(description="Since the start.")]


class ErrorsNow(Struct, frozen=True, kw_only=True):
    """The errors that clients got."""

    at: At
    window: Annotated[Seconds, Meta(description="What `codes` and `lately` look back.")]
    began: Annotated[At, Meta(description="When counting began: errors are not kept over a restart.")]
    codes: Annotated[dict[str, int], Meta(description="Errors in the window, by code.")]
    groups: list[ErrorGroupNow]
    history: ErrorsOverTime
    forgotten: Annotated[int, Meta(description="Groups dropped for want of room.")]
    forgotten_errors: int
    refusals: list[Refusals]
    unclassed: Annotated[list[UnclassedError], Meta(description="Errors of nodes that no rule knew.")]
    unknown_methods: Annotated[list[UnknownMethod], Meta(description="Methods without a rule, most called first.")]
    unnamed: Annotated[int, Meta(description="Calls of further methods without a rule.")]


def errors(
    log: ErrorLog,
    unclassed: Sequence[UnclassedError],
    refusals: list[Refusals],
    *,
    minutes: int,
    network: str = "",
    method: str = "",
    now: float,
    at: float,
) -> ErrorsNow:
    """The document of all errors, or of those of one network.

    Args:
        minutes: how far `codes`, `lately` and the history look back, LONGEST at the most.
        method: the method that `groups` are about; all methods if empty.
        now: monotonic seconds, by which the log counts.
        at: seconds since 1970.
    """
    window = minutes * MINUTE
    wanted = [
        group for group in log.groups() if network in ("", group.key.network) and method in ("", group.key.method)
    ]
    over_time = _over_time(log, network, window, now, at)
    codes: dict[str, int] = {}
    for code_network, _, code, counts in log.series():
        if network in ("", code_network) and (number := counts.last(window, now)):
            codes[str(code)] = codes.get(str(code), 0) + number
    return ErrorsNow(
        at=at,
        window=window,
        began=log.began,
        codes=codes,
        groups=[_group(group, window, now) for group in wanted],
        history=over_time,
        forgotten=log.forgotten,
        forgotten_errors=log.forgotten_errors,
        refusals=refusals,
        unclassed=[error for error in unclassed if network in ("", error.network)],
        unknown_methods=[one for one in log.methods() if network in ("", one.network)][:TOP_METHODS],
        unnamed=log.unnamed,
    )


def opened(group: ErrorGroup, now: float) -> ErrorGroupOpened:
    """The document of one group."""
    return extended(ErrorGroupOpened, _group(group, LONGEST * MINUTE, now), samples=list(reversed(group.samples)))


def refused_requests(snapshot: TallySnapshot, minute: Window | None) -> list[Refusals]:
    """What was refused before it was a call, by reason, the most frequent first."""
    total, lately = _requests(snapshot), _requests(minute.passed) if minute else {}
    found = [Refusals(reason, lately.get(reason, 0), number) for reason, number in total.items()]
    return sorted(found, key=lambda one: -one.total)


def failing(minute: Window | None, log: ErrorLog, settings: ErrorsSettings, now: float) -> list[Notice]:
    """A sentence about each network of which too many calls fail, and what most of them have in common."""
    if minute is None:
        return []
    found = []
    for network in sorted({cell.network for cell in minute.passed.cells}):
        cells = [cell for cell in minute.passed.cells if cell.network == network]
        failed = sum(cell.errors for cell in cells)
        accepted = sum(cell.calls - cell.refused for cell in cells)
        share = failed / accepted if accepted else 0.0
        if failed < LEAST_FAILED or share < settings.warn:
            continue
        over = "minute" if minute.seconds > MINUTE * 0.9 else f"{minute.seconds:.0f} s"
        text = f"{network}: {share * 100:.3g} % of the calls failed in the last {over} ({failed} of {accepted})"
        level: Literal["bad", "warn"] = "bad" if share >= settings.bad else "warn"
        found.append(Notice(level, network, text + _mostly(log, network, now), "failing"))
    return found


def _mostly(log: ErrorLog, network: str, now: float) -> str:
    """ ": most from node b (no answer in time), method m, client c": what more than half of the failures have in
    common."""
    by: dict[str, dict[str, int]] = {"node": {}, "kind": {}, "method": {}, "client": {}}
    for group in log.groups():
        number = group.over_time.last(MINUTE, now)
        if group.key.network != network or group.key.fault != "service" or not number:
            continue
        _add(by["kind"], {_KINDS.get(group.kind, group.kind): number})
        _add(by["method"], {group.key.method: number})
        _add(by["node"], group.lately_nodes.counts(now))
        _add(by["client"], group.lately_clients.counts(now))
    node, kind, method, client = (most(by[what]) for what in ("node", "kind", "method", "client"))
    parts = [
        f"from node {node}{f' ({kind})' if kind else ''}" if node else kind,
        f"method {method}" if method else "",
        f"client {client}" if client and client != ANONYMOUS else "",
    ]
    said = ", ".join(part for part in parts if part)
    if not said:
        return ""
    return f": most {said}" if node else f": most: {said}"


def most(counts: Mapping[str, int]) -> str:
    """The name that has more than half of all; empty when none has."""
    if not counts:
        return ""
    name = max(counts, key=lambda one: counts[one])
    return name if name != OTHER and counts[name] * 2 > sum(counts.values()) else ""


def _group(group: ErrorGroup, window: float, now: float) -> ErrorGroupNow:
    return ErrorGroupNow(
        id=group.id,
        network=group.key.network,
        method=group.key.method,
        code=group.key.code,
        text=group.key.text,
        fault=group.key.fault,
        kind=group.kind,
        minute=group.over_time.last(MINUTE, now),
        lately=group.over_time.last(window, now),
        count=group.count,
        first_seen=group.first_seen,
        last_seen=group.last_seen,
        clients=dict(group.clients),
        nodes=dict(group.nodes),
        client=most(group.lately_clients.counts()) or None,
        node=most(group.lately_nodes.counts()) or None,
    )


def _over_time(log: ErrorLog, network: str, window: float, now: float, at: float) -> ErrorsOverTime:
    """The history by code over the window: in narrow slots where these reach back far enough."""
    fine = window <= FINE * SLOTS
    series: list[CodeSeries] = []
    spacing, ends, keep = 0.0, at, SLOTS
    for code_network, fault, code, counts in log.series():
        slots = counts.fine if fine else counts.coarse
        spacing = slots.width
        keep = min(SLOTS, round(window / spacing))
        ends = at + spacing - now % spacing
        numbers = slots.series(now)[-keep:]
        if network in ("", code_network) and any(numbers):
            series.append(CodeSeries(code_network, fault, code, numbers))
    if not spacing:
        return ErrorsOverTime([], FINE, [])
    times = [ends - spacing * (keep - 1 - position) for position in range(keep)]
    return ErrorsOverTime(times, spacing, series)


def _requests(snapshot: TallySnapshot) -> dict[str, int]:
    found = dict(snapshot.refusals)
    for client in snapshot.clients:
        _add(found, {reason: client.limited[reason] for reason in _OF_REQUESTS if reason in client.limited})
    return found


def _add(counts: dict[str, int], more: Mapping[str, int] | Iterable[tuple[str, int]]) -> None:
    for name, number in dict(more).items():
        counts[name] = counts.get(name, 0) + number
