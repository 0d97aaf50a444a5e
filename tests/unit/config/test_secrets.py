"""Addresses show where, never how to get in."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rpcaccel.config.secrets import (
    REVEAL,
    HeaderText,
    Listen,
    NodeSocketUrl,
    NodeUrl,
    Secret,
    StoreUrl,
    format_listen,
    is_loopback,
    parse_listen,
    shown_url,
)

URL = "https://user:hunter2@node.example:8443/v1/hunter2?key=hunter2"


def refusal(read: Callable[[str], object], value: str) -> str:
    """What is said when it is refused, empty when it is read. Any other error escapes."""
    try:
        read(value)
    except ValueError as error:
        return str(error)
    return ""


def test_a_node_url_shows_scheme_host_and_port_everywhere() -> None:
    url = NodeUrl(URL)
    shown = "https://node.example:8443"
    assert (str(url), f"{url}", repr(url)) == (shown, shown, f"NodeUrl('{shown}')")
    assert url.reveal() == URL


def test_a_dump_hides_a_secret_unless_it_is_asked_to_reveal_it() -> None:
    adapter = TypeAdapter(NodeUrl)
    assert adapter.dump_python(NodeUrl(URL)) == "https://node.example:8443"
    assert json.loads(adapter.dump_json(NodeUrl(URL))) == "https://node.example:8443"
    assert adapter.dump_python(NodeUrl(URL), context=REVEAL) == URL


def test_urls_are_equal_by_all_of_their_value() -> None:
    assert NodeUrl(URL) == NodeUrl(URL)
    assert hash(NodeUrl(URL)) == hash(NodeUrl(URL))
    assert NodeUrl(URL) != NodeUrl(URL + "x")
    assert NodeUrl("http://a") != Secret("http://a")


def test_a_secret_is_frozen_and_can_be_copied_to_a_worker() -> None:
    url = NodeUrl(URL)
    with pytest.raises(AttributeError, match="frozen"):
        url._value = "http://other"
    assert pickle.loads(pickle.dumps(url)) == copy.deepcopy(url) == url


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((NodeUrl, text) for text in (
            "", "node", "ftp://node", "ws://node", "http://", "http://:80", "http://node:0", "http://node:99999",
            "http://[::1", "http://no de", "http://node/#part", "http://a\\@b", "http://no\x00de",
            "http://node/" + "x" * 5000, "http:node")),
        *((NodeSocketUrl, text) for text in (
            "node", "http://node", "ws://", "ws://n:0", "ws://node/#part", "wss://a\\@b", "ws:n")),
        *((StoreUrl, text) for text in ("cache:6379", "http://cache", "redis://", "unix://", "redis://:pa?ss@cache")),
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_quoting_it(kind: type[Secret], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(kind.expected)}$") as caught:
        kind(text)
    assert caught.value.__cause__ is None


def test_a_websocket_url_shows_scheme_host_and_port_and_may_be_missing() -> None:
    url = NodeSocketUrl("wss://user:word@node.example:8443/v3/key?x=y")
    assert (str(url), url.reveal()) == ("wss://node.example:8443", "wss://user:word@node.example:8443/v3/key?x=y")
    assert (str(NodeSocketUrl("")), bool(NodeSocketUrl(" "))) == ("", False)


def test_surrounding_space_such_as_a_secret_files_newline_is_dropped() -> None:
    assert NodeUrl(" http://node \n").reveal() == "http://node"


@pytest.mark.parametrize(
    ("text", "host"), [("http://Node:80/x", "node:80"), ("https://node", "node"), ("http://[::1]:9500", "[::1]:9500")]
)
def test_a_node_is_named_by_host_and_port(text: str, host: str) -> None:
    assert NodeUrl(text).host == host


@given(st.text())
@example("http://[v1.x]/")
@example("https://a:b@℀/")
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for kind in (NodeUrl, StoreUrl, HeaderText):
        if said := refusal(kind, text):
            assert said == kind.expected
        else:
            assert kind(text).reveal() == text.strip()
            assert repr(kind(text))
    shown_url(text)


@given(st.text("abcdefXYZ0189-_.~", min_size=8, max_size=30))
def test_no_part_that_may_be_secret_is_shown(secret: str) -> None:
    secret = f"s3cr3t{secret}"
    for url in (
        NodeUrl(f"https://{secret}@node/"),
        NodeUrl(f"https://u:{secret}@node"),
        NodeUrl(f"http://node/{secret}"),
        NodeUrl(f"http://node?{secret}"),
        StoreUrl(f"redis://:{secret}@host/2"),
        StoreUrl(f"redis+sentinel://:{secret}@host,other/service"),
        HeaderText(secret),
    ):
        assert "s3cr3t" not in f"{url} {url!r}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://:pw@cache:6380/1", "redis://cache:6380"),
        ("rediss://u:pw@cache", "rediss://cache:6379"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("", ""),
    ],
)
def test_redis_is_shown_by_place(text: str, shown: str) -> None:
    assert str(StoreUrl(text)) == shown
    assert bool(StoreUrl(text)) == bool(text)


def test_a_header_value_has_no_line_break() -> None:
    assert HeaderText(" Bearer x ").reveal() == "Bearer x"
    for text in ("a\r\nb", "snow☃"):
        with pytest.raises(ValueError, match="the text of a header"):
            HeaderText(text)


@pytest.mark.parametrize(
    ("text", "listen"),
    [
        ("127.0.0.1:8888", Listen("127.0.0.1", 8888)),
        (":80", Listen("0.0.0.0", 80)),
        ("*:80", Listen("0.0.0.0", 80)),
        ("[::1]:0", Listen("::1", 0)),
        ("localhost:65535", Listen("localhost", 65535)),
    ],
)
def test_a_listen_address_is_host_and_port(text: str, listen: Listen) -> None:
    assert parse_listen(text) == listen
    assert parse_listen(format_listen(listen)) == listen


@pytest.mark.parametrize(
    "text", ["", "8888", "host", "host:", "host:x", "host:65536", "::1:80", "a b:80", "h:²", "[x]:1"]
)
def test_what_is_no_listen_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an address HOST:PORT"):
        parse_listen(text)


@given(st.text())
def test_any_text_is_a_listen_address_or_refused(text: str) -> None:
    said = refusal(parse_listen, text)
    assert "HOST:PORT" in said if said else 0 <= parse_listen(text).port <= 65535


def test_names_of_this_machine() -> None:
    assert [is_loopback(name) for name in ("localhost", "127.1.2.3", "::1", "10.0.0.1", "a.b")] == [True] * 3 + [
        False
    ] * 2
