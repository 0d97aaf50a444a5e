"""The file itself: written in batches, bounded, purged, shared, and begun anew when it cannot be trusted."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from rpcaccel.core.cache.entry import Damage, Entry, Selection
from rpcaccel.stores.disk.database import PAGE, VERSION
from rpcaccel.stores.disk.disk_fault import DiskFault, DiskFaultKind
from rpcaccel.stores.disk.folder import Folder
from rpcaccel.stores.disk.reading import PREFIXES_EVERY, Reading
from rpcaccel.stores.disk.turns import MOST
from rpcaccel.stores.disk.writing import ALLOWANCE, HOT_MOST, MOVED_MOST, Batch, Writing
from tests.support.manual_clock import ManualClock
from tests.support.stores.disk import LEAST, TAG, block, block_key, blocks, lasting


class Files:
    """A tier's folder, written and read as its threads do."""

    def __init__(self, folder: Path, size: int = LEAST) -> None:
        self.folder = folder
        self.writing = Writing(Folder(folder, VERSION), size)
        self.reading = Reading(self.writing.open())

    def write(self, entries: dict[bytes, Entry], *used: bytes) -> None:
        self.writing.write(Batch(entries, set(used)))

    def has(self, *keys: bytes) -> list[bool]:
        """Which of these keys have an entry."""
        found = self.read(keys)
        return [key in found for key in keys]

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """The entries of any number of keys, however large."""
        found: dict[bytes, Entry] = {}
        for start in range(0, len(keys), MOST):
            some = list(keys[start : start + MOST])
            while some:
                result = self.reading.read(some, 0)
                found |= result.entries
                some = [] if result.complete else [key for key in some if key not in result.entries]
        return found

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def reopen(self) -> None:
        self.close()
        self.reading = Reading(self.writing.open())

    def close(self) -> None:
        self.reading.close()
        self.writing.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path / "cache")
    yield made
    made.close()


def test_what_was_written_is_read_and_outlives_a_restart(files: Files) -> None:
    files.write(blocks(range(600)))
    for _ in range(2):
        keys = [block_key(number) for number in range(700)]
        entries = files.read(keys)
        assert [entries[key].result for key in keys[:600]] == [block(number) for number in range(600)]
        assert len(entries) == 600
        assert files.writing.state().entries == 600
        files.reopen()


def test_an_answer_takes_the_place_of_the_one_before_it(files: Files) -> None:
    files.write(blocks(range(10)))
    files.write(blocks(range(5, 15), seed=1))
    entries = files.read([block_key(number) for number in range(15)])
    expected = [block(number) for number in range(5)] + [block(number, 1) for number in range(5, 15)]
    assert [entries[block_key(number)].result for number in range(15)] == expected
    assert files.writing.state().entries == 15


def test_a_million_blocks_fit_into_four_hundred_megabytes(files: Files) -> None:
    for start in range(0, 20_000, 1000):
        files.write(blocks(range(20_000_000 + start, 20_000_000 + start + 1000)))
    files.close()  # which brings everything from the log into the file
    (file,) = files.folder.glob("cache-*.sqlite3")
    assert file.stat().st_size / 20_000 <= 400
    files.reopen()


def test_the_folder_never_takes_more_than_its_bound_and_the_oldest_go_first(files: Files) -> None:
    rng = random.Random(1)
    for batch in range(60):
        entries = {
            block_key(batch * 100 + number): lasting(rng.randbytes(rng.choice([400, 9_000, 40_000])))
            for number in range(100)
        }
        files.write(entries)
        assert files.bytes() <= LEAST
    state = files.writing.state()
    assert state.evicted
    assert state.entries == 6000 - state.evicted
    assert files.has(*(block_key(number) for number in range(6000))) == [False] * state.evicted + [True] * state.entries


def big(numbers: range) -> dict[bytes, Entry]:
    """Answers of 300 kB, of which the smallest tier holds some hundred."""
    return {block_key(number): lasting(random.Random(number).randbytes(300_000)) for number in numbers}


def test_what_was_used_outlives_what_was_not(files: Files) -> None:
    files.write(big(range(50)))
    assert files.writing.state().middle == 0, "as long as there is room for all"
    files.write(big(range(50, 105)))
    used = block_key(3)
    result = files.reading.read([used, block_key(90)], files.writing.state().middle)
    assert len(result.used) == 1, "the one in the older half"
    files.write({}, *result.used)
    for key, entry in big(range(105, 160)).items():
        files.write({key: entry})
    assert files.has(used, block_key(2), block_key(4)) == [True, False, False]


