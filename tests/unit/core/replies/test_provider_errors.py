"""The kind of what nodes and providers say: recorded texts, and others of the same meaning that nobody has sent yet."""

from __future__ import annotations

import re

import pytest

from rpcaccel import chains
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind
from tests.support.provider_errors import PAGE, PROVIDER_ERRORS, ProviderError, rows_of, written

HARMONY = chains.load("harmony").errors
ETHEREUM = chains.load("ethereum").errors


@pytest.mark.parametrize("error", PROVIDER_ERRORS, ids=lambda error: f"{error.who}: {error.text[:60]}")
def test_what_a_provider_says_is_read_by_its_meaning(error: ProviderError) -> None:
    tables = [HARMONY] if error.who == "Harmony" else [HARMONY, ETHEREUM]
    for table in tables:
        assert classify(table, error.code, error.text, error.status).kind == error.kind


UNSEEN = rows_of("unseen_errors.tsv")
"""By kind: words that no provider is known to use. Those of no kind look like others and mean something else, and those
that are "not already-known" mention a transaction and what is there already without meaning the one that was sent."""
SAID = [(FailureKind(kind), text) for kind, text in UNSEEN if not kind.startswith("not ")]


@pytest.mark.parametrize(("kind", "text"), SAID)
def test_words_nobody_has_sent_yet_are_read_by_their_meaning_whatever_the_code(kind: FailureKind, text: str) -> None:
    for code in (35, 1, 0, -32000, -32005, -32016, -32603):
        assert classify(ETHEREUM, code, text).kind is kind
        assert classify(ETHEREUM, code, text.upper()).kind is kind
        if re.fullmatch(r"[a-z ]+", text):
            assert classify(ETHEREUM, code, text.replace(" ", "_").upper()).kind is kind
            assert classify(ETHEREUM, code, text.title().replace(" ", "")).kind is kind


@pytest.mark.parametrize("kind", [FailureKind.TOO_LARGE, FailureKind.REJECTED, FailureKind.PRUNED])
@pytest.mark.parametrize("status", [200, 400, 401, 402, 403, 413, 429, 500, 503])
def test_words_come_before_the_status(kind: FailureKind, status: int) -> None:
    for text in (text for said, text in SAID if said is kind):
        assert classify(ETHEREUM, -32005, text, status).kind is kind


@pytest.mark.parametrize("text", [text for kind, text in UNSEEN if kind == "not already-known"])
def test_a_different_fault_is_never_taken_for_a_known_transaction(text: str) -> None:
    for table in (HARMONY, ETHEREUM):
        assert classify(table, -32000, text).kind is not FailureKind.ALREADY_KNOWN


def test_the_page_shows_the_table_as_it_is() -> None:
    page = PAGE.read_text("utf-8")
    if written(page) != page:
        pytest.fail("docs/monitoring.md is out of date; run: python -m tests.support.provider_errors", pytrace=False)
