"""Where the admin side listens, and whether it may: beyond this machine only with accounts."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.auth import is_loopback
from rpcaccel.controlplane.listening import ListenError, reason_of


def host_and_port(listen: str) -> tuple[str, int] | None:
    """("127.0.0.1", 8889) of "127.0.0.1:8889", brackets of IPv6 removed; None when it is not HOST:PORT."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        return None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    return None if not host or ":" in host else (host, int(port))


def name_asked(host: str) -> str:
    """The name or address in a Host header, in one spelling: without port and brackets, in lower case."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdigit() else host).removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def check_admin_address(listen: str, settings: AdminSettings | None = None) -> str | None:
    """The fault of an admin address, as a sentence; None when the admin side may listen there with these settings."""
    parsed = host_and_port(listen)
    if parsed is None:
        return f"admin.listen is {listen!r}, expected HOST:PORT such as 127.0.0.1:8889"
    if settings is not None and bool(settings.tls_cert) != bool(settings.tls_key):
        return "admin.tls_cert and admin.tls_key are given together or not at all"
    if not is_loopback(parsed[0]) and not (settings is not None and settings.accounts):
        return (
            f"admin.listen is {listen!r}, which others can reach; the admin side has no password, so it listens on "
            "this machine only (127.0.0.1, ::1 or localhost); for a password there is [admin.accounts.NAME] and "
            "`rpcaccel passwd`"
        )
    return None


def tls_context(settings: AdminSettings) -> ssl.SSLContext | None:
    """The server's side of TLS; None without a certificate. Raises ListenError."""
    if not settings.tls_cert:
        return None
    for name, file in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise ListenError(f"admin.{name}: {file} cannot be read: {reason_of(error)}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")  # never asked for in the terminal
    except (OSError, ValueError):
        files = f"{settings.tls_cert} and {settings.tls_key}"
        expected = "a certificate and its key without password, as PEM"
        raise ListenError(f"admin.tls_cert, admin.tls_key: found {files}, expected {expected}") from None
    return context
