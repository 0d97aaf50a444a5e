"""Listening sockets and their names: binding, with errors that name the setting and the reason; the name in a Host
header; and the TLS certificate of the admin side."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl

from rpcaccel.config.model import AdminSettings
from rpcaccel.config.secrets import parse_listen


class ListenError(RuntimeError):
    """An address cannot be listened on."""


def bind(text: str, key: str, *, shared: bool = False) -> socket.socket:
    """A bound socket for HOST:PORT; with `shared`, one of several on the same port (SO_REUSEPORT).

    Raises:
        ListenError: naming the settings key, the address and the reason.
    """
    place = parse_listen(text)
    try:
        family, _, _, _, address = socket.getaddrinfo(
            place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(f"{key}: {text}: {reason_of(error)}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise ListenError(f"{key}: cannot listen on {text}: {reason_of(error)}") from error
    sock.setblocking(False)
    return sock


def bind_workers(text: str, key: str, count: int) -> list[socket.socket]:
    """One socket for each worker, all on one port. The first one settles the port when it is 0.

    Raises:
        ListenError: as `bind`.
    """
    if count > 1:
        # Any process that shares a port may join it. Binding without SO_REUSEPORT shows whether another proxy has it.
        bind(text, key).close()
    first = bind(text, key, shared=count > 1)
    sockets = [first]
    try:
        while len(sockets) < count:
            sockets.append(bind(address_of(first), key, shared=True))
    except ListenError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def reason_of(error: OSError) -> str:
    """The system's message for an error; asyncio's message would repeat the address."""
    plain = error.errno is not None and error.errno > 0  # those of getaddrinfo are negative
    return os.strerror(error.errno) if plain and error.errno is not None else error.strerror or str(error)


def address_of(sock: socket.socket) -> str:
    """HOST:PORT of a bound socket, with the real port."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class CertificateError(ListenError):
    """A certificate or its key cannot be used. `name` is the setting, `expected` what it should have been."""

    def __init__(self, name: str, file: str, expected: str) -> None:
        super().__init__(f"admin.{name}: found {file}, expected {expected}")
        self.name = name
        self.expected = expected


def name_asked(host: str) -> str:
    """The name or address in a Host header, in one spelling: without port and brackets, in lower case."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdigit() else host).removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def tls_context(settings: AdminSettings) -> ssl.SSLContext | None:
    """The server's side of TLS; None without a certificate. Raises CertificateError."""
    if not settings.tls_cert:
        return None
    cert, key = settings.tls_cert, settings.tls_key
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password="")  # never asked for in the terminal
    except (OSError, ValueError) as error:
        if (why := _no_certificate(cert)) is not None:
            raise CertificateError("tls_cert", cert, f"a certificate as PEM{why}") from None
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError("tls_key", key, f"the key of the certificate in {cert}") from None
        why = "" if isinstance(error, ssl.SSLError | ValueError) else f": {reason_of(error)}"
        raise CertificateError("tls_key", key, f"the certificate's key as PEM, without a password{why}") from None
    return context


def _no_certificate(file: str) -> str | None:
    """None for a file with a certificate; otherwise the system's reason, empty for a readable file without one."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except (ssl.SSLError, ValueError):
        return ""
    except OSError as error:
        return f": {reason_of(error)}"
    return None
