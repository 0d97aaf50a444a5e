"""Whose call it is: only named proxies are believed, from the right end of what they wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.wire.forwarded_for import Trust, holder, parse

PROXIES = Trust(["10.0.0.0/8", "::1", "192.0.2.7"])
FORWARDED = Trust(["10.0.0.0/8"], "forwarded")


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["1.1.1.1"], "203.0.113.9"),  # a stranger's word about itself
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6, 1.1.1.1"], "1.1.1.1"),  # 6.6.6.6 is what the client wrote
        ("10.0.0.1", ["6.6.6.6, 1.1.1.1, 10.2.3.4, 192.0.2.7"], "1.1.1.1"),
        ("10.0.0.1", ["6.6.6.6", "1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["10.9.9.9, 10.8.8.8"], "10.9.9.9"),
        ("10.0.0.1", ["1.1.1.1, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["1.1.1.1, nonsense, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["1.1.1.1:5555"], "1.1.1.1"),
        ("::1", ["[2001:db8::1]:80"], "2001:db8::1"),
        ("", ["1.1.1.1"], ""),
    ],
)
def test_x_forwarded_for_is_read_from_the_right(peer: str, values: list[str], client: str) -> None:
    assert PROXIES.client(peer, values) == client


@pytest.mark.parametrize(
    ("values", "client"),
    [
        (["for=1.1.1.1"], "1.1.1.1"),
        (['proto=https;For="[2001:db8::1]:4711";by=10.0.0.1'], "2001:db8::1"),
        (['for="6.6.6.6, for=7.7.7.7", for=1.1.1.1, for=10.0.0.2'], "1.1.1.1"),
        (["for=6.6.6.6, for=unknown"], "10.0.0.1"),
        (["for=6.6.6.6, for=_hidden, for=10.0.0.2"], "10.0.0.2"),
        (["proto=https"], "10.0.0.1"),
        (["for=1.1.1.1", "for=1.1.1.2"], "1.1.1.2"),
        (['for=6.6.6.6;x="', "for=1.1.1.1"], "10.0.0.1"),
        (['for=6.6.6.6;x=\\"', 'for="1.1.1.1"'], "10.0.0.1"),
        (['for=1.1.1.1;host="a, for=6.6.6.6"'], "1.1.1.1"),
        (['for=1.1.1.1;host="a\\", for=6.6.6.6;x=\\"b"'], "10.0.0.1"),  # quotes in a Host the client made up
        (["x" * 5000, "for=1.1.1.1"], "10.0.0.1"),
        (['notfor=6.6.6.6;host="for=6.6.6.6"'], "10.0.0.1"),
    ],
)
def test_forwarded_is_read_from_the_right(values: list[str], client: str) -> None:
    assert FORWARDED.client("10.0.0.1", values) == client


def test_nobody_is_trusted_by_default() -> None:
    assert not Trust()
    assert Trust().client("10.0.0.1", ["1.1.1.1"]) == "10.0.0.1"
    assert "nobody" in repr(Trust())


def test_a_range_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0"):
        Trust(["10.0.0"])


@pytest.mark.parametrize(
    ("address", "has"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unix", "unix"),
    ],
)
def test_a_client_holds_an_address_or_a_64(address: str, has: str) -> None:
    assert holder(address) == has


@given(st.text(max_size=60), st.lists(st.text(max_size=80), max_size=4), st.sampled_from([PROXIES, FORWARDED]))
def test_whatever_is_sent_an_address_or_the_peer_comes_out(peer: str, values: list[str], trust: Trust) -> None:
    client = trust.client(peer, values)
    assert client == peer or parse(client) is not None


@given(st.lists(st.sampled_from(["6.6.6.6", "x", "10.0.0.3", '"', "for=10.0.0.4"]), max_size=5))
def test_nothing_a_client_writes_changes_what_its_proxy_says(written: list[str]) -> None:
    assert PROXIES.client("10.0.0.1", [", ".join([*written, "1.1.1.1"])]) == "1.1.1.1"
