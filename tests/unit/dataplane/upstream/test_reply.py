import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.nodes.parking import MAX_REST_SECONDS
from rpcaccel.core.replies.answer import Answer
from rpcaccel.core.replies.failure import Failure, FailureKind, policy
from rpcaccel.core.stepwise import at_once
from rpcaccel.dataplane.upstream.http_messages import (
    HttpReply,
    glimpse,
    read_replies,
    reply_steps,
    retry_after,
    weigh,
)


def reply(body: bytes, status: int = 200, **headers: str) -> HttpReply:
    return HttpReply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, 0.25)


def read_all(whole: HttpReply, first: int, count: int) -> list[Answer | Failure]:
    """What a reply says, which is the same whether it is read at once or in steps."""
    in_steps = at_once(reply_steps(whole, first, count))
    try:
        got = read_replies(whole, first, count)
    except RecursionError:  # it nests too deeply to be read at once
        return in_steps
    assert got == in_steps
    return got


def read(body: bytes, status: int = 200, **headers: str) -> Answer | Failure:
    whole = reply(body, status, **headers)
    (got,) = read_all(whole, 1, 1)
    return weigh(whole, got)


def answer(body: bytes, status: int = 200, **headers: str) -> Answer:
    got = read(body, status, **headers)
    assert isinstance(got, Answer), got
    return got


def failure(body: bytes, status: int = 200, **headers: str) -> Failure:
    got = read(body, status, **headers)
    assert isinstance(got, Failure), got
    return got


# -- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"1.50", b"9999989496467434400000000000", b'"0x"', b"null", b'{ "a" : [1,2 ] }'])
def test_a_result_stays_the_text_it_was(text: bytes) -> None:
    got = answer(b'{"jsonrpc":"2.0","id":1,"result":' + text + b"}\n")
    assert (got.result, got.error, got.elapsed) == (text, None, 0.25)


def test_an_error_that_is_null_beside_a_result_is_a_success() -> None:
    assert answer(b'{"id":1,"error":null,"result":5}').result == b"5"
    assert answer(b'{"id":1,"error":null,"result":null}').result == b"null"


def test_an_error_stays_the_text_it_was() -> None:
    error = b'{"code":3,"message":"execution reverted", "data": "0x08c379a0"}'
    got = answer(b'{"id":1,"error":' + error + b',"result":null}')
    assert (got.error, got.result) == (error, None)


@pytest.mark.parametrize("identity", [b'"id":null,', b"", b'"id":1,'])
def test_an_error_without_an_id_is_the_answer(identity: bytes) -> None:
    assert answer(b"{" + identity + b'"error":{"code":-32700,"message":"parse error"}}').error is not None


def test_a_large_result_is_a_view_of_the_body() -> None:
    large = b'"' + b"x" * 100_000 + b'"'
    got = answer(b'{"id":1,"result":' + large + b"}")
    assert isinstance(got.result, memoryview)
    assert got.result == large
    assert b"".join([b"<", got.result]) == b"<" + large


@given(st.binary(max_size=60))
def test_no_body_is_ever_too_strange(body: bytes) -> None:
    assert isinstance(read(body), Answer | Failure)


# -- what is none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "an empty body"),
        (b" \n", "an empty body"),
        (b"<html><head><title>502 Bad\nGateway</title>", "an HTML page (502 Bad Gateway)"),
        (b"<title>" * 100_000, "an HTML page"),
        (b"<html>", "an HTML page"),
        (b"upstream timed out", "upstream timed out"),
        (b"[]", "[]"),
        (b"{}", "neither a result nor an error"),
        (b'{"id":1}', "neither a result nor an error"),
        (b'{"id":1,"error":null}', "neither a result nor an error"),
        (b'{"id":1,"error":"boom"}', 'an error that is no object, "boom"'),
        (b'{"id":1,"result":5', '{"id":1,"result":5'),
        (b'{"id":1,"result":5}{', '{"id":1,"result":5}{'),
    ],
)
def test_what_is_not_json_rpc_is_said_to_be_so(body: bytes, said: str) -> None:
    got = failure(body)
    assert (got.kind, got.text) == (FailureKind.NOT_JSON_RPC, f"the node did not answer in JSON-RPC: {said}")


@pytest.mark.parametrize("told", [b"2", b'"1"', b"null", b"1.0"])
def test_a_result_under_another_id_is_nobodys(told: bytes) -> None:
    got = failure(b'{"id":' + told + b',"result":5}')
    assert got.kind is FailureKind.WRONG_ID
    assert got.text == f"the node answered another call: id {told.decode()} instead of 1"