def test_an_answer_too_large_for_the_file_is_refused(files: Files) -> None:
    huge = lasting(random.Random(0).randbytes((LEAST - ALLOWANCE) // 4))
    done = files.writing.write(Batch({b"s0:call:1": huge, b"s0:call:2": lasting(b"2")}))
    assert (done.written, done.refused) == (1, 1)
    assert files.has(b"s0:call:1", b"s0:call:2") == [False, True]


def test_a_smaller_bound_shrinks_the_file(tmp_path: Path) -> None:
    files = Files(tmp_path, 3 * LEAST)
    for number in range(120):
        files.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
    assert files.bytes() > 2 * LEAST - ALLOWANCE
    files.writing.resize(LEAST)
    steps = 0
    while files.writing.tidy():
        steps += 1
        assert steps < 1000
    files.close()
    assert files.bytes() <= LEAST - ALLOWANCE + 100 * PAGE
    files.reopen()
    assert files.has(block_key(119), block_key(0)) == [True, False]
    files.close()


# -- purges ---------------------------------------------------------------------------------------------------------

OTHER = b"harmony-s1@1666600001"


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(), []),
        (Selection(network="harmony-s0"), ["other network"]),
        (Selection(method="eth_getBlockByNumber"), ["other method"]),
        (Selection(network="harmony-s0", method="eth_getBlockByNumber"), ["other method", "other network"]),
        (Selection(key=block_key(1)), ["another", "other method", "other network"]),
        (Selection(network="none"), ["one", "another", "other method", "other network"]),
    ],
)
def test_a_purge_removes_what_is_meant_and_counts_it(files: Files, selection: Selection, left: list[str]) -> None:
    keys = {
        "one": block_key(1),
        "another": block_key(2),
        "other method": block_key(1, method="eth_getLogs"),
        "other network": block_key(1, tag=OTHER),
    }
    files.write(dict.fromkeys(keys.values(), lasting(b"1")))
    assert files.has(*keys.values()) == [True] * 4
    gone = len(keys) - len(left)
    assert files.writing.purge(selection, dry=True) == gone
    assert files.writing.state().entries == 4
    assert files.writing.purge(selection, dry=False) == gone
    files.reading.forget()
    for _ in range(2):
        assert [name for name, there in zip(keys, files.has(*keys.values()), strict=True) if there] == left
        assert files.writing.state().entries == len(left)
        while files.writing.tidy():
            pass
        files.reopen()


def test_a_purge_removes_files_of_other_versions(files: Files) -> None:
    older = files.folder / f"cache-{VERSION - 1}-1.sqlite3"
    older.write_bytes(b"x")
    files.writing.purge(Selection(), dry=True)
    assert older.exists()
    files.writing.purge(Selection(network="n"), dry=False)
    assert not older.exists()


def test_only_some_is_moved_at_once(files: Files) -> None:
    files.write(big(range(105)))
    used = files.reading.read([block_key(number) for number in range(3)], files.writing.state().middle).used
    files.write({}, *used, *(files.reading.read([block_key(n)], 10**9).used[0] for n in range(3, 20)))
    with closing(sqlite3.connect(max(files.folder.glob("cache-*.sqlite3")))) as sql, sql:
        ((moved,),) = sql.execute("SELECT count(*) FROM entries WHERE seq > 105")
    assert 0 < moved <= MOVED_MOST // 300_000


def test_what_was_purged_can_be_written_again(files: Files) -> None:
    files.write(blocks(range(10)))
    files.writing.purge(Selection(), dry=False)
    files.reading.forget()
    files.write(blocks(range(3)))
    assert files.has(*(block_key(number) for number in range(4))) == [True, True, True, False]


def test_purged_rows_are_swept_and_their_room_is_used_again(files: Files) -> None:
    files.write(blocks(range(2000)))
    files.writing.purge(Selection(), dry=False)
    while files.writing.tidy():
        pass
    size = files.bytes()
    for start in range(0, 2000, 500):
        files.write(blocks(range(start, start + 500)))
    assert files.bytes() <= size + ALLOWANCE // 4


# -- several processes ----------------------------------------------------------------------------------------------


