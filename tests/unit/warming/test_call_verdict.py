"""What follows from a reply."""

from __future__ import annotations

import pytest

from rpcaccel.bench.load.client import LoadReply, Outcome
from rpcaccel.warming.runner import judge


def reply(body: str, status: int = 200, pause: str = "") -> LoadReply:
    return LoadReply(status, body.encode(), "miss", True, pause)


def error(code: int, message: str = "no") -> str:
    return f'{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"{message}"}}}}'


@pytest.mark.parametrize(
    ("outcome", "then"),
    [
        (reply('{"id":1,"result":{"a":1}}'), "done"),
        (reply('{"id":1,"result":[]}'), "done"),
        (reply('{"id":1,"result":null}'), "again"),
        (reply("{}"), "again"),
        (reply("<html>"), "again"),
        (reply("busy", 503), "slower"),
        (reply(error(-32005), 429), "slower"),
        (reply(error(-32005)), "slower"),
        (reply(error(-32603), 503), "slower"),
        (reply(error(-32603), 502), "again"),
        (reply(error(-32000, "missing trie node")), "again"),
        (reply(error(-32601)), "give-up"),
        (reply(error(-32602)), "give-up"),
        (reply(error(-32600), 401), "give-up"),
        ("connect", "gone"),
        ("closed", "gone"),
        ("timeout", "again"),
    ],
)
def test_each_reply_has_its_consequence(outcome: Outcome, then: str) -> None:
    assert judge(outcome).next == then


def test_the_result_and_the_reason_are_told() -> None:
    assert judge(reply('{"id":1,"result":{"a": 1}}')).result == b'{"a": 1}'
    assert judge(reply(error(-32000, "pruned"))).text == "-32000 pruned"
    assert judge(reply('{"result":null}')).text == "the answer is null, which the proxy does not keep"
    assert len(judge(reply(error(-32000, "x" * 5000))).text) == 200


@pytest.mark.parametrize(
    ("header", "pause"), [("7", 7.0), ("", None), ("Fri, 31 Dec", None), ("-1", None), ("inf", None)]
)
def test_the_proxy_says_how_long_to_wait(header: str, pause: float | None) -> None:
    assert judge(reply(error(-32005), 429, header)).pause == pause


def test_a_trace_that_nests_too_deeply_to_be_read_is_an_answer() -> None:
    assert judge(reply('{"id":1,"result":' + "[" * 5000 + "]" * 5000 + "}")).next == "done"
