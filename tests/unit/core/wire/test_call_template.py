"""What a call says beside its id."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Call

IDS = [
    "1", "0", "123456789012345678901234567890", '"x"', '"a-b c"', '"id"', "01", "00", "-1", "1.5", "1e3", "null",
    "true", '"\\u0031"', '"é"', '""', '"', "1 2", "", "{}", "[1]", '"an id"', '"a,b"', '"a}b"', "\x0b1", "1\x0c",
    "\t7\n",
]  # fmt: skip
MEMBERS = [
    '"jsonrpc":"2.0"', '"method":"m"', '"method":"n"', '"params":[1,{"id":2}]', '"params":{"id":3}', '"id":4',
    '"\\u0069d":5', '"x":"\\"id\\":6"', '"x":"\\"id\\":7,\\"y"', '"Id":8', '"x":{"id":"9"}', '"params":[{"id":1},',
]  # fmt: skip


@st.composite
def templates(draw: st.DrawFn) -> str:
    """Texts of calls and of what is nearly one, with a place for the id."""
    colon = draw(st.sampled_from([":", ":", ": ", " :"]))
    members = [*draw(st.lists(st.sampled_from(MEMBERS), max_size=4)), f'"id"{colon}<>']
    comma = draw(st.sampled_from([",", ",", ", ", " , "]))
    end = draw(st.sampled_from(["}", "}", "}", " } ", "", "}}", ",}"]))
    return "{" + comma.join(draw(st.permutations(members))) + end


@given(templates(), st.sampled_from(IDS), st.sampled_from(IDS))
@example('{"id":<>,"method":"m","id":1}', "1", "2")
@example('{"method":"m","id":<>}', "1", "\x0b1")
@example('{"method":"m","id":<>}', "1", "1,")
@example('{"method":"m","id":<>}', "1", "01")
def test_whatever_has_a_wording_that_holds_is_the_same_call_with_its_own_id(template: str, one: str, two: str) -> None:
    known, asked = (template.replace("<>", name).encode() for name in (one, two))
    words, call_id = jsonrpc.split_template(asked)
    if not call_id or words != jsonrpc.split_template(known)[0] or not jsonrpc.template_holds(words):
        return
    first, second = jsonrpc.decode(known), jsonrpc.decode(asked)
    assert isinstance(first, Call)
    assert second == Call(first.method, first.params, call_id)


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":<>,"method":"m","params":["a"]}',
        b'{"method":"m","params":["a"],"id":<>,"jsonrpc":"2.0"}',
        b'{"method":"m","params":["a"],"id":<>}',
        b'{"jsonrpc": "2.0", "method": "m", "params": ["a"], "id": <>}',
    ],
)
@pytest.mark.parametrize("call_id", [b"0", b"7", b"70", b'"x-1"'])
def test_clients_of_every_kind_are_understood(text: bytes, call_id: bytes) -> None:
    words, found = jsonrpc.split_template(text.replace(b"<>", call_id))
    assert found == call_id
    assert words != jsonrpc.NO_TEMPLATE
    assert jsonrpc.template_holds(words)
    assert jsonrpc.split_template(text.replace(b"<>", b"12345"))[0] == words


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"method":"m"}',
        b'{"id":1.5,"method":"m"}',
        b'{"id":null,"method":"m"}',
        b'"id":1',
        b'{"id":01,"method":"m"}',
    ],
)
def test_what_has_no_plain_id_has_no_wording(text: bytes) -> None:
    assert jsonrpc.split_template(text) == (jsonrpc.NO_TEMPLATE, b"")
    assert not jsonrpc.template_holds(jsonrpc.NO_TEMPLATE)


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1,"method":"m","id":1}',
        b'{"method":"m","params":[{"id":1}]}',
        b'{"id":1,"method":"m","\\u0069d":1}',
        b'[{"id":1,"method":"m"}]',
        b'{"id":1,"method":"m"',
        b'{"id":1,"method":"an id","x":"an id"}'.replace(b"an id", b'"an id","another id","a third id"'),
    ],
)
def test_an_id_that_only_seems_to_be_one_does_not_hold(text: bytes) -> None:
    words, call_id = jsonrpc.split_template(text)
    assert call_id
    assert not jsonrpc.template_holds(words)