def test_two_workers_read_what_the_other_one_wrote(files: Files) -> None:
    other = Files(files.folder)
    files.write(blocks(range(400)))
    other.write(blocks(range(400, 800)))
    other.reading.forget()
    files.reading.forget()
    keys = [block_key(number) for number in range(800)]
    assert files.has(*keys) == other.has(*keys) == [True] * 800
    assert files.writing.state().entries == other.writing.state().entries == 800
    other.close()


def test_two_workers_use_one_dictionary_for_a_method(files: Files) -> None:
    other = Files(files.folder)
    for start in range(0, 600, 100):
        files.write(blocks(range(start, start + 100)))
        other.write(blocks(range(1000 + start, 1100 + start)))
    (file,) = files.folder.glob("cache-*.sqlite3")
    with closing(sqlite3.connect(file)) as sql, sql:
        assert sql.execute("SELECT count(*) FROM dictionaries").fetchone() == (1,)
    other.close()


def test_a_purge_of_one_worker_lets_the_other_write_on(files: Files) -> None:
    other = Files(files.folder)
    files.write(blocks(range(10)))
    other.write(blocks(range(10, 20)))
    files.writing.purge(Selection(), dry=False)
    other.writing.purge(Selection(), dry=False)
    other.write(blocks(range(20, 30)))
    files.reading.forget()
    assert files.has(block_key(5), block_key(15), block_key(25)) == [False, False, True]
    other.close()


def test_a_worker_that_missed_a_purge_finds_nothing_of_it_a_second_later(files: Files) -> None:
    other, clock = Files(files.folder), ManualClock()
    other.reading.close()
    other.reading = Reading(other.writing.open(), clock.now)
    files.write(blocks(range(10)))
    assert other.has(block_key(5)) == [True]
    files.writing.purge(Selection(), dry=False)
    files.write(blocks(range(5)))
    clock.advance(0.9 * PREFIXES_EVERY)
    other.has(block_key(7))  # a lookup puts off nothing
    clock.advance(0.1 * PREFIXES_EVERY)
    assert other.has(block_key(7)) == [False]
    assert other.has(block_key(3)) == [True]
    other.close()


# -- files that cannot be trusted -----------------------------------------------------------------------------------


def test_a_damaged_entry_is_not_served_and_is_removed(files: Files) -> None:
    files.write(blocks(range(10)))
    (file,) = files.folder.glob("cache-*.sqlite3")
    with closing(sqlite3.connect(file)) as sql, sql:
        sql.execute(
            "UPDATE entries SET value=CAST(substr(value, 1, 40) || x'00' || substr(value, 42) AS BLOB) WHERE seq=3"
        )
    result = files.reading.read([block_key(number) for number in range(10)], 0)
    assert result.reasons == [Damage.CHECKSUM]
    assert len(result.entries) == 9
    files.writing.write(Batch({}, damaged=set(result.damaged)))
    assert files.writing.state().entries == 9


def test_entries_whose_names_were_mixed_up_are_not_served(files: Files) -> None:
    files.write(blocks(range(10)))
    (file,) = files.folder.glob("cache-*.sqlite3")
    with closing(sqlite3.connect(file)) as sql, sql:
        one, other = (row[0] for row in sql.execute("SELECT value FROM entries WHERE seq IN (1, 2)"))
        sql.executemany("UPDATE entries SET value=? WHERE seq=?", [(other, 1), (one, 2)])
    assert files.has(block_key(0), block_key(1), block_key(2)) == [False, False, True]


def test_a_prefix_that_became_that_of_another_method_serves_nothing(files: Files) -> None:
    files.write(blocks(range(10)))
    (file,) = files.folder.glob("cache-*.sqlite3")
    other = block_key(1, method="eth_getBlockByNumbes")
    with closing(sqlite3.connect(file)) as sql, sql:
        sql.execute("UPDATE prefixes SET prefix=?", (TAG + b":eth_getBlockByNumbes:n:",))
    assert files.has(other) == [False]


@pytest.mark.parametrize("content", [b"", b"text that is no database, but long enough for a header of one" * 100])
def test_a_foreign_file_is_set_aside_and_another_begun(tmp_path: Path, content: bytes) -> None:
    foreign = tmp_path / "cache-1001-1.sqlite3"
    foreign.write_bytes(content)
    writing = Writing(Folder(tmp_path, VERSION), LEAST)
    if content:
        with pytest.raises(DiskFault) as raised:
            writing.open()
        assert raised.value.kind is DiskFaultKind.DAMAGED
        writing.set_aside()
    file = writing.open()
    assert file.name == ("cache-1001-2.sqlite3" if content else "cache-1001-1.sqlite3")
    assert not content or foreign.read_bytes() == content
    writing.write(Batch(blocks(range(3))))
    writing.close()


