"""What waits to be written: bounded, readable, dropped by a purge."""

from __future__ import annotations

from rpcaccel.core.cache.entry import Selection
from rpcaccel.stores.disk.write_queue import BATCH, BATCH_BYTES, ENTRY_BYTES, NOTES_MOST, WriteQueue
from tests.support.stores.disk import block_key, blocks, lasting


def test_what_waits_or_is_being_written_can_be_read() -> None:
    queue, entry = WriteQueue(1 << 20), lasting(b"1")
    assert queue.put(b"k", entry)
    assert queue.get(b"k") is entry
    assert queue.take().entries == {b"k": entry}
    assert queue.get(b"k") is entry
    assert queue.landed() == 1
    assert queue.get(b"k") is None


def test_an_answer_beyond_the_bound_is_refused_until_a_batch_was_written() -> None:
    key, entry = block_key(1), lasting(b"x" * 1000)
    queue = WriteQueue(2 * (ENTRY_BYTES + len(key) + 1000))
    assert queue.put(key, entry)
    assert queue.put(block_key(2), entry)
    assert not queue.put(block_key(3), entry)
    assert queue.put(key, entry), "in place of the one that waits"
    queue.take()
    assert not queue.put(block_key(3), entry)
    queue.landed()
    assert queue.put(block_key(3), entry)


def test_a_batch_is_bounded_in_answers_and_in_bytes() -> None:
    queue = WriteQueue(1 << 30)
    for key, entry in blocks(range(BATCH + 10)).items():
        queue.put(key, entry)
    assert queue.full_batch
    assert len(queue.take().entries) == BATCH
    queue.landed()
    assert len(queue.take().entries) == 10
    queue.landed()
    for number in range(5):
        queue.put(block_key(number), lasting(b"x" * BATCH_BYTES))
    assert len(queue.take().entries) == 1


def test_a_purge_drops_what_waits_and_leaves_the_rest() -> None:
    queue = WriteQueue(1 << 20)
    queue.put(block_key(1), lasting(b"1"))
    queue.put(block_key(1, method="other"), lasting(b"1"))
    queue.forget(Selection(method="other"))
    assert list(queue.take().entries) == [block_key(1)]


def test_names_wait_with_the_answers_and_are_bounded() -> None:
    queue = WriteQueue(1 << 20)
    assert not queue
    names = [b"%d" % number for number in range(NOTES_MOST)]
    queue.note(names, [b"bad"])
    queue.note([b"one more"], [])
    assert queue
    batch = queue.take()
    assert batch.used == set(names)
    assert batch.damaged == {b"bad"}
    assert not queue


def test_what_was_left_behind_is_counted() -> None:
    queue = WriteQueue(1 << 20)
    queue.put(b"k", lasting(b"1"))
    queue.note([b"n"], [])
    assert queue.clear() == 1
    assert not queue
