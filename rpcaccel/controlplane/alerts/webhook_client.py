"""Posts a message to a webhook and says what became of it, in words that hold nothing of its URL but the host.

Redirects are not followed, and of an answer only the beginning is read.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

import rpcaccel
from rpcaccel.config.alert_settings import WebhookSettings
from rpcaccel.config.secrets import Secret, shown_url
from rpcaccel.controlplane.alerts.delivery import Delivered, End
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.upstream.redaction import Secrecy

LONGEST_ANSWER = 2000
"""Bytes of an answer that are read."""
LONGEST_SAID = 200
"""Characters of it that are shown."""
SHORTEST_PART = 4
"""Characters of the shortest part of a URL that is hidden in it; a shorter one (v3, api) is no key."""
_AGAIN = frozenset({408, 425, 429})
"""HTTP statuses below 500 that are worth another try."""


class WebhookClient:
    """The connections to all webhooks. Made and used within a running loop."""

    def __init__(self) -> None:
        # A message a minute needs no kept connection; a fresh one follows the receiver's DNS as well.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=32),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )

    def __repr__(self) -> str:
        return f"<WebhookClient {'closed' if self._session.closed else 'open'}>"

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def post(self, webhook: WebhookSettings, body: bytes) -> Delivered:
        """Post a body within the webhook's timeout."""
        begun = time.monotonic()
        headers = {
            "User-Agent": f"rpcaccel/{rpcaccel.__version__}",
            "Accept-Encoding": "identity",
            **{name: value.reveal() for name, value in webhook.headers.items()},
            "Content-Type": "application/json",
        }
        status, said, wait, where = None, "", 0.0, ""
        end: End = "again"
        why = ""
        try:
            url = URL(webhook.url.reveal())
            patience = aiohttp.ClientTimeout(total=webhook.timeout)
            async with self._session.post(
                url, data=body, headers=headers, allow_redirects=False, timeout=patience
            ) as reply:
                status, wait = reply.status, _retry_after(reply.headers.get("Retry-After", ""))
                where = reply.headers.get("Location", "")
                said = _shown(await _beginning(reply), _secrecy(url, webhook))
        except TimeoutError:
            why = f"no answer within {webhook.timeout:g} s"
        except (aiohttp.InvalidURL, ValueError):
            end, why = "refused", "its URL or a header cannot be sent"
        except aiohttp.ClientError as error:
            why = _reason(error)
        if status is not None:  # the status says whether the message was taken, also when the rest broke off
            end, why = _judged(status, where)
        return Delivered(end, why, status, said, wait, time.monotonic() - begun)


def _judged(status: int, location: str) -> tuple[End, str]:
    """What a status means, and the words for it."""
    if 200 <= status < 300:
        return "ok", ""
    if 300 <= status < 400:
        where = f" (to {_cut(shown_url(location))})" if "://" in location else ""
        return "refused", f"HTTP {status}: redirects are not followed{where}"
    if status in _AGAIN or status >= 500:
        return "again", f"HTTP {status}"
    return "refused", f"HTTP {status}: it does not take the message"


async def _beginning(reply: aiohttp.ClientResponse) -> bytes:
    """The first bytes of an answer; the rest is left, with which aiohttp closes the connection."""
    found = bytearray()
    while len(found) < LONGEST_ANSWER:
        part = await reply.content.read(LONGEST_ANSWER - len(found))
        if not part:
            break
        found += part
    return bytes(found)


def _shown(body: bytes, secrecy: Secrecy) -> str:
    """The words of a receiver in one line: nothing of the webhook's own key, which it may echo."""
    text = " ".join(body.decode("utf-8", "replace").split())
    broken_off = "…" if len(body) >= LONGEST_ANSWER else ""
    return _cut(printable(secrecy.text(f"{text}{broken_off}")))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SAID else f"{text[: LONGEST_SAID - 1]}…"


def _secrecy(url: URL, webhook: WebhookSettings) -> Secrecy:
    """Hides every part of the path and of the query. In a node's address only what looks like a key is hidden; the key
    of a webhook may be a word, such as the name of a topic or of a room."""
    found = {*url.parts, *url.raw_parts, *url.query.values()}
    parts = [part for part in found if len(part) >= SHORTEST_PART and part.isprintable()]
    return Secrecy(url, {**webhook.headers, **{f"part {number}": Secret(part) for number, part in enumerate(parts)}})


def _retry_after(text: str) -> float:
    """The seconds of a Retry-After header (RFC 9110, section 10.2.3); 0 for none that can be read."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _reason(error: aiohttp.ClientError) -> str:
    """The words for a failure of aiohttp's, whose own text may hold the URL."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name of its host is not found"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return f"no connection: {os.strerror(number).lower() if number else 'it was refused'}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before the answer"
    return "its answer is no HTTP" if isinstance(error, aiohttp.ClientResponseError) else "the connection broke off"
