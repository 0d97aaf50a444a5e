"""Texts taken apart by a loop: as msgspec does where it can, and further where msgspec stops."""

from __future__ import annotations

import json
import string

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from rpcaccel import chains
from rpcaccel.core.cache import retention
from rpcaccel.core.hashing import keccak
from rpcaccel.core.heads import recent_writes
from rpcaccel.core.plan import filter_id, range_segments
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.plan import Plan
from rpcaccel.core.plan.planner import Planner
from rpcaccel.core.plan.range_segments import Piece
from rpcaccel.core.stepwise import at_once
from rpcaccel.core.wire import json_params, json_text
from rpcaccel.core.wire.json_text import NotJson, TooDeep, is_utf8, items, members
from tests.support.properties import examples

WORDS = """
    [ ] { } , : " \\ 0 1 - . e E+ null true false tru [1] [] {} {"x":[]} [[ ]] [1,2,3], {"a":"b"}, 1e5 01
    "a" "a": "b":1 "\\u00e9" "é" \\ud83d\\ude00 \\ud83d \\udc00 \\n \\q
"""
FRAGMENTS = [*WORDS.split(), " ", "\n", "\x01", "\x7f", "9" * 40]
broken = st.builds(
    lambda first, inside, last: (first + "".join(inside) + last).encode(),
    st.sampled_from(["[", "{"]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=8),
    st.sampled_from(["]", "}", "", "]}", "} "]),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(string.printable), inner),
    max_leaves=30,
)  # fmt: skip


def by_msgspec(text: bytes) -> object:
    """What msgspec takes the text apart into; None when it refuses the text."""
    try:
        if text.lstrip().startswith(b"["):
            return [bytes(item) for item in msgspec.json.decode(text, type=list[Raw])]
        return {name: bytes(value) for name, value in msgspec.json.decode(text, type=dict[str, Raw]).items()}
    except msgspec.DecodeError:
        return None


def by_loop(text: bytes) -> object:
    try:
        if text.lstrip().startswith(b"["):
            return [bytes(item) for item in items(text)]
        return {name: bytes(value) for name, value in members(text).items()}
    except NotJson:
        return None


@settings(max_examples=examples(300))
@given(broken)
@example(b"{}")
@example(b'{"a":1,"a":2}')
@example(b'["' + b"\\u00e9x" * 70 + b'",' + b"1," * 1200 + b"[" + b"2," * 130 + b"3]]")
def test_the_loop_takes_and_refuses_what_msgspec_takes_and_refuses(text: bytes) -> None:
    assert by_loop(text) == by_msgspec(text)


@given(values, st.sampled_from([None, 1]), st.booleans())
def test_every_value_is_taken_apart_as_msgspec_does(value: object, indent: int | None, escaped: bool) -> None:
    for whole in ([value, 1], {"a": value, "b": []}):
        text = json.dumps(whole, indent=indent, ensure_ascii=escaped).encode()
        assert by_msgspec(text) is not None
        assert by_loop(text) == by_msgspec(text)


