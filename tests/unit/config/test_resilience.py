from __future__ import annotations

import pytest
from pydantic import ValidationError

from rpcaccel.config.resilience import QuotaSettings, ResilientProgram, RouteSettings, TransactionSettings


def test_a_transaction_goes_to_two_thirds_of_the_nodes_and_at_least_two() -> None:
    assert (TransactionSettings().share, TransactionSettings().at_least) == (0.67, 2)


@pytest.mark.parametrize("values", [{"share": 0}, {"share": 1.1}, {"at_least": 0}])
def test_a_transaction_is_told_to_somebody(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TransactionSettings.model_validate(values)


def test_a_quota_counts_nothing_unless_told() -> None:
    assert QuotaSettings().model_dump() == {"second": 0, "day": 0, "month": 0, "heavy": 1}


@pytest.mark.parametrize(
    "values", [{"methods": [], "tag": "a"}, {"methods": "a b!", "tag": "a"}, {"methods": "a", "tag": "A B"}]
)
def test_a_route_names_methods_and_a_tag(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RouteSettings.model_validate(values)


def test_methods_of_a_route_may_be_written_in_one_text() -> None:
    assert RouteSettings.model_validate({"methods": "eth_getLogs, trace_*", "tag": "archive"}).methods == (
        "eth_getLogs",
        "trace_*",
    )


@pytest.mark.parametrize(("written", "seconds"), [("10s", 10.0), (0, 0.0), (3, 3.0)])
def test_workers_have_time_to_report_before_they_are_replaced(written: object, seconds: float) -> None:
    assert ResilientProgram.model_validate({"worker_timeout": written}).worker_timeout == seconds


@pytest.mark.parametrize("written", ["500ms", 2.9, -1, "2h"])
def test_no_worker_is_replaced_for_a_moment_of_silence(written: object) -> None:
    with pytest.raises(ValidationError):
        ResilientProgram.model_validate({"worker_timeout": written})
