"""Listening sockets and their names: binding, with errors that name the setting and the reason; and the name in a Host
header."""

from __future__ import annotations

import ipaddress
import socket

from rpcaccel.config.errors import reason_of
from rpcaccel.config.secrets import parse_listen


class ListenError(RuntimeError):
    """An address cannot be listened on."""


def cannot_listen(key: str, address: str, error: OSError) -> ListenError:
    """The error of a setting whose address cannot be listened on, with the flag that names another one."""
    flag = "--listen" if key == "listen" else "--admin"
    return ListenError(f"{key}: cannot listen on {address}: {reason_of(error)}; {flag} names another address")


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
        raise cannot_listen(key, text, error) from error
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


def address_of(sock: socket.socket) -> str:
    """HOST:PORT of a bound socket, with the real port."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def name_asked(host: str) -> str:
    """The name or address in a Host header, in one spelling: without port and brackets, in lower case."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdigit() else host).removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
