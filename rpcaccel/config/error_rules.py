"""Error rules in the settings: the operator's word on errors that the chain's table does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from rpcaccel.config.section import Section
from rpcaccel.core.classify import ErrorRule, ErrorTable, reach
from rpcaccel.core.failure import FailureKind

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
"""What a node's error may be classed as; the other kinds are found out on the way to the node."""

Fragment = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _group(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Group = Annotated[tuple[Fragment, ...], BeforeValidator(_group), Field(min_length=1, max_length=20)]


class ErrorRuleSettings(Section):
    """One rule: it fits when every condition it names holds; texts are compared without regard to case."""

    kind: Kind = Field(description="What such an error is.")
    why: str = Field(default="classed in the settings", max_length=200, description="What the node is saying.")
    codes: frozenset[int] = Field(default=frozenset(), max_length=100, description="JSON-RPC codes, any of them.")
    statuses: frozenset[int] = Field(default=frozenset(), max_length=100, description="HTTP statuses, any of them.")
    equals: tuple[Fragment, ...] = Field(default=(), max_length=100, description="The whole message, any of them.")
    starts: tuple[Fragment, ...] = Field(default=(), max_length=100, description="How the message starts.")
    contains: tuple[Group, ...] = Field(
        default=(),
        max_length=100,
        description="A fragment, or a list of fragments that must all be there; any. For kinds that keep a node from "
        "being asked, or count as success, only what stands before the first quotation, colon, bracket or = of a "
        "message is looked at, since clients' words may follow.",
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
