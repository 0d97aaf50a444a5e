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

import msgspec
import structlog
from msgspec import Meta, Struct

from rpcaccel.config.model import AccountSettings, AdminSettings
from rpcaccel.config.secrets import PasswordHash
from rpcaccel.controlplane.settings.state_file import write_whole
from rpcaccel.core.wire.json_text import UNREADABLE

MOST = 1000
"""Sessions that are kept; the oldest gives way to a new one."""
SAVE_EVERY = 5.0
"""Seconds between two writes at the least."""
LARGEST = 1 << 20
"""Bytes of a file that is read."""
_VERSION = 1
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


class _Content(Struct, frozen=True, kw_only=True):
    version: int = _VERSION
    sessions: tuple[KeptSession, ...]


class SessionFileError(Exception):
    """A file of sessions cannot be used. Its text says why, in words that follow the file's name."""


class SessionFile:
    """The file of sessions, and beside it that of the key; each is replaced whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key_path = path.with_suffix(".key")

    @classmethod
    def beside(cls, state: Path) -> SessionFile:
        """The file that belongs to a state file: rpcaccel.state.json -> rpcaccel.sessions.json."""
        name = state.name.removesuffix(".json").removesuffix(".state")
        return cls(state.with_name(f"{name}.sessions.json"))

    def __repr__(self) -> str:
        return f"<SessionFile {self.path}>"

    def load(self) -> tuple[bytes, tuple[KeptSession, ...]] | None:
        """The key and the sessions; None where there are none yet. Raises SessionFileError. Blocks."""
        written, key = _content(self.path), _content(self.key_path)
        if written is None:
            return None
        try:
            content = msgspec.json.decode(written, type=_Content)
            found = bytes.fromhex((key or b"").decode("ascii"))
        except (*UNREADABLE, ValueError):
            raise SessionFileError("is damaged") from None
        if content.version != _VERSION:
            raise SessionFileError(f"has version {content.version}, which this rpcaccel does not read")
        if len(found) != _KEY_BYTES:
            raise SessionFileError(f"cannot be used without its key in {self.key_path.name}")
        return found, content.sessions[-MOST:]

    def save(self, key: bytes, sessions: Sequence[KeptSession]) -> None:
        """Write both files, the key only where it is another one. Raises OSError. Blocks."""
        written = key.hex().encode() + b"\n"
        try:
            same = self.key_path.read_bytes() == written
        except FileNotFoundError:
            same = False
        if not same:
            write_whole(self.key_path, written)
        write_whole(self.path, msgspec.json.encode(_Content(sessions=tuple(sessions))) + b"\n")


def _content(path: Path) -> bytes | None:
    """The content of a file; None without one. Raises SessionFileError."""
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SessionFileError(f"cannot be read: {error.strerror or type(error).__name__}") from None
    if len(content) > LARGEST:
        raise SessionFileError("is damaged")
    return content


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
        return f"<Sessions {len(self._sessions)}, {self._file!r}>"

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
        except SessionFileError as error:
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
