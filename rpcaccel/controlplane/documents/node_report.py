"""The report on every node over an hour or a day, with the suggested weights and the cases of disagreement: types and
document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rpcaccel.config.model import NetworkSettings
from rpcaccel.controlplane.documents.series import A_MILLION
from rpcaccel.controlplane.documents.worth import Gathered, cost_of_a_call
from rpcaccel.controlplane.stats.buckets import ratio
from rpcaccel.controlplane.stats.node_history import NodeSum, Over, PastTotal
from rpcaccel.controlplane.stats.snapshot import NodeView
from rpcaccel.controlplane.stats.summaries import ExaminationNow, Seconds, Share, examination_document, extended, iso
from rpcaccel.core.agreement.cases import Case, CaseFacts
from rpcaccel.core.replies.failure import is_node_fault
from rpcaccel.core.stats.comparison import compare, pool
from rpcaccel.core.stats.histogram import Histogram
from rpcaccel.core.stats.suggested_weights import SuggestedWeight, Suggestion

_OVERTAKEN = "overtaken"
"""The kind of an attempt that was given up because another node answered first. It is no error of the node."""
Times = Annotated[
    float | None, Meta(description="How many times the seconds of the others it took, for the same methods.")
]
Low = Annotated[float | None, Meta(description="Lower end of the ratio's spread: it is above with 97.5 %.")]
High = Annotated[float | None, Meta(description="Upper end of the ratio's spread: it is below with 97.5 %.")]


class Agreement(Struct, frozen=True, kw_only=True):
    """How the answers of a node agreed with those of others, and with the blocks that they are about."""

    compared: Annotated[int, Meta(description="Answers that were compared with another node's.")]
    minority: Annotated[int, Meta(description="Comparisons in which two others contradicted it.")]
    undecided: Annotated[int, Meta(description="Comparisons that no third node could decide.")]
    false_hashes: Annotated[int, Meta(description="Answers whose logs named a block hash that the block lacks.")]
    disproved: Annotated[int, Meta(description="Answers that contradicted the call or the hash of their block.")]
    suspect: Annotated[bool, Meta(description="Are its answers wrong now: disproved, or contradicted beyond chance?")]


class MethodCompared(Struct, frozen=True, kw_only=True):
    """One method on a node, against the other nodes of the network."""

    method: str
    calls: Annotated[int, Meta(description="Good answers.")]
    mean: Seconds
    others: Annotated[float | None, Meta(description="Seconds that the others took on average; null: never asked.")]
    ratio: Times
    low: Low
    high: High


class LatencyReported(Struct, frozen=True, kw_only=True):
    """The latency of a node, against the other nodes of the network."""

    p50: Seconds | None
    p99: Seconds | None
    ratio: Times
    low: Low
    high: High
    methods: Annotated[list[MethodCompared], Meta(description="Those called most come first.")]


class LagReported(Struct, frozen=True, kw_only=True):
    """How far a node was behind, as looked at every few seconds."""

    p50: Annotated[int | None, Meta(description="Blocks.")]
    p99: Annotated[int | None, Meta(description="Blocks.")]
    behind_share: Annotated[float | None, Meta(description="Of the time, for longer than a new block needs; 0 to 1.")]


class QuotaProjected(Struct, frozen=True, kw_only=True):
    """What is used of a quota, and what will have been used when it renews."""

    window: Literal["day", "month"]
    used: float
    limit: float
    projected: Annotated[float, Meta(description="At its end, at the pace of this report.")]
    renews: Annotated[str, Meta(description="ISO 8601, in UTC.")]


class NodeReported(Struct, frozen=True, kw_only=True):
    """What a node did."""

    network: str
    id: str
    weight: int
    tier: int
    calls: Annotated[int, Meta(description="Attempts sent to it, repeated ones included.")]
    share: Annotated[float | None, Meta(description="Of all attempts of its network.")]
    agreement: Agreement
    latency: LatencyReported
    errors: Annotated[dict[str, int], Meta(description="Attempts without a result, by kind, but for those overtaken.")]
    failed: Annotated[int, Meta(description="Those among them that were the node's own fault.")]
    overtaken: Annotated[int, Meta(description="Attempts given up because a second node, asked as well, was quicker.")]
    lag: LagReported
    quota: list[QuotaProjected]
    unit: Annotated[str, Meta(description="What units of its quotas are called: calls, where it has no costs.")]
    credits: Annotated[float | None, Meta(description="Units that its calls cost; null where it has no costs.")]
    cost: Annotated[float | None, Meta(description="Of its calls, in `currency`; null where the network has no price.")]
    examination: Annotated[ExaminationNow | None, Meta(description="What shadow calls showed; null before the first.")]
    suggested_weight: Annotated[
        SuggestedWeight | None, Meta(description="By the last hour; null where no other weight is suggested.")
    ]


class NetworkWeighed(Struct, frozen=True, kw_only=True):
    """What the suggested weights of a network are worth, by its calls of the last hour."""

    network: str
    gain: Annotated[
        Share | None,
        Meta(description="Of the mean latency, errors counted in; null where nothing is suggested."),
    ]
    why: Annotated[str, Meta(description="A sentence: why these weights, or why none.")]


class NodesReport(Struct, frozen=True, kw_only=True):
    """The report on all nodes, in the order of the settings."""

    over: Over
    seconds: Annotated[float, Meta(description="That there are of this range so far.")]
    currency: str
    nodes: list[NodeReported]
    networks: list[NetworkWeighed]
    cases: Annotated[list[CaseFacts], Meta(description="Of disagreement, the newest first.")]


def report(gathered: Gathered, over: Over, cases: Iterable[Case] = ()) -> NodesReport:
    """The report over a range. `cases`: those of disagreement that are kept, the newest first."""
    past = gathered.past.total(over)
    suggestions = gathered.suggestions()
    return NodesReport(
        over=over,
        seconds=past.seconds,
        currency=gathered.settings.admin.currency,
        nodes=[
            one
            for name, network in gathered.settings.networks.items()
            for one in _network(name, network, gathered, past, suggestions[name])
        ],
        networks=[
            NetworkWeighed(network=name, gain=made.gain if made.weights else None, why=made.why)
            for name, made in suggestions.items()
        ],
        cases=[extended(CaseFacts, case) for case in cases],
    )


def _network(
    name: str, network: NetworkSettings, gathered: Gathered, past: PastTotal, made: Suggestion
) -> list[NodeReported]:
    mine = {id: one for (owner, id), one in past.nodes.items() if owner == name}
    whole, calls = pool(one.by_method for one in mine.values()), sum(one.calls for one in mine.values())
    return [
        _node(view, network, mine.get(view.id) or NodeSum(), gathered, past, whole, calls, made)
        for view in gathered.views
        if view.network == name
    ]


def _node(
    view: NodeView,
    network: NetworkSettings,
    one: NodeSum,
    gathered: Gathered,
    past: PastTotal,
    whole: Mapping[str, Histogram],
    calls: int,
    made: Suggestion,
) -> NodeReported:
    return extended(
        NodeReported,
        view,
        calls=one.calls,
        share=ratio(one.calls, calls),
        agreement=Agreement(
            compared=one.compared,
            minority=one.minority,
            undecided=one.undecided,
            false_hashes=one.false_hashes,
            disproved=one.disproved,
            suspect=view.suspect,
        ),
        latency=_latency(one, whole),
        errors={kind: count for kind, count in one.failures.items() if kind != _OVERTAKEN},
        failed=sum(count for kind, count in one.failures.items() if is_node_fault(kind)),
        overtaken=one.failures.get(_OVERTAKEN, 0),
        lag=LagReported(p50=one.lag(0.5), p99=one.lag(0.99), behind_share=ratio(one.behind, one.looks)),
        quota=_quota(view, network, one, gathered, past),
        credits=one.credits if view.unit != "calls" else None,
        cost=one.units * network.price / A_MILLION if network.price else None,
        examination=examination_document(view.examination),
        suggested_weight=made.weights.get(view.id),
    )


def _latency(one: NodeSum, whole: Mapping[str, Histogram]) -> LatencyReported:
    """The latency of a node. `whole`: that of all nodes of the network together, by method."""
    others = {method: whole[method].since(took) for method, took in one.by_method.items()}
    often = {method: took.count for method, took in whole.items()}
    found = compare(one.by_method, others, often)
    methods = sorted(one.by_method.items(), key=lambda item: (-item[1].count, item[0]))
    return LatencyReported(
        p50=one.latency.quantile(0.5),
        p99=one.latency.quantile(0.99),
        ratio=found.ratio if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
        methods=[_method(method, took, others[method]) for method, took in methods],
    )


def _method(method: str, took: Histogram, others: Histogram) -> MethodCompared:
    found = compare({method: took}, {method: others}, {})
    return MethodCompared(
        method=method,
        calls=took.count,
        mean=took.mean or 0.0,
        others=others.mean,
        ratio=found.ratio if found else None,
        low=found.low if found else None,
        high=found.high if found else None,
    )


def _quota(
    view: NodeView, network: NetworkSettings, one: NodeSum, gathered: Gathered, past: PastTotal
) -> list[QuotaProjected]:
    node = next((node for node in network.nodes if node.id == view.id), None)
    if node is None:
        return []
    pace = one.calls * cost_of_a_call(one, node, network) / past.seconds if past.seconds else 0.0
    return [
        QuotaProjected(
            window=use.window,
            used=use.used,
            limit=use.limit,
            projected=use.used + pace * max(0.0, use.renews - gathered.at),
            renews=iso(use.renews),
        )
        for use in view.quota
    ]
