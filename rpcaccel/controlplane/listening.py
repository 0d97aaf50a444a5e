"""Listening sockets, bound before anything else is started: an address in use is said at once, in a sentence."""

from __future__ import annotations

import os
import socket

from rpcaccel.config.address import parse_listen


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
        # A shared port may be joined by anyone who shares it too: that another proxy has it is seen only without.
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
    """The system's own words for an error; asyncio's repeat the address."""
    plain = error.errno is not None and error.errno > 0  # those of getaddrinfo are negative
    return os.strerror(error.errno) if plain and error.errno is not None else error.strerror or str(error)


def address_of(sock: socket.socket) -> str:
    """HOST:PORT of a bound socket, with the real port."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
