"""What counts as an answer."""

from __future__ import annotations

import pytest

from rpcaccel.bench.load.client import GOOD, LoadReply, batch_verdict, result_of, verdict


@pytest.mark.parametrize(
    ("status", "body", "found"),
    [
        (200, b'{"jsonrpc":"2.0","id":5,"result":null}', GOOD),
        (200, b'{"jsonrpc":"2.0","id":5,"result":{"error":1}}', GOOD),
        (200, b'{"jsonrpc":"2.0","id":6,"result":1}', "wrong id"),
        (200, b'{"jsonrpc":"2.0","result":1}', "wrong id"),
        (200, b'{"jsonrpc":"2.0","id":5,"error":{"code":-32000,"message":"no"}}', "rpc -32000"),
        (504, b'{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"no"}}', "rpc -32603"),
        (200, b'{"jsonrpc":"2.0","id":5,"error":"no"}', "rpc"),
        (200, b'{"jsonrpc":"2.0","id":5}', "neither result nor error"),
        (200, b"<html>", "no json"),
        (200, b"", "no json"),
        (502, b"<html>", "http 502"),
        (500, b'{"jsonrpc":"2.0","id":5,"result":1}', "http 500"),
    ],
)
def test_http_200_with_an_error_inside_is_a_failure(status: int, body: bytes, found: str) -> None:
    assert verdict(LoadReply(status, body), b"5") == found


def test_trouble_is_its_own_verdict() -> None:
    assert verdict("timeout", b"5") == "timeout"
    assert batch_verdict("closed", [b"5"]) == "closed"
    assert result_of("closed") is None


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'[{"id":2,"result":1},{"id":1,"result":2}]', GOOD),
        (b'[{"id":2,"result":1}]', "wrong id"),
        (b'[{"id":2,"result":1},{"id":1,"result":2},{"id":3,"result":2}]', "wrong count"),
        (b'[{"id":2,"result":1},{"id":1,"error":{"code":3}}]', "rpc 3"),
        (b'{"id":2,"result":1}', "no json"),
    ],
)
def test_every_call_of_a_batch_must_be_answered(body: bytes, found: str) -> None:
    assert batch_verdict(LoadReply(200, body), [b"1", b"2"]) == found


def test_a_result_is_its_own_text() -> None:
    assert result_of(LoadReply(200, b'{"id":1,"result": 1.50}')) == b"1.50"
    assert result_of(LoadReply(200, b'{"id":1,"error":{}}')) is None
    assert result_of(LoadReply(200, b"x")) is None
