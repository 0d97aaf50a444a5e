"""The sessions of those who logged in: in memory, and in a file beside the state file, so that they outlive a restart.

The file opens no session: of each session's secret, which is random, and of the password at its login it has a digest.
A file that cannot be used means that everybody logs in again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import structlog
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpcaccel.config.model import AccountSettings, AdminSettings
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError

MAX_SESSIONS = 1000
"""Sessions that are kept; the oldest gives way to a new one."""
SAVE_AGAIN_SECONDS = 5.0
"""Seconds until a write that failed is tried again."""
_VERSION = 2
"""Of the file. In version 1 the digests were made with a key that lay in a file of its own."""
_Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]

log = structlog.get_logger("rpcaccel.admin")


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session."""

    digest: _Digest
    """Of the secret in the cookie: neither memory nor the time of a look-up tells a secret."""
    name: Annotated[str, Meta(max_length=64)]
    """The account."""
    password: _Digest
    """Of the account's password hash at login: a session ends when the password is changed."""
    expires: float
    """Monotonic seconds; seconds since 1970 in the file."""


class KeptSessions(Struct, frozen=True, kw_only=True):
    """The document of the file."""

    version: int = _VERSION
    sessions: tuple[KeptSession, ...]


class Sessions:
    """The sessions of the admin side. `path` is None where they last until the restart."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        path: Path | None = None,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._file = None if path is None else KeptFile(path, KeptSessions, version=_VERSION)
        self._sessions: dict[bytes, KeptSession] = {}
        """By digest, the oldest first."""
        self._unsaved = False
        self._ending = asyncio.Event()
        self._saving: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)}, {self._file and self._file.path}>"

    def begin(self, name: str, settings: AdminSettings) -> str:
        """Begin a session of an account; its secret, for the cookie."""
        now = self._clock()
        self._sessions = {key: one for key, one in self._sessions.items() if one.expires > now}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        digest, password = _digest(secret), _digest(settings.accounts[name].password.reveal())
        self._sessions[digest] = KeptSession(
            digest=digest, name=name, password=password, expires=now + settings.session
        )
        self._save_soon()
        return secret

    def name_of(self, secret: str, accounts: Mapping[str, AccountSettings]) -> str | None:
        """The account of a session that lasts; None for any other secret."""
        session = self._sessions.get(_digest(secret))
        if session is None or session.expires <= self._clock() or session.name not in accounts:
            return None
        password = _digest(accounts[session.name].password.reveal())
        return session.name if hmac.compare_digest(session.password, password) else None

    def end(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(_digest(secret), None) is not None:
            self._save_soon()

    def open(self, longest: float) -> None:
        """Take over the kept sessions, each for `longest` seconds at the most."""
        if self._file is None:
            return
        try:
            kept = self._file.load()
        except LostFileError as error:
            log.error("sessions are lost: everybody logs in again", file=str(self._file.path), reason=str(error))  # noqa: TRY400
            return
        now, wall = self._clock(), self._wall()
        for one in kept.sessions[-MAX_SESSIONS:] if kept is not None else ():
            if one.expires > wall:
                self._sessions[one.digest] = replace(one, expires=now + min(longest, one.expires - wall))

    async def close(self) -> None:
        """Save what has changed, and end."""
        self._ending.set()
        if self._saving is not None:
            await self._saving  # not cancelled: its thread might finish an older write after a newer one

    def _save_soon(self) -> None:
        self._unsaved = True
        if self._file is not None and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save(self._file), name="sessions")

    async def _save(self, file: KeptFile[KeptSessions]) -> None:
        """Save until all is saved: a logout that is lost would be a session that opens again after the restart."""
        warned = False
        while self._unsaved:
            self._unsaved = False
            ahead = self._wall() - self._clock()
            kept = tuple(replace(one, expires=one.expires + ahead) for one in self._sessions.values())
            try:
                await asyncio.to_thread(file.save, KeptSessions(sessions=kept))
            except OSError as error:
                why = error.strerror or type(error).__name__
                if not warned:
                    log.warning("sessions cannot be kept: they last until the restart", file=str(file.path), why=why)
                self._unsaved = warned = True
                if self._ending.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SAVE_AGAIN_SECONDS):
                        await self._ending.wait()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
