"""A handshake is read strictly, and one that is wrong is told why."""

from __future__ import annotations

import pytest

from rpcaccel.core.wire.websocket_handshake import accepted, fault, read_handshake, window_offered
from tests.support.dataplane.raw_socket import FIELDS, handshake


def test_an_ordinary_handshake_is_read() -> None:
    found = read_handshake(handshake("/harmony-s0?token=x", Connection="keep-alive, Upgrade", Upgrade="WebSocket"))
    assert found is not None
    assert (found.path, found.window, found.headers["host"]) == ("/harmony-s0?token=x", 0, "x")


def test_the_answer_proves_that_the_key_was_read() -> None:
    """The sample of RFC 6455 section 1.3."""
    found = read_handshake(handshake(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits"))
    assert found is not None
    told = accepted(found, "rpcaccel").decode()
    assert told.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in told
    assert "permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n" in told
    assert told.endswith("\r\n\r\n")


@pytest.mark.parametrize("bits", [9, 10, 15])
def test_a_window_that_was_named_is_told_back(bits: int) -> None:
    found = read_handshake(handshake(Sec_WebSocket_Extensions=f"permessage-deflate; server_max_window_bits={bits}"))
    assert found is not None
    assert f"; server_max_window_bits={bits}\r\n" in accepted(found, "x").decode()


def test_a_window_that_was_not_named_is_not_told() -> None:
    found = read_handshake(handshake(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits=15"))
    assert found is not None
    assert "max_window_bits" not in accepted(found, "x").decode()


def test_no_subprotocol_and_no_unknown_extension_is_chosen() -> None:
    found = read_handshake(handshake(Sec_WebSocket_Protocol="jsonrpc", Sec_WebSocket_Extensions="x-unknown"))
    assert found is not None
    told = accepted(found, "x").decode().lower()
    assert "sec-websocket-protocol" not in told
    assert "sec-websocket-extensions" not in told


def test_lists_that_come_several_times_are_one() -> None:
    text = handshake().replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\n\r\n")
    found = read_handshake(text)
    assert found is not None
    assert found.headers["x-forwarded-for"] == "1.1.1.1, 2.2.2.2"


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"Host": None}, 400, "Host"),
        ({"Upgrade": "h2c"}, 426, "Upgrade"),
        ({"Upgrade": None}, 426, "Upgrade"),
        ({"Connection": "keep-alive"}, 400, "Connection"),
        ({"Connection": None}, 400, "Connection"),
        ({"Sec_WebSocket_Version": "12"}, 426, "Version must be 13"),
        ({"Sec_WebSocket_Version": None}, 426, "Version must be 13"),
        ({"Sec_WebSocket_Key": None}, 400, "16 bytes"),
        ({"Sec_WebSocket_Key": "abc"}, 400, "16 bytes"),
        ({"Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}, 400, "16 bytes"),
        ({"Sec_WebSocket_Key": "AAAA AAAAAAAAAAAAAAAAAA=="}, 400, "16 bytes"),
        ({"Sec_WebSocket_Key": "\xe9" * 22 + "=="}, 400, "16 bytes"),
    ],
)
def test_a_handshake_that_is_wrong_is_not_read_and_told_why(
    fields: dict[str, str | None], status: int, words: str
) -> None:
    assert read_handshake(handshake(**fields)) is None
    named = {name.lower(): value for name, value in FIELDS.items()}
    for name, value in fields.items():
        named[name.replace("_", "-").lower()] = value or ""
    found = fault(named)
    assert found is not None
    assert found.status == status
    assert words in found.words


@pytest.mark.parametrize(
    "text",
    [
        handshake().replace(b"GET", b"POST"),
        handshake().replace(b"HTTP/1.1", b"HTTP/1.0"),
        handshake().replace(b"Host: x", b"Host: x\r\nHost: y"),
        handshake().replace(b"Host: x", b"Host: x\r\nSec-WebSocket-Version: 13"),
        handshake().replace(b"Host: x", b"Host: x\r\n folded"),
        handshake().replace(b"\r\n", b"\n"),
        handshake(Content_Length="5"),
        handshake(Transfer_Encoding="chunked"),
        handshake("/a b"),
        handshake("/%2e"),
        handshake("/a#b"),
        handshake("nowhere"),
        handshake()[:-2],
    ],
)
def test_a_head_that_two_parsers_might_read_in_two_ways_is_not_read(text: bytes) -> None:
    assert read_handshake(text) is None


@pytest.mark.parametrize(
    ("offered", "window"),
    [
        ("", 0),
        ("permessage-deflate", 15),
        ("permessage-deflate; client_max_window_bits", 15),
        ("permessage-deflate;client_max_window_bits=8; server_no_context_takeover", 15),
        ('permessage-deflate; server_max_window_bits="9"', 9),
        ("permessage-deflate; server_max_window_bits=8", 0),
        ("permessage-deflate; server_max_window_bits=8, permessage-deflate", 15),
        ("permessage-deflate; server_max_window_bits", 0),
        ("permessage-deflate; server_no_context_takeover; server_no_context_takeover", 0),
        ("permessage-deflate; server_no_context_takeover=1", 0),
        ("permessage-deflate; unknown", 0),
        ("permessage-deflate; client_max_window_bits=16", 0),
        ("x-webkit-deflate-frame, permessage-deflate", 15),
        (";=;,,", 0),
    ],
)
def test_an_offer_of_compression_is_taken_where_it_can_be_kept(offered: str, window: int) -> None:
    assert window_offered(offered)[0] == window
