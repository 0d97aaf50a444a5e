"""The operator's error rules."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from rpcaccel import chains
from rpcaccel.config.model import Settings
from rpcaccel.config.resilience import ErrorRuleSettings, ahead_of
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind


def rule(**fields: Any) -> ErrorRuleSettings:
    return ErrorRuleSettings.model_validate(fields)


def test_the_operators_rules_are_tried_before_the_chains() -> None:
    table = chains.load("harmony").errors
    assert classify(table, -32000, "Daily Frobnication spent").kind is FailureKind.UNKNOWN
    own = rule(kind="rate-limited", why="it says so", contains=["frobnication", ["a", "b"]])
    verdict = classify(ahead_of(table, [own]), -32000, "Daily Frobnication spent")
    assert verdict == (FailureKind.RATE_LIMITED, "it says so")
    assert classify(ahead_of(table, [own]), -32000, "b and a").kind is FailureKind.RATE_LIMITED
    assert classify(ahead_of(table, [own]), -32000, "b").kind is FailureKind.UNKNOWN
    assert ahead_of(table, []) is table


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "pruned"},
        {"kind": "unknown", "codes": [1]},
        {"kind": "connect", "codes": [1]},
        {"kind": "pruned", "contains": [""]},
        {"kind": "pruned", "contains": [[]]},
        {"kind": "pruned", "codes": [1], "fits": "x"},
    ],
)
def test_a_rule_that_says_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        rule(**fields)


def test_networks_have_rules_of_their_own_and_keep_them_in_documents() -> None:
    own = {"kind": "pruned", "contains": ["gone", ["x", "Y"]], "codes": [7]}
    settings = Settings.model_validate({"networks": {"x": {"nodes": ["http://a"], "error_rules": [own]}}})
    assert settings.networks["x"].error_rules[0].contains == (("gone",), ("x", "Y"))
    again = Settings.model_validate_json(settings.model_dump_json(context={"reveal": True}))
    assert again.networks == settings.networks


@pytest.mark.parametrize("fragment", ["error: slow down", 'the "limit"', "limit (5)"])
def test_a_fragment_that_could_only_stand_where_clients_write_is_refused_with_what_to_say_instead(
    fragment: str,
) -> None:
    with pytest.raises(ValidationError, match=r"is never found: .* say how it starts"):
        ErrorRuleSettings.model_validate({"kind": "rate-limited", "contains": [fragment]})
    ErrorRuleSettings.model_validate({"kind": "rate-limited", "starts": [fragment]})
    ErrorRuleSettings.model_validate({"kind": "rejected", "contains": [fragment]})
