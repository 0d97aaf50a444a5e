"""Two answers of nodes, compared by value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpcaccel import chains
from rpcaccel.core.agreement.equality import (
    LONGEST_PATH,
    LONGEST_SHOWN,
    MAX_COMPARED_BYTES,
    MOST_VALUES,
    NOT_COMPARED,
    ComparisonMode,
    Differences,
    Incomparable,
    MemberDifference,
    comparable,
    difference,
)
from tests.support import nesting

STRICT = Differences()


def may(way: ComparisonMode, *names: str, values: tuple[str, ...] = ()) -> Differences:
    """A table of one entry, for every method."""
    return Differences(members=(MemberDifference(why="a test", methods=("*",), names=names, way=way, values=values),))


def told(one: Any, other: Any, differences: Differences = STRICT) -> str:
    """The difference of two values or JSON texts, which has to be as large from the other side."""
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in (one, other)]
    found = difference(texts[0], texts[1], "eth_any", differences)
    assert bool(found) == bool(difference(texts[1], texts[0], "eth_any", differences))
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": [1, {"c": 2, "d": 3}]}, b'{"b": [1,{"d":3,"c":2}],"a":1}'),
        ("0xAbCd", "0xaBcD"),
        ("0XAB", "0xab"),
        (b"0", b"0.0"),
        (b"-0.0", b"0"),
        (b"0.50", b"5e-1"),
        (b"1E2", b"100"),
        (b"10000000000000000000000000001", b"1.0000000000000000000000000001e28"),
        (b"1e999999", b"10e999998"),
        ({"to": None}, {}),
        ({"logs": [{"to": None, "x": 1}]}, {"logs": [{"x": 1}]}),
        (b'"\\u0030xab"', b'"0xab"'),
        (b'{"a":1,"a":2}', b'{"a":2}'),
    ],
)
def test_what_means_the_same_is_no_difference(one: Any, other: Any) -> None:
    assert told(one, other) == ""


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"a": 1}, {"a": 2}, "result.a: 1 against 2"),
        ([1, 2], [2, 1], "result[0]: 1 against 2"),
        ([1], [1, 1], "result: an array of 1 items against an array of 2 items"),
        (None, {"a": 1}, "result: nothing against an object of 1 members"),
        ({"logs": [{}, {"data": "0x12"}]}, {"logs": [{}, {}]}, "result.logs[1].data: 0x12 against nothing"),
        ({}, {"b": []}, "result.b: nothing against an array of 0 items"),
        ("0x", "0x00", "result: 0x against 0x00"),
        ("0x0", "0x00", "result: 0x0 against 0x00"),
        ("0x1", "0x01", "result: 0x1 against 0x01"),
        ("0x1", 1, "result: 0x1 against 1"),
        ("one1ABC", "one1abc", "result: one1ABC against one1abc"),
        ("0xKg", "0xkg", "result: 0xKg against 0xkg"),
        ("", "0x", 'result: "" against 0x'),
        (True, 1, "result: true against 1"),
        (False, 0, "result: false against 0"),
        ({"a": False}, {}, "result.a: false against nothing"),
        (b"9007199254740993", b"9007199254740992", "result: 9007199254740993 against 9007199254740992"),
        (
            b"10000000000000000000000000001",
            b"10000000000000000000000000000.0",
            "result: 10000000000000000000000000001 against 10000000000000000000000000000.0",
        ),
        (b"1e28", b"1e29", "result: 1e28 against 1e29"),
        (b"1.5", b"-1.5", "result: 1.5 against -1.5"),
        ({"a": {}}, {"a": []}, "result.a: an object of 0 members against an array of 0 items"),
    ],
)
def test_anything_else_is_a_difference_and_is_named(one: Any, other: Any, words: str) -> None:
    assert told(one, other) == words


def test_the_kelvin_sign_is_no_letter_of_a_hex_text() -> None:
    assert told('"0x\u212a"', '"0xk"')


@pytest.mark.parametrize(
    ("way", "names", "one", "other"),
    [
        ("ignored", ["logs.blockHash"], {"logs": [{"blockHash": 1}]}, {"logs": [{"blockHash": {}}]}),
        ("ignored", ["logs.blockHash"], {"logs": [{"blockHash": 1}]}, {"logs": [{}]}),
        ("ignored", ["a.b.c"], [{"a": [{"b": {"c": 1}}]}], [{"a": [{"b": {"c": 2}}]}]),
        ("optional", ["size"], [{"size": 5}], [{}]),
        ("optional", ["size"], [{"size": 5}], [{"size": None}]),
        ("empty", ["x"], [{"x": v} for v in ([], {}, "", "0x", "0x0", 0, False, None)], [{}] * 8),
        ("number", ["r"], {"r": "0x01"}, {"r": "0x1"}),
        ("number", ["r"], {"r": "0x0f"}, {"r": 15}),
        ("number", ["r"], {"r": "15"}, {"r": "0xF"}),
        ("number", ["r"], {"r": ["0x01", "0x02"]}, {"r": ["0x1", "0x2"]}),
        ("number", ["."], "0x" + "0" * 63 + "5", "0x5"),
        ("set", ["peers"], {"peers": ["b", "a", "a"]}, {"peers": ["a", "b", "a"]}),
        ("set", ["."], ["0xB", {"a": 1, "b": 2}, "0xA"], ["0xa", "0xb", {"b": 2, "a": 1}]),
        ("set", ["."], [1, 2.0], b"[2,1.0]"),
        ("rounded", ["ratio"], {"ratio": [0.12345678901]}, {"ratio": [0.123456789]}),
        ("rounded", ["ratio"], {"ratio": [1]}, {"ratio": [0.9999999999]}),
    ],
)
def test_what_the_table_allows_is_no_difference(way: ComparisonMode, names: list[str], one: Any, other: Any) -> None:
    assert told(one, other)
    assert told(one, other, may(way, *names)) == ""


@pytest.mark.parametrize(
    ("way", "names", "one", "other"),
    [
        ("ignored", ["logs.blockHash"], {"blockHash": 1}, {"blockHash": 2}),
        ("ignored", ["logs.blockHash"], {"logs": {"a": {"blockHash": 1}}}, {"logs": {"a": {"blockHash": 2}}}),
        ("optional", ["size"], {"size": 5}, {"size": 6}),
        ("optional", ["a"], {"a": {"b": 1}}, {"a": {"b": 2}}),
        ("empty", ["x"], {"x": "0x00"}, {}),
        ("empty", ["x"], {"x": 1}, {}),
        ("empty", ["x"], {"x": True}, {}),
        ("empty", ["x"], {"x": []}, {"x": 0}),
        ("number", ["r"], {"r": "0x10"}, {"r": "10"}),
        ("number", ["r"], {"r": "0x1" + "0" * 64}, {"r": "0x01" + "0" * 64}),
        ("number", ["r"], {"r": "0x"}, {"r": "0x0"}),
        ("number", ["r"], {"r": True}, {"r": 1}),
        ("number", ["r"], {"r": "0x1"}, {}),
        ("set", ["peers"], {"peers": ["a", "a", "b"]}, {"peers": ["a", "b", "b"]}),
        ("set", ["peers"], {"peers": [["a", "b"]]}, {"peers": [["b", "a"]]}),
        ("rounded", ["ratio"], {"ratio": [0.5]}, {"ratio": [0.51]}),
        ("rounded", ["ratio"], {"ratio": [0.5]}, {"ratio": [0.5, 0.5]}),
    ],
)
def test_what_the_table_does_not_allow_is_a_difference(
    way: ComparisonMode, names: list[str], one: Any, other: Any
) -> None:
    assert told(one, other, may(way, *names))


def test_several_entries_for_one_member_hold_together() -> None:
    both = Differences(members=may("optional", "t").members + may("number", "t").members)
    assert [told({"t": "0x01"}, other, both) for other in ({}, {"t": 1})] == ["", ""]
    assert told({"t": "0x01"}, {"t": 2}, both) == "result.t: 0x01 against 2"


def test_items_of_a_set_are_matched_although_their_own_members_may_differ() -> None:
    table = Differences(members=may("set", "list", "keys").members + may("optional", "note").members)
    one = {"list": [{"id": 1, "keys": ["a", "b"], "note": "x"}, {"id": 2, "keys": []}]}
    assert told(one, {"list": [{"keys": [], "id": 2, "note": "y"}, {"keys": ["b", "a"], "id": 1}]}, table) == ""
    assert told(one, {"list": [{"keys": [], "id": 2}, {"keys": ["b", "c"], "id": 1}]}, table)


def test_values_that_mean_the_same_are_alike_to_each_other_and_to_nothing_else() -> None:
    table = may("alike", "codeHash", values=("0x00", "0xc5"))
    assert told({"codeHash": "0x00"}, {"codeHash": "0xC5"}, table) == ""
    assert told({"codeHash": "0x00"}, {"codeHash": "0xc6"}, table) == "result.codeHash: 0x00 against 0xc6"


def test_only_an_alike_entry_has_values() -> None:
    for way, values in (("alike", ()), ("number", ("0x0",))):
        with pytest.raises(ValueError, match="`values` belongs to the way"):
            may(way, "x", values=values)  # type: ignore[arg-type]


def test_an_entry_holds_for_its_methods_alone() -> None:
    row = MemberDifference(why="a test", methods=("eth_getBlockBy*",), names=("x",), way="ignored")
    table = Differences(members=(row,), never=(Incomparable(why="a test", methods=("trace_*", "eth_syncing")),))
    assert difference(b'{"x":1}', b'{"x":2}', "eth_getBlockByHash", table) == ""
    assert difference(b'{"x":1}', b'{"x":2}', "eth_getblockbyhash", table)
    compared = ["eth_getBlockByHash", "eth_syncing2", "debug_trace_x", "Trace_block"]
    assert all(comparable(method, table) for method in compared)
    assert not any(comparable(method, table) for method in ("trace_block", "trace_", "eth_syncing"))


# -- strangers' bytes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [b"", b"{", b"nul", b'"\xff"', b"[1,]", b'{"a":1}}', b'"\\ud800"', b"NaN", b"1" * 6000, b"\x00", b"'a'"]
)
def test_what_is_no_json_differs_from_what_is(text: bytes) -> None:
    assert told(text, b"1") == "result: a text that is no JSON against 1"
    assert told(text, text + b" ") or text == b""
    assert difference(text, text, "eth_any", STRICT) == ""


@pytest.mark.parametrize("depth", [500, 5_000, 200_000])
@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_followed_as_far_as_msgspec_reads_it(depth: int, start: bytes, end: bytes) -> None:
    one, other = (start * depth + leaf + end * depth for leaf in (b"1", b"2"))
    found = told(one, other)
    if nesting.reads(depth):
        assert len(found) <= LONGEST_PATH + 20
        assert found.endswith(": 1 against 2")
        assert told(one, one + b" ") == ""
    else:
        assert found == f"{NOT_COMPARED}nested too deeply"
        assert told(one, b"1") == "result: a text that nests too deeply against 1"


def test_a_deep_set_is_not_compared_rather_than_overflowing() -> None:
    one, other = (b"[" * 900 + leaf + b"]" * 900 for leaf in (b'"a"', b'"b"'))
    assert told(one, other, may("set", ".")) != ""
    deep = may("set", "a")
    one, other = (b'{"a":[' * 450 + leaf + b"]}" * 450 for leaf in (b"1,2", b"2,1"))
    assert told(one, other, deep).startswith(NOT_COMPARED) or told(one, other, deep) == ""


@pytest.mark.parametrize("number", [b"1e" + b"9" * 5000, b"1." + b"0" * 100_000 + b"1", b"1e-99999999999999999999"])
def test_huge_numbers_neither_raise_nor_take_long(number: bytes) -> None:
    assert told(number, b"1") != ""
    assert told(number, b"[" + number + b"]") != ""
    assert told(b'{"a":' + number + b"}", b'{"a":0.5}', may("rounded", "a")) != ""


def test_long_answers_are_compared_to_the_byte_only() -> None:
    long = b'["' + b"a" * MAX_COMPARED_BYTES + b'"]'
    assert told(long, bytes(long)) == ""
    assert told(long, long + b" ") == f"{NOT_COMPARED}longer than {MAX_COMPARED_BYTES} bytes"
    assert told(long, b"[]") == f"result: {len(long)} bytes against 2 bytes"


def test_answers_of_many_values_are_not_compared_to_their_end() -> None:
    many = b"[" + b"1," * MOST_VALUES + b"1]"
    for table in (STRICT, may("set", ".")):
        assert told(many, many + b" ", table) == f"{NOT_COMPARED}more than {MOST_VALUES} values"


def test_what_is_shown_of_strangers_texts_is_short_and_printable() -> None:
    found = told({"\x1b[2J" + "n" * 900: "\n" + "v" * 900}, {})
    assert found.isprintable()
    assert len(found) <= LONGEST_PATH + 2 * LONGEST_SHOWN + 20
    assert found.startswith("result.\\x1b[2Jnnn")
    assert told({f"{'n' * 39}{i}": {"m" * 50: i} for i in range(3)}, {}).isprintable()


# -- the chains' own tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", chains.names())
def test_what_differs_by_node_is_never_compared(name: str) -> None:
    chain = chains.load(name)
    for rule in chain.rules:
        if rule.cache in ("node", "never"):
            assert not comparable(rule.method, chain.differences), rule.method


@pytest.mark.parametrize("name", chains.names())
def test_facts_about_blocks_and_state_are_compared(name: str) -> None:
    table = chains.load(name).differences
    methods = (
        "getBlockByNumber",
        "getTransactionReceipt",
        "getLogs",
        "getBalance",
        "call",
        "getCode",
        "getBlockReceipts",
    )
    assert all(comparable(f"eth_{method}", table) for method in methods)


@pytest.mark.parametrize("name", chains.names())
def test_every_pattern_of_a_table_names_a_method_of_its_chain(name: str) -> None:
    chain = chains.load(name)
    methods = [rule.method for rule in chain.rules]
    for row in (*chain.differences.members, *chain.differences.never):
        for pattern in row.methods:
            only = Differences(never=(Incomparable(why="", methods=(pattern,)),))
            assert any(not comparable(method, only) for method in methods), pattern


BLOCK, TX, RECEIPT, LOGS = (
    "eth_getBlockByNumber",
    "eth_getTransactionByHash",
    "eth_getTransactionReceipt",
    "eth_getLogs",
)
ZEROS, NO_CODE = "0x" + "0" * 64, "0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"


@pytest.mark.parametrize(
    ("method", "one", "other", "false"),
    [
        (BLOCK, {"hash": "0xa", "totalDifficulty": "0x0"}, {"hash": "0xa", "totalDifficulty": "0xc7"}, {"hash": "0xb"}),
        (BLOCK, {"requestsHash": "0xe3"}, {}, {"requestsHash": "0xe4"}),
        (BLOCK, {"nonce": "0x0000000000000042"}, {"nonce": "0x42"}, {"nonce": "0x0000000000000043"}),
        (BLOCK, {"author": "0xA", "miner": "0xA"}, {"miner": "0xa"}, {"author": "0xb", "miner": "0xa"}),
        (TX, {"type": "0x0", "accessList": None}, {}, {"type": "0x2", "accessList": None}),
        (TX, {"accessList": []}, {}, {"accessList": [{"address": "0xa", "storageKeys": []}]}),
        (TX, {"r": "0x00ab", "v": "0x1", "yParity": "0x1"}, {"r": "0xab", "yParity": "0x1"}, {"r": "0xab", "v": "0x0"}),
        (TX, {"input": "0x00", "data": "0x00"}, {"input": "0x00"}, {"input": "0x0"}),
        (TX, {"type": "0x00"}, {"type": "0x0"}, {"type": "0x01"}),
        (RECEIPT, {"blockTimestamp": "1795369222"}, {"blockTimestamp": "0x6b032906"}, {"blockTimestamp": "0x6b032907"}),
        (RECEIPT, {"gasUsed": "0x1", "blobGasPrice": "0x1"}, {"gasUsed": "0x1"}, {"gasUsed": "0x2"}),
        (
            RECEIPT,
            {"root": "0xab", "gasUsed": "0x1"},
            {"status": "0x1", "gasUsed": "0x1"},
            {"gasUsed": "0x1", "root": "0x"},
        ),
        (RECEIPT, {"contractAddress": None, "logs": []}, {"logs": []}, {"contractAddress": "0xa", "logs": []}),
        (LOGS, [{"removed": False, "transactionLogIndex": "0x0"}], [{}], [{"removed": True}]),
        ("eth_getStorageAt", ZEROS[:-2] + "5d", "0x5d", ZEROS[:-2] + "5e"),
        (
            "eth_getProof",
            {"storageProof": [{"value": "0x04", "key": "0x01"}]},
            {"storageProof": [{"value": "0x4", "key": ZEROS[:-1] + "1"}]},
            {"storageProof": [{"value": "0x40", "key": "0x01"}]},
        ),
        ("eth_getProof", {"codeHash": ZEROS}, {"codeHash": NO_CODE}, {"codeHash": NO_CODE[:-1] + "1"}),
        (
            "eth_feeHistory",
            {"gasUsedRatio": [0, 0.1234567890123]},
            {"gasUsedRatio": [0.0, 0.123456789]},
            {"gasUsedRatio": [0, 0.1235]},
        ),
        ("eth_feeHistory", {"reward": []}, {}, {"reward": [["0x1"]]}),
    ],
)
def test_clients_of_ethereum_spell_the_same_in_these_ways_and_no_further(
    method: str, one: Any, other: Any, false: Any
) -> None:
    table = chains.load("ethereum").differences
    texts = [json.dumps(value).encode() for value in (one, other, false)]
    assert difference(texts[0], texts[1], method, STRICT) != "" or one == {"contractAddress": None, "logs": []}
    assert difference(texts[0], texts[1], method, table) == ""
    assert difference(texts[0], texts[2], method, table) != ""


@pytest.mark.parametrize(
    ("chain", "method", "one", "other", "false"),
    [
        (
            *("gnosis", BLOCK, {"hash": 1, "step": 5, "signature": "0xab"}),
            {"hash": 1, "auraStep": 5, "auraSeal": "0xab", "mixHash": ZEROS, "nonce": "0x0000000000000000"},
            {"hash": 1, "step": 6, "signature": "0xab"},
        ),
        ("polygon", BLOCK, {"hash": 1, "miner": ZEROS}, {"hash": 1, "miner": NO_CODE}, {"hash": 2, "miner": ZEROS}),
    ],
)
def test_clients_of_one_chain_show_the_same_in_these_ways_and_no_further(
    chain: str, method: str, one: Any, other: Any, false: Any
) -> None:
    texts = [json.dumps(value).encode() for value in (one, other, false)]
    assert difference(texts[0], texts[1], method, chains.load("ethereum").differences) != ""
    assert difference(texts[0], texts[1], method, chains.load(chain).differences) == ""
    assert difference(texts[0], texts[2], method, chains.load(chain).differences) != ""


@pytest.mark.parametrize(
    ("method", "one", "other"),
    [
        ("eth_getTransactionReceipt", {"logs": [{"blockHash": "0x1"}]}, {"logs": [{"blockHash": "0x2"}]}),
        ("hmyv2_getBlockReceipts", [{"logs": [{"blockHash": "0x1"}]}], [{"logs": [{"blockHash": "0x2"}]}]),
        ("eth_getLogs", [{"blockHash": "0x1"}], [{"blockHash": "0x2"}]),
        ("hmy_getLogs", [{"transactionHash": "0x1"}], [{"transactionHash": "0x2"}]),
        ("hmy_getTransactionReceipt", {"logs": [{"transactionHash": 1}]}, {"logs": [{"transactionHash": 2}]}),
    ],
)
def test_what_a_proposer_keeps_false_on_harmony_is_no_difference(method: str, one: Any, other: Any) -> None:
    table = chains.load("harmony").differences
    texts = json.dumps(one).encode(), json.dumps(other).encode()
    assert difference(*texts, method, table) == ""
    assert difference(*texts, method, STRICT)


@pytest.mark.parametrize(
    ("method", "one", "other"),
    [
        ("eth_getTransactionReceipt", {"blockHash": "0x1"}, {"blockHash": "0x2"}),
        ("eth_getTransactionReceipt", {"logs": [{"transactionHash": 1}]}, {"logs": [{"transactionHash": 2}]}),
        ("eth_getLogs", [{"transactionHash": "0x1"}], [{"transactionHash": "0x2"}]),
        ("hmyv2_getTransactionReceipt", {"transactionHash": "0x1"}, {"transactionHash": "0x2"}),
        ("eth_getLogs", [{"data": "0x1"}], [{"data": "0x2"}]),
    ],
)
def test_anything_else_of_a_receipt_or_log_of_harmony_is_compared(method: str, one: Any, other: Any) -> None:
    texts = json.dumps(one).encode(), json.dumps(other).encode()
    assert difference(*texts, method, chains.load("harmony").differences)
