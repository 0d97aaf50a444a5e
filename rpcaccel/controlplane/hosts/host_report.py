"""The document that a host tells others about itself, as bytes: bounded where it is written, and trusted in nothing
where it is read, since whoever may write to the Redis may have written it."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpcaccel.config.model import AdminSettings
from rpcaccel.config.secrets import is_loopback, parse_listen
from rpcaccel.controlplane.stats.summaries import Readings
from rpcaccel.core.wire.json_text import UNREADABLE
from rpcaccel.core.wire.printable import printable

MAX_REPORT_BYTES = 4000
"""Bytes of a document."""
NAME, SENTENCE = 100, 400
"""Letters of a name and of a sentence that are kept."""
_PAGE = re.compile(r"https?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}/")
_EVERY_ADDRESS = {"0.0.0.0", "::"}

Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Length = Annotated[float, Meta(ge=0, le=1e12)]


class HostReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a host tells of itself. Counts of calls are of the last few seconds, `window` of them."""

    name: str
    """The name of its machine, container or pod; several hosts may have the same."""
    version: str = ""
    uptime: Length = 0.0
    """Seconds since the start of this run."""
    page: str = ""
    """The URL of its own page; empty where other machines cannot reach it, or under no address that is known."""
    draining: bool = False
    """Does it take no new calls, because it ends?"""
    workers: Count = 0
    window: Length = 0.0
    calls: Count = 0
    accepted: Count = 0
    """Those of the calls that were not refused."""
    hits: Count = 0
    errors: Count = 0
    """Calls that the proxy or its nodes failed at."""
    miss_p99: Length | None = None
    """Seconds."""
    heads: dict[str, Count] = {}
    """The served head of each network, as far as it is known."""
    networks: Count = 0
    """The number of networks, of which `heads` may leave some out."""
    revision: Count = 0
    """The number of the shared settings that it saw last."""
    refusal: str = ""
    """Why these are not in force; empty when they are."""
    purges_late: Length = 0.0
    """Seconds since it heard every purge of other hosts; 0 where it hears none at all, for want of Redis."""


def counted(now: Readings) -> dict[str, float | None]:
    """The counts of a report, by the readings of the last few seconds."""
    return {
        "window": now.window,
        "calls": now.calls,
        "accepted": now.calls - now.refused_calls,
        "hits": now.hits,
        "errors": now.errors,
        "miss_p99": now.miss.p99 if now.miss is not None else None,
    }


def encoded(report: HostReport) -> bytes:
    """The document of a report, in at most MAX_REPORT_BYTES bytes: heads of the last networks are left out
    where there are too many."""
    bounded = _readable(report)
    while len(text := msgspec.json.encode(bounded)) > MAX_REPORT_BYTES:
        bounded = replace(bounded, heads=dict(list(bounded.heads.items())[: len(bounded.heads) // 2]))
    return text


def decoded(document: bytes) -> HostReport | None:
    """The report of a document, fit to be shown; None if it is no such document."""
    if len(document) > MAX_REPORT_BYTES:
        return None
    try:
        return _readable(msgspec.json.decode(document, type=HostReport))
    except UNREADABLE:
        return None


def page_of(address: str, settings: AdminSettings) -> str:
    """The URL under which other machines may reach the page that is served at `address`, HOST:PORT; empty without one.
    A page that is served on every address of its machine is known by the first of `admin.names`."""
    listen = parse_listen(address)
    if is_loopback(listen.host):
        return ""
    host = next(iter(settings.names), "") if listen.host in _EVERY_ADDRESS else listen.host
    if not host:
        return ""
    scheme = "https" if settings.tls_cert else "http"
    return _page(f"{scheme}://[{host}]:{listen.port}/" if ":" in host else f"{scheme}://{host}:{listen.port}/")


def _page(url: str) -> str:
    return url if _PAGE.fullmatch(url) else ""


def _readable(report: HostReport) -> HostReport:
    """The report with texts that are printable and not too long, and with a page that is nothing but an address."""
    return replace(
        report,
        name=_cut(report.name, NAME),
        version=_cut(report.version, NAME),
        refusal=_cut(report.refusal, SENTENCE),
        page=_page(report.page),
        heads={_cut(name, NAME): head for name, head in report.heads.items()},
    )


def _cut(text: str, most: int) -> str:
    """A text of at most `most` letters, each printable; what is left out is marked by an ellipsis."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