@pytest.mark.parametrize("levels", [1_025, 2_050, 10_000, 20_000])
def test_what_nests_deeply_is_taken_apart_byte_for_byte(levels: int) -> None:
    frame = b'{ "to":"0x1", "input" : "a\\"]}", "calls":['
    deep = frame * (levels // 2) + b"]}" * (levels // 2)
    assert [bytes(item) for item in items(b' [1 , %b, "x"]\n' % deep)] == [b"1", deep, b'"x"']
    found = members(b'{"id":7,"result":%b ,"\\u006Aa":null}' % deep)
    assert {name: bytes(value) for name, value in found.items()} == {"id": b"7", "result": deep, "ja": b"null"}


@pytest.mark.parametrize("end", [b"]" * 4_999, b"]" * 5_001, b"]" * 4_999 + b"}", b",]" + b"]" * 4_999])
def test_deep_text_that_does_not_end_well_is_no_json(end: bytes) -> None:
    with pytest.raises(NotJson):
        items(b"[" * 5_000 + end)


def test_a_text_with_too_many_brackets_or_of_too_great_a_length_is_refused_in_words() -> None:
    with pytest.raises(TooDeep, match="nested too deeply"):
        items(b"[" * 200_000 + b"]" * 200_000)
    with pytest.raises(TooDeep, match="nested too deeply"):
        members(b'{"a":%b}' % (b"[" * 60 + b"]" * 60), most=100)
    with pytest.raises(TooDeep, match="longer than"):
        items(b"[" + b" " * json_text.MAX_TEXT_BYTES + b"]")


@pytest.mark.parametrize("padding", [0, 65_533, 65_534, 65_535, 65_536, 200_000])
@pytest.mark.parametrize(
    ("end", "valid"),
    [
        (b"ascii", True),
        ("é€😀".encode(), True),
        (b"\xff", False),
        (b"\xc3", False),
        (b"\xe2\x82", False),
        (b"\xed\xa0\x80", False),  # a surrogate
        (b"\xc0\x80", False),  # overlong
        ("😀".encode()[:3] + b"x", False),
    ],
)
def test_utf8_is_told_from_what_is_none_wherever_the_slices_of_a_long_text_end(
    padding: int, end: bytes, valid: bool
) -> None:
    assert is_utf8(b"x" * padding + end) is valid


@given(st.binary(max_size=40))
def test_utf8_is_what_python_decodes(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        assert not is_utf8(text)
    else:
        assert is_utf8(text)


DEEP = b'{"calls":[' * 2_000 + b"]}" * 2_000
DEEP_LIST = b"[%b,%b]" % (DEEP, DEEP)


def plans(params: bytes) -> list[Plan]:
    """A plan of one method for each rule of every chain, with these params."""
    view = ChainSnapshot(serial=1, head=100, best=100, final=100, eth_chain_id=1)
    found = []
    for name in chains.names():
        chain = chains.load(name)
        planner = Planner("net", chain.rules, chain.tags, final_at_once=True)
        alike = {replace(rule, method="m", why="", needs=(), limiter=""): rule.method for rule in chain.rules}
        found += [planner.plan(method, params, view) for method in alike.values()]
    return found


@pytest.mark.parametrize("result", [DEEP, DEEP_LIST])
def test_whoever_looks_into_a_deep_result_finds_nothing_there_instead_of_failing(result: bytes) -> None:
    for plan in plans(b'["0x1"]'):
        retention.judge(plan, result, 100, 100, 10_000_000)
        for test in retention.TESTS.values():
            assert test(plan, result) in {True, False}
    assert json_params.number_at(result, "a") is None
    assert at_once(range_segments.share("blocks", result, [Piece(1, 2)])) is None
    assert at_once(range_segments.share("logs", result, [Piece(1, 2), Piece(3, 4)])) is None
    assert at_once(range_segments.within(result, 1, 2)) is None


@pytest.mark.parametrize("params", [b"[%b]" % DEEP, b"[" * 900 + b"]" * 900])
def test_whoever_looks_into_deep_params_passes_them_on(params: bytes) -> None:
    made = plans(params)
    assert {plan.params for plan in made} == {params}
    assert {recent_writes.hash_named(plan) for plan in made} == {None}
    assert keccak.transaction_hash(params) is None
    assert (found := filter_id.read(params, "net", ["a"])) is None or found.params == params


WRAPS = [
    ("[", "]"),
    ('{"a":', "}"),
    ("[1,", ",2]"),
    ('{"b" : [] ,"a":', ',"c":{}}'),
    ("[ ", "\n]"),
    ('{ "]" :\t', " }"),
]


@given(
    st.lists(st.sampled_from(WRAPS), max_size=30),
    st.sampled_from(["1", "[]", "{}", '"]}"', "[ ]", '{"x":[]}', "[[],[]]"]),
    st.integers(0, 500),
    st.sampled_from(["", *'[]{},:"1 ']),
)
def test_brackets_that_follow_each_other_are_read_as_a_parser_reads_them(
    wraps: list[tuple[str, str]], inner: str, at: int, slip: str
) -> None:
    text = '{"r":' + "".join(before for before, _ in wraps) + inner
    text += "".join(after for _, after in reversed(wraps)) + ',"z":1}'
    if slip:
        at %= len(text)
        text = text[:at] + slip + text[at + 1 :]  # in the place of another character
    try:
        right = json.loads(text)
    except ValueError:
        right = None
    if not isinstance(right, dict):
        with pytest.raises(NotJson):
            members(text.encode())
    else:
        assert {name: json.loads(bytes(value)) for name, value in members(text.encode()).items()} == right


@pytest.mark.parametrize("wrong", range(10))
def test_each_bracket_of_a_run_ends_what_it_should(wrong: int) -> None:
    opened = b'[{"a":' * 5
    ends = bytearray(b"}]" * 5)
    assert [bytes(item) for item in items(b"[%b1%b]" % (opened, ends))] == [b"%b1%b" % (opened, ends)]
    ends[wrong] = ord("]") if ends[wrong] == ord("}") else ord("}")
    with pytest.raises(NotJson):
        items(b"[%b1%b]" % (opened, ends))
