"""The sessions of those who logged in: in memory, and in a file beside the state file, so that they outlive a restart.

The file holds no secret that opens a session: of each session's secret and of the password at its login it has an HMAC,
made with a key that lies in a file of its own. Both are readable by their owner only. A file that cannot be used means
that everybody logs in again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import structlog
from msgspec import Meta, Struct

from rpcaccel.config.model import AccountSettings, AdminSettings
from rpcaccel.config.secrets import PasswordHash
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError, write_whole

MOST = 1000
"""Sessions that are kept; the oldest gives way to a new one."""
SAVE_EVERY = 5.0
"""Seconds between two writes at the least."""
_KEY_BYTES = 32
_Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]

log = structlog.get_logger("rpcaccel.admin")


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session as it lies in the file."""

    digest: _Digest
    """HMAC of the secret in the cookie."""
    name: Annotated[str, Meta(max_length=64)]
    """The account."""
    password: _Digest
    """HMAC of the account's password hash at login: a session ends when the password is changed."""
    expires: float
    """Seconds since 1970."""


class KeptSessions(Struct, frozen=True, kw_only=True):
    """The document of the file."""

    version: int = 1
    sessions: tuple[KeptSession, ...]


class SessionFile:
    """The file of sessions, and beside it that of the key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_path = path.with_suffix(".key")
        self._file = KeptFile(path, KeptSessions)

    def load(self) -> tuple[bytes, tuple[KeptSession, ...]] | None:
        """The key and the sessions; None where there are none yet. Raises LostFileError. Blocks."""
        kept = self._file.load()
        if kept is None:
            return None
        try:
            key = bytes.fromhex(self.key_path.read_text("ascii"))
        except (OSError, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise LostFileError(f"cannot be used without its key in {self.key_path.name}")
        return key, kept.sessions[-MOST:]

    def save(self, key: bytes, sessions: Sequence[KeptSession]) -> None:
        """Write both files, the key only where it is another one. Raises OSError. Blocks."""
        written = key.hex().encode() + b"\n"
        try:
            same = self.key_path.read_bytes() == written
        except FileNotFoundError:
            same = False
        if not same:
            write_whole(self.key_path, written)
        self._file.save(KeptSessions(sessions=tuple(sessions)))


class _Session(Struct, frozen=True):
    name: str
    password: bytes
    """The HMAC of the password hash at login."""
    expires: float
    """Monotonic seconds."""


class Sessions:
    """The sessions of the admin side. `file` is None where they last until the restart."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        file: SessionFile | None = None,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._file = file
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._sessions: dict[bytes, _Session] = {}
        """By the HMAC of the secret, the oldest first: neither memory nor the time of a look-up tells a secret."""
        self._unsaved = False
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._warned = False

    def __repr__(self) -> str:
        return f"<Sessions {len(self._sessions)}, {self._file and self._file.path}>"

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(self, name: str, settings: AdminSettings) -> str:
        """Begin a session of an account; its secret, for the cookie."""
        now = self._clock()
        self._sessions = {key: one for key, one in self._sessions.items() if one.expires > now}
        while len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        password = self._hash_of(settings.accounts[name].password)
        self._sessions[self._digest(secret)] = _Session(name, password, now + settings.session)
        self._change()
        return secret

    def name_of(self, secret: str, accounts: Mapping[str, AccountSettings]) -> str | None:
        """The account of a session that lasts; None for any other secret."""
        session = self._sessions.get(self._digest(secret))
        if session is None or session.expires <= self._clock():
            return None
        account = accounts.get(session.name)
        held = account is not None and hmac.compare_digest(session.password, self._hash_of(account.password))
        return session.name if held else None

    def end(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(self._digest(secret), None) is not None:
            self._change()

    def _digest(self, secret: str) -> bytes:
        return hmac.digest(self._key, b"session\0" + secret.encode("utf-8", "surrogatepass"), "sha256")

    def _hash_of(self, password: PasswordHash) -> bytes:
        return hmac.digest(self._key, b"password\0" + password.reveal().encode(), "sha256")

    # -- keeping ---------------------------------------------------------------------------------------------------

    def open(self, longest: float) -> None:
        """Take over the kept sessions, each for `longest` seconds at the most, and keep them from now on."""
        if self._file is None:
            return
        try:
            kept = self._file.load()
        except LostFileError as error:
            log.error("sessions are lost: everybody logs in again", file=str(self._file.path), reason=str(error))  # noqa: TRY400
            kept = None
        if kept is not None:
            self._key, found = kept
            now, wall = self._clock(), self._wall()
            lasting = [(one, min(longest, one.expires - wall)) for one in found if one.expires > wall]
            self._sessions = {one.digest: _Session(one.name, one.password, now + left) for one, left in lasting}
        self._task = asyncio.create_task(self._run(), name="sessions")

    async def close(self) -> None:
        """Keep what has changed, and end."""
        self._ending.set()
        self._wake.set()
        if self._task is not None:
            await self._task  # not cancelled: its thread might finish an older write after a newer one
            await self._save()

    def _change(self) -> None:
        self._unsaved = True
        self._wake.set()

    async def _run(self) -> None:
        while not self._ending.is_set():
            await self._wake.wait()
            self._wake.clear()
            await self._save()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE_EVERY):
                    await self._ending.wait()

    async def _save(self) -> None:
        if self._file is None or not self._unsaved:
            return
        self._unsaved = False
        now, wall = self._clock(), self._wall()
        kept = [
            KeptSession(digest=digest, name=one.name, password=one.password, expires=wall + one.expires - now)
            for digest, one in self._sessions.items()
            if one.expires > now
        ]
        try:
            await asyncio.to_thread(self._file.save, self._key, kept)
        except OSError as error:
            if not self._warned:
                why = error.strerror or type(error).__name__
                log.warning("sessions cannot be kept: they last until the restart", file=str(self._file.path), why=why)
            self._warned = True
            self._change()  # a logout that is lost here would be a session that opens again after the restart
        else:
            self._warned = False
