"""The form of an entry in the file: short names, values that come back as they were or not at all, compression."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rpcaccel.core.cache.entry import Damage, Damaged, Entry
from rpcaccel.core.plan import cache_key
from rpcaccel.core.plan.rules import CacheClass
from rpcaccel.stores.disk.entry_form import (
    AS_IT_IS,
    COMPRESSED,
    DICTIONARY_BYTES,
    ID_BYTES,
    LAST_DICTIONARY,
    MAX_PLAIN_PARAMS,
    MAX_SAMPLE_BYTES,
    MAX_SAMPLED_BYTES,
    MIN_COMPRESSED_BYTES,
    TRAINING_BYTES,
    TRAINING_SAMPLES,
    Compression,
    decode,
    encode,
    name_of,
    names_under,
    number_in,
    split_key,
)
from tests.support.stores.disk import block, block_key, lasting

KEY = block_key(7)
ENTRY = lasting(b'{"a":1}')
NUMBER = 7
"""Of the dictionary for blocks."""


def no_dictionary(_number: int) -> None:
    """A file without dictionaries."""


def written(key: bytes, entry: Entry) -> bytes:
    return encode(key, entry, Compression(no_dictionary), now=100.0, wall=1_000_100.0)


def read(key: bytes, data: bytes, later: float = 0.0) -> Entry | Damaged:
    return decode(key, data, Compression(no_dictionary), now=500.0, wall=1_000_100.0 + later)


# -- values -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=2000), st.sampled_from(CacheClass), st.integers(-1, 2**32 - 2))
def test_what_was_written_is_read(result: bytes, cache: CacheClass, block: int) -> None:
    entry = replace(ENTRY, result=result, cache=cache, block=block, stored_at=90.0)
    back = read(KEY, written(KEY, entry), later=20.0)
    assert back == replace(entry, stored_at=500.0 - 30.0)


@pytest.mark.parametrize("block", [2**32 - 1, 2**40])
def test_a_block_beyond_the_form_is_not_told(block: int) -> None:
    back = read(KEY, written(KEY, replace(ENTRY, block=block)))
    assert isinstance(back, Entry)
    assert back.block == -1


def test_what_was_stored_in_the_future_counts_as_stored_now() -> None:
    back = read(KEY, written(KEY, replace(ENTRY, stored_at=100.0)), later=-3600.0)
    assert isinstance(back, Entry)
    assert back.stored_at == 500.0


@given(st.data())
def test_no_damage_goes_unseen(data: st.DataObject) -> None:
    value = bytearray(written(KEY, replace(ENTRY, result=data.draw(st.binary(max_size=300)))))
    place = data.draw(st.integers(0, len(value) - 1))
    value[place] ^= data.draw(st.integers(1, 255))
    assert isinstance(read(KEY, bytes(value)), Damaged)
    assert isinstance(read(KEY, bytes(value[:place])), Damaged)


@given(st.binary(max_size=100))
def test_whatever_stands_there_never_raises(data: bytes) -> None:
    assert isinstance(read(KEY, data), Damaged)


def test_the_entry_of_another_call_is_damage() -> None:
    assert read(block_key(8), written(KEY, ENTRY)) == Damaged(Damage.CHECKSUM)


def test_what_cannot_be_expanded_is_damage() -> None:
    compression, _ = trained()
    value = encode(KEY, lasting(block(7), network="blocks"), compression, now=0.0, wall=0.0)
    assert read(KEY, value) == Damaged(Damage.COMPRESSION)


# -- compression ------------------------------------------------------------------------------------------------------

TOPIC = "blocks:eth_getBlockByNumber"


def trained() -> tuple[Compression, bytes]:
    """Compression with a dictionary for blocks, and the body of the dictionary."""
    compression = Compression(no_dictionary)
    for number in range(TRAINING_SAMPLES):
        compression.compress(TOPIC, block(number))
    (topic,) = compression.due()
    body = compression.train(topic, NUMBER)
    assert body is not None
    assert compression.due() == []
    return compression, body


def test_blocks_become_five_times_smaller() -> None:
    compression, body = trained()
    reader = Compression({NUMBER: body}.get)
    long = short = 0
    for number in range(1000, 1100):
        form, text = compression.compress(TOPIC, block(number))
        assert form == NUMBER
        assert reader.expand(form, text) == block(number)
        long, short = long + len(block(number)), short + len(text)
    assert len(body) <= DICTIONARY_BYTES + 4
    assert long / short >= 5


def test_other_answers_are_compressed_without_it() -> None:
    compression, _ = trained()
    form, text = compression.compress("receipts", block(1))
    assert form == COMPRESSED
    assert compression.expand(form, text) == block(1)


def test_what_is_short_or_does_not_get_shorter_stands_as_it_is() -> None:
    compression = Compression(no_dictionary)
    for result in (b"0" * (MIN_COMPRESSED_BYTES - 1), bytes(range(256))):
        assert compression.compress("t", result) == (AS_IT_IS, result)
        assert compression.expand(AS_IT_IS, result) == result


def test_without_its_dictionary_whole_and_under_its_number_a_text_is_not_read() -> None:
    compression, body = trained()
    form, text = compression.compress(TOPIC, block(5000))
    for found in (None, b"", body[:-1], body[:-1] + bytes([body[-1] ^ 1])):
        assert Compression({NUMBER: found}.get).expand(form, text) is None
    assert Compression(lambda _number: body).expand(form + 1, text) is None
    assert Compression(lambda _number: body).expand(form, text[:-20]) is None


def test_once_numbers_have_run_out_a_topic_gets_no_dictionary_and_is_not_sampled_again() -> None:
    compression = Compression(no_dictionary)
    for expected in ([TOPIC], []):
        for number in range(TRAINING_SAMPLES):
            compression.compress(TOPIC, block(number))
        assert compression.due() == expected
        assert [compression.train(topic, LAST_DICTIONARY + 1) for topic in expected] == [None] * len(expected)


def test_a_dictionary_that_another_process_trained_is_used_unless_it_is_damaged() -> None:
    _, body = trained()
    for found, form in ((body, NUMBER), (body[:-1], COMPRESSED)):
        compression = Compression(no_dictionary)
        compression.use(TOPIC, NUMBER, found)
        assert compression.compress(TOPIC, block(1))[0] == form


def test_samples_are_bounded() -> None:
    compression = Compression(no_dictionary)
    largest = b"[" + b"1" * (MAX_SAMPLE_BYTES - 2) + b"]"
    too_few = TRAINING_BYTES // MAX_SAMPLE_BYTES - 1
    for topic in range(MAX_SAMPLED_BYTES // MAX_SAMPLE_BYTES // too_few + 2):
        for _ in range(too_few):
            compression.compress(str(topic), largest)
    compression.compress("0", largest)
    assert compression.due() == []
    few = Compression(no_dictionary)
    for _ in range(too_few + 1):
        few.compress("0", largest)
    assert few.due() == ["0"]


# -- names ------------------------------------------------------------------------------------------------------------

params = st.one_of(
    st.binary(max_size=cache_key.LONGEST_PARAMS),
    st.binary(max_size=MAX_PLAIN_PARAMS).map(lambda text: b"[" + text + b"]"),
    st.sampled_from([b"", b"[", b"]", b"[]", b"[[]]", b"[\xff]", b"[\xff" + b"x" * 20 + b"]"]),
)


def test_the_prefix_of_a_key_ends_with_its_scope() -> None:
    params = b'[{"to":"0x1:2"},"0x1"]'
    key = cache_key.cache_key(cache_key.network_tag("net", 1), "eth_call", cache_key.SCOPE_NUMBER, params)
    assert split_key(key) == (b"net@1:eth_call:n:", params)


def test_a_key_of_another_form_has_what_it_has_of_a_prefix() -> None:
    assert split_key(b"s0:call:1") == (b"s0:call:", b"1")
    assert split_key(b"key") == (b"", b"key")


@given(params, params, st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_names_are_distinct_for_distinct_calls(one: bytes, other: bytes, first: int, second: int) -> None:
    assert (name_of(first, one) == name_of(second, other)) == ((first, one) == (second, other))


@given(params, st.integers(0, 2**24 - 2))
def test_a_name_tells_the_number_of_its_prefix_and_stands_within_its_bounds(text: bytes, number: int) -> None:
    name = name_of(number, text)
    first, end = names_under(number)
    assert number_in(name) == number
    assert first <= name < end


def test_neighbouring_blocks_are_neighbours() -> None:
    names = [name_of(1, split_key(block_key(number))[1]) for number in range(0x1000000, 0x1000400)]
    assert names == sorted(names)


@given(st.binary(min_size=25, max_size=200))
def test_long_params_take_no_more_than_a_digest(text: bytes) -> None:
    assert len(name_of(1, text)) == ID_BYTES + 21
