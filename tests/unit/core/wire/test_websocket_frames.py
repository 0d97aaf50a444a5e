"""A client's frames are read alike however its bytes are cut, and broken rules are told by the code that fits."""

from __future__ import annotations

import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpcaccel.core.wire.websocket_frames import (
    MOST_FRAGMENTS,
    MOST_INFLATED,
    UNFINISHED,
    CloseCode,
    FrameError,
    Opcode,
    WebSocketFrame,
    WebSocketReader,
    close_code,
    close_frame,
    deflate,
    inflate,
    text_header,
)
from tests.support.dataplane.raw_socket import frame, squeezed

MOST = 1000


def read(*pieces: bytes, deflates: bool = False) -> list[WebSocketFrame]:
    reader, found = WebSocketReader(deflates=deflates), []
    for piece in pieces:
        reader.feed(piece)
        while (one := reader.next(MOST)) is not None:
            if one is not UNFINISHED:
                found.append(one)
    return found


STREAM = b"".join(
    (
        frame(b'{"id":1}'),
        frame(b"", Opcode.BINARY),
        frame(b"he", fin=False),
        frame(b"ping", Opcode.PING),
        frame(b"", Opcode.CONTINUATION, fin=False),
        frame(b"llo", Opcode.CONTINUATION),
        frame(b"x" * 700, Opcode.BINARY),
        squeezed(b"y" * 900),
        frame(b"", Opcode.PONG),
        frame(b"\x03\xe8bye", Opcode.CLOSE),
    )
)
MEANT = [
    WebSocketFrame(Opcode.TEXT, b'{"id":1}'),
    WebSocketFrame(Opcode.BINARY, b""),
    WebSocketFrame(Opcode.PING, b"ping"),
    WebSocketFrame(Opcode.TEXT, b"hello"),
    WebSocketFrame(Opcode.BINARY, b"x" * 700),
    WebSocketFrame(Opcode.TEXT, b"y" * 900),
    WebSocketFrame(Opcode.PONG, b""),
    WebSocketFrame(Opcode.CLOSE, b"\x03\xe8bye"),
]


@given(st.sets(st.integers(0, len(STREAM))))
@example(set(range(len(STREAM))))
def test_any_pieces_mean_the_same(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(edges)]
    assert read(*pieces, deflates=True) == MEANT


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_masks_come_off(payload: bytes, mask: bytes) -> None:
    assert read(frame(payload, Opcode.BINARY, mask=mask)) == [WebSocketFrame(Opcode.BINARY, payload)]


PROTOCOL, TOO_BIG, INVALID = CloseCode.PROTOCOL_ERROR, CloseCode.TOO_BIG, CloseCode.INVALID_DATA


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (frame(b"{}", mask=None), PROTOCOL, "not masked"),
        (b"\x81\x05", PROTOCOL, "not masked"),  # before its payload comes
        (frame(b"{}", bits=0x20), PROTOCOL, "reserved bit"),
        (frame(b"{}", bits=0x10), PROTOCOL, "reserved bit"),
        (frame(b"{}", bits=0x40), PROTOCOL, "without agreement"),
        (frame(b"{}", Opcode.CONTINUATION), PROTOCOL, "continuation without"),
        (frame(b"{", fin=False) + frame(b"}"), PROTOCOL, "within a message"),
        (frame(b"", fin=False) + frame(b"}"), PROTOCOL, "within a message"),
        *((frame(b"", opcode), PROTOCOL, f"opcode {opcode} is reserved") for opcode in (3, 4, 5, 6, 7, 11, 12, 15)),
        (frame(b"", Opcode.PING, fin=False), PROTOCOL, "control frame"),
        (frame(b"x" * 126, Opcode.PING), PROTOCOL, "control frame"),
        (frame(b"", Opcode.PING, bits=0x40), PROTOCOL, "control frame"),
        (frame(b"x" * 1001), TOO_BIG, "larger than 1000"),
        (frame(b"x" * 1001)[:4], TOO_BIG, "larger than 1000"),
        (b"\x81\xff" + b"\xff" * 8, TOO_BIG, "larger than 1000"),
        (frame(b"x" * 600, fin=False) + frame(b"x" * 401, Opcode.CONTINUATION), TOO_BIG, "larger than 1000"),
    ],
)
def test_broken_rules_are_refused(sent: bytes, code: int, words: str) -> None:
    with pytest.raises(FrameError, match=words) as refused:
        read(sent)
    assert refused.value.code == code