def test_an_error_of_another_call_is_nobodys() -> None:
    assert failure(b'{"id":9,"error":{"code":1,"message":"x"}}').kind is FailureKind.WRONG_ID


# -- HTTP status -------------------------------------------------------------------------------------------------


def test_too_many_requests_is_a_rate_limit_and_says_how_long() -> None:
    got = failure(b"slow down", 429, Retry_After="7")
    assert (got.kind, got.retry_after) == (FailureKind.RATE_LIMITED, 7.0)
    assert got.text == "the node limits our rate: HTTP 429, slow down"


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (401, FailureKind.UNAUTHORIZED, "the node does not let us in: HTTP 401, an empty body"),
        (403, FailureKind.UNAUTHORIZED, "the node does not let us in: HTTP 403, an empty body"),
        (404, FailureKind.MISCONFIGURED, "there is no JSON-RPC at this URL: HTTP 404, an empty body"),
        (308, FailureKind.MISCONFIGURED, "there is no JSON-RPC at this URL: HTTP 308, an empty body"),
        (400, FailureKind.CALL_REFUSED, "the node does not take this call: HTTP 400, an empty body"),
        (414, FailureKind.CALL_REFUSED, "the node does not take this call: HTTP 414, an empty body"),
        (431, FailureKind.CALL_REFUSED, "the node does not take this call: HTTP 431, an empty body"),
        (418, FailureKind.HTTP_STATUS, "the node failed: HTTP 418, an empty body"),
        (500, FailureKind.HTTP_STATUS, "the node failed: HTTP 500, an empty body"),
    ],
)
def test_a_status_says_whose_matter_it_is(status: int, kind: FailureKind, text: str) -> None:
    assert (failure(b"", status).kind, failure(b"", status).text) == (kind, text)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 429, 500, 503])
def test_a_json_rpc_error_counts_whatever_the_status(status: int) -> None:
    got = answer(b'{"id":1,"error":{"code":-32000,"message":"x"}}', status, Retry_After="3")
    assert (got.error, got.http_status, got.retry_after) == (b'{"code":-32000,"message":"x"}', status, 3.0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"Block is not available on the free plan\n", "Block is not available on the free plan"),
        (b'{"error":"archive access denied"}', "archive access denied"),
        (b'{"message":"Too many logs", "request_id":7}', "Too many logs"),
        (b'{"code":7,"detail":"old state"}', "old state"),
        (b"<html><title>archive</title></html>", ""),
        (b"[1]", "[1]"),
        (b"{}", ""),
        (b"", ""),
    ],
)
def test_the_words_of_a_gateway_are_kept_to_be_read(body: bytes, said: str) -> None:
    assert failure(body, 402).said == said
    assert not failure(body, 502).said, "a gateway that fails speaks of itself"


def test_a_result_under_a_bad_status_is_not_believed() -> None:
    assert failure(b'{"id":1,"result":5}', 500).kind is FailureKind.HTTP_STATUS


def test_a_call_that_is_too_long_for_the_node_is_no_fault_of_the_node() -> None:
    got = failure(b"<html><title>413 Request Entity Too Large</title></html>", 413)
    assert policy(got.kind).breaker == "ignore"
    assert "does not take this call: HTTP 413" in got.text


