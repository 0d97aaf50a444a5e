"""The measurement of the disk tier works; what it finds is not judged here."""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import blocks, disk, disk_inside, quiet, uncached
from benchmarks.responder import Responder
from rpcaccel.bench.load.progress import Watch


@pytest.mark.deep
def test_every_figure_is_told_beside_the_one_that_is_wanted() -> None:
    report = disk.measure(Watch(), disk.Size(3_000, 0.2, 1, 0.0, filled=500, before=600, window=300))
    (table,) = report.tables
    assert table.columns == ("", "wanted", "measured", "reached")
    assert [row[0].partition(" ")[0] for row in table.rows] == [
        "processor", "processor", "500", "p99", "500", "p99", "p99", "bytes", "writes", "hit", "the",
    ]  # fmt: skip
    assert {row[3] for row in table.rows} <= {"yes", "no", "–"}


def test_a_block_is_as_long_as_one_of_harmony_and_names_the_one_before_it() -> None:
    first, second = (json.loads(blocks.block(number)) for number in (5, 6))
    assert second["parentHash"] == first["hash"] != second["hash"]
    assert first["number"] == "0x5"
    assert 1_600 <= len(blocks.block(20_000_000)) <= 1_700


def test_a_node_answers_calls_for_different_blocks_with_different_blocks() -> None:
    asked = b'{"id":1,"method":"eth_getBlockByNumber","params":["0x7",false]}'
    assert blocks.block(7) in Responder(100, differing_blocks=True).answer(asked)
    assert blocks.block(7) not in Responder(100).answer(asked)


async def test_what_blocks_take_on_the_disk_is_counted(tmp_path: Path) -> None:
    found = await disk_inside.fill(tmp_path / "tier", 300)
    assert found.number == 300
    assert found.on_disk > 0
    assert found.answers == sum(len(blocks.block(number)) for number in range(300))


async def test_the_explorer_goes_on_behind_a_restart(tmp_path: Path) -> None:
    found = await disk_inside.restart(tmp_path / "tier", 900, 300)
    assert 0 < found.after <= 1
    assert found.after_without <= found.after
    assert found.before_without <= found.before


def test_a_history_is_another_answer_at_another_head() -> None:
    asked = list(islice(disk_inside.requests(), 3_000))
    histories = {one.key.rpartition(b"@")[2] for one in asked if not one.lasting}
    assert histories <= {b"0", b"1", b"2", b"3", b"4"}
    assert len(histories) > 1
    assert not [one for one in asked if one.lasting and b"History" in one.key]


def test_pages_are_dropped_and_the_file_is_what_it_was(tmp_path: Path) -> None:
    file = tmp_path / "cache-1.sqlite3"
    file.write_bytes(os.urandom(8192))
    before = file.read_bytes()
    uncached.drop(tmp_path)
    uncached.load(tmp_path)
    assert file.read_bytes() == before
    assert "ms" in disk.probe(tmp_path, 2)


def test_only_the_quietest_runs_count() -> None:
    runs = disk.Runs[int](["a"], 2, 0.0)
    runs.made["a"] = [disk.Run(1, [], 0.9), disk.Run(2, ["late"], 0.0), disk.Run(3, [], 0.1), disk.Run(4, [], 0.5)]
    assert runs.of("a") == [3, 4]
    assert runs.disturbed() == 0.3
    assert runs.doubts() == []


def test_a_run_is_made_again_only_where_others_disturb() -> None:
    made: list[str] = []

    def one(case: str) -> disk.Run[None]:
        made.append(case)
        return disk.Run(None, [])

    disk.Runs[None](["a", "b"], 2, 0.0).make(one, Watch())
    assert made[:4] == ["a", "b", "b", "a"]
    assert len(made) <= 2 * 2 * disk.MORE


def test_what_this_process_takes_is_not_taken_by_others() -> None:
    assert quiet.busy(["cpu  100 0 50 1000 500 0 10 40 7 7", "cpu0 1 1"]) == pytest.approx(
        200 / os.sysconf("SC_CLK_TCK")
    )
    before = quiet.Look(10.0, 5.0, 1.0)
    assert quiet.others(before, quiet.Look(12.0, 8.0, 3.0)) == 0.5
    assert quiet.others(before, quiet.Look(12.0, 6.0, 3.0)) == 0.0
    assert quiet.settle(100.0, 5.0) < 5.0
