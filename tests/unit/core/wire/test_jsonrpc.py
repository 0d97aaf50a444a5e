"""Envelopes: what is taken, what is refused, and that no byte of an id or a result is changed."""

from __future__ import annotations

import json
import tracemalloc
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import NOT_JSON, TOO_MANY, Call, Invalid, decode, decode_member
from tests.support.nesting import refused

SCALAR_IDS = [b"1", b"1.50", b"-0", b"1e3", b"123456789012345678901234567890", b'"1"', b'"a\\u0041"', b"true", b"null"]


@pytest.mark.parametrize("call_id", SCALAR_IDS)
def test_an_id_of_any_scalar_form_comes_back_byte_for_byte(call_id: bytes) -> None:
    call = decode(b'{"jsonrpc":"2.0","id": ' + call_id + b' ,"method":"m"}')
    assert isinstance(call, Call)
    assert call.id == call_id
    assert b"".join(jsonrpc.result_reply(call_id, b"1e28")) == b'{"jsonrpc":"2.0","id":' + call_id + b',"result":1e28}'


@pytest.mark.parametrize("mark", ["\ufeff", "\n\ufeff "])
def test_a_byte_order_mark_before_a_call_or_a_batch_is_passed_over(mark: str) -> None:
    call = b'{"id":1,"method":"m","params":["\xc3\xa9"]}'
    assert decode(mark.encode() + call) == decode(call)
    assert decode(mark.encode() + b"[%b]" % call) == [Raw(call)]


def test_params_stay_the_text_that_was_sent() -> None:
    call = decode(b'{"id":1,"method":"m","params": [ 1.0, 10000000000000000000000000000 , "\xc3\xa9" ] }')
    assert isinstance(call, Call)
    assert call.params == b'[ 1.0, 10000000000000000000000000000 , "\xc3\xa9" ]'


@pytest.mark.parametrize("tail", [b"", b',"params":null', b',"params":[]'])
def test_missing_and_null_params_are_an_empty_list(tail: bytes) -> None:
    call = decode(b'{"id":1,"method":"m"' + tail + b"}")
    assert isinstance(call, Call)
    assert call.params == b"[]"


def test_a_call_without_an_id_is_a_notification_and_one_with_a_null_id_is_not() -> None:
    notification, call = decode(b'{"method":"m"}'), decode(b'{"method":"m","id":null}')
    assert isinstance(notification, Call)
    assert notification.id is None
    assert isinstance(call, Call)
    assert call.id == b"null"


@pytest.mark.parametrize(
    ("body", "code", "reply_id"),
    [
        (b"", -32700, b"null"),
        (b"  \n", -32700, b"null"),
        (b"{", -32700, b"null"),
        (b'{"id":1,"method":"m"} x', -32700, b"null"),
        (b'{"id":1,"method":"\xff"}', -32700, b"null"),
        (b'{"id":1,"method":"m","params":["\xff"]}', -32700, b"null"),
        (b'{"id":1,"method":"m","params":[01]}', -32700, b"null"),
        (b'{"id":1,"method":"m","params":[NaN]}', -32700, b"null"),
        (b"[" * 9_000, -32700, b"null"),
        (b"[" * 2_000_000, -32600, b"null"),
        (b'{"id":7,"method":"m","params":' + b"[" * 9_000 + b"}", -32700, b"null"),
        pytest.param(
            b'{"params":' + b"[" * 9_000 + b"]" * 9_000 + b',"method":"m","id":7}', -32600, b"7", marks=refused(9_000)
        ),
        (b'{"params":' + b"[" * 9_000 + b"]" * 9_000 + b',"method":"m","id":[]}', -32600, b"null"),
        (b'{"id":7,"method":"m","params":' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}", -32600, b"null"),
        (b"null", -32600, b"null"),
        (b"7", -32600, b"null"),
        (b'"text"', -32600, b"null"),
        (b"[]", -32600, b"null"),
        (b"{}", -32600, b"null"),
        (b'{"id":5}', -32600, b"5"),
        (b'{"id":5,"method":7}', -32600, b"5"),
        (b'{"id":5,"method":null}', -32600, b"5"),
        (b'{"id":5,"method":""}', -32600, b"5"),
        (b'{"id":[1],"method":"m"}', -32600, b"null"),
        (b'{"id":{},"method":"m"}', -32600, b"null"),
        (b'{"id":5,"method":"m","params":7}', -32602, b"5"),
        (b'{"id":5,"method":"m","params":"x"}', -32602, b"5"),
    ],
)
def test_what_is_no_call_is_refused_with_the_specified_code(body: bytes, code: int, reply_id: bytes) -> None:
    refused = decode(body)
    assert isinstance(refused, Invalid)
    assert (refused.code, refused.id) == (code, reply_id)
    reply = json.loads(jsonrpc.refusal(refused))
    assert reply["error"]["code"] == code
    assert "result" not in reply


