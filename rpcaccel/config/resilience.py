"""The settings of resilience: retries, hedges, breakers, quotas and other limits of nodes, and the operator's rules for
errors of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from rpcaccel.config.sections import Section
from rpcaccel.config.value_types import Duration, MethodPatterns, Number, Tag, Tags, Whole, WorkerTimeout
from rpcaccel.core.replies.error_rules import ErrorRule, ErrorTable, reach
from rpcaccel.core.replies.failure import FailureKind


class QuotaSettings(Section):
    """The calls that a node may be asked for by all workers together. Days and months are those of UTC; what is used is
    kept over restarts beside the state file."""

    beside: ClassVar[str] = '[[networks.harmony-s0.nodes]]\nid = "own"\nurl = "http://127.0.0.1:9500"'

    second: Number = Field(default=0, ge=0, le=1e9, description="Calls a second; 0 for no limit.", examples=[25])
    day: Number = Field(default=0, ge=0, le=1e15, description="Calls a day; 0 for no limit.", examples=[100_000])
    month: Number = Field(
        default=0, ge=0, le=1e15, description="Calls a calendar month; 0 for no limit.", examples=[3_000_000]
    )
    heavy: Number = Field(default=1, ge=0, le=1e6, description="Calls that one of a heavy method counts as.")


class RouteSettings(Section):
    """Methods that go to tagged nodes only."""

    beside: ClassVar[str] = '[networks.harmony-s0]\nnodes = [{ url = "http://127.0.0.1:9500", tags = ["archive"] }]'

    methods: MethodPatterns = Field(
        min_length=1,
        description='Names or patterns ("eth_getLogs", "trace_*").',
        examples=[["eth_getLogs", "trace_*"]],
    )
    tag: Tag = Field(description="What the nodes are tagged with that take them.", examples=["archive"])
    agree: Whole = Field(
        default=1, ge=1, le=5, description="How many of these nodes must give the same answer to a read of them."
    )


class AgreementSettings(Section):
    """The comparison of nodes: some answers about final data are asked of a second node as well, after the client has
    its own, and of a third one where the two differ."""

    share: Number = Field(
        default=0.005, ge=0, le=1, description="Calls for comparisons as a share of the nodes' answers; 0 for none."
    )
    budget: Number = Field(
        default=60.0, ge=0, le=1e6, description="Calls for comparisons in a minute at the most, all workers together."
    )
    keep: Whole = Field(default=100, ge=1, le=1000, description="Cases of disagreement that are kept, the newest ones.")


class HedgeSettings(Section):
    """A second node asked beside a slow one: reads that cost little, within the budget, never of a higher tier."""

    quantile: Number = Field(
        default=0.95, ge=0, lt=1, description="Share of a method's answers on a node that are quicker; 0 for no hedges."
    )
    at_least: Duration = Field(default=0.1, le=60, description="Seconds a node is given in any case.")


class BudgetSettings(Section):
    """The budget of attempts beyond the first, retries and hedges together; hedges leave half of it to retries.
    Attempts that cost a node no work are retried for free, and failures that the call itself may have caused are
    retried from a part of their own."""  # core.dispatch.retry_budget

    share: Number = Field(default=0.1, ge=0, le=1, description="Extra attempts as a share of the calls.")
    floor: Number = Field(default=3.0, ge=0, le=1e6, description="Extra attempts a second in any case, per worker.")


class BreakerSettings(Section):
    """The breaker: when a failing node gets no more calls, and how it comes back."""

    failures: Whole = Field(default=5, ge=1, le=1000, description="Failures in a row that are enough.")
    ratio: Number = Field(default=0.5, gt=0, le=1, description="Share of failures in the last 10 s that is enough.")
    volume: Whole = Field(default=20, ge=1, le=100_000, description="Calls in those 10 s before the share counts.")
    rest: Duration = Field(default=1.0, gt=0, le=3600, description="Seconds of the first rest; each is twice as long.")
    rest_max: Duration = Field(default=15.0, gt=0, le=3600, description="Seconds of the longest rest.")


class OutlierSettings(Section):
    """Outliers: when a node that is much slower than the others gets no calls for a while."""

    factor: Number = Field(
        default=5.0, ge=0, le=1000, description="Times the others' seconds for the same methods; 0: never."
    )
    by: Duration = Field(default=0.5, le=60, description="Seconds it must be slower as well.")
    share: Number = Field(default=0.5, gt=0, le=1, description="Of the nodes that may be out; one in any case.")
    rest: Duration = Field(default=10.0, gt=0, le=3600, description="Seconds of the first time; each is twice as long.")


class ConcurrencySettings(Section):
    """Calls at once on a node: max_connections, and less once it has shown that it is overloaded. Light calls,
    heavy ones, those that run contracts and those of unknown methods are counted apart, and wait apart."""

    least: Whole = Field(default=16, ge=1, le=65_535, description="Light calls at once it may have in any case.")
    wait: Duration = Field(
        default=1.0, le=60, description="Seconds a light call, or one of a contract, waits when every node has as many."
    )
    heavy_wait: Duration = Field(
        default=10.0, le=3600, description="Seconds a heavy call waits when every node has its max_heavy."
    )
    waiting: Whole = Field(
        default=1000, ge=0, le=1_000_000, description="Calls of each sort that may wait, per worker."
    )


class TransactionSettings(Section):
    """Signed transactions: they are told to several nodes at once."""

    share: Number = Field(
        default=0.67, gt=0, le=1, description="Share of the nodes that may be asked to which a transaction is told."
    )
    at_least: Whole = Field(default=2, ge=1, le=1000, description="Nodes it is told to in any case, if there are.")


class ResilientNode(Section):
    """The settings of how many calls a node may get."""

    tier: Whole = Field(
        default=0,
        ge=0,
        le=100,
        description="Asked when no node of a lower tier can be: 0 the own, 1 the paid ones.",
        examples=[1],
    )
    tags: Tags = Field(default=frozenset(), description="What routes call it by.", examples=[["archive"]])
    quota: QuotaSettings = Field(
        default=QuotaSettings(), description="Calls it may be asked for; once used up, it waits for them to renew."
    )
    max_heavy: Whole = Field(
        default=16,
        ge=1,
        le=65_535,
        description="Heavy calls it is given at once, per worker, and as many of unknown methods: at most a quarter of "
        "max_connections each, and together one less than those; others wait, and light ones do not wait for them.",
    )
    gather: bool = Field(
        default=True,
        description="Whether light reads that wait for it travel as one batch, while it is asked thousands a second.",
    )


class ResilientNetwork(Section):
    """The settings of what happens when the nodes of a network fail or are slow."""

    behind_attempts: Whole = Field(
        default=2, ge=0, le=100, description="Further nodes asked when one has not yet got what another has."
    )
    agreement: AgreementSettings = Field(
        default=AgreementSettings(), description="How many answers are compared with those of another node."
    )
    on_disagreement: Literal["warn", "drain"] = Field(
        default="warn",
        description='What follows when a node is contradicted more than by chance: "warn" says so, "drain" also drains '
        "it, unless it is the last node that takes calls.",
    )
    prove: bool = Field(
        default=True,
        description="Whether nodes are proved by calls in the shadow: those that join at run time before they get "
        "calls, those of the start a minute later.",
    )
    hedge: HedgeSettings = Field(default=HedgeSettings(), description="A second node asked beside a slow one.")
    budget: BudgetSettings = Field(default=BudgetSettings(), description="Retries and hedges that may be sent.")
    breaker: BreakerSettings = Field(default=BreakerSettings(), description="When failures shut a node out.")
    outliers: OutlierSettings = Field(default=OutlierSettings(), description="When slowness shuts a node out.")
    slow_start: Duration = Field(
        default=10.0, le=3600, description="Seconds in which a node that returns comes back to its share of the calls."
    )
    concurrency: ConcurrencySettings = Field(
        default=ConcurrencySettings(), description="How many calls a node has at once."
    )
    routes: tuple[RouteSettings, ...] = Field(
        default=(), description="Methods that go to tagged nodes only; the first that fits decides."
    )
    transactions: TransactionSettings = Field(
        default=TransactionSettings(), description="How signed transactions are handed to the nodes."
    )


class ResilientProgram(Section):
    """The settings of what happens when a worker process fails."""

    worker_timeout: WorkerTimeout = Field(
        default=10.0,
        le=3600,
        description="Seconds without a word after which a worker process is replaced, 3 at the least; 0: never.",
    )


Kind = Literal[
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

    kind: Kind = Field(description="What such an error is.", examples=["rate-limited"])
    why: str = Field(default="classed in the settings", max_length=200, description="What the node is saying.")
    codes: frozenset[int] = Field(
        default=frozenset(), max_length=100, description="JSON-RPC codes, any of them.", examples=[[-32005]]
    )
    statuses: frozenset[int] = Field(
        default=frozenset(), max_length=100, description="HTTP statuses, any of them.", examples=[[402, 429]]
    )
    equals: tuple[Fragment, ...] = Field(
        default=(), max_length=100, description="The whole message, any of them.", examples=[["out of credits"]]
    )
    starts: tuple[Fragment, ...] = Field(
        default=(), max_length=100, description="How the message starts.", examples=[["out of"]]
    )
    contains: tuple[Group, ...] = Field(
        default=(),
        max_length=100,
        description="A fragment, or a list of fragments that must all be there; any. For kinds that keep a node from "
        "being asked, or count as success, only what stands before the first quotation, colon, bracket or = of a "
        "message is looked at, since clients' words may follow.",
        examples=[["credits", ["daily", "limit"]]],
    )

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
