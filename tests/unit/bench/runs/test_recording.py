"""What a file of recorded calls holds, and what of it may be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Raw

from rpcaccel.bench.runs.recording import (
    Line,
    RecordingError,
    RecordingHeader,
    choose,
    encode,
    follow,
    is_read,
    read,
)

HEAD = RecordingHeader(1, "0.1.0", "2026-01-01T00:00:00+00:00", 0.5)


def line(method: str = "eth_gasPrice", params: str = "[]", **more: object) -> Line:
    return Line(**{"at": 0.0, "method": method, "params": Raw(params.encode()), "network": "s0", **more})  # type: ignore[arg-type]


def written(tmp_path: Path, *lines: bytes) -> Path:
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"\n".join((encode(HEAD), *lines, b"")))
    return file


def test_a_file_is_read_in_the_order_in_which_calls_came(tmp_path: Path) -> None:
    late, early = line(at=2.0, params="[1e28]"), line(at=1.0, head=7, block=6, ms=0.25, source="memory")
    head, lines = read(written(tmp_path, encode(late), encode(early)))
    assert head == HEAD
    assert lines == [early, late]
    assert lines[1].call.body(3) == b'{"jsonrpc":"2.0","id":3,"method":"eth_gasPrice","params":[1e28]}'


def test_a_last_line_that_was_cut_off_is_left_out_and_any_other_fault_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, encode(line()))
    file.write_bytes(file.read_bytes() + b'{"at": 1, "meth')
    assert len(read(file)[1]) == 1
    with pytest.raises(RecordingError, match=r"calls\.jsonl, line 2: .*method"):
        read(written(tmp_path, b'{"at": 1}'))
    file.write_text('{"jsonrpc": "2.0"}\n')
    with pytest.raises(RecordingError, match="no recording"):
        read(file)
    file.write_text('{"recording": 2}\n')
    with pytest.raises(RecordingError, match="found version 2, expected 1"):
        read(file)
    file.write_bytes(b'{"recording": 1, "rpcaccel": "\xff"}')
    with pytest.raises(RecordingError, match="no recording"):
        read(file)


def test_only_reads_are_chosen_and_the_rest_is_counted_by_reason() -> None:
    lines = [
        line(),
        line("eth_sendRawTransaction", '["ab"]', hashed=True),
        line("eth_sendRawTransaction", '["0xf8"]'),
        line("eth_newFilter"),
        line("nobody_knowsThis"),
    ]
    chosen = choose(HEAD, lines)
    assert [one.method for one in chosen.lines] == ["eth_gasPrice"]
    assert chosen.left_out == {
        "transactions, of which only the hash was recorded": 1,
        "writes, filters, and methods that no rule knows": 3,
    }
    asked = choose(HEAD, lines, writes=True)
    assert [one.method for one in asked.lines][1:] == ["eth_sendRawTransaction", "eth_newFilter", "nobody_knowsThis"]


def test_of_several_networks_one_is_to_be_named() -> None:
    lines = [line(network="s0"), line(network="s1"), line(network="s1")]
    with pytest.raises(RecordingError, match="calls to s0, s1"):
        choose(HEAD, lines)
    chosen = choose(HEAD, lines, network="s0")
    assert len(chosen.lines) == 1
    assert chosen.left_out == {"of another network": 2}


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("hmyv2_getBlocks", True),
        ("eth_call", True),
        ("hmyv2_sendRawTransaction", False),
        ("eth_getFilterChanges", False),
    ],
)
def test_what_reads_is_known_from_the_chains(method: str, read: bool) -> None:
    assert is_read(method) is read


@pytest.mark.parametrize(
    ("params", "block", "first", "moved"),
    [
        ("[95, {}]", 95, None, "[995, {}]"),
        ('["0x5F"]', 95, None, '["0x5F"]'),  # nodes read it; it is left alone where it is spelt otherwise
        ('[{"data": "0x5f"}, "0x5f"]', 95, None, '[{"data": "0x3e3"}, "0x3e3"]'),
        ('["95", 1e28]', 95, None, '["995", 1e28]'),
        ("[90, 95, {}]", 95, 90, "[990, 995, {}]"),
        ('["latest"]', 100, None, '["latest"]'),
        ('["a\\"95", 950]', 95, None, '["a\\"95", 950]'),
    ],
)
def test_calls_near_the_head_can_be_moved_along_with_it(params: str, block: int, first: int | None, moved: str) -> None:
    found = follow(line(params=params, head=100, block=block, first=first), 1000)
    assert bytes(found.params).decode() == moved


def test_calls_about_old_blocks_stay_where_they_are() -> None:
    old = line(params="[95]", head=100_000, block=95)
    assert follow(old, 1000) is old
    unknown = line(params="[95]", block=95)
    assert follow(unknown, 1000) is unknown
