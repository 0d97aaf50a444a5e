"""The document about what would be done with an error of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from pydantic import ValidationError

from rpcaccel import chains
from rpcaccel.config.model import NetworkSettings
from rpcaccel.config.resilience import ErrorRuleSettings
from rpcaccel.core.replies.error_rules import ErrorClass, ErrorTable, find, fold
from rpcaccel.core.replies.failure import policy, uniform_code


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
