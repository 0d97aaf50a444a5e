"""Posts a message to a webhook and says what became of it, in words that hold nothing of its URL but the host.

Nothing that the receiver wrote is in them: it knows the key of the webhook, and may write that in any form. Redirects
are not followed, and the body of an answer is not read.
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
from rpcaccel.controlplane.alerts.delivery import Delivered, End

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
        status, wait = None, 0.0
        end: End = "again"
        why = ""
        try:
            url = URL(webhook.url.reveal())
            patience = aiohttp.ClientTimeout(total=webhook.timeout)
            async with self._session.post(
                url, data=body, headers=headers, allow_redirects=False, timeout=patience
            ) as reply:
                status, wait = reply.status, _retry_after(reply.headers.get("Retry-After", ""))
        except TimeoutError:
            why = f"no answer within {webhook.timeout:g} s"
        except (aiohttp.InvalidURL, ValueError):
            end, why = "refused", "its URL or a header cannot be sent"
        except aiohttp.ClientError as error:
            why = _reason(error)
        if status is not None:  # the status says whether the message was taken
            end, why = _judged(status)
        return Delivered(end, why, status, wait, time.monotonic() - begun)


def _judged(status: int) -> tuple[End, str]:
    """What a status means, and the words for it."""
    if 200 <= status < 300:
        return "ok", ""
    if 300 <= status < 400:
        return "refused", f"HTTP {status}: redirects are not followed"
    if status in _AGAIN or status >= 500:
        return "again", f"HTTP {status}"
    return "refused", f"HTTP {status}: it does not take the message"


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