@pytest.mark.parametrize("letter", ["m", "\u00e9", "\U0001f600", "\\u0061"])
def test_a_name_longer_than_256_bytes_is_refused_and_not_repeated(letter: str) -> None:
    size = len(json.loads(f'"{letter}"').encode())
    fits, longer = (json.dumps(["-"]).replace("-", letter * count) for count in (256 // size, 256 // size + 1))
    taken, refused = (decode(b'{"id":7,"method":%b}' % text[1:-1].encode()) for text in (fits, longer))
    assert isinstance(taken, Call)
    assert refused == Invalid(-32600, "invalid request: the method's name is longer than 256 bytes", b"7")


def test_a_batch_is_split_into_its_members_and_a_bad_one_is_refused_alone() -> None:
    members = decode(b' [{"id":1,"method":"a"}, null, {"id":1,"method":"b"}]')
    assert isinstance(members, list)
    first, bad, last = (decode_member(member) for member in members)
    assert isinstance(first, Call)
    assert isinstance(last, Call)
    assert (first.method, last.method) == ("a", "b")
    assert isinstance(bad, Invalid)
    assert (bad.code, bad.id) == (-32600, b"null")


def test_replies_hold_either_a_result_or_an_error() -> None:
    error = jsonrpc.error_object(-32601, 'no "such" method')
    assert json.loads(jsonrpc.error_reply(b'"x"', error)) == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -32601, "message": 'no "such" method'},
    }
    replies = [(b"1", jsonrpc.RESULT, b"1e28"), (b'"x"', jsonrpc.ERROR, error)]
    single = [b"".join(jsonrpc.result_reply(b"1", b"1e28")), jsonrpc.error_reply(b'"x"', error)]
    assert [b"".join(jsonrpc.batch_reply(replies[:count])) for count in (1, 2)] == [
        b"[" + b",".join(single[:count]) + b"]" for count in (1, 2)
    ]


@given(st.lists(st.sampled_from([b"1", b'"%b"' % (b"x" * 5000), b'"%b"' % (b"y" * 9000)]), min_size=1, max_size=6))
def test_a_long_value_in_a_batch_is_not_copied_into_the_reply(values: list[bytes]) -> None:
    parts = jsonrpc.batch_reply([(b"%d" % number, jsonrpc.RESULT, value) for number, value in enumerate(values)])
    assert [answer["result"] for answer in json.loads(b"".join(parts))] == [json.loads(value) for value in values]
    for value in values:
        assert len(value) < 5000 or any(part is value for part in parts)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_decoder_raise(body: bytes) -> None:
    assert isinstance(decode(body), Call | Invalid | list)


@given(st.dictionaries(st.sampled_from(["id", "method", "params", "jsonrpc", "x"]), JSON_VALUES))
def test_every_object_is_either_a_call_or_refused_with_a_reply_that_is_json(members: dict[str, object]) -> None:
    body = json.dumps(members).encode()
    read = decode(body)
    if isinstance(read, Invalid):
        assert json.loads(jsonrpc.refusal(read))["jsonrpc"] == "2.0"
    else:
        assert isinstance(read, Call)
        assert read.method == members["method"]
        if isinstance(members.get("params"), list | dict):
            assert json.loads(read.params) == members["params"]


@pytest.mark.parametrize("levels", [1_000, 9_000, 30_000, 50_000, 2_000_000])
def test_no_depth_makes_the_decoder_raise(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for body in (deep, deep[:-1], b"[%b,1]" % deep, b'{"id":1,"method":"m","params":%b}' % deep):
        assert isinstance(decode(body), Call | Invalid | list)


@pytest.mark.parametrize("levels", [pytest.param(levels, marks=refused(levels)) for levels in (2_000, 9_000)])
def test_a_member_that_nests_too_deeply_is_refused_alone(levels: int) -> None:
    deep = b'{"id":2,"method":"m","params":' + b"[" * levels + b"]" * levels + b"}"
    members = decode(b'[{"id":1,"method":"a"},' + deep + b',{"id":3,"method":"b"}]')
    assert isinstance(members, list)
    first, refused, last = (decode_member(bytes(member)) for member in members)
    assert isinstance(first, Call)
    assert isinstance(last, Call)
    assert refused == Invalid(-32600, "invalid request: nested too deeply", b"2")


@refused(9_000)
def test_a_batch_that_nests_too_deeply_in_too_many_places_is_refused_in_words() -> None:
    deep = b"[" * 9_000 + b"]" * 9_000
    assert decode(b"[" + b",".join([deep] * 100) + b"]") == jsonrpc.TOO_DEEP
    assert decode(b"[" + deep + b",1") == jsonrpc.NOT_JSON


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("member", [b"1", b"{}", b"[1,[2,3]]", b'",]"', b" null ", b'{"a":[1,2,3,4]}'])
def test_a_batch_may_have_so_many_members_and_no_more(most: int, member: bytes) -> None:
    for space in (b"", b" "):
        fits = space + b"[" + b",".join([member] * most) + space + b"]" + space
        assert len(cast(list[Raw], decode(fits, most))) == most
        assert decode(fits.replace(b"[", b"[1,", 1), most) is TOO_MANY


def test_what_is_no_json_is_so_within_the_bound() -> None:
    for text in (b"[1,1", b"[1,1,", b"[1,1,]", b"[1 1]", b"[1,1]]", b"[1,1}", b"[", b"[,]"):
        assert decode(text, 2) == NOT_JSON


def test_a_deep_batch_may_have_so_many_members_and_no_more() -> None:
    deep = b"[" * 3000 + b"]" * 3000
    assert len(cast(list[Raw], decode(b"[%b,1,2]" % deep, 3))) == 3
    assert decode(b"[%b,1,2,3]" % deep, 3) is TOO_MANY


def test_members_beyond_the_bound_take_no_memory() -> None:
    body = b"[" + b"1," * 2_000_000 + b"1]"
    tracemalloc.start()
    assert decode(body, 1000) is TOO_MANY
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(body)
