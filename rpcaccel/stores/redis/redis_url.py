"""Parses the address of Redis: one form of URL for each way to run it.

redis://[user:password@]host[:port][/db] · rediss:// (TLS; ?ssl_ca_certs=…) · unix:///path[?db=N&password=…] ·
redis+sentinel://[:password@]host[:port],host[:port]/service[/db] · redis+cluster://[:password@]host[:port],host[:port];
With TLS, the last two are rediss+sentinel and rediss+cluster. A Sentinel's own password is ?sentinel_password=….
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote

PORT = 6379
SENTINEL_PORT = 26379

SCHEMES: dict[str, tuple[Literal["single", "unix", "sentinel", "cluster"], bool]] = {
    "redis": ("single", False),
    "rediss": ("single", True),
    "unix": ("unix", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
TLS_FILES = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_TLS_OPTIONS = TLS_FILES | {"ssl_cert_reqs", "ssl_check_hostname"}
_CERT_REQS = ("none", "optional", "required")
_OPTIONS = frozenset({"db", "password", "username", "sentinel_password", "sentinel_username"}) | _TLS_OPTIONS


@dataclass(frozen=True, slots=True)
class RedisTarget:
    """A parsed address. Its repr holds no credentials."""

    kind: Literal["single", "unix", "sentinel", "cluster"]
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    db: int = 0
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_options: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """A readable name: host:port, the socket's path, or the service and its Sentinels."""
        if self.kind == "unix":
            return self.path
        places = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.service}@{places}" if self.kind == "sentinel" else places


def parse(url: str) -> RedisTarget:
    """Parse a URL. Raises ValueError with a message that repeats nothing secret."""
    scheme, separator, rest = url.strip().partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(f"a Redis address begins with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    kind, tls = SCHEMES[scheme]
    rest, _, query = rest.partition("?")
    options = _options(query, tls)
    # A socket's path may hold "@" and "/"; a password holds neither, unless percent-encoded.
    authority, slash, path = rest.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    username, _, password = credentials.partition(":")
    if kind == "unix" and (hosts or not slash):
        raise ValueError("unix:// is followed by an absolute path: unix:///run/redis.sock")
    service, db = _service_and_db(kind, path)
    db = _database(options["db"]) if "db" in options else db
    if kind == "cluster" and db:
        raise ValueError("a cluster has only database 0")
    default = SENTINEL_PORT if kind == "sentinel" else PORT
    places = () if kind == "unix" else tuple(_host(part.strip(), default) for part in hosts.split(","))
    if kind == "single" and len(places) != 1:
        raise ValueError(f"{scheme}:// takes one host; several are a {scheme}+cluster:// or {scheme}+sentinel://")
    return RedisTarget(
        kind=kind,
        hosts=places,
        path=unquote(f"/{path}") if kind == "unix" else "",
        service=service,
        db=db,
        username=options.get("username", unquote(username)) or None,
        password=options.get("password", unquote(password)) or None,
        sentinel_username=options.get("sentinel_username") or None,
        sentinel_password=options.get("sentinel_password") or None,
        tls=tls,
        tls_options=tuple((name, _flag(name, value)) for name, value in options.items() if name in _TLS_OPTIONS),
    )


def _options(query: str, tls: bool) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
    known = _OPTIONS if tls else _OPTIONS - _TLS_OPTIONS
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"unknown in a Redis address: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    if options.get("ssl_cert_reqs", "required") not in _CERT_REQS:
        raise ValueError(f"ssl_cert_reqs is one of {', '.join(_CERT_REQS)}")
    return options


def _flag(name: str, value: str) -> str | bool:
    return value.lower() not in {"false", "0", "no"} if name == "ssl_check_hostname" else value


def _service_and_db(kind: str, path: str) -> tuple[str, int]:
    if kind == "unix":
        return "", 0
    parts = [unquote(part) for part in path.split("/") if part]
    service = parts.pop(0) if kind == "sentinel" and parts else ""
    if kind == "sentinel" and not service:
        raise ValueError("a Sentinel address names the service: redis+sentinel://host:26379/service")
    return service, _database(parts[0]) if parts else 0


def _database(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise ValueError("the database of a Redis address is a number")
    return int(text)


def _host(text: str, default: int) -> tuple[str, int]:
    if text.startswith("["):
        host, closed, port = text[1:].partition("]")
        port = port.removeprefix(":") if closed else "?"
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536)):
        raise ValueError("a Redis address names host or host:port, several separated by commas")
    return unquote(host), int(port) if port else default