@pytest.mark.parametrize("pragma", ["user_version", "application_id"])
def test_a_file_of_another_version_or_program_is_not_used(tmp_path: Path, pragma: str) -> None:
    Files(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "cache-1001-1.sqlite3")) as sql, sql:
        sql.execute(f"PRAGMA {pragma}=7")
    with pytest.raises(DiskFault, match="of another version or program") as raised:
        Writing(Folder(tmp_path, VERSION), LEAST).open()
    assert raised.value.kind is DiskFaultKind.DAMAGED


def test_of_two_workers_that_set_a_file_aside_the_second_takes_the_new_one(files: Files) -> None:
    other = Files(files.folder)
    files.writing.set_aside()
    assert other.writing.replaced()
    other.writing.set_aside()
    assert files.writing.open() == other.writing.open() == files.folder / "cache-1001-2.sqlite3"
    other.close()


def test_a_file_that_was_set_aside_goes_when_the_other_needs_its_room(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for number in range(14):
        files.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
    files.writing.set_aside()
    files.reopen()
    assert (tmp_path / "cache-1001-1.sqlite3").exists()
    for number in range(40):
        files.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
        assert files.bytes() <= LEAST
    assert not (tmp_path / "cache-1001-1.sqlite3").exists()
    assert files.has(block_key(39)) == [True]
    files.close()


def test_a_large_file_that_was_set_aside_goes_at_once(tmp_path: Path) -> None:
    (tmp_path / "cache-1001-1.sqlite3").write_bytes(b"x" * (LEAST // 2 + 1))
    writing = Writing(Folder(tmp_path, VERSION), LEAST)
    with pytest.raises(DiskFault):
        writing.open()
    writing.set_aside()
    assert not (tmp_path / "cache-1001-1.sqlite3").exists()


def test_files_of_another_version_are_told_and_go_when_their_room_is_needed(tmp_path: Path) -> None:
    older = tmp_path / f"cache-{VERSION - 1}-7.sqlite3"
    older.write_bytes(b"x" * (LEAST // 2 + 1))
    files = Files(tmp_path)
    assert files.writing.state().foreign
    assert files.writing.state().bytes > LEAST // 2
    for number in range(4):
        files.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
        assert files.bytes() <= LEAST
    assert not older.exists()
    assert not files.writing.state().foreign
    files.close()


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "cache-1001-1.sqlite3.bak"
    mine.write_text("mine")
    files = Files(tmp_path)
    files.writing.set_aside()
    files.close()
    assert mine.read_text() == "mine"


# -- hot keys -------------------------------------------------------------------------------------------------------


def test_what_is_hot_is_remembered_and_kept_from_eviction(files: Files) -> None:
    files.write(big(range(105)))
    hot, gone = big(range(2, 4)), blocks(range(200, 202))
    assert files.writing.notice(hot | gone) == gone, "which are to be written again"
    assert set(files.reading.hot()) == {*hot, *gone}
    assert files.has(*hot, *gone) == [True, True, False, False]
    middle = files.writing.state().middle
    assert files.reading.read([block_key(2)], middle).used == [], "it is among the young ones now"
    assert len(files.reading.read([block_key(0)], middle).used) == 1


def test_hot_keys_are_bounded_and_purged_with_everything(files: Files) -> None:
    for start in range(0, HOT_MOST + 2000, 2000):
        files.writing.notice({block_key(number): lasting(b"1") for number in range(start, start + 2000)})
    assert len(files.reading.hot()) == HOT_MOST
    files.writing.purge(Selection(), dry=False)
    assert files.reading.hot() == []


def test_a_batch_that_fails_is_undone_and_the_next_one_is_written(files: Files) -> None:
    bad = replace(lasting(b"1"), result=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        files.writing.write(Batch(blocks(range(3)) | {block_key(1, tag=OTHER): bad}))
    assert files.has(block_key(1)) == [False]
    files.write(blocks(range(3)) | {block_key(1, tag=OTHER): lasting(b"1")})
    files.reading.forget()
    assert files.has(block_key(1), block_key(1, tag=OTHER)) == [True, True]
