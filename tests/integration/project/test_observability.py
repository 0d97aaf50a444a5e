"""What operators watch by names only metrics that there are: the documentation, the dashboard and the alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rpcaccel.config.sections import ErrorsSettings
from rpcaccel.controlplane.stats.prometheus import EXPOSED, Exposed
from rpcaccel.core.replies.failure import FailureKind, is_node_fault
from rpcaccel.core.stats.counters import HITS
from tests.support.services import ROOT, Process, require

DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"
PROMETHEUS = ROOT / "deploy" / "prometheus"
FOREIGN = {"up", "instance", "job", "le"}
"""What Prometheus itself adds."""

KNOWN = {metric.name: metric for metric in EXPOSED}


def series(metric: Exposed) -> set[str]:
    """The names under which Prometheus keeps a metric."""
    if metric.kind != "histogram":
        return {metric.name}
    return {f"{metric.name}_{part}" for part in ("bucket", "count", "sum")}


SERIES = {name: metric for metric in EXPOSED for name in series(metric)}


def expressions(document: Any) -> Iterator[str]:
    """Every PromQL expression in a dashboard or a file of rules."""
    if isinstance(document, dict):
        yield from (str(document[name]) for name in ("expr",) if name in document)
        if isinstance(document.get("query"), dict):
            yield str(document["query"]["query"])
        for value in document.values():
            yield from expressions(value)
    elif isinstance(document, list):
        for value in document:
            yield from expressions(value)


def dashboard() -> list[str]:
    return list(expressions(json.loads(DASHBOARD.read_text(encoding="utf-8"))))


def alerts() -> list[str]:
    return list(expressions(yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))))


def faults(expression: str) -> list[str]:
    """What an expression names and the code does not expose."""
    named = re.findall(r"\b(rpcaccel_\w+)(?:\{([^}]*)\})?", expression)
    found = [name for name, _ in named if name not in SERIES]
    for name, selector in named:
        labels = set(re.findall(r"(\w+)\s*[=!]", selector))
        if name in SERIES:
            found += sorted(labels - set(SERIES[name].labels) - FOREIGN)
    everyones = {label for metric in KNOWN.values() for label in metric.labels} | FOREIGN
    for grouped in re.findall(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)", expression):
        found += [label for label in re.split(r"[,\s]+", grouped) if label and label not in everyones]
    return found


@pytest.mark.parametrize("expression", [*dashboard(), *alerts()])
def test_every_expression_names_metrics_and_labels_that_are_exposed(expression: str) -> None:
    assert "rpcaccel_" in expression or "up{" in expression
    assert faults(expression) == []


def test_there_is_something_to_look_at() -> None:
    assert len(dashboard()) > 30
    assert len(alerts()) >= 10


def test_every_metric_is_seen_somewhere() -> None:
    named = {name for expression in (*dashboard(), *alerts()) for name in re.findall(r"rpcaccel_\w+", expression)}
    assert {metric.name for metric in EXPOSED if not series(metric) & named} == set()


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(rpcaccel_gone_total[5m])", "rpcaccel_gone_total"),
        ('rpcaccel_head_block{node="a"}', "node"),
        ("sum by (colour) (rpcaccel_head_block)", "colour"),
        ("rpcaccel_call_seconds", "rpcaccel_call_seconds"),
    ],
)
def test_a_wrong_expression_is_found(expression: str, fault: str) -> None:
    assert faults(expression) == [fault]


def test_every_panel_has_a_title_a_unit_and_a_place_of_its_own() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    for panel in panels:
        assert panel["title"]
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]


def test_every_alert_says_what_follows_and_how_urgent_it_is() -> None:
    (group,) = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}


def test_the_alert_about_failing_nodes_counts_what_is_their_own_fault() -> None:
    (kinds,) = (re.findall(r'kind=~"([^"]+)"', expression) for expression in alerts() if "kind=~" in expression)
    assert kinds[0].split("|") == [kind.value for kind in FailureKind if is_node_fault(kind.value)]


def test_the_dashboard_counts_as_hits_what_the_proxy_does() -> None:
    sources = {found for expression in dashboard() for found in re.findall(r'source=~"(local[^"]*)"', expression)}
    assert sources == {"|".join(source.label for source in HITS)}


def test_the_alerts_about_failing_calls_have_the_shares_of_the_settings() -> None:
    shares = [float(share) for expression in alerts() for share in re.findall(r'"refused".*> ([0-9.]+)', expression)]
    assert shares == [ErrorsSettings().warn, ErrorsSettings().bad]


def promtool(*arguments: str) -> str:
    """What promtool says; AssertionError when it is not content."""
    with Process([require("promtool"), *arguments], cwd=PROMETHEUS) as tool:
        assert tool.wait() == 0, tool.output
        return tool.output


def test_prometheus_accepts_the_rules() -> None:
    assert "16 rules found" in promtool("check", "rules", "alerts.yml")


def test_alerts_ring_when_they_should_and_only_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


def test_prometheus_accepts_its_configuration() -> None:
    promtool("check", "config", "--syntax-only", "prometheus.yml")
