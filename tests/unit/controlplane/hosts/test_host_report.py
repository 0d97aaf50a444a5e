"""What a host tells of itself: short where it is written, and believed in nothing where it is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.hosts.host_report import MAX_REPORT_BYTES, HostReport, decoded, encoded, page_of
from rpcaccel.core.wire.printable import printable

FULL = HostReport(
    name="proxy-1",
    version="0.2.0",
    uptime=61.5,
    page="http://10.0.0.7:8889/",
    draining=True,
    workers=4,
    window=10.0,
    calls=900,
    accepted=880,
    hits=800,
    errors=3,
    miss_p99=0.25,
    heads={"harmony-s0": 61_204_811, "mainnet": 0},
    networks=3,
    revision=17,
    refusal="a worker refused",
    purges_late=0.2,
)


def test_what_is_written_is_read() -> None:
    assert decoded(encoded(FULL)) == FULL
    assert decoded(encoded(HostReport(name="x"))) == HostReport(name="x")


def test_heads_that_do_not_fit_are_left_out_and_the_number_of_networks_stays() -> None:
    many = {f"network-{number:03d}-{'x' * 60}": number for number in range(200)}
    told = decoded(encoded(HostReport(name="x", heads=many, networks=200)))
    assert 0 < len(told.heads) < 200
    assert told.networks == 200


@given(st.text(min_size=500), st.dictionaries(st.text(), st.integers(0, 1 << 53)))
def test_a_document_is_never_too_long_and_always_readable(text: str, heads: dict[str, int]) -> None:
    report = HostReport(name=text, version=text, page=text, refusal=text, heads=heads)
    document = encoded(report)
    assert len(document) <= MAX_REPORT_BYTES
    assert decoded(document) is not None


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"no JSON",
        b"[]",
        b"{}",
        b'{"name": 7}',
        b'{"name": "x", "workers": -1}',
        b'{"name": "x", "calls": 1e300}',
        b'{"name": "x", "uptime": 1e999}',
        b'{"name": "x", "window": NaN}',
        b'{"name": "x", "heads": {"a": "b"}}',
        b'{"name": "\xff"}',
        b'{"name": "x", "heads":' + b"[" * 3000,
        b'{"name": "' + b"x" * MAX_REPORT_BYTES + b'"}',
    ],
)
def test_what_is_no_document_of_a_host_is_none(document: bytes) -> None:
    assert decoded(document) is None


def test_members_of_a_newer_version_are_passed_over() -> None:
    assert decoded(b'{"name": "x", "colour": "blue"}') == HostReport(name="x")


def test_foreign_texts_are_printable_and_cut() -> None:
    wild: dict[str, Any] = {"name": "a\x1b[2J\u202e" + "b" * 500, "version": "<b>\n", "heads": {"\x00": 1}}
    told = decoded(msgspec.json.encode({**wild, "refusal": "é" * 900}))
    assert told.name.startswith("a\\x1b[2J\\u202eb")
    assert [len(told.name), len(told.refusal)] == [100, 400]
    assert (told.version, list(told.heads)) == ("<b>\\n", ["\\x00"])
    assert all(printable(text) == text for text in (told.name, told.version, told.refusal, *told.heads))


@pytest.mark.parametrize(
    "page",
    [
        "javascript:alert(1)",
        "http://a:1/x",
        "http://user@a:1/",
        "//a:1/",
        "https://a/",
        "http://a b:1/",
        "http://a:1/\n",
    ],
)
def test_a_page_that_is_more_than_an_address_is_left_out(page: str) -> None:
    told = decoded(msgspec.json.encode({"name": "x", "page": page}))
    assert told.page == ""


@pytest.mark.parametrize(
    ("address", "settings", "page"),
    [
        ("127.0.0.1:8889", {}, ""),
        ("localhost:8889", {"names": ["a.example"]}, ""),
        ("[::1]:8889", {}, ""),
        ("10.0.0.7:8889", {}, "http://10.0.0.7:8889/"),
        ("[fd00::7]:8889", {}, "http://[fd00::7]:8889/"),
        ("10.0.0.7:8889", {"names": ["page.example"], "tls_cert": "c.pem"}, "https://10.0.0.7:8889/"),
        ("0.0.0.0:8889", {}, ""),
        ("0.0.0.0:8889", {"names": ["proxy-1", "page.example"]}, "http://proxy-1:8889/"),
        ("[::]:8889", {"names": ["proxy-1"]}, "http://proxy-1:8889/"),
    ],
)
def test_the_page_is_known_where_other_machines_can_reach_it(address: str, settings: Any, page: str) -> None:
    assert page_of(address, AdminSettings(**settings)) == page
