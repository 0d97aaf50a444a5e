"""How an entry stands in the file: under a short name, as a value with a header, a checksum and a compressed result.

A cache key is `network@chain-id:method:scope:params` (core.plan.cache_key). In a name, everything before the params is
replaced by a number of three bytes, which the table `prefixes` of the file gives out. Params that are a short list
stand as they are, without brackets, so that neighbouring blocks are neighbours in the index; all others stand as a
digest.

The checksum of a value covers its key, too: whatever is damaged in the file, no entry is taken for that of another
call. Only entries that never expire have this form.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from sys import intern

import zstandard

from rpcaccel.core.cache.entry import Damage, Damaged, Entry
from rpcaccel.core.plan.rules import CacheClass

ID_BYTES = 3
MAX_PREFIXES = 256**ID_BYTES - 1
MAX_PLAIN_PARAMS = 24
"""Bytes of the longest params that stand in a name as they are."""
_DIGEST_MARK = b"\xff"
"""Stands before a digest; no item of a list in JSON begins with it."""

_HEADER = struct.Struct(">BBII")
"""Form (0: as it is; 1: compressed; above: the number of the dictionary that it was compressed with), class, Unix time
when it was stored (seconds), block (NO_BLOCK: none)."""
_CHECKSUM = struct.Struct(">I")
_BODY_START = _CHECKSUM.size + _HEADER.size
AS_IT_IS, COMPRESSED = 0, 1
LAST_DICTIONARY = 255
_NO_BLOCK = 0xFFFF_FFFF
_CLASSES = tuple(CacheClass)
"""A class is written as its place in this order: core.cache.entry.SCHEMA is increased when that changes."""
_CODES = {cache: code for code, cache in enumerate(_CLASSES)}

ZSTD_LEVEL = 3
"""The level of zstd. Levels up to 15 gain nothing more on answers of a few kB with a dictionary, and cost more."""
MIN_COMPRESSED_BYTES = 64
"""Bytes of the shortest result that is compressed."""
TRAINING_SAMPLES, TRAINING_BYTES = 256, 512 << 10
"""Results on which a dictionary is trained, or bytes of fewer long ones: training takes the thread of the file."""
MAX_SAMPLE_BYTES = 32 << 10
MAX_SAMPLED_BYTES = 16 << 20
"""Bytes of all samples that are held; no further samples are taken beyond."""
DICTIONARY_BYTES = 16 << 10
_FORMAT = zstandard.FORMAT_ZSTD1_MAGICLESS


# -- names ------------------------------------------------------------------------------------------------------------


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """The prefix of a key, which is network, method and scope with the colon after them, and its params."""
    end = -1
    for _ in range(3):
        found = key.find(b":", end + 1)
        if found < 0:
            break
        end = found
    return key[: end + 1], key[end + 1 :]


def name_of(number: int, params: bytes) -> bytes:
    """The name of the entry with these params under the prefix of this number. Raises OverflowError for a number that
    does not fit."""
    if len(params) <= MAX_PLAIN_PARAMS and params[:1] == b"[" and params[-1:] == b"]" and params[1:2] != _DIGEST_MARK:
        short = params[1:-1]
    else:
        short = _DIGEST_MARK + blake2b(params, digest_size=20).digest()
    return number.to_bytes(ID_BYTES, "big") + short


def number_in(name: bytes) -> int:
    return int.from_bytes(name[:ID_BYTES], "big")


def names_under(number: int) -> tuple[bytes, bytes]:
    """The bounds of all names under the prefix of this number: the first one, and the first one after them."""
    return number.to_bytes(ID_BYTES, "big"), (number + 1).to_bytes(ID_BYTES, "big")


# -- values -----------------------------------------------------------------------------------------------------------


def encode(key: bytes, entry: Entry, compression: Compression, *, now: float, wall: float) -> bytes:
    """The value of an entry; `now` (monotonic) and `wall` (Unix) are the same instant in seconds."""
    form, body = compression.compress(f"{entry.network}:{entry.method}", entry.result)
    stored = min(max(0, int(entry.stored_at + wall - now)), _NO_BLOCK)
    block = entry.block if 0 <= entry.block < _NO_BLOCK else _NO_BLOCK
    sealed = _HEADER.pack(form, _CODES[entry.cache], stored, block) + body
    return _CHECKSUM.pack(zlib.crc32(sealed, zlib.crc32(key))) + sealed


def decode(key: bytes, data: bytes, compression: Compression, *, now: float, wall: float) -> Entry | Damaged:
    """The entry of a value. Raises nothing, whatever `data` is, but what the loading of a dictionary raises."""
    if len(data) < _BODY_START:
        return Damaged(Damage.SHORT)
    sealed = data[_CHECKSUM.size :]
    if _CHECKSUM.unpack_from(data)[0] != zlib.crc32(sealed, zlib.crc32(key)):
        return Damaged(Damage.CHECKSUM)
    form, code, stored, block = _HEADER.unpack_from(sealed)
    if code >= len(_CLASSES):
        return Damaged(Damage.FIELDS)
    result = compression.expand(form, data[_BODY_START:])
    if result is None:
        return Damaged(Damage.COMPRESSION)
    network, _, rest = key.partition(b":")
    return Entry(
        result=result,
        cache=_CLASSES[code],
        block=-1 if block == _NO_BLOCK else block,
        # Interned, because the memory tier does not count the names of entries.
        network=intern(network.partition(b"@")[0].decode()),
        method=intern(rest.partition(b":")[0].decode()),
        stored_at=now - max(0.0, wall - stored),
    )


# -- compression ------------------------------------------------------------------------------------------------------


class Compression:
    """Compresses results by zstd, with a dictionary for each topic (a method of a network), and expands them.

    An answer repeats the names of its members and an empty bloom, which zstd by itself learns anew for each answer. So
    the first results of a topic are held as samples, a dictionary is trained on them, and later results are compressed
    with it. A block of 1.6 kB takes 296 bytes so, and 616 without; a receipt of 1.1 kB takes 109, and 355 without.
    """

    def __init__(self, load: Callable[[int], bytes | None]) -> None:
        """`load` reads the body of the dictionary with a number; None when there is none."""
        self._load = load
        self._plain = COMPRESSED, _compressor(None)
        self._trained: dict[str, tuple[int, zstandard.ZstdCompressor]] = {}
        """The dictionary of each topic that needs no further samples, and its number."""
        self._expanders = {COMPRESSED: zstandard.ZstdDecompressor(format=_FORMAT)}
        self._samples: dict[str, list[bytes | bytearray | memoryview]] = {}
        self._sampled_bytes = 0

    def compress(self, topic: str, result: bytes) -> tuple[int, bytes]:
        """The form of a value and its text."""
        if len(result) < MIN_COMPRESSED_BYTES:
            return AS_IT_IS, result
        trained = self._trained.get(topic)
        if trained is None and len(result) <= MAX_SAMPLE_BYTES and self._sampled_bytes < MAX_SAMPLED_BYTES:
            self._samples.setdefault(topic, []).append(result)
            self._sampled_bytes += len(result)
        form, compressor = trained or self._plain
        shorter = compressor.compress(result)
        return (form, shorter) if len(shorter) < len(result) else (AS_IT_IS, result)

    def expand(self, form: int, text: bytes) -> bytes | None:
        """The result; None when the text is damaged, or the dictionary is damaged or not there."""
        if form == AS_IT_IS:
            return text
        expander = self._expanders.get(form)
        if expander is None:
            dictionary = _unsealed(self._load(form), form)
            if dictionary is None:
                return None
            trained = zstandard.ZstdCompressionDict(dictionary)
            expander = self._expanders[form] = zstandard.ZstdDecompressor(dict_data=trained, format=_FORMAT)
        try:
            return expander.decompress(text)
        except zstandard.ZstdError:
            return None

    def due(self) -> list[str]:
        """The topics that have enough samples."""
        return [
            topic
            for topic, samples in self._samples.items()
            if len(samples) >= TRAINING_SAMPLES or sum(map(len, samples)) >= TRAINING_BYTES
        ]

    def train(self, topic: str, number: int) -> bytes | None:
        """Train a dictionary on the samples of a topic, and use it under this number; returns its body for the file.
        None where zstd finds nothing in common or numbers have run out: then the topic has none for good."""
        samples, body = self._samples[topic], None
        size = min(DICTIONARY_BYTES, sum(map(len, samples)) // 8)
        if number <= LAST_DICTIONARY:
            with suppress(zstandard.ZstdError):
                dictionary = zstandard.train_dictionary(size, samples).as_bytes()
                body = _CHECKSUM.pack(zlib.crc32(dictionary, number)) + dictionary
        self.use(topic, number, body)
        return body

    def use(self, topic: str, number: int, body: bytes | None) -> None:
        """Use the dictionary with this body for the results of a topic from now on, and none where it is damaged."""
        dictionary = _unsealed(body, number)
        self._trained[topic] = self._plain if dictionary is None else (number, _compressor(dictionary))
        self._sampled_bytes -= sum(map(len, self._samples.pop(topic, ())))


def _unsealed(body: bytes | None, number: int) -> bytes | None:
    """The dictionary behind its checksum, which covers its number; None when it is damaged."""
    if body is None or body[: _CHECKSUM.size] != _CHECKSUM.pack(zlib.crc32(body[_CHECKSUM.size :], number)):
        return None
    return body[_CHECKSUM.size :]


def _compressor(dictionary: bytes | None) -> zstandard.ZstdCompressor:
    """A compressor whose frames name neither zstd nor their dictionary, since the header of a value says both."""
    size = 0 if dictionary is None else len(dictionary)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        ZSTD_LEVEL, dict_size=size, format=_FORMAT, write_content_size=1, write_dict_id=0, write_checksum=0
    )
    trained = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=trained)