@pytest.mark.parametrize("payload", [b'{"id":"\xff"}', b"\xed\xa0\x80", "é".encode()[:1], b"x" * 700 + b"\xc0\x80"])
def test_a_text_that_is_not_utf8_fails_the_connection_and_binary_data_may_be_anything(payload: bytes) -> None:
    halves = frame(payload[:1], fin=False) + frame(payload[1:], Opcode.CONTINUATION)
    for sent in (frame(payload), halves, squeezed(payload)):
        with pytest.raises(FrameError, match="the text message is not UTF-8") as refused:
            read(sent, deflates=True)
        assert refused.value.code == INVALID
    assert read(frame(payload, Opcode.BINARY)) == [WebSocketFrame(Opcode.BINARY, payload)]


def test_a_character_may_be_cut_by_fragments() -> None:
    text = "é€😀".encode()
    for at in range(len(text)):
        halves = frame(text[:at], fin=False) + frame(text[at:], Opcode.CONTINUATION)
        assert read(halves, frame(text)) == [WebSocketFrame(Opcode.TEXT, text)] * 2


def test_the_largest_message_is_taken_and_may_have_a_ping_within() -> None:
    sent = frame(b"x" * 600, fin=False) + frame(b"p", Opcode.PING) + frame(b"x" * 400, Opcode.CONTINUATION)
    assert read(frame(b"x" * 1000), sent) == [
        WebSocketFrame(Opcode.TEXT, b"x" * 1000),
        WebSocketFrame(Opcode.PING, b"p"),
        WebSocketFrame(Opcode.TEXT, b"x" * 1000),
    ]


def test_a_compressed_message_may_come_in_fragments_and_not_compressed_beside_others() -> None:
    whole = squeezed(b"z" * 500)
    plain = frame(b"plain")
    payload = bytes(byte ^ whole[2:6][at & 3] for at, byte in enumerate(whole[6:]))
    parts = frame(payload[:3], fin=False, bits=0x40) + frame(payload[3:], Opcode.CONTINUATION)
    assert [one.payload for one in read(plain + parts + plain, deflates=True)] == [b"plain", b"z" * 500, b"plain"]


def test_what_is_compressed_is_not_decompressed_beyond_the_bound() -> None:
    bomb = squeezed(b"\0" * 900_000)
    assert len(bomb) < MOST
    tracemalloc.start()
    with pytest.raises(FrameError) as refused:
        read(bomb, deflates=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.value.code == TOO_BIG
    assert peak < 200_000


def test_what_is_compressed_has_a_bound_of_its_own() -> None:
    reader = WebSocketReader(deflates=True)
    reader.feed(squeezed(b" " * MOST_INFLATED) + squeezed(b" " * (MOST_INFLATED + 1)))
    assert reader.next(5 << 20) == WebSocketFrame(Opcode.TEXT, b" " * MOST_INFLATED)
    with pytest.raises(FrameError, match="larger than 1048576 bytes when it is decompressed") as refused:
        reader.next(5 << 20)
    assert refused.value.code == TOO_BIG


def test_what_is_no_deflate_is_refused() -> None:
    with pytest.raises(FrameError) as refused:
        read(frame(b"\xff\xff\xff", bits=0x40), deflates=True)
    assert refused.value.code == INVALID


def test_a_stream_that_ends_itself_is_taken() -> None:
    stream = zlib.compressobj(wbits=-15)
    assert inflate(stream.compress(b"hello") + stream.flush() + b"\0", MOST) == b"hello"


@given(st.lists(st.binary(max_size=2000)), st.integers(9, 15))
def test_what_is_compressed_comes_back(parts: list[bytes], window: int) -> None:
    sent = deflate(tuple(parts), window)
    assert zlib.decompressobj(-window).decompress(sent + b"\0\0\xff\xff") == b"".join(parts)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("compressed", [False, True])
def test_headers_say_the_size(size: int, compressed: bool) -> None:
    header = text_header(size, compressed=compressed)
    assert header[0] == (0xC1 if compressed else 0x81)
    assert int.from_bytes(header[1:] if len(header) == 2 else header[2:], "big") == size


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1011, 1014, 3000, 4000, 4999])
def test_these_close_codes_may_be_sent(code: int) -> None:
    assert close_code(code.to_bytes(2, "big") + b"why") == code


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2000, 2999, 5000, 65_535])
def test_these_may_not(code: int) -> None:
    with pytest.raises(FrameError):
        close_code(code.to_bytes(2, "big"))


