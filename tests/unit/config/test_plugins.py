"""Chains and balancers are known by the files there are, and traces by the extra that is installed."""

from __future__ import annotations

import sys

import pytest

from rpcaccel.config.value_types import known_balancer, known_chain, trace_receiver


def test_names_there_are_pass() -> None:
    assert known_chain("harmony") == "harmony"
    assert known_balancer("smooth_weighted") == "smooth_weighted"


def test_other_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"a chain: .*harmony"):
        known_chain("harmny")
    with pytest.raises(ValueError, match=r"a balancer: .*smooth_weighted"):
        known_balancer("")


def test_a_receiver_of_traces_gets_the_path_that_is_usual() -> None:
    assert trace_receiver("") == ""
    assert trace_receiver("http://127.0.0.1:4318") == "http://127.0.0.1:4318/v1/traces"
    assert trace_receiver("https://otel.example/") == "https://otel.example/v1/traces"
    assert trace_receiver("https://otel.example/mine?a=1") == "https://otel.example/mine?a=1"


@pytest.mark.parametrize(
    "text", ["collector:4318", "ftp://a", "http://", "http://a:0", "http://a:b", "http://u:hunter2@a", "http://a b"]
)
def test_what_is_no_receiver_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="an address such as") as told:
        trace_receiver(text)
    assert "hunter2" not in str(told.value)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)  # as if it were not there
    with pytest.raises(ValueError, match=r'pip install "rpcaccel\[otel\]"'):
        trace_receiver("http://127.0.0.1:4318")
