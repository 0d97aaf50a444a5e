"""The kind of what nodes and providers say: recorded texts, and others of the same meaning that nobody has sent yet."""

from __future__ import annotations

import re

import pytest

from rpcaccel import chains
from rpcaccel.core.replies.error_rules import classify
from rpcaccel.core.replies.failure import FailureKind
from tests.support.provider_errors import PAGE, PROVIDER_ERRORS, ProviderError, written

HARMONY = chains.load("harmony").errors
ETHEREUM = chains.load("ethereum").errors


@pytest.mark.parametrize("error", PROVIDER_ERRORS, ids=lambda error: f"{error.who}: {error.text[:60]}")
def test_what_a_provider_says_is_read_by_its_meaning(error: ProviderError) -> None:
    tables = [HARMONY] if error.who == "Harmony" else [HARMONY, ETHEREUM]
    for table in tables:
        assert classify(table, error.code, error.text, error.status).kind == error.kind


SAID = {
    FailureKind.TOO_LARGE: (
        "Block range exceeds the maximum of 1000",
        "eth_getLogs block range too large, limit 2000",
        "max block range is 2000 blocks",
        "The block range must not exceed 5000 blocks",
        "query exceeds maximum allowed range of 3000",
        "Your request spans more than 10000 blocks",
        "requested too many blocks from 1 to 5000, maximum is set to 2048",
        "Requested block span is too wide",
        "the range of blocks is restricted to 1000",
        "block range restricted to 1000",
        "Please narrow the block range to at most 500",
        "Response is too big, try a smaller range",
        "response too large",
        "Response size is larger than 150MB limit",
        "Result set too large",
        "results exceed limit 10000",
        "too many results",
        "too many logs in response",
        "number of logs exceeds maximum of 10000",
        "Please limit the query to at most 1000 blocks",
        "eth_getLogs is limited to 1024 blocks",
        "logs are limited to 1024 block range",
        "only 100 blocks are allowed per call",
        "Only up to 3000 blocks can be queried at once",
        "You can query up to 2000 blocks at a time",
        "range should be less than 1000",
        "the difference between fromBlock and toBlock exceeds 10000",
        "distance between fromBlock and toBlock must be less than 1000",
        "getLogs range over 500 blocks not supported",
        "block interval exceeds 10000",
        "Log query range is greater than 10000",
        "Exceeded max range limit for eth_getLogs: 10000",
        "exceeded maximum block count 1000",
        "window of 5000 blocks is over the limit",
        "Number of blocks in range exceeds 1000",
        "block count 5000 over limit 100",
        "eth_getLogs: filter matches too many events",
        "log limit of 10000 exceeded",
        "logs limit exceeded",
        "too wide a range",
        "range is too long",
        "range limit exceeded",
        "query range exceeds",
        "limit of 500 blocks per request exceeded",
        "request exceeds 500 blocks limit",
        "requests for more than 500 blocks are not allowed",
        "Requests are limited to 100 blocks",
        "Maximum of 100 blocks per request",
        "trace response exceeds size limit",
        "Too many receipts",
        "Block range is restricted to 1000 for your tier",
        "block range of 2000 is too large for your plan, max 1000",
        "The maximum allowed number of requested blocks is 10000",
        "exceeded the block range limit of your plan",
        "you may only request 1000 blocks",
        "cannot return more than 1000 entries",
        "Returned data exceeds limit: too many logs",
        "payload of the answer is too large",
        "output is too large",
        "response body exceeds maximum size",
        "answer exceeds maximum size",
        "size of the response exceeds the limit",
        "Log count exceeds 20000",
        "filter range too wide",
        "requested range [0x1, 0x5000] is larger than allowed",
        "Limit exceeded: at most 1000 blocks per eth_getLogs",
        "Block span 50000 larger than 10000",
        "Query spans too many blocks",
        "too many blocks",
        "range too big",
        "the range is bigger than 5000",
        "eth_getLogs with range > 1000 blocks is not supported",
        "getBlocks range exceeds 1024",
        "maximum range exceeded",
        "exceeds max number of blocks",
        "The scan range is capped at 10k blocks",
    ),
    FailureKind.REJECTED: (
        "Transaction gas limit exceeds block gas limit",
        "gas limit exceeded",
        "gas limit too high",
        "max fee per gas too low",
        "Transaction gas limit 50000000 exceeds maximum 30000000",
        "tx gas limit exceeds cap",
        "transaction size exceeds limit",
        "transaction too large",
        "insufficient balance for transfer",
        "Sender account not authorized to send transactions",
        "blob gas exceeds limit",
        "Gas price below minimum",
        "nonce too high",
        "nonce gap too large",
        "max priority fee per gas higher than max fee per gas",
        "intrinsic gas too low",
        "Transaction nonce is too distant",
        "calldata size limit exceeded",
        "Transaction rejected: gas too high",
    ),
    FailureKind.RATE_LIMITED: (
        "request limit exceeded",
        "Request limit reached",
        "too many requests",
        "Too Many Requests, slow down",
        "rate limit exceeded",
        "exceeded project rate limit",
        "You have exceeded your quota",
        "throughput limit exceeded",
        "compute unit limit reached",
        "credits exhausted",
        "Out of credits",
        "your plan's request limit has been reached",
        "daily limit reached",
        "calls per second limit exceeded",
        "Too many calls",
        "max requests per second exceeded",
        "exceeded 25 rps",
        "Rate limited",
        "you are being rate limited",
        "Request throttled",
        "usage limit reached for this month",
        "capacity exceeded",
        "monthly quota exceeded",
        "API calls limit exceeded",
        "too many concurrent requests",
        "CU limit exceeded",
        "you have used all your credits",
        "Exceeded the limit of 100 requests per second",
        "Free plan limit reached",
        "Maximum number of requests reached",
        "the account has no requests left",
        "eth_getLogs rate limit exceeded",
        "limit exceeded",
    ),
    FailureKind.NODE_BEHIND: (
        "block range extends beyond current head block",
        "unknown block",
    ),
    FailureKind.NODE_TIMEOUT: (
        "response time limit exceeded",
        "query timed out, narrow your range",
        "execution timeout",
    ),
    FailureKind.UNKNOWN: (
        "invalid block range params",
        "fromBlock is greater than toBlock",
        "invalid block range: from 10 is greater than to 5",
        "block range in the future: exceeds latest block",
        "index out of range: exceeds length",
    ),
    FailureKind.PRUNED: (
        "This block is too old, archive node required",
        "Archive access required",
        "state older than 128 blocks is not available",
        "Historical state is not available",
        "only the last 128 blocks are available",
        "requires an archive node",
        "upgrade your plan to access archive data",
        "Access to historical data is limited to paid plans",
        "historical logs are not available on your plan",
        "Blocks older than 10000 are only available on paid plans",
        "archive data requests are not allowed for this key",
        "Old blocks are not served without a subscription",
        "state has been pruned",
        "block has been pruned",
        "This endpoint does not serve archive requests",
        "full node, archive requests need a paid tier",
        "state at block 5 is pruned",
        "data for block 5 not available on free tier",
        "You need archive access to query block 100",
        "Historical queries require the Growth plan",
    ),
    FailureKind.METHOD_MISSING: (
        "debug_traceBlock not available on your plan",
        "Method eth_newFilter is disabled",
        "this method is not allowed",
        "trace methods are not enabled",
        "trace_filter is restricted to paid plans",
        "the method is unavailable on this plan",
        "method not whitelisted",
        "Unsupported method: eth_foo",
        "debug namespace is disabled",
    ),
    FailureKind.ALREADY_KNOWN: (
        "tx already exists",
        "transaction already exists in pool",
        "transaction already in pool",
        "tx already known",
        "duplicate transaction",
        "transaction is a duplicate",
        "txn already in txpool",
        "Transaction already imported",
        "transaction with same hash exists",
        "Known tx",
        "tx is already in the cache",
        "this transaction is already in the mempool",
        "rpc error: code = Unknown desc = tx already exists in cache",
        "Transaction hash already exists",
    ),
}
"""By kind: words that no provider is known to use. Those of no kind look like others and mean something else."""


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in SAID.items() for text in texts])
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
    for text in SAID[kind]:
        assert classify(ETHEREUM, -32005, text, status).kind is kind


NOT_THESE_BYTES = (
    "transaction with same nonce already exists",
    "nonce already used in pool",
    "account already exists",
    "contract already exists at address",
    "output already spent by tx",
    "replacement transaction underpriced: tx already in pool",
    "sender already has a transaction in the pool",
    "unknown transaction",
    "transaction not in pool",
    "transaction pool is full",
    "tx already expired",
    "a different transaction already exists",
    "transaction was already rejected",
    "transaction does not exist",
    "transaction underpriced; already in pool with higher fee",
    "code already exists for contract of tx",
)
"""Refusals that mention a transaction and what is there already, and do not mean that the node has this one."""


@pytest.mark.parametrize("text", NOT_THESE_BYTES)
def test_a_different_fault_is_never_taken_for_a_known_transaction(text: str) -> None:
    for table in (HARMONY, ETHEREUM):
        assert classify(table, -32000, text).kind is not FailureKind.ALREADY_KNOWN


def test_the_page_shows_the_table_as_it_is() -> None:
    page = PAGE.read_text("utf-8")
    if written(page) != page:
        pytest.fail("docs/errors.md is out of date; run: python -m tests.support.provider_errors", pytrace=False)
