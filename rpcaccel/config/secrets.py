"""Value types of addresses and secrets, which never show credentials, and password hashes (scrypt, RFC 7914)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
import secrets
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from rpcaccel.stores import driver_of, drivers

LISTEN = 'an address HOST:PORT such as "127.0.0.1:8888", "[::1]:8888" or ":8888" (every IPv4 interface)'
REVEAL: dict[str, bool] = {"reveal": True}
"""Serialisation context with which a document holds the secrets themselves; without it they are hidden."""

_HIDDEN = "***"
_LONGEST = 4096
_LAST_PORT = 65535
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]")


class Secret:
    """A text that is never shown: str, repr, format and dumps hide it; `reveal` is for the connector."""

    __slots__ = ("_value",)
    expected: ClassVar[str] = "text without control characters"
    json_format: ClassVar[dict[str, str]] = {"type": "string", "format": "password"}
    _value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", self.checked(value))

    @classmethod
    def checked(cls, value: str) -> str:
        """The value to keep. Raises ValueError saying what was expected, never what was found."""
        if len(value) > _LONGEST or any(ord(char) < 0x20 or ord(char) == 0x7F for char in value):
            raise ValueError(cls.expected)
        return value

    def reveal(self) -> str:
        """The full value, for the connector only: it must not reach a log, a metric, an error or a header."""
        return self._value

    @property
    def shown(self) -> str:
        """The part of the value that may be shown."""
        return _HIDDEN if self._value else ""

    def __str__(self) -> str:
        return self.shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._value == self._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._value,)

    @classmethod
    def _accept(cls, value: object) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise ValueError(cls.expected)  # noqa: TRY004 -- pydantic turns only ValueError into a fault
        return cls(str(value))

    @staticmethod
    def _dump(value: Secret, info: core_schema.SerializationInfo) -> str:
        context = info.context
        revealed = isinstance(context, dict) and context.get("reveal") is True
        return value.reveal() if revealed else value.shown

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        serialise = core_schema.plain_serializer_function_ser_schema(cls._dump, info_arg=True)
        return core_schema.no_info_plain_validator_function(cls._accept, serialization=serialise)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**cls.json_format, "writeOnly": True}


class HeaderText(Secret):
    """The value of a header sent to a node; many hold tokens, so all are hidden."""

    __slots__ = ()
    expected = "the text of a header, Latin-1 without line breaks"

    @classmethod
    def checked(cls, value: str) -> str:
        text = super().checked(value.strip())
        if any(ord(char) > 0xFF for char in text):
            raise ValueError(cls.expected)
        return text


class NodeUrl(Secret):
    """A node's HTTP address; shown as scheme://host:port, since user info, path and query may hold keys."""

    __slots__ = ()
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    expected = "an address http://HOST[:PORT][/PATH] or https://…"
    json_format: ClassVar[dict[str, str]] = {"type": "string", "format": "uri", "pattern": "^https?://"}

    @classmethod
    def checked(cls, value: str) -> str:
        text = super().checked(value.strip())
        parts = _parts(text, cls.expected)
        if parts.scheme not in cls.schemes or not parts.hostname or parts.fragment:
            raise ValueError(cls.expected)
        return text

    @property
    def host(self) -> str:
        """Host and, when written, port: the part that names the node. Lower case; IPv6 in brackets."""
        return _place(_parts(self._value, self.expected))

    @property
    def shown(self) -> str:
        return shown_url(self._value) if self._value else ""


class NodeSocketUrl(NodeUrl):
    """A node's WebSocket address; empty for none. Shown as scheme://host:port, as a NodeUrl."""

    __slots__ = ()
    schemes = ("ws", "wss")
    expected = "an address ws://HOST[:PORT][/PATH] or wss://…"
    json_format: ClassVar[dict[str, str]] = {"type": "string", "format": "uri", "pattern": "^$|^wss?://"}

    @classmethod
    def checked(cls, value: str) -> str:
        return super().checked(value) if value.strip() else ""


_STORE_FORMS = [form for driver in dict.fromkeys(drivers().values()) for form in driver.forms]


class StoreUrl(Secret):
    """Where the store is that hosts share, in a form that a driver in `stores` knows; empty for none. Shown without
    credentials."""

    __slots__ = ()
    expected = f"an address such as {', '.join(_STORE_FORMS[:-1])} or {_STORE_FORMS[-1]}"
    json_format: ClassVar[dict[str, str]] = {
        "type": "string",
        "pattern": f"^$|^({'|'.join(map(re.escape, drivers()))})://",
    }

    @classmethod
    def checked(cls, value: str) -> str:
        text = super().checked(value.strip())
        try:
            if text:
                driver_of(text).check(text)
        except ValueError:  # the text of the error may quote half a password
            raise ValueError(cls.expected) from None
        return text

    @property
    def shown(self) -> str:
        return driver_of(self._value).shown(self._value) if self._value else ""