def test_a_close_may_be_empty_and_not_half_a_code_nor_spoken_in_another_encoding() -> None:
    assert close_code(b"") is None
    with pytest.raises(FrameError):
        close_code(b"\x03")
    with pytest.raises(FrameError) as refused:
        close_code(b"\x03\xe8\xff")
    assert refused.value.code == INVALID


def test_a_long_reason_is_cut_between_characters() -> None:
    sent = close_frame(1013, "é" * 100)
    assert sent[1] <= 125
    assert sent[4:].decode() == "é" * 61


def test_what_is_kept_of_a_message_counts_until_the_rest_comes() -> None:
    reader = WebSocketReader()
    told = []
    for piece in (b"", frame(b"abc", fin=False), frame(b"d", Opcode.CONTINUATION)[:3], frame(b"d", 0)[3:]):
        reader.feed(piece)
        assert (reader.next(MOST) in (None, UNFINISHED)) == (len(told) < 3)
        told.append(reader.held)
    assert told == [0, 3, 6, 0]


def test_the_fragments_of_a_message_are_read_one_by_one() -> None:
    reader = WebSocketReader()
    reader.feed(frame(b"a", fin=False) + frame(b"b", Opcode.CONTINUATION, fin=False) + frame(b"c", Opcode.CONTINUATION))
    assert [reader.next(MOST) for _ in range(4)] == [UNFINISHED, UNFINISHED, WebSocketFrame(Opcode.TEXT, b"abc"), None]


def test_fragments_are_not_copied_with_every_further_one() -> None:
    reader = WebSocketReader()
    reader.feed(frame(b"x" * (1 << 20), fin=False) + frame(b"", Opcode.CONTINUATION, fin=False))
    assert reader.next(2 << 20) is UNFINISHED
    tracemalloc.start()
    assert reader.next(2 << 20) is UNFINISHED
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_a_message_may_have_so_many_fragments() -> None:
    empty, reader = frame(b"", Opcode.CONTINUATION, fin=False), WebSocketReader()
    for _ in range(2):  # each message may have as many
        reader.feed(frame(b"", fin=False) + empty * (MOST_FRAGMENTS - 1) + frame(b"x", Opcode.CONTINUATION))
        assert [one for _ in range(MOST_FRAGMENTS + 1) if (one := reader.next(MOST)) is not UNFINISHED] == [
            WebSocketFrame(Opcode.TEXT, b"x")
        ]
    reader.feed(frame(b"", fin=False) + empty * MOST_FRAGMENTS)
    assert {reader.next(MOST) for _ in range(MOST_FRAGMENTS)} == {UNFINISHED}
    with pytest.raises(FrameError, match="more than 10000 fragments") as refused:
        reader.next(MOST)
    assert refused.value.code == CloseCode.POLICY
