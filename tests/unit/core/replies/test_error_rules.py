"""The kind of a node's error, by the chain's own table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.replies.error_rules import ErrorRule, ErrorTable, classify, fold
from rpcaccel.core.replies.failure import FailureKind
from tests.support.properties import examples
from tests.support.provider_errors import PROVIDER_ERRORS, rows_of

HARMONY = chains.load("harmony").errors
ETHEREUM = chains.load("ethereum").errors

SAID = [(int(code), text, int(status), kind) for code, status, kind, text in rows_of("node_errors.tsv")]
"""What nodes say, and how it is to be read."""


@pytest.mark.parametrize(("code", "message", "status", "kind"), SAID)
def test_a_harmony_node_or_a_provider_before_it_is_understood(code: int, message: str, status: int, kind: str) -> None:
    assert classify(HARMONY, code, message, status).kind == kind


HARMONYS_OWN = ("requested block number", "getSignerData", "rate: Wait", "GetBlocks query", "blockchain chain id")


@pytest.mark.parametrize(
    ("code", "message", "status", "kind"), [row for row in SAID if not row[1].startswith(HARMONYS_OWN)]
)
def test_geth_erigon_and_their_providers_are_understood(code: int, message: str, status: int, kind: str) -> None:
    assert classify(ETHEREUM, code, message, status).kind == kind


WORDS = ["too many requests", "rate limit", "missing trie node", "invalid api key", "already known", "header not found"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("table", [HARMONY, ETHEREUM], ids=["harmony", "ethereum"])
def test_what_a_client_wrote_into_a_call_cannot_park_a_node(table: ErrorTable, words: str) -> None:
    quoted = [
        (3, f"execution reverted: {words}", "revert"),
        (-32601, f"the method {words} does not exist/is not available", "method-missing"),
        (-32602, f'invalid argument 0: strconv.ParseInt: parsing "{words}": invalid syntax', "invalid-params"),
        (-32000, f"Error: {words} in server-side tracer function 'result'", "invalid-params"),
        (-32000, f"{words} at <eval>:1:14(2)", "invalid-params"),
        (-32000, f"{words} at setup (<eval>:1:20(3))", "invalid-params"),
        (-32000, f"Error: Invalid integer: {words} at parseBase (bigInt:1:1031(49))", "invalid-params"),
        (-32000, f"{words}{'.' * 5000} at step (<eval>:1:9(1))    in server-side tracer function", "invalid-params"),
        (-32603, f"Error: {words}", "unknown"),  # Reth, from here on
        (-32603, f"RangeError: {words}", "unknown"),
        (-32603, f'"{words}"', "unknown"),
        (-32603, f'{{ a: "{words}" }}', "unknown"),
        (-32602, f"failed to call setup(): Error: {words}", "invalid-params"),
        (-32603, f"Error: VM Exception while processing transaction: reverted with reason string '{words}'", "revert"),
    ]
    for code, message, kind in quoted:
        assert classify(table, code, message).kind == kind


ECHOES = [(program, int(code), text) for program, code, text in rows_of("echoes.tsv")]
"""Errors of programs that repeat what a client wrote, at the place of the braces."""
TAKES_AWAY = {"rate-limited", "unauthorized", "misconfigured", "role-missing", "already-known"}
"""Kinds by which a node is parked or barred, or a refusal becomes a success."""
FRAGMENTS = sorted(
    {
        text
        for table in (HARMONY, ETHEREUM)
        for row in table.rows
        if row.kind in TAKES_AWAY | {"method-missing", "pruned", "beyond-window", "node-timeout"}
        for text in (*row.equals, *row.starts, *(" ".join(group) for group in row.contains))
    }
)
LEARNT = {"pruned", "beyond-window", "node-timeout"}
"""Kinds from which limits of a node are learnt; programs say so after a colon, so that a quotation alone hides them."""


@given(
    st.sampled_from(ECHOES),
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=3),
    st.sampled_from(["{}", 'x" {}', "x' {} 'y", "one1 `{}", "{}: {}", "\\\\{}", ": {}", "{}\n{}"]),
)
@settings(max_examples=examples(1000))
def test_no_words_of_a_client_take_a_node_away_or_make_a_refusal_a_success(
    echo: tuple[str, int, str], fragments: list[str], shape: str
) -> None:
    program, code, template = echo
    words = shape.replace("{}", ", ".join(fragments))
    message = template.replace("{}", words)
    for table in (HARMONY,) if program == "Harmony" else (HARMONY, ETHEREUM):
        kind = classify(table, code, message).kind
        assert kind not in TAKES_AWAY, message
        assert kind != "method-missing" or code == -32601, message
        quoted = template.find('"{}') > 0 or "`{}" in template
        assert not (quoted and kind in LEARNT), message


def test_a_client_that_names_already_known_in_another_refusal_has_sent_nothing() -> None:
    for message in (
        "invalid sender: already known",
        'transaction "x" rejected: already known',
        "refused: already known",
    ):
        assert classify(ETHEREUM, -32000, message).kind is not FailureKind.ALREADY_KNOWN
        assert classify(HARMONY, -32000, message).kind is not FailureKind.ALREADY_KNOWN
    known = f"transaction hash {'5b' * 32}: known transaction"
    assert classify(HARMONY, -32000, known).kind is FailureKind.ALREADY_KNOWN
    assert classify(HARMONY, -32000, known.replace("5b5b", "5b, ")).kind is not FailureKind.ALREADY_KNOWN


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("You've reached the quota of your plan: see https://x.test/billing", "rate-limited"),
        ("Please upgrade at https://x.test/billing", "rate-limited"),
        ("Method trace_block is not supported", "method-missing"),
        ("getting header: missing trie node 7a56 (path ) <nil>", "pruned"),
        ("tracing failed: execution timeout", "node-timeout"),
    ],
)
def test_words_of_the_node_itself_are_found_where_they_stand(message: str, kind: str) -> None:
    assert classify(ETHEREUM, -32000, message).kind == kind


def test_an_address_that_reads_like_a_refusal_is_still_a_wrong_address() -> None:
    assert classify(HARMONY, -32000, "invalid address: too many requests").kind is FailureKind.INVALID_PARAMS


def test_an_unknown_transaction_is_not_a_known_one() -> None:
    assert classify(HARMONY, -32000, "unknown transaction").kind is FailureKind.UNKNOWN
    assert classify(HARMONY, -32000, "known transaction").kind is FailureKind.ALREADY_KNOWN


def test_a_verdict_says_by_which_row_it_came() -> None:
    assert "nonce" in classify(HARMONY, -32000, "nonce too low").rule_text
    assert classify(HARMONY, -32000, "brand new").rule_text == "an error no rule names"


def test_the_first_row_that_fits_decides_and_the_default_comes_last() -> None:
    table = ErrorTable(
        default=ErrorRule(FailureKind.UNKNOWN, "default"),
        rows=(
            ErrorRule(FailureKind.PRUNED, "by status", statuses=frozenset({500})),
            ErrorRule(FailureKind.REVERT, "by word and code", codes=frozenset({1}), equals=("x",)),
            ErrorRule(FailureKind.REJECTED, "by code", codes=frozenset({1})),
        ),
    )
    assert classify(table, 1, "x", 500).rule_text == "by status"
    assert classify(table, 1, " X ").rule_text == "by word and code"
    assert classify(table, 1, "y").rule_text == "by code"
    assert classify(table, 2, "x").rule_text == "default"
    assert repr(table) == "<ErrorTable 3 rows>"


def test_no_row_is_hidden_by_an_earlier_one_on_its_own_words() -> None:
    for table in (HARMONY, ETHEREUM):
        for row in table.rows:
            if row.words:
                decided = [classify(table, error.code, error.text, error.status) for error in PROVIDER_ERRORS]
                assert (row.kind, row.why) in decided, row.why
                continue
            code = next(iter(row.codes), -32000)
            status = next(iter(row.statuses), 200)
            texts = [*row.equals, *row.starts, *(" ".join(group) for group in row.contains)] or ["?"]
            kinds = {classify(table, code, text, status).kind for text in texts}
            assert row.kind in kinds, row.why


@given(st.integers(), st.text(max_size=2000), st.integers(100, 599))
def test_any_error_at_all_gets_a_kind(code: int, message: str, status: int) -> None:
    assert classify(HARMONY, code, message, status).kind in FailureKind


def test_errors_of_one_cause_fold_into_one_line() -> None:
    assert (
        fold("block 123 at 0xabcDEF of one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3") == "block # at <hex> of <address>"
    )
    assert fold("took 1.25 s\n  for 3 tries") == "took # s for # tries"
    assert fold("node 7a56e81f171bcc55a6ff8345e692c0f8 gone") == "node <hex> gone"
    assert fold("decadence facade effaced") == "decadence facade effaced"


@given(st.text(max_size=3000))
def test_a_folded_text_is_short_holds_no_number_and_folds_to_itself(text: str) -> None:
    folded = fold(text)
    assert len(folded) <= 200
    assert not set("0123456789") & set(folded)
    assert fold(folded) == folded
