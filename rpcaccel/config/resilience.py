"""The sections about retries, hedges, breakers, quotas and limits of nodes, and about what errors of nodes mean."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from rpcaccel.config.sections import Section
from rpcaccel.config.value_types import Duration, MethodPattern, MethodPatterns, Number, ProviderName, Tag, Whole
from rpcaccel.core.nodes.limits import MethodCosts, is_cost_pattern
from rpcaccel.core.replies.error_rules import ErrorRule, ErrorTable, reach
from rpcaccel.core.replies.failure import FailureKind

if TYPE_CHECKING:
    from rpcaccel.providers import CostTable


_MAX_COST_PATTERNS = 100
"""Patterns among the costs of a node: a name that clients invent is tried against each of them."""


def _few_patterns(costs: dict[str, float]) -> dict[str, float]:
    if sum(map(is_cost_pattern, costs)) > _MAX_COST_PATTERNS:
        raise ValueError(f"at most {_MAX_COST_PATTERNS} patterns; the other rows are names of methods")
    return costs


class QuotaSettings(Section):
    """The units that calls to a node may cost all workers together. A call is one unit, or as many as `costs` and
    `provider` say. Days and months are those of UTC; what is used is kept over restarts beside the state file."""

    second: Number = Field(default=0, ge=0, le=1e9, examples=[25])
    """Units a second. 0 means no limit."""
    day: Number = Field(default=0, ge=0, le=1e15, examples=[100_000])
    """Units a day. 0 means no limit."""
    month: Number = Field(default=0, ge=0, le=1e15, examples=[3_000_000])
    """Units a calendar month. 0 means no limit."""
    heavy: Number = Field(default=1, ge=0, le=1e6)
    """A call of a heavy method counts as this many units, where neither costs nor provider has a row for it."""
    provider: ProviderName = Field(default="", examples=["alchemy"])
    """Calls cost what this provider bills for their methods. If empty, a call costs one unit."""
    costs: Annotated[
        dict[MethodPattern, Annotated[Number, Field(ge=0, le=1_000_000)]],
        Field(max_length=500),
        AfterValidator(_few_patterns),
    ] = Field(default={}, examples=[{"eth_getLogs": 75, "debug_*": 40}])
    """Units of a call by method or pattern (at most 100), before the provider's. A name wins, then the first pattern;
    "*" is for what no other row of both fits."""

    @cached_property
    def method_costs(self) -> MethodCosts:
        """The costs as the core reads them."""
        return MethodCosts(self.costs, self._table.rows if self._table else None, self.heavy)

    @property
    def unit(self) -> str:
        """What units are called: by the provider, "units" where only `costs` are given, "calls" without either."""
        return self._table.provider.unit if self._table else "units" if self.costs else "calls"

    @property
    def _table(self) -> CostTable | None:
        from rpcaccel import providers  # noqa: PLC0415 -- settings are read without it until a provider is named

        return providers.load(self.provider) if self.provider else None


class RouteSettings(Section):
    """Methods that go to tagged nodes only."""

    methods: MethodPatterns = Field(min_length=1, examples=[["eth_sendRawTransaction"]])
    """Names or patterns ("eth_getLogs", "trace_*")."""
    tag: Tag = Field(examples=["archive"])
    """The nodes with this tag take these methods."""
    agree: Whole = Field(default=1, ge=1, le=5)
    """This many nodes with the tag must give the same answer to a read."""
    broadcast: bool = Field(default=True, examples=[False])
    """If false, a signed transaction is told to one node with the tag alone, and to another one where that fails."""
    fallback: Whole = Field(default=0, ge=0, le=100_000, examples=[25])
    """Without broadcast: after so many blocks, a transaction that none of them has is sent as others are. 0 means
    never."""


class AgreementSettings(Section):
    """The comparison of nodes: some answers about final data are asked of a second node as well, after the client has
    its own, and of a third one where the two differ."""

    share: Number = Field(default=0.005, ge=0, le=1)
    """Calls for comparisons, as a share of the nodes' answers. 0 means none."""
    budget: Number = Field(default=60.0, ge=0, le=1e6)
    """Calls for comparisons a minute, all workers together."""
    keep: Whole = Field(default=100, ge=1, le=1000)
    """Cases of disagreement that are kept, the newest ones."""


class HedgeSettings(Section):
    """A second node asked beside a slow one: reads that cost little, within the budget, never of a higher tier."""

    quantile: Number = Field(default=0.95, ge=0, lt=1)
    """A second node is asked when a read takes longer than this share of the node's answers took. 0 means never."""
    at_least: Duration = Field(default=0.1, le=60)
    """A node is given this long in any case."""


class BudgetSettings(Section):
    """The budget of attempts beyond the first, retries and hedges together; hedges leave half of it to retries.
    Attempts that cost a node no work are retried for free, and failures that the call itself may have caused are
    retried from a part of their own."""  # core.dispatch.retry_budget

    share: Number = Field(default=0.1, ge=0, le=1)
    """Extra attempts may be this share of the calls."""
    floor: Number = Field(default=3.0, ge=0, le=1e6)
    """Extra attempts a second in any case, for each worker."""


