"""Hides the secrets in a node's address and headers from texts that are shown.

Nodes, and proxies before nodes, echo the URL of a request. Parts of a URL that are no key (`rpc`, `mainnet`, a chain's
id) are ordinary words, and hiding them would spoil texts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from yarl import URL

from rpcaccel.config.secrets import Secret
from rpcaccel.core.wire.json_text import UNREADABLE

_SHORTEST = 6
"""Characters of the shortest key in a path, a query or a header; a shorter part is a word (v3, eth)."""
_LONG = 16
"""Characters from which a secret is hidden wherever it stands; a shorter one is left where it is a part of a longer
word or number, such as the data of a revert."""
_NAME = re.compile(r"[A-Z]?[a-z]{1,14}(?:[-_.][A-Z]?[a-z]{1,14})?|[0-9]{1,15}")
"""Texts that do not look like a key: a word or two, or a number."""
_TELLING = re.compile("key|token|secret|pass|auth", re.IGNORECASE)
"""Names of query parameters whose value is secret, whatever the value looks like."""
_STRING = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"([ \t\r\n]*:)?', re.DOTALL)
"""A string in JSON, and the colon behind it if it is the name of a member."""
_HIDDEN = "***"
_CUT = "…"


def login(user: str, password: str) -> str:
    """The credentials behind "Basic" in an Authorization header (RFC 7617)."""
    return base64.b64encode(f"{user}:{password}".encode()).decode()


class Secrecy:
    """The secrets of one node."""

    __slots__ = ("_in_errors", "_in_texts", "_secrets")

    def __init__(self, url: URL, headers: Mapping[str, Secret]) -> None:
        """`headers`: those that the operator set for the node."""
        self._secrets = sorted({*_of_address(url), *_of_headers(headers)} - {""}, key=len, reverse=True)
        self._in_texts = _pattern(self._secrets)
        # A short name would spoil what clients are told: the user "eth", say.
        self._in_errors = _pattern([secret for secret in self._secrets if len(secret) >= _SHORTEST])

    def __repr__(self) -> str:
        return f"<Secrecy, {len(self._secrets)} secrets>"

    def text(self, text: str) -> str:
        """Hide the secrets in a text, also one that the text's end (…) cuts off."""
        if self._in_texts is None:
            return text
        text = self._in_texts.sub(_HIDDEN, text)
        if _CUT in text:
            for secret in self._secrets:
                for length in range(len(secret) - 1, _SHORTEST - 1, -1):
                    text = text.replace(secret[:length] + _CUT, _HIDDEN + _CUT)
        return text

    def error(self, error: bytes) -> bytes:
        """Hide the secrets in a node's raw `error`: only in its strings, not in names of members or in numbers."""
        pattern = self._in_errors
        if pattern is None or not (b"\\" in error or pattern.search(error.decode("utf-8", "replace"))):
            return error

        def shown(found: re.Match[bytes]) -> bytes:
            if found[2] is not None:
                return found[0]
            spelt = found[0]
            told = _string(spelt)
            text = pattern.sub(_HIDDEN, told)
            if text == told:
                return spelt
            # The rest of the text stays as the node spelt it, unless the secret itself is spelt with escapes.
            spelt = pattern.sub(_HIDDEN, spelt.decode("utf-8", "replace")).encode()
            return spelt if _string(spelt) == text else msgspec.json.encode(text)

        return _STRING.sub(shown, error)


def _string(text: bytes) -> str:
    """The value of a JSON string; empty when the text is no JSON string."""
    try:
        return msgspec.json.decode(text, type=str)
    except UNREADABLE:
        return ""


def _of_address(url: URL) -> Iterator[str]:
    if url.user is not None:
        yield from (url.user, url.password or "", login(url.user, url.password or ""))
    named = [value for name, value in url.query.items() if _TELLING.search(name) and len(value) >= _SHORTEST]
    parts = [*named, *filter(_may_be_key, (*url.parts, *url.raw_parts, *url.query.values()))]
    yield from parts
    for whole in (url.path, url.raw_path, url.query_string, url.raw_query_string):
        if any(part in whole for part in parts):
            yield whole


def _of_headers(headers: Mapping[str, Secret]) -> Iterator[str]:
    for value in headers.values():
        yield value.reveal()
        yield from (word for word in value.reveal().split() if len(word) > _SHORTEST)  # "Bearer TOKEN"


def _may_be_key(part: str) -> bool:
    return len(part) >= _SHORTEST and _NAME.fullmatch(part) is None


def _pattern(secrets: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern that finds the secrets, of several the first one given; None when there are no secrets."""
    texts = [
        re.escape(secret) if len(secret) >= _LONG else rf"(?<![0-9A-Za-z]){re.escape(secret)}(?![0-9A-Za-z])"
        for secret in secrets
    ]
    return re.compile("|".join(texts)) if texts else None
