"""The comparison of storage engines works with those that are installed; what it finds is not judged here."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from benchmarks import engine_trials
from benchmarks.disk_engines import SHORT, Size, fill, look_up, measure
from benchmarks.disk_stalls import Stalls, figures, stalls
from benchmarks.engine_trials import OUTCOMES, WAYS, ProcessEndedError, apart, damaged, killed, shared
from benchmarks.engines import ALL, CANDIDATES, batch_of, drop_from_page_cache, missing, name_of, opened, value_of
from rpcaccel.bench.load.progress import Watch

HERE = sorted(set(ALL) - set(missing(ALL)))


@pytest.mark.parametrize("engine", HERE)
def test_an_engine_keeps_what_was_written_last(engine: str, tmp_path: Path) -> None:
    database = opened(engine, tmp_path)
    database.put(batch_of(0, 340))
    database.put([(name_of(1), b"newer")])
    database.catch_up()
    assert (database.get(name_of(0)), database.get(name_of(1))) == (value_of(0, 340), b"newer")
    assert database.get(name_of(500)) is None
    database.close()
    assert fill(engine, tmp_path, 340, 2_000, 10.0).rate > 0
    drop_from_page_cache(tmp_path)
    assert len(look_up(engine, tmp_path, 340, 2_000, 50, warm=True).times) == 50


def test_entries_differ_and_are_the_same_every_time() -> None:
    assert len(dict(batch_of(0, 340))) == len(set(dict(batch_of(0, 340)).values())) == 500
    assert {len(value) for _, value in batch_of(7, 1_700)} == {1_700}
    assert batch_of(3, 340) == batch_of(3, 340)


def test_what_is_not_measured_is_written_all_the_same(tmp_path: Path) -> None:
    fill("SQLite", tmp_path, 340, 10_000, 0.0)
    assert len(look_up("SQLite", tmp_path, 340, 10_000, 2_000, warm=False).times) == 2_000


def test_a_process_that_fails_dies_or_hangs_is_told_apart() -> None:
    assert apart(max, 1, 2) == 2
    with pytest.raises(RuntimeError, match="ValueError"):
        apart(int, "x")
    with pytest.raises(ProcessEndedError) as died:
        apart(signal.raise_signal, signal.SIGKILL)
    assert (died.value.signal, died.value.hung) == (signal.SIGKILL, False)
    with pytest.raises(ProcessEndedError) as hung:
        apart(signal.pause, patience=0.1)
    assert hung.value.hung


@pytest.mark.parametrize("harm", [engine_trials.flip, engine_trials.overwrite, engine_trials.cut])
def test_damage_changes_a_file(harm: engine_trials.Harm, tmp_path: Path) -> None:
    file = tmp_path / "file"
    before = random.Random(1).randbytes(10_000)
    file.write_bytes(before)
    harm(file, random.Random(2))
    after = file.read_bytes()
    assert after != before
    assert len(after) <= len(before)


def test_every_trial_of_damage_has_an_outcome(tmp_path: Path) -> None:
    for way in WAYS:
        outcomes, _ = damaged("SQLite", tmp_path, way, 2, 1_000, seed=1)
        assert outcomes.total() == 2
        assert set(outcomes) <= set(OUTCOMES)


def test_what_was_committed_survives_a_kill(tmp_path: Path) -> None:
    found = killed("SQLite", tmp_path / "killed", 2, random.Random(1))
    assert found.committed > 0
    assert (found.kills, found.lost, found.wrong) == (2, 0, 0)


def test_two_processes_write_one_sqlite_file_and_see_each_other(tmp_path: Path) -> None:
    found = shared("SQLite", tmp_path, 0.2, 5)
    assert found.together
    assert len(found.seen) == 5


@pytest.mark.parametrize("way", ["no lookups", "inline", "thread"])
def test_the_loop_takes_every_pulse_and_gets_every_entry(way: str, tmp_path: Path) -> None:
    fill("SQLite", tmp_path, 340, 1_000, 10.0)
    run: Stalls = apart(stalls, "SQLite", tmp_path, way, 1_000, 0.2, 1)
    assert len(run.late) == 200
    assert (len(run.warm), len(run.cold)) == ((0, 0) if way == "no lookups" else (400, 100))
    times, busy = figures([run])
    assert times[0] is not None
    assert 0 < busy < 2


@pytest.mark.deep
def test_the_report_has_all_tables_and_names_what_is_not_installed() -> None:
    report = measure(Watch(), SHORT)
    assert [table.title for table in report.tables] == [
        "How late the event loop is", "Damaged files", "Killed while writing", "Two processes", "Speed and size",
    ]  # fmt: skip
    absent = list(missing(CANDIDATES))
    assert [remark.partition(" was")[0] for remark in report.remarks if "not installed" in remark] == absent
    for table in report.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_some_run_has_more_than_five_gigabytes() -> None:
    assert max(length * entries for length, entries in Size().fills) > 5e9


def test_the_folder_of_a_damaged_database_is_a_copy(tmp_path: Path) -> None:
    damaged("SQLite", tmp_path, "cut short", 1, 1_000, seed=1)
    sizes = {name: (tmp_path / "original" / name).stat().st_size for name in os.listdir(tmp_path / "original")}
    damaged("SQLite", tmp_path, "cut short", 2, 1_000, seed=2)
    assert {name: (tmp_path / "original" / name).stat().st_size for name in sizes} == sizes
