"""Addresses: what is sent, and what is never shown."""

from __future__ import annotations

import pytest

from rpcaccel.bench.load.client import parse


def test_a_request_is_one_piece_of_bytes() -> None:
    request = parse("http://127.0.0.1:9500/rpc?a=b").request(b"{}")
    assert request == (
        b"POST /rpc?a=b HTTP/1.1\r\nHost: 127.0.0.1:9500\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


def test_usual_ports_stand_in_no_host_header() -> None:
    target = parse("https://node.example")
    assert (target.port, target.tls) == (443, True)
    assert b"Host: node.example\r\n" in target.head
    assert parse("http://[::1]").head.startswith(b"POST / HTTP/1.1\r\nHost: [::1]\r\n")


def test_a_password_is_sent_and_not_shown() -> None:
    target = parse("https://me:p%40ss@node.example/key-1")
    assert b"Authorization: Basic bWU6cEBzcw==\r\n" in target.head
    assert target.shown == "https://node.example"


@pytest.mark.parametrize("url", ["node", "ftp://a", "http://", "http://a:b", "http://a b"])
def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        parse(url)


def test_loopback_is_this_machine() -> None:
    assert parse("http://localhost:1").local
    assert not parse("http://10.0.0.1:1").local
    assert not parse("http://10.0.0.1:1").tls
