"""Reasons why the program could not start with some settings on this machine: files and folders that cannot be used,
addresses that the machine does not have, a Redis that refuses the credentials. A server that is down, or a port that is
taken at the moment, is no such reason. Everything here blocks, within bounds: call it in a thread.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path as Location

from rpcaccel.config.errors import Path, reason_of, shown
from rpcaccel.config.model import AdminSettings, RedisSettings, Settings
from rpcaccel.config.secrets import parse_listen
from rpcaccel.config.validate import Misfit
from rpcaccel.dataplane.certificate import CertificateError, tls_context
from rpcaccel.stores import driver_of

REFUSAL_SECONDS = 3.0
"""Seconds in which a store has to refuse the credentials; a slower one counts as down, which is no hindrance."""


def hindrances(settings: Settings, before: Settings | None = None) -> list[Misfit]:
    """The hindrances of a start with these settings; with `before`, only those of settings that differ from it."""
    admin, redis = settings.admin, settings.redis
    found: list[Misfit] = []
    if before is None or settings.listen != before.listen:
        found += _place(("listen",), settings.listen)
    if before is None or admin.listen != before.admin.listen:
        found += _place(("admin", "listen"), admin.listen)
    if before is None or (settings.tls_cert, settings.tls_key) != (before.tls_cert, before.tls_key):
        found += _certificate((), settings)
    if before is None or (admin.tls_cert, admin.tls_key) != (before.admin.tls_cert, before.admin.tls_key):
        found += _certificate(("admin",), admin)
    if settings.disk.path and (before is None or settings.disk.path != before.disk.path):
        found += _folder(("disk", "path"), settings.disk.path)
    if redis.url and (before is None or redis != before.redis):
        found += list(_store_files(redis)) or asyncio.run(_store(redis))
    return found


def _place(path: Path, listen: str) -> Iterator[Misfit]:
    """A host that this machine does not have. The port is not tried: a program that has it now may be gone by the next
    start."""
    place = parse_listen(listen)
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            place.host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as sock:
            sock.bind(address)
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "no name of a host"
        yield Misfit(path, shown(listen), f"an address of this machine: {reason}")


def _certificate(prefix: Path, place: Settings | AdminSettings) -> Iterator[Misfit]:
    usable = bool(place.tls_cert and place.tls_key)  # one without the other is a fault of its own
    for name, file in (("tls_cert", place.tls_cert), ("tls_key", place.tls_key)):
        if file and (why := _unreadable(file)):
            usable = False
            yield Misfit((*prefix, name), shown(file), f"a file that can be read: {why}")
    if not usable:
        return
    try:
        tls_context(place.tls_cert, place.tls_key)
    except CertificateError as error:
        yield Misfit((*prefix, error.name), shown(getattr(place, error.name)), error.expected)


def _folder(path: Path, folder: str) -> Iterator[Misfit]:
    if why := _unwritable(folder):
        yield Misfit(path, shown(folder), f"a folder that can be made and written: {why}")


def _store_files(redis: RedisSettings) -> Iterator[Misfit]:
    for path, url in _store_urls(redis):
        for name, file in driver_of(url).files(url).items():
            if why := _unreadable(file):
                yield Misfit(path, shown(url), f"a file that can be read in {name}: {why}")


def _store_urls(redis: RedisSettings) -> list[tuple[Path, str]]:
    replicas = [(("redis", "replicas", index), url.reveal()) for index, url in enumerate(redis.replicas) if url]
    return [(("redis", "url"), redis.url.reveal()), *replicas]


async def _store(redis: RedisSettings) -> list[Misfit]:
    """Ask all servers of the store at once."""
    asked = _store_urls(redis)
    told = await asyncio.gather(*(driver_of(url).refusal(url, redis, REFUSAL_SECONDS) for _, url in asked))
    return [Misfit(path, shown(url), why) for (path, url), why in zip(asked, told, strict=True) if why]


def _unwritable(folder: str) -> str:
    """The reason why a folder cannot be written, or made; empty when it can be. Nothing is made here, since `rpcaccel
    check` and a dry run ask as well."""
    try:
        with suppress(FileNotFoundError):
            os.stat(folder)
    except OSError as error:
        return reason_of(error)
    except ValueError:  # a zero byte
        return "it is not the name of a folder"
    whole = Location(folder).absolute()
    there = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    which = "it" if there == whole else str(there)
    if not there.is_dir():
        return f"{which} is not a folder"
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return f"{which} is on a file system that is read-only"
    return "" if os.access(there, os.R_OK | os.W_OK | os.X_OK) else f"this user may not write to {which}"


def _unreadable(file: str) -> str:
    """The reason why a file cannot be read; empty when it can be."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # opening a pipe would wait for its other end
            return "it is not a plain file"
        os.close(os.open(file, os.O_RDONLY))
    except OSError as error:
        return reason_of(error)
    except ValueError:  # a zero byte, or half of a character
        return "it is not the name of a file"
    return ""
