"""What counts as another answer."""

from __future__ import annotations

import pytest

from rpcaccel.bench.load.client import LoadReply
from rpcaccel.bench.runs.replaying import EXAMPLES, AnswerDiffs, difference


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ('{"id":1,"result":{"a":1,"b":[2]}}', '{"result": {"b": [2], "a": 1.0}, "jsonrpc": "2.0", "id": 7}'),
        ('{"result":10000000000000000000000000001}', '{"result": 10000000000000000000000000001}'),
        ('{"error":{"code":-32000,"message":"no"}}', '{"error":{"message":"no","code":-32000}}'),
        ('{"result":"\\u0041"}', '{"result":"A"}'),
    ],
)
def test_what_means_the_same_is_alike(a: str, b: str) -> None:
    assert difference(a.encode(), b.encode()) is None


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ('{"result":{"a":[1,{"b":2}]}}', '{"result":{"a":[1,{"b":3}]}}', ("result.a[1].b", "2", "3")),
        ('{"result":[1]}', '{"result":[1,2]}', ("result[1]", "nothing there", "2")),
        ('{"result":1}', '{"result":true}', ("result", "1", "true")),
        ('{"result":null}', '{"error":{"code":1}}', ("result", "null", "nothing there")),
        ('{"result":10000000000000000000000000001}', '{"result":10000000000000000000000000002}',
         ("result", "10000000000000000000000000001", "10000000000000000000000000002")),
        ("bad gateway", '{"result":1}', ("body", "bad gateway", '{"result":1}')),
    ],
)  # fmt: skip
def test_the_first_difference_is_shown_with_its_place(a: str, b: str, found: tuple[str, str, str]) -> None:
    assert difference(a.encode(), b.encode()) == found


def reply(text: str) -> LoadReply:
    return LoadReply(200, text.encode())


def test_differences_are_counted_by_method_with_some_examples() -> None:
    found = AnswerDiffs(("net_*",))
    for number in range(EXAMPLES + 2):
        found.add("eth_call", b"[%d]" % number, reply('{"result":1}'), reply('{"result":2}'))
    found.add("eth_call", b"[]", reply('{"id":1,"result":1}'), reply('{"id":2,"result":1}'))
    found.add("eth_call", b"[]", "timeout", reply('{"result":1}'))
    found.add("net_peerCount", b"[]", reply('{"result":1}'), reply('{"result":2}'))
    counted = found.methods["eth_call"]
    assert (counted.alike, counted.different, counted.unanswered) == (1, EXAMPLES + 2, 1)
    assert found.forbidden == EXAMPLES + 2
    assert [one.method for one in found.examples()] == ["eth_call"] * EXAMPLES + ["net_peerCount"]
    assert next(found.examples()).params == "[0]"
