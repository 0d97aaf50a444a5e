"""Compression with dictionaries that are trained on the answers."""

from __future__ import annotations

from rpcaccel.stores.disk.dictionaries import (
    DICTIONARY_BYTES,
    FIRST,
    MOST_SAMPLED,
    SAMPLE_LEAST,
    SAMPLE_MOST,
    SAMPLES,
    Compressor,
    Expander,
    sealed,
    unsealed,
)
from rpcaccel.stores.disk.values import AS_IT_IS, COMPRESSED
from tests.support.stores.disk import block


def trained() -> tuple[Compressor, bytes]:
    compressor = Compressor()
    for number in range(SAMPLES):
        compressor.compress("blocks", block(number))
    (topic,) = compressor.due()
    dictionary = compressor.train(topic)
    assert dictionary is not None
    compressor.know(topic, FIRST, dictionary)
    return compressor, dictionary


def test_blocks_become_five_times_smaller() -> None:
    compressor, dictionary = trained()
    expander = Expander({FIRST: dictionary}.get)
    long = short = 0
    for number in range(1000, 1100):
        form, text = compressor.compress("blocks", block(number))
        assert form == FIRST
        assert expander.expand(form, text) == block(number)
        long, short = long + len(block(number)), short + len(text)
    assert len(dictionary) <= DICTIONARY_BYTES
    assert long / short >= 5


def test_other_answers_are_compressed_without_it() -> None:
    compressor, _ = trained()
    form, text = compressor.compress("receipts", block(1))
    assert form == COMPRESSED
    assert Expander(lambda _number: None).expand(form, text) == block(1)


def test_what_is_short_or_does_not_get_shorter_stands_as_it_is() -> None:
    compressor = Compressor()
    short = b"0" * (SAMPLE_LEAST - 1)
    mixed = bytes(range(256))
    assert compressor.compress("t", short) == (AS_IT_IS, short)
    assert compressor.compress("t", mixed) == (AS_IT_IS, mixed)


def test_without_its_dictionary_a_text_is_not_read() -> None:
    compressor, dictionary = trained()
    form, text = compressor.compress("blocks", block(5000))
    assert Expander(lambda _number: None).expand(form, text) is None
    assert Expander(lambda _number: dictionary).expand(form, text[:-20]) is None


def test_answers_that_have_nothing_in_common_get_no_dictionary_and_are_not_sampled_again() -> None:
    compressor = Compressor()
    for _ in range(2):
        for number in range(SAMPLES):
            compressor.compress("odd", number.to_bytes(SAMPLE_LEAST, "big"))
        for topic in compressor.due():
            compressor.give_up(topic)
    assert compressor.due() == []


def test_samples_are_bounded() -> None:
    compressor = Compressor()
    largest = b"[" + b"1" * (SAMPLE_MOST - 2) + b"]"
    most = MOST_SAMPLED // SAMPLE_MOST
    for topic in range(most // (SAMPLES - 1) + 2):
        for _ in range(SAMPLES - 1):
            compressor.compress(str(topic), largest)
    compressor.compress("0", b"[" + b"1" * SAMPLE_LEAST + b"]")
    assert compressor.due() == []


def test_a_damaged_dictionary_is_seen_and_so_is_one_under_another_number() -> None:
    data = sealed(b"words", 3)
    assert unsealed(data, 3) == b"words"
    assert unsealed(data, 4) is None
    assert unsealed(data[:-1] + b"x", 3) is None
    assert unsealed(b"", 3) is None