def shown_url(text: str) -> str:
    """Scheme, host and port of anything like an address; "***" when even those cannot be told apart safely."""
    try:
        parts = _parts(text.strip(), "")
    except ValueError:
        return _HIDDEN
    return f"{parts.scheme}://{_place(parts)}" if parts.scheme and parts.hostname else _HIDDEN


def _parts(text: str, expected: str) -> SplitResult:
    # urlsplit's own errors quote the address, so they are replaced and not chained.
    if any(char.isspace() or ord(char) < 0x20 or char == "\\" for char in text):
        raise ValueError(expected)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(expected) from None
    host = parts.hostname or ""
    if port == 0 or (host and not (_HOST.fullmatch(host) or ":" in host)):
        raise ValueError(expected)
    return parts


def _place(parts: SplitResult) -> str:
    host = parts.hostname or ""
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if parts.port is None else f"{bracketed}:{parts.port}"


class Listen(NamedTuple):
    """Where a server listens; port 0 takes a free one."""

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """Host and port of HOST:PORT. Raises ValueError saying what was expected."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = _BRACKETED.fullmatch(host)
    if not colon or not (port.isascii() and port.isdigit()) or int(port[:6]) > _LAST_PORT or len(port) > 5:
        raise ValueError(LISTEN)
    if host in ("", "*"):
        return Listen("0.0.0.0", int(port))
    if bracketed is None and not _HOST.fullmatch(host):
        raise ValueError(LISTEN)
    return Listen(bracketed[1] if bracketed else host, int(port))


def format_listen(place: Listen) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{place.host}]:{place.port}" if ":" in place.host else f"{place.host}:{place.port}"


def is_loopback(host: str) -> bool:
    """Whether this name stands for this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_LOG_N, _R, _P = 15, 8, 1
"""2^15 rounds of 8 blocks: 32 MiB and about a tenth of a second for each try."""
_LENGTH = 32
_FORM = re.compile(r"scrypt:(\d{1,2}):(\d{1,2}):(\d{1,2}):([A-Za-z0-9_-]{16,64}):([A-Za-z0-9_-]{32,128})")
_LARGEST = 128 << 20


class PasswordHash(Secret):
    """`scrypt:LOG2N:R:P:SALT:HASH`; never shown, though it is no password."""

    __slots__ = ()
    expected = "a hash printed by `rpcaccel passwd`"

    @classmethod
    def checked(cls, value: str) -> str:
        text = super().checked(value.strip())
        match = _FORM.fullmatch(text)
        if match is None or not _bearable(int(match[1]), int(match[2]), int(match[3])):
            raise ValueError(cls.expected)
        return text

    def admits(self, password: str) -> bool:
        """Whether this is the password. Takes about a tenth of a second on purpose. Blocks."""
        _, log_n, r, p, salt, wanted = self.reveal().split(":")
        try:
            bytes_wanted = _unbase(wanted)
            made = _scrypt(password, _unbase(salt), int(log_n), int(r), int(p), len(bytes_wanted))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(made, bytes_wanted)


def hash_password(password: str, *, log_n: int = _LOG_N) -> PasswordHash:
    """The hash of a password, with a salt of its own. Blocks."""
    salt = secrets.token_bytes(16)
    made = _scrypt(password, salt, log_n, _R, _P, _LENGTH)
    return PasswordHash(f"scrypt:{log_n}:{_R}:{_P}:{_base(salt)}:{_base(made)}")


def unmatched() -> PasswordHash:
    """A hash of no password: to compare with it takes as long as with any other."""
    salt, made = _base(secrets.token_bytes(16)), _base(secrets.token_bytes(_LENGTH))
    return PasswordHash(f"scrypt:{_LOG_N}:{_R}:{_P}:{salt}:{made}")


def _bearable(log_n: int, r: int, p: int) -> bool:
    """Whether one try stays within its memory and time."""
    return 1 <= log_n <= 20 and r >= 1 and 1 <= p <= 4 and 128 * (1 << log_n) * r <= _LARGEST // 2


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=1 << log_n, r=r, p=p, maxmem=_LARGEST, dklen=length
    )


def _base(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
