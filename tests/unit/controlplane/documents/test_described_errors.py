"""Answers beside figures have the shape that is described; the running program's are held against it end to end."""

from __future__ import annotations

from typing import Any

import pytest

from rpcaccel.controlplane.admin.admin_routes import ROUTES, describe
from rpcaccel.controlplane.documents.error_documents import ErrorQuestion, errors, opened, refused_requests, treatment
from rpcaccel.core.stats.error_log import ErrorLog
from tests.support.described_answers import problems, sent
from tests.support.sample_control import sample_settings
from tests.support.sample_errors import sample_log
from tests.support.sample_view import NETWORK, SampleView

DESCRIPTION = describe(ROUTES, lambda _: None)


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
