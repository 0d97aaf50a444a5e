"""Compression of results by zstd, with dictionaries trained on the answers themselves.

An answer of 1.6 kB repeats the names of its members and an empty bloom, which zstd by itself learns anew for each
answer. So the first answers of each method of a network are held as samples, and a dictionary is trained on them; all
later ones are compressed with it. Dictionaries are kept in the file, under the numbers that values name.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import zstandard

from rpcaccel.stores.disk.values import AS_IT_IS, COMPRESSED

LEVEL = 3
"""The compression level. Levels up to 15 gain nothing more on answers of a few kB with a dictionary, and cost more."""
SAMPLES = 256
"""Answers on which a dictionary is trained."""
SAMPLE_MOST = 32 * 1024
"""Bytes of the longest answer that is a sample."""
SAMPLE_LEAST = 64
"""Bytes of the shortest answer that is compressed or a sample."""
DICTIONARY_BYTES = 16 * 1024
FIRST, LAST = 2, 255
"""Numbers of dictionaries; the numbers below are the other forms of values."""
MOST_SAMPLED = 16 << 20
"""Bytes of all samples that are held at the most; no further samples are taken beyond."""

_FORMAT = zstandard.FORMAT_ZSTD1_MAGICLESS


class Compressor:
    """Compresses results for one writer, and trains dictionaries. Must be used by one thread."""

    def __init__(self) -> None:
        self._plain = _compressor(None)
        self._trained: dict[str, tuple[int, zstandard.ZstdCompressor]] = {}
        self._samples: dict[str, list[bytes | bytearray | memoryview]] = {}
        self._held = 0
        self._given_up: set[str] = set()
        """Topics that get no dictionary."""

    def know(self, topic: str, number: int, dictionary: bytes) -> None:
        """Use this dictionary, which is in the file, for the results of a topic from now on."""
        self._trained[topic] = number, _compressor(dictionary)
        self._drop(topic)

    def forget(self) -> None:
        """Forget the dictionaries, since they may not be in the file."""
        self._trained.clear()

    def compress(self, topic: str, result: bytes) -> tuple[int, bytes]:
        """The form of a value (stores.disk.values) and its text."""
        if len(result) < SAMPLE_LEAST:
            return AS_IT_IS, result
        number, compressor = self._trained.get(topic, (COMPRESSED, self._plain))
        wanted = number == COMPRESSED and len(result) <= SAMPLE_MOST and self._held < MOST_SAMPLED
        if wanted and topic not in self._given_up:
            self._samples.setdefault(topic, []).append(result)
            self._held += len(result)
        shorter = compressor.compress(result)
        return (number, shorter) if len(shorter) < len(result) else (AS_IT_IS, result)

    def due(self) -> list[str]:
        """The topics that have enough samples."""
        return [topic for topic, samples in self._samples.items() if len(samples) >= SAMPLES]

    def train(self, topic: str) -> bytes | None:
        """Train a dictionary on the samples of a topic; None, once and for all, where they have nothing in common."""
        samples = self._samples[topic]
        size = min(DICTIONARY_BYTES, sum(map(len, samples)) // 8)
        try:
            return zstandard.train_dictionary(size, samples).as_bytes()
        except zstandard.ZstdError:
            self.give_up(topic)
            return None

    def give_up(self, topic: str) -> None:
        """Train no dictionary for this topic."""
        self._given_up.add(topic)
        self._drop(topic)

    def _drop(self, topic: str) -> None:
        self._held -= sum(map(len, self._samples.pop(topic, ())))


class Expander:
    """Expands texts for one reader. Must be used by one thread."""

    def __init__(self, load: Callable[[int], bytes | None]) -> None:
        """`load` reads the dictionary with a number from the file; None when there is none or it is damaged."""
        self._load = load
        self._expand = {COMPRESSED: zstandard.ZstdDecompressor(format=_FORMAT).decompress}

    def expand(self, form: int, text: bytes) -> bytes | None:
        """The result; None when the text is damaged, or the dictionary is not there."""
        expand = self._expand.get(form)
        if expand is None:
            dictionary = self._load(form)
            if dictionary is None:
                return None
            trained = zstandard.ZstdCompressionDict(dictionary)
            expand = zstandard.ZstdDecompressor(dict_data=trained, format=_FORMAT).decompress
            self._expand[form] = expand
        try:
            return expand(text)
        except zstandard.ZstdError:
            return None


def sealed(dictionary: bytes, number: int) -> bytes:
    """A dictionary as the file holds it, with a checksum that covers its number."""
    return zlib.crc32(dictionary, number).to_bytes(4, "big") + dictionary


def unsealed(data: bytes, number: int) -> bytes | None:
    """The dictionary in this form; None when it is damaged."""
    dictionary = data[4:]
    return dictionary if data[:4] == zlib.crc32(dictionary, number).to_bytes(4, "big") else None


def _compressor(dictionary: bytes | None) -> zstandard.ZstdCompressor:
    """A compressor whose frames name neither zstd nor their dictionary, since the header of a value says both."""
    size = 0 if dictionary is None else len(dictionary)
    form = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, dict_size=size, format=_FORMAT, write_content_size=1, write_dict_id=0, write_checksum=0
    )
    trained = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    return zstandard.ZstdCompressor(compression_params=form, dict_data=trained)