@pytest.mark.parametrize(
    ("told", "date", "seconds"),
    [
        ("30", None, 30.0),
        (" 1.5 ", None, 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:27:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None, None),
        ("0", None, None),
        ("0.0", None, None),
        ("-5", None, None),
        ("soon", None, None),
        ("", None, None),
        ("9" * 400, None, MAX_REST_SECONDS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None, MAX_REST_SECONDS),
        ("Fri, 31 Dec 99999999999999999999 23:59:59 GMT", None, None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 99999999999999999999 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date(told: str, date: str | None, seconds: float | None) -> None:
    headers = {"Retry-After": told} | ({"Date": date} if date else {})
    assert retry_after(headers) == seconds


# -- batches -----------------------------------------------------------------------------------------------------


def test_the_answers_of_a_batch_are_found_by_id() -> None:
    body = b'[{"id":8,"result":"b"},{"id":7,"error":{"code":1,"message":"x"}},{"id":8,"result":"later"}]'
    first, second = read_all(reply(body), 7, 2)
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert (first.error, second.result) == (b'{"code":1,"message":"x"}', b'"b"')


def test_an_item_left_out_spoils_no_other() -> None:
    first, second, third = read_all(reply(b'[{"id":1,"result":1},{"id":3}]'), 1, 3)
    assert isinstance(first, Answer)
    assert isinstance(second, Failure)
    assert isinstance(third, Failure)
    assert (second.kind, third.kind) == (FailureKind.WRONG_ID, FailureKind.NOT_JSON_RPC)


def test_one_error_for_a_whole_batch_fails_each_item_and_is_kept() -> None:
    got = read_all(reply(b'{"id":null,"error":{"code":-32600,"message":"batch too large"}}'), 1, 2)
    assert [(item.kind, item.error) for item in got if isinstance(item, Failure)] == [
        (FailureKind.UNKNOWN, b'{"code":-32600,"message":"batch too large"}')
    ] * 2


@pytest.mark.parametrize("body", [b'{"id":1,"result":9}', b'{"id":1}', b'{"id":2,"error":{"code":1,"message":"x"}}'])
def test_one_object_for_a_whole_batch_answers_none_of_its_calls(body: bytes) -> None:
    assert [type(item) for item in read_all(reply(body), 1, 2)] == [Failure] * 2


def test_a_batch_answered_by_a_page_fails_each_item() -> None:
    got = read_all(reply(b"<html>"), 1, 2)
    assert [item.kind for item in got if isinstance(item, Failure)] == [FailureKind.NOT_JSON_RPC] * 2


def test_a_glimpse_is_short_and_printable() -> None:
    assert glimpse(b"a\x00\x1b[31m\n b\xff") == r"a\x00\x1b[31m b�"
    assert len(glimpse(b"x" * 1000)) == 81


# -- depth and UTF-8 ---------------------------------------------------------------------------------------------


def nested(levels: int) -> bytes:
    """A trace of nested calls: two levels of JSON for each of them."""
    return b'{"type":"CALL","calls":[' * (levels // 2) + b"]}" * (levels // 2)


@pytest.mark.parametrize("levels", [900, 1_000, 2_050, 20_000])
def test_a_result_stays_the_text_it_was_however_deeply_it_nests(levels: int) -> None:
    deep = nested(levels)
    assert answer(b'{"jsonrpc":"2.0","id":1,"result":%b}\n' % deep).result == deep
    assert answer(b'{"id":1,"error":{"code":1,"message":"x","data":%b}}' % deep).error is not None
    got = read_all(reply(b'[{"id":2,"result":5},{"id":1,"result":%b},{"id":3,"result":[6]}]' % deep), 1, 3)
    assert [item.result for item in got if isinstance(item, Answer)] == [deep, b"5", b"[6]"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"id":1,"result":x%b' % nested(3_000), '{"id":1,"result":x' + nested(3_000)[:62].decode() + "…"),
        (b'{"id":1,"result":%b}' % nested(600_000), "a text that is nested too deeply, or in too many places"),
        (b'{"result":%b}' % nested(3_000), None),
    ],
)  # fmt: skip
def test_a_deep_text_that_is_no_answer_is_said_to_be_none(body: bytes, said: str | None) -> None:
    got = failure(body)
    if said is None:
        assert got.kind is FailureKind.WRONG_ID
    else:
        assert (got.kind, got.text) == (FailureKind.NOT_JSON_RPC, f"the node did not answer in JSON-RPC: {said}")
    assert [type(item) for item in read_all(reply(b"[%b]" % body), 1, 2)] == [Failure] * 2


@pytest.mark.parametrize("text", [b'"\xff"', b'{"a\xc3":1}', b'"\xed\xa0\x80"'])
def test_what_is_not_utf8_is_no_answer(text: bytes) -> None:
    words = "the node did not answer in JSON-RPC: text that is not UTF-8"
    for body in (b'{"id":1,"result":%b}' % text, b'{"id":1,"error":{"code":1,"message":%b}}' % text):
        got = failure(body)
        assert (got.kind, got.text) == (FailureKind.NOT_JSON_RPC, words)
        together = read_all(reply(b'[{"id":2,"result":5},%b]' % body), 1, 2)
        assert [(item.kind, item.text) for item in together if isinstance(item, Failure)] == [(got.kind, words)] * 2
    assert answer('{"id":1,"result":"é😀"}'.encode()).result == '"é😀"'.encode()


@pytest.mark.parametrize("mark", ["\ufeff", " \r\n\ufeff", "\ufeff\n\t "])
def test_a_byte_order_mark_before_an_answer_is_passed_over(mark: str) -> None:
    front = mark.encode()
    assert answer(front + b'{"id":1,"result":"0x1"}').result == b'"0x1"'
    assert answer(front + b'{"id":1,"error":{"code":3,"message":"x"}}').error is not None
    deep = nested(3_000)
    got = read_all(reply(front + b'[{"id":2,"result":5},{"id":1,"result":%b}]' % deep), 1, 2)
    assert [item.result for item in got if isinstance(item, Answer)] == [deep, b"5"]
