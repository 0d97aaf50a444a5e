from __future__ import annotations

import pytest

from rpcaccel.core.replies.answer import error_parts


def test_code_and_message_are_read_from_the_raw_error() -> None:
    assert error_parts(b'{"code":-32000,"message":"missing trie node","data":{"x":1e28}}') == (
        -32000,
        "missing trie node",
    )


def test_a_message_may_be_missing() -> None:
    assert error_parts(b'{"code":3}') == (3, "")


@pytest.mark.parametrize("raw", [b'"boom"', b'{"message":"no code"}', b'{"code":"x","message":"m"}', b"{"])
def test_an_error_of_another_form_is_its_own_text(raw: bytes) -> None:
    assert error_parts(raw) == (0, raw.decode())


@pytest.mark.parametrize("code", [2**70, -(2**70), 2**53 + 1, 10**400])
def test_a_code_that_no_reader_of_json_holds_exactly_is_read_as_0(code: int) -> None:
    assert error_parts(b'{"code":%d,"message":"m"}' % code) == (0, "m")
    assert error_parts(b'{"code":%d}' % -(2**53)) == (-(2**53), "")


def test_bytes_that_are_no_text_are_still_read() -> None:
    assert error_parts(b'{"code":1,"message":"\xff"}')[0] == 0


def test_an_error_is_read_however_deeply_its_data_nests() -> None:
    deep = b"[" * 5_000 + b"]" * 5_000
    assert error_parts(b'{"data":' + deep + b',"message":"execution reverted","code":3}') == (3, "execution reverted")
    assert error_parts(b'{"data":' + deep + b"}") == (0, '{"data":' + deep.decode() + "}")
    assert error_parts(b'{"code":1,"data":' + deep + b"]}")[0] == 0
