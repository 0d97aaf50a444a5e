"""The file itself: written in batches, bounded, purged, shared, and begun anew when it cannot be trusted."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rpcaccel.core.cache.entry import Damage, Entry, Selection
from rpcaccel.stores.disk.cache_file import ALLOWANCE_BYTES, MAX_HOT_KEYS, MAX_RENEWED_BYTES, CacheFile, ReadResult
from rpcaccel.stores.disk.database import PAGE_BYTES, VERSION, DiskFault, DiskFaultKind
from rpcaccel.stores.disk.folder import Folder
from rpcaccel.stores.disk.lookups import MAX_KEYS
from tests.support.stores.disk import LEAST, TAG, block, block_key, blocks, lasting


class Tier:
    """A tier's folder, and its file as the thread of a worker uses it."""

    def __init__(self, folder: Path, size: int = LEAST) -> None:
        self.folder = folder
        self.file = CacheFile(Folder(folder, VERSION), size)
        self.file.open()

    def has(self, *keys: bytes) -> list[bool]:
        """Which of these keys have an entry."""
        found = self.read(keys)
        return [key in found for key in keys]

    def read(self, keys: Sequence[bytes]) -> dict[bytes, Entry]:
        """The entries of any number of keys, however large."""
        found: dict[bytes, Entry] = {}
        for start in range(0, len(keys), MAX_KEYS):
            some = list(keys[start : start + MAX_KEYS])
            while some:
                result = self.file.read(some)
                found |= result.entries
                some = [] if result.complete else [key for key in some if key not in result.entries]
        return found

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement returns that another program carries out."""
        with closing(sqlite3.connect(max(self.folder.glob("cache-*.sqlite3")))) as sql, sql:
            return sql.execute(statement).fetchall()


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[Tier]:
    made = Tier(tmp_path / "cache")
    yield made
    made.file.close()


def test_what_was_written_is_read_and_outlives_a_restart(tier: Tier) -> None:
    tier.file.write(blocks(range(600)))
    for _ in range(2):
        keys = [block_key(number) for number in range(700)]
        entries = tier.read(keys)
        assert [entries[key].result for key in keys[:600]] == [block(number) for number in range(600)]
        assert len(entries) == 600
        assert tier.file.state().entries == 600
        tier.file.open()


def test_an_answer_takes_the_place_of_the_one_before_it(tier: Tier) -> None:
    tier.file.write(blocks(range(10)))
    tier.file.write(blocks(range(5, 15), seed=1))
    entries = tier.read([block_key(number) for number in range(15)])
    expected = [block(number) for number in range(5)] + [block(number, 1) for number in range(5, 15)]
    assert [entries[block_key(number)].result for number in range(15)] == expected
    assert tier.file.state().entries == 15


def test_a_million_blocks_fit_into_four_hundred_megabytes(tier: Tier) -> None:
    sizes = []
    for first, last in ((0, 2000), (2000, 6000)):  # the first ones train a dictionary
        for start in range(20_000_000 + first, 20_000_000 + last, 100):
            tier.file.write(blocks(range(start, start + 100)))
        tier.file.close()  # which brings everything from the log into the file
        (file,) = tier.folder.glob("cache-*.sqlite3")
        sizes.append(file.stat().st_size)
        tier.file.open()
    assert (sizes[1] - sizes[0]) / 4000 <= 400


def test_the_folder_never_takes_more_than_its_bound_and_the_oldest_go_first(tier: Tier) -> None:
    rng = random.Random(1)
    for batch in range(40):
        entries = {
            block_key(batch * 100 + number): lasting(rng.randbytes(rng.choice([400, 9_000, 40_000])))
            for number in range(100)
        }
        tier.file.write(entries)
        assert tier.bytes() <= LEAST
    state = tier.file.state()
    assert state.evicted
    assert state.entries == 4000 - state.evicted
    assert tier.has(*(block_key(number) for number in range(4000))) == [False] * state.evicted + [True] * state.entries


def big(numbers: range) -> dict[bytes, Entry]:
    """Answers of 300 kB, of which the smallest tier holds some hundred."""
    return {block_key(number): lasting(random.Random(number).randbytes(300_000)) for number in numbers}


def test_what_was_used_outlives_what_was_not(tier: Tier) -> None:
    tier.file.write(big(range(105)))
    tier.file.state()
    assert tier.has(block_key(3)) == [True]
    for key, entry in big(range(105, 160)).items():
        tier.file.write({key: entry})
    assert tier.has(block_key(3), block_key(2), block_key(4)) == [True, False, False]


def test_what_was_used_stays_in_its_place_while_there_is_room_for_all_or_where_it_is_young(tier: Tier) -> None:
    for written, used, youngest in ((range(50), 3, 50), (range(50, 105), 90, 105)):
        tier.file.write(big(written))
        tier.file.state()
        assert tier.has(block_key(used)) == [True]
        tier.file.tidy()
        assert tier.sql("SELECT max(seq) FROM entries") == [(youngest,)]


def test_an_answer_too_large_for_the_file_is_refused(tier: Tier) -> None:
    huge = lasting(random.Random(0).randbytes((LEAST - ALLOWANCE_BYTES) // 4))
    assert tier.file.write({b"s0:call:1": huge, b"s0:call:2": lasting(b"2")}) == 1
    assert tier.has(b"s0:call:1", b"s0:call:2") == [False, True]


def test_a_smaller_bound_shrinks_the_file(tmp_path: Path) -> None:
    tier = Tier(tmp_path, 2 * LEAST)
    for number in range(70):
        tier.file.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
    assert tier.bytes() > LEAST
    tier.file.resize(LEAST)
    steps = 0
    while tier.file.tidy():
        steps += 1
        assert steps < 1000
    tier.file.close()
    assert tier.bytes() <= LEAST - ALLOWANCE_BYTES + 100 * PAGE_BYTES
    tier.file.open()
    assert tier.has(block_key(69), block_key(0)) == [True, False]
    tier.file.close()


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
def test_a_purge_removes_what_is_meant_and_counts_it(tier: Tier, selection: Selection, left: list[str]) -> None:
    keys = {
        "one": block_key(1),
        "another": block_key(2),
        "other method": block_key(1, method="eth_getLogs"),
        "other network": block_key(1, tag=OTHER),
    }
    tier.file.write(dict.fromkeys(keys.values(), lasting(b"1")))
    assert tier.has(*keys.values()) == [True] * 4
    gone = len(keys) - len(left)
    assert tier.file.purge(selection, dry=True) == gone
    assert tier.file.state().entries == 4
    assert tier.file.purge(selection, dry=False) == gone
    for _ in range(2):
        assert [name for name, there in zip(keys, tier.has(*keys.values()), strict=True) if there] == left
        assert tier.file.state().entries == len(left)
        while tier.file.tidy():
            pass
        tier.file.open()


def test_a_purge_removes_files_of_other_versions(tier: Tier) -> None:
    older = tier.folder / f"cache-{VERSION - 1}-1.sqlite3"
    older.write_bytes(b"x")
    tier.file.purge(Selection(), dry=True)
    assert older.exists()
    tier.file.purge(Selection(network="n"), dry=False)
    assert not older.exists()


def test_only_some_is_moved_at_once(tier: Tier) -> None:
    tier.file.write(big(range(105)))
    tier.file.state()
    assert tier.has(*(block_key(number) for number in range(20))) == [True] * 20
    tier.file.tidy()
    ((moved,),) = tier.sql("SELECT count(*) FROM entries WHERE seq > 105")
    assert 0 < moved <= MAX_RENEWED_BYTES // 300_000


def test_what_was_purged_can_be_written_again(tier: Tier) -> None:
    tier.file.write(blocks(range(10)))
    tier.file.purge(Selection(), dry=False)
    tier.file.write(blocks(range(3)))
    assert tier.has(*(block_key(number) for number in range(4))) == [True, True, True, False]


def test_purged_rows_are_swept_and_their_room_is_used_again(tier: Tier) -> None:
    tier.file.write(blocks(range(2000)))
    tier.file.purge(Selection(), dry=False)
    while tier.file.tidy():
        pass
    size = tier.bytes()
    for start in range(0, 2000, 500):
        tier.file.write(blocks(range(start, start + 500)))
    assert tier.bytes() <= size + ALLOWANCE_BYTES // 4


# -- several processes ----------------------------------------------------------------------------------------------


def test_two_workers_read_what_the_other_one_wrote(tier: Tier) -> None:
    other = Tier(tier.folder)
    tier.file.write(blocks(range(400)))
    other.file.write(blocks(range(400, 800)))
    keys = [block_key(number) for number in range(800)]
    assert tier.has(*keys) == other.has(*keys) == [True] * 800
    assert tier.file.state().entries == other.file.state().entries == 800
    other.file.close()


def test_two_workers_use_one_dictionary_for_a_method(tier: Tier) -> None:
    other = Tier(tier.folder)
    for start in range(0, 600, 100):
        tier.file.write(blocks(range(start, start + 100)))
        other.file.write(blocks(range(1000 + start, 1100 + start)))
    assert tier.sql("SELECT count(*) FROM dictionaries") == [(1,)]
    assert tier.has(block_key(1599)) == other.has(block_key(599)) == [True]
    other.file.close()


def test_a_purge_of_one_worker_lets_the_other_write_on(tier: Tier) -> None:
    other = Tier(tier.folder)
    tier.file.write(blocks(range(10)))
    other.file.write(blocks(range(10, 20)))
    tier.file.purge(Selection(), dry=False)
    other.file.purge(Selection(), dry=False)
    other.file.write(blocks(range(20, 30)))
    tier.file.state()
    assert tier.has(block_key(5), block_key(15), block_key(25)) == [False, False, True]
    other.file.close()


def test_a_worker_that_missed_a_purge_finds_nothing_of_it_after_its_next_look_at_the_file(tier: Tier) -> None:
    other = Tier(tier.folder)
    tier.file.write(blocks(range(10)))
    other.file.state()
    assert other.has(block_key(5)) == [True]
    tier.file.purge(Selection(), dry=False)
    tier.file.write(blocks(range(5)))
    other.file.state()
    assert other.has(block_key(7), block_key(3)) == [False, True]
    other.file.close()


# -- files that cannot be trusted -----------------------------------------------------------------------------------


def test_a_damaged_entry_is_not_served_and_is_removed(tier: Tier) -> None:
    tier.file.write(blocks(range(10)))
    tier.sql("UPDATE entries SET value=CAST(substr(value, 1, 40) || x'00' || substr(value, 42) AS BLOB) WHERE seq=3")
    result = tier.file.read([block_key(number) for number in range(10)])
    assert result.damaged == [Damage.CHECKSUM]
    assert len(result.entries) == 9
    tier.file.tidy()
    assert tier.file.state().entries == 9


def test_entries_whose_names_were_mixed_up_are_not_served(tier: Tier) -> None:
    tier.file.write(blocks(range(10)))
    (one,), (other,) = tier.sql("SELECT hex(value) FROM entries WHERE seq < 3")
    tier.sql(f"UPDATE entries SET value=CASE seq WHEN 1 THEN x'{other}' ELSE x'{one}' END WHERE seq < 3")
    assert tier.has(block_key(0), block_key(1), block_key(2)) == [False, False, True]


def test_a_prefix_that_became_that_of_another_method_serves_nothing(tier: Tier) -> None:
    tier.file.write(blocks(range(10)))
    tier.sql(f"UPDATE prefixes SET prefix=CAST('{TAG.decode()}:eth_getBlockByNumbes:n:' AS BLOB)")
    tier.file.state()
    assert tier.has(block_key(1, method="eth_getBlockByNumbes")) == [False]


@pytest.mark.parametrize("content", [b"", b"text that is no database, but long enough for a header of one" * 100])
def test_a_foreign_file_is_set_aside_and_another_begun(tmp_path: Path, content: bytes) -> None:
    foreign = tmp_path / "cache-1001-1.sqlite3"
    foreign.write_bytes(content)
    file = CacheFile(Folder(tmp_path, VERSION), LEAST)
    if content:
        with pytest.raises(DiskFault) as raised:
            file.open()
        assert raised.value.kind is DiskFaultKind.DAMAGED
        file.set_aside()
    file.open()
    assert (tmp_path / "cache-1001-2.sqlite3").exists() == bool(content)
    assert not content or foreign.read_bytes() == content
    file.write(blocks(range(3)))
    file.close()


@pytest.mark.parametrize("pragma", ["user_version", "application_id"])
def test_a_file_of_another_version_or_program_is_not_used(tmp_path: Path, pragma: str) -> None:
    Tier(tmp_path).file.close()
    with closing(sqlite3.connect(tmp_path / "cache-1001-1.sqlite3")) as sql, sql:
        sql.execute(f"PRAGMA {pragma}=7")
    with pytest.raises(DiskFault, match="of another version or program") as raised:
        CacheFile(Folder(tmp_path, VERSION), LEAST).open()
    assert raised.value.kind is DiskFaultKind.DAMAGED


def test_of_two_workers_that_set_a_file_aside_the_second_takes_the_new_one(tier: Tier) -> None:
    other = Tier(tier.folder)
    tier.file.set_aside()
    assert other.file.replaced()
    other.file.set_aside()
    for one in (tier, other):
        one.file.open()
        assert not one.file.replaced()
    assert {file.name[:12] for file in tier.folder.glob("*.sqlite3")} == {"cache-1001-1", "cache-1001-2"}
    other.file.close()


def test_a_file_that_was_set_aside_goes_when_the_other_needs_its_room(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    for number in range(14):
        tier.file.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
    tier.file.set_aside()
    tier.file.open()
    assert (tmp_path / "cache-1001-1.sqlite3").exists()
    for number in range(25):
        tier.file.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
        assert tier.bytes() <= LEAST
    assert not (tmp_path / "cache-1001-1.sqlite3").exists()
    assert tier.has(block_key(24)) == [True]
    tier.file.close()


def test_a_large_file_that_was_set_aside_goes_at_once(tmp_path: Path) -> None:
    (tmp_path / "cache-1001-1.sqlite3").write_bytes(b"x" * (LEAST // 2 + 1))
    file = CacheFile(Folder(tmp_path, VERSION), LEAST)
    with pytest.raises(DiskFault):
        file.open()
    file.set_aside()
    assert not (tmp_path / "cache-1001-1.sqlite3").exists()


def test_files_of_another_version_are_told_and_go_when_their_room_is_needed(tmp_path: Path) -> None:
    older = tmp_path / f"cache-{VERSION - 1}-7.sqlite3"
    older.write_bytes(b"x" * (LEAST // 2 + 1))
    tier = Tier(tmp_path)
    assert tier.file.state().foreign
    assert tier.file.state().bytes > LEAST // 2
    for number in range(4):
        tier.file.write({block_key(number): lasting(random.Random(number).randbytes(1_000_000))})
        assert tier.bytes() <= LEAST
    assert not older.exists()
    assert not tier.file.state().foreign
    tier.file.close()


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "cache-1001-1.sqlite3.bak"
    mine.write_text("mine")
    tier = Tier(tmp_path)
    tier.file.set_aside()
    tier.file.close()
    assert mine.read_text() == "mine"


# -- hot keys -------------------------------------------------------------------------------------------------------


def test_what_is_hot_is_remembered_and_kept_from_eviction(tier: Tier) -> None:
    tier.file.write(big(range(105)))
    tier.file.state()
    hot, gone = big(range(2, 4)), blocks(range(200, 202))
    assert tier.file.notice(hot | gone) == gone, "which are to be written again"
    assert set(tier.file.hot()) == {*hot, *gone}
    assert tier.has(*hot, *gone) == [True, True, False, False]
    assert tier.sql("SELECT count(*) FROM entries WHERE seq > 105") == [(2,)], "they are the youngest now"


def test_hot_keys_are_bounded_and_purged_with_everything(tier: Tier) -> None:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MAX_HOT_KEYS})"
    tier.sql(f"INSERT INTO hot {numbers} SELECT CAST('key' || i AS BLOB), i FROM n")
    latest = {block_key(number): lasting(b"1") for number in range(10)}
    tier.file.notice(latest)
    hot = tier.file.hot()
    assert (len(hot), set(hot[:10]), hot[-1]) == (MAX_HOT_KEYS, set(latest), b"key11")
    tier.file.purge(Selection(), dry=False)
    assert tier.file.hot() == []


def test_a_batch_that_fails_is_undone_and_the_next_one_is_written(tier: Tier) -> None:
    bad = replace(lasting(b"1"), result=None)
    with pytest.raises(TypeError):
        tier.file.write(blocks(range(3)) | {block_key(1, tag=OTHER): bad})
    other = Tier(tier.folder)
    other.file.write({block_key(1, tag=OTHER): lasting(b"2")})  # under the number that was given out and taken back
    assert tier.file.read([block_key(1)]) == ReadResult({})
    tier.file.write(blocks(range(3)) | {block_key(2, tag=OTHER): lasting(b"1")})
    assert tier.has(block_key(1), block_key(1, tag=OTHER), block_key(2, tag=OTHER)) == [True, True, True]
    other.file.close()
