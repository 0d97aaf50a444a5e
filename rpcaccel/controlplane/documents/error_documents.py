"""The documents about errors that clients got, and about what would be done with an error of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from pydantic import ValidationError

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import ErrorRuleSettings
from rpcaccel.controlplane.stats.attention import most
from rpcaccel.controlplane.stats.history import Window
from rpcaccel.controlplane.stats.summaries import At, Seconds, extended
from rpcaccel.core.replies.error_rules import ErrorClass, ErrorTable, find, fold
from rpcaccel.core.replies.failure import policy, uniform_code
from rpcaccel.core.replies.unknown_errors import UnclassedError
from rpcaccel.core.stats.counters import TallySnapshot
from rpcaccel.core.stats.error_log import FINE, SLOTS, ErrorFault, ErrorGroup, ErrorLog, ErrorSample, UnknownMethod

_MINUTE = 60.0
MAX_MINUTES = 60
"""Minutes that the log looks back at the most."""
MAX_SHOWN_METHODS = 50
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
        minutes: how far `codes`, `lately` and the history look back, MAX_MINUTES at the most.
        method: the method that `groups` are about; all methods if empty.
        now: monotonic seconds, by which the log counts.
        at: seconds since 1970.
    """
    window = minutes * _MINUTE
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
        unknown_methods=[one for one in log.methods() if network in ("", one.network)][:MAX_SHOWN_METHODS],
        unnamed=log.unnamed,
    )


def opened(group: ErrorGroup, now: float) -> ErrorGroupOpened:
    """The document of one group."""
    return extended(ErrorGroupOpened, _group(group, MAX_MINUTES * _MINUTE, now), samples=list(reversed(group.samples)))


def refused_requests(snapshot: TallySnapshot, minute: Window | None) -> list[Refusals]:
    """What was refused before it was a call, by reason, the most frequent first."""
    total, lately = _requests(snapshot), _requests(minute.passed) if minute else {}
    found = [Refusals(reason, lately.get(reason, 0), number) for reason, number in total.items()]
    return sorted(found, key=lambda one: -one.total)


def _group(group: ErrorGroup, window: float, now: float) -> ErrorGroupNow:
    return ErrorGroupNow(
        **group.key._asdict(),
        id=group.id,
        kind=group.kind,
        minute=group.over_time.last(_MINUTE, now),
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
    found = Counter(snapshot.refusals)
    for client in snapshot.clients:
        found.update({reason: client.limited[reason] for reason in _OF_REQUESTS if reason in client.limited})
    return found


class ErrorQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """An error as a node might send it, and rules to be tried before those in force."""

    network: str
    message: str
    code: int = -32000
    http_status: int = 200
    rules: tuple[dict[str, Any], ...] = ()


RuleSource = Literal["tried", "settings", "chain", "nobody"]


class Treatment(Struct, frozen=True, kw_only=True):
    """The treatment of an error."""

    kind: str
    why: str
    by: Annotated[RuleSource, Meta(description="Whose rule says so: one tried, the settings', the chain's, nobody's.")]
    folded: Annotated[str, Meta(description="The message as it is compared with others.")]
    retry: str
    breaker: str
    client: str
    client_code: int


def treatment(question: ErrorQuestion, networks: Mapping[str, NetworkSettings]) -> Treatment:
    """The treatment of an error, and the source of the rule for it: the tried rules, the settings, the chain, or
    nobody. Raises ValueError for an unknown network or a faulty rule."""
    network = networks.get(question.network)
    if network is None:
        raise ValueError(f"no network is called {question.network!r}: there are {', '.join(networks)}")
    tried = [_rule(number, rule) for number, rule in enumerate(question.rules)]
    chain = chains.load(network.chain).errors
    asked = question.code, question.message, question.http_status
    layers: tuple[tuple[RuleSource, ErrorTable], ...] = (
        ("tried", ErrorTable(chain.default, tuple(rule.rule() for rule in tried))),
        ("settings", ErrorTable(chain.default, tuple(rule.rule() for rule in network.error_rules))),
        ("chain", chain),
    )
    by, verdict = next(
        ((name, found) for name, table in layers if (found := find(table, *asked)) is not None),
        ("nobody", ErrorClass(chain.default.kind, chain.default.why)),
    )
    row = policy(verdict.kind)
    passed = uniform_code(verdict.kind, question.code) if network.uniform_error_codes else question.code
    return Treatment(
        kind=str(verdict.kind),
        why=verdict.rule_text,
        by=by,
        folded=fold(question.message),
        retry=row.retry,
        breaker=row.breaker,
        client=row.client,
        client_code=row.code if row.client == "own-error" else passed,
    )


def _rule(number: int, rule: Mapping[str, Any]) -> ErrorRuleSettings:
    try:
        return ErrorRuleSettings.model_validate(rule)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"rules[{number}]{place and f'.{place}'}: {first['msg']}") from None
