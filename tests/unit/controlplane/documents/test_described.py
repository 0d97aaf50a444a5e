"""Documents have the shape that is described, from the first second on; the running program's are held against it end
to end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.controlplane.documents import current_figures
from rpcaccel.controlplane.documents.client_figures import clients_document
from rpcaccel.controlplane.documents.error_documents import ErrorQuestion, errors, opened, refused_requests, treatment
from rpcaccel.controlplane.documents.series import PastQuestion, method_past, past
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.snapshot import Frame
from rpcaccel.core.stats.error_log import ErrorLog
from tests.support.described_answers import problems, sent
from tests.support.sample_control import sample_settings
from tests.support.sample_errors import sample_log
from tests.support.sample_view import NETWORK, SampleView

DESCRIPTION = describe(ROUTES, lambda _: None)
MAKERS: dict[str, Callable[[Frame, History, SampleView], Any]] = {
    "overview": lambda frame, history, view: sent(current_figures.overview(frame, history, view.settings(), 1000.0, 1)),
    "nodes": lambda frame, history, _: sent(current_figures.nodes(frame, history)),
    "methods": lambda frame, history, _: sent(current_figures.methods(frame, history)),
    "cache": lambda frame, history, _: sent(current_figures.cache(frame, history)),
    "history": lambda _, history, __: sent(past(history, PastQuestion("5m", NETWORK), {NETWORK: 2.0}, "USD")),
    "methods/history": lambda _, history, __: sent(method_past(history, NETWORK, "hmyv2_call")),
    "clients": lambda frame, history, _: sent(clients_document(frame.snapshot, history.window(10), SETTINGS, 3.0)),
}
SETTINGS: Mapping[str, Any] = {"clients": {"keys": {"dapp": {"rate": 5}, "quiet": {"enabled": False}}}}


@pytest.mark.parametrize("seconds", [0, 1, 8])
@pytest.mark.parametrize("path", MAKERS)
def test_figures_are_as_they_are_described(path: str, seconds: int) -> None:
    view, history = SampleView(), History()
    for second in range(seconds):
        view.advance(1.0, load=0.1)
        history.add(view.snapshot(), now=float(second), at=1000.0 + second)
    assert problems(DESCRIPTION, "GET", f"/api/v1/{path}", MAKERS[path](view.frame(), history, view)) == []


def test_a_member_that_is_missing_wrong_or_not_described_is_found() -> None:
    view, history = SampleView(), History()
    made: Any = sent(current_figures.nodes(view.frame(), history))
    del made["window"]
    made["nodes"][0].update(weight="5", colour="blue")
    found = problems(DESCRIPTION, "GET", "/api/v1/nodes", made)
    assert len(found) == 3
    assert all(any(word in one for one in found) for word in ("'window'", "$.nodes[0].weight", "'colour'"))


@pytest.mark.parametrize("log", [ErrorLog(), sample_log(1000.0)])
@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_errors_are_as_they_are_described(log: ErrorLog, minutes: int) -> None:
    refusals = refused_requests(SampleView().frame().snapshot, None)
    made = errors(log, SampleView().errors(), refusals, minutes=minutes, now=1000.0, at=2e9)
    assert problems(DESCRIPTION, "GET", "/api/v1/errors", sent(made)) == []
    for group in log.groups():
        assert problems(DESCRIPTION, "GET", "/api/v1/errors/{id}", sent(opened(group, 1000.0))) == []


@pytest.mark.parametrize(
    ("message", "rules", "by"),
    [
        ("on holiday", ({"kind": "pruned", "contains": ["holiday"]},), "tried"),
        ("missing trie node", (), "chain"),
        ("on holiday", (), "nobody"),
    ],
)
def test_what_would_be_done_with_an_error_is_as_it_is_described(message: str, rules: Any, by: str) -> None:
    made = treatment(ErrorQuestion(NETWORK, message, rules=rules), sample_settings().networks)
    assert made.by == by
    assert problems(DESCRIPTION, "POST", "/api/v1/errors/try", sent(made)) == []
