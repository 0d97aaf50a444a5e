"""What is read at sight is what the long way reads, for every method of every chain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel import chains
from rpcaccel.core.memo import MIN_BYTES, Memos
from rpcaccel.core.plan import fast_params
from rpcaccel.core.plan.chain_snapshot import ChainSnapshot
from rpcaccel.core.plan.fast_params import ParamsReader
from rpcaccel.core.plan.params import Shape, read_shape
from rpcaccel.core.plan.rules import Rule

CHAINS = {name: chains.load(name) for name in ("harmony", "ethereum")}
RULES = [(rule, chain.tags) for chain in CHAINS.values() for rule in chain.rules]
VIEWS = (ChainSnapshot(), ChainSnapshot(head=1000, finalized=900), ChainSnapshot(head=7))
HASH, ADDRESS = "0x" + "aB" * 32, "0x" + "c0" * 20
REFERENCES: list[Any] = [
    "latest", "pending", "earliest", "finalized", "safe", "Latest", "0x10", "0x0010", "16", "0x", "", HASH, 16, 0, -1,
    -2, -3, 10**18, 10**19, 1.5, None, True, False, {"blockNumber": "0x10"},
    {"blockHash": HASH, "requireCanonical": True},
]  # fmt: skip
NAMES = ["to", "data", "input", "Input", "gas", "To", "a", "ab", "a_b", "withSigners", "fullTx", "blockHash"]
words = st.sampled_from([ADDRESS, HASH, "a,b", "a b", "a: b", "é", "\u0000", "\x7f", "{", "[", '"', "\\", "0x"])
values = st.one_of(words, st.sampled_from(REFERENCES), st.integers(-5, 2**70), st.booleans(), st.none())
items = st.one_of(values, st.dictionaries(st.sampled_from(NAMES), values, max_size=4), st.just([1]))
texts = st.builds(
    lambda tree, spaces, ascii_only: json.dumps(tree, separators=spaces, ensure_ascii=ascii_only).encode(),
    st.lists(items, max_size=4),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":"), (",  ", ":")]),
    st.booleans(),
)
odd = st.sampled_from(
    [b"[]", b"{}", b"null", b"", b"[ ]", b"[1,]", b"[,]", b"[01]", b"[-0]", b"[1e5]", b"[nul]", b"[tru e]", b'["a""b"]',
     b'["a"] x', b'["a"]\n', b'["\xff"]', b'[{"a":1}{"b":2}]', b'[{"to":1,"to":2}]', b'[{"to":1,"To":2},"latest"]',
     b'[{"b":1,"a":2},"latest"]', b'[{"ab":1,"a":2,"a_b":3}, "latest"]']
)  # fmt: skip


def seen(shape: Shape) -> tuple[Any, ...]:
    """All that anybody asks of a shape."""
    return (
        [shape.resolve(view) for view in VIEWS], shape.depth, shape.epoch, shape.first_param, shape.route_params,
        shape.note, shape.by_hash, shape.canonical_only, shape.pending, shape.tip, shape.resolvable, shape.opaque,
        shape.params,
    )  # fmt: skip


@given(st.sampled_from(RULES), st.one_of(texts, odd))
def test_what_is_read_at_sight_is_what_the_long_way_reads(of: tuple[Rule, frozenset[str]], params: bytes) -> None:
    rule, tags = of
    found = ParamsReader(rule.method, rule, tags, Memos()).read(params)
    if found is not None:
        assert seen(found) == seen(read_shape(rule.method, params, rule, tags))


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_getBalance", f'["{ADDRESS}","latest"]'),
        ("eth_getBalance", f'["{ADDRESS}", "0x10"]'),
        ("eth_call", f'[{{"to":"{ADDRESS}","data":"0x00"}},"latest"]'),
        ("eth_call", f'[{{"to": "{ADDRESS}", "data": "0x00"}}, "latest"]'),
        ("eth_getTransactionReceipt", f'["{HASH}"]'),
        ("hmyv2_getBlockByNumber", "[16,{}]"),
        ("hmyv2_getBalance", '["one1x"]'),
    ],
)
def test_ordinary_calls_are_read_at_sight(method: str, params: str) -> None:
    chain = CHAINS["harmony"]
    assert ParamsReader(method, chain.rules.get(method), chain.tags, Memos()).read(params.encode()) is not None


@pytest.mark.parametrize("params", ['["a\\u0041","latest"]', '["é","latest"]', f'["{ADDRESS}"]', '[[],"latest"]'])
def test_what_is_not_certain_is_left_to_the_long_way(params: str) -> None:
    chain = CHAINS["harmony"]
    reader = ParamsReader("eth_getBalance", chain.rules.get("eth_getBalance"), chain.tags, Memos())
    assert reader.read(params.encode()) is None


def test_long_params_are_left_to_the_long_way() -> None:
    chain = CHAINS["harmony"]
    text = b'["%b"]' % (b"a" * fast_params.MAX_FAST_BYTES)
    reader = ParamsReader("eth_chainId", chain.rules.get("eth_chainId"), chain.tags, Memos())
    assert reader.read(text) is None
    assert reader.read(text[:-9] + b'"]') is not None


def test_remembering_references_is_bounded() -> None:
    chain = CHAINS["harmony"]
    reader = ParamsReader("eth_getBalance", chain.rules.get("eth_getBalance"), chain.tags, Memos(MIN_BYTES))
    for number in range(10_000):
        reader.read(b'["a","0x%x"]' % number)
        reader.read(b'["a","%0200x"]' % number)
    assert 1000 < len(reader._refs) < 4096
    assert max(map(len, reader._refs)) < 20