class BreakerSettings(Section):
    """The breaker: when a failing node gets no more calls, and how it comes back."""

    failures: Whole = Field(default=5, ge=1, le=1000)
    """This many failures in a row open the breaker."""
    ratio: Number = Field(default=0.5, gt=0, le=1)
    """The breaker also opens when this share of the calls of the last 10 s failed."""
    volume: Whole = Field(default=20, ge=1, le=100_000)
    """breaker.ratio counts from this many calls on."""
    rest: Duration = Field(default=1.0, gt=0, le=3600)
    """The first rest lasts this long, each further one twice as long."""
    rest_max: Duration = Field(default=15.0, gt=0, le=3600)
    """No rest lasts longer than this."""


class OutlierSettings(Section):
    """Outliers: when a node that is much slower than the others gets no calls for a while."""

    factor: Number = Field(default=5.0, ge=0, le=1000)
    """A node that takes this many times as long as the others for the same methods is left alone. 0 means never."""
    by: Duration = Field(default=0.5, le=60)
    """The node must also be slower by this much."""
    share: Number = Field(default=0.5, gt=0, le=1)
    """At most this share of the nodes, or one node, is left alone at a time."""
    rest: Duration = Field(default=10.0, gt=0, le=3600)
    """The node is left alone for this long at first, then twice as long each time."""


class ConcurrencySettings(Section):
    """Calls at once on a node: max_connections, and less once it has shown that it is overloaded. Light calls,
    heavy ones, those that run contracts and those of unknown methods are counted apart, and wait apart."""

    least: Whole = Field(default=16, ge=1, le=65_535)
    """Light calls at once that a node may have in any case."""
    wait: Duration = Field(default=1.0, le=60)
    """A light call, or one that runs a contract, waits this long for a node that has room."""
    heavy_wait: Duration = Field(default=10.0, le=3600)
    """A heavy call waits this long for a node that has room (max_heavy)."""
    waiting: Whole = Field(default=1000, ge=0, le=1_000_000)
    """Calls of each sort that may wait, for each worker."""


class TransactionSettings(Section):
    """Signed transactions: they are told to several nodes at once."""

    share: Number = Field(default=0.67, gt=0, le=1)
    """The share of the nodes that a transaction is told to."""
    at_least: Whole = Field(default=2, ge=1, le=1000)
    """A transaction is told to this many nodes, if there are as many."""


ErrorRuleKind = Literal[
    FailureKind.RATE_LIMITED,
    FailureKind.UNAUTHORIZED,
    FailureKind.NODE_BEHIND,
    FailureKind.PRUNED,
    FailureKind.METHOD_MISSING,
    FailureKind.ROLE_MISSING,
    FailureKind.TOO_LARGE,
    FailureKind.NODE_TIMEOUT,
    FailureKind.REVERT,
    FailureKind.INVALID_PARAMS,
    FailureKind.REJECTED,
    FailureKind.ALREADY_KNOWN,
    FailureKind.NONCE_TOO_LOW,
    FailureKind.FILTER_NOT_FOUND,
]
"""The kinds that a rule may give to a node's error; other kinds are found in the transport."""

Fragment = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _group(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Group = Annotated[tuple[Fragment, ...], BeforeValidator(_group), Field(min_length=1, max_length=20)]


class ErrorRuleSettings(Section):
    """One rule: it fits when every condition it names holds; texts are compared without regard to case."""

    kind: ErrorRuleKind = Field(examples=["rate-limited"])
    """What such an error is."""
    why: str = Field(default="classed in the settings", max_length=200)
    """What the node is saying."""
    codes: frozenset[int] = Field(default=frozenset(), max_length=100, examples=[[-32005]])
    """The error has one of these JSON-RPC codes."""
    statuses: frozenset[int] = Field(default=frozenset(), max_length=100, examples=[[402, 429]])
    """The answer has one of these HTTP statuses."""
    equals: tuple[Fragment, ...] = Field(default=(), max_length=100, examples=[["out of credits"]])
    """The message is one of these texts."""
    starts: tuple[Fragment, ...] = Field(default=(), max_length=100, examples=[["out of"]])
    """The message begins with one of these texts."""
    contains: tuple[Group, ...] = Field(default=(), max_length=100, examples=[["credits", ["daily", "limit"]]])
    """The message holds one of these fragments, or all of one of these lists. For kinds that keep a node from being
    asked, or count as success, the message counts up to its first quotation, colon, bracket or =."""

    @model_validator(mode="after")
    def _names_a_condition(self) -> ErrorRuleSettings:
        if self.rule().unconditional:
            raise ValueError("codes, statuses, equals, starts or contains: without any the rule fits everything")
        for fragment in (fragment for group in self.contains for fragment in group):
            if reach(self.kind, fragment) != fragment:
                raise ValueError(
                    f'contains: "{fragment}" is never found: for {self.kind} only what stands before the first '
                    "quotation, colon, bracket or = of a message is looked at; say how it starts (starts) or all of it "
                    "(equals)"
                )
        return self

    def rule(self) -> ErrorRule:
        """The rule as the core reads it."""
        return ErrorRule(
            kind=self.kind,
            why=self.why,
            codes=self.codes,
            statuses=self.statuses,
            equals=tuple(text.lower() for text in self.equals),
            starts=tuple(text.lower() for text in self.starts),
            contains=tuple(tuple(text.lower() for text in group) for group in self.contains),
        )


def ahead_of(table: ErrorTable, rules: Sequence[ErrorRuleSettings]) -> ErrorTable:
    """The chain's table with the operator's rules tried first."""
    if not rules:
        return table
    return ErrorTable(default=table.default, rows=(*(rule.rule() for rule in rules), *table.rows))
