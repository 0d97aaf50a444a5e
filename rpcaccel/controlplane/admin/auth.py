"""Authentication and authorisation of the admin side: accounts, sessions, roles, and login and logout over HTTP.

A change must also prove that no page of another site sent it (`same_site`). Sessions are in memory, and in a file
beside the state file, so that they outlive a restart. The file opens no session: of each session's secret, which is
random, and of the password at its login it has a digest. A file that cannot be used means that everybody logs in again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import structlog
from aiohttp import web
from msgspec import Meta, Struct
from msgspec.structs import replace

from rpcaccel.config.model import AccountSettings, AdminSettings
from rpcaccel.config.secrets import PasswordHash, unmatched
from rpcaccel.controlplane.admin.handling import ProblemError, json_response
from rpcaccel.controlplane.admin.login_throttle import MAX_ACCOUNT_NAME, Sleep, Tries, never
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.workers.operations import read

Guard = Literal["open", "login", "read", "change"]
"""The guard of a route: "open" lets everybody pass, "login" everybody but pages of other sites, "read" accounts that
may read, and "change" accounts that may change, but no pages of other sites."""

COOKIE = "rpcaccel_session"
PROOF = "X-Rpcaccel-Request"
"""A header that a page elsewhere cannot send: a browser asks first, and is not answered."""
_MAX_WRONG = 1000
"""Wrong passwords that are remembered, by digest."""
MAX_SESSIONS = 1000
"""Sessions that are kept; the oldest gives way to a new one."""
SAVE_AGAIN_SECONDS = 5.0
"""Seconds until a write that failed is tried again."""
_VERSION = 2
"""Of the file. In version 1 the digests were made with a key that lay in a file of its own."""
_Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
LOCAL_ACCOUNT = "local"

log = structlog.get_logger("rpcaccel.admin")


class Who(Struct, frozen=True):
    """An account that is logged in."""

    name: str
    role: Literal["admin", "read"]


class Session(Struct, frozen=True):
    """The account that is logged in."""

    required: Annotated[bool, Meta(description="Has one to be?")]
    user: str | None
    role: Literal["admin", "read"] | None


WHO: web.RequestKey[Who | None] = web.RequestKey("who")
"""The account of a request, as the guard found it."""
ADDRESS = web.RequestKey("address", str)
"""The address of the client, by which logins are throttled and logged."""


class LoginRequest(Struct, frozen=True):
    """The body of a login."""

    user: str
    password: str


class KeptSession(Struct, frozen=True, kw_only=True):
    digest: _Digest
    """Of the secret in the cookie: neither memory nor the time of a look-up tells a secret."""
    name: Annotated[str, Meta(max_length=MAX_ACCOUNT_NAME)]
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


class Gate:
    """Authenticates requests by session or token, and has the handlers of /api/v1/session. Comparing a password is slow
    on purpose, so compared passwords are remembered by a digest that only this run of the program can make: a right
    password that comes again does not wait, and a wrong one, as from a program with an old password, costs nothing."""

    def __init__(
        self,
        settings: Callable[[], AdminSettings],
        clock: Callable[[], float] = time.monotonic,
        *,
        sleep: Sleep = asyncio.sleep,
        failed: Callable[[str, str, str], None] = lambda _name, _remote, _why: None,
        sessions: Sessions | None = None,
    ) -> None:
        """`settings` returns the accounts of the moment; `failed` is called with the name, the address and the reason
        of each failed login."""
        self._settings = settings
        self._sessions = sessions or Sessions(clock)
        self._failed = failed
        self._tries = Tries(clock, sleep)
        self._secret = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}
        """The digest of the right password, by account."""
        self._wrong: dict[bytes, None] = {}
        self._nobody = unmatched()

    def __repr__(self) -> str:
        return f"<Gate {self._sessions!r}>"

    @property
    def required(self) -> bool:
        """Whether there are accounts, so that a login is needed."""
        return bool(self._settings().accounts)

    async def who(
        self,
        headers: Mapping[str, str],
        cookies: Mapping[str, str],
        remote: str,
        gone: Callable[[], bool] = never,
    ) -> Who | None:
        """The account of a request; None when it names none. `gone` tells whether the client has closed its connection.
        Raises ProblemError when too many passwords are being tried."""
        if self.required and (token := bearer(headers)) is not None:
            name, _, password = token.partition(":")
            await self._compare(name, password, remote, gone)
        return self.known(headers, cookies)

    def known(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Who | None:
        """The account of a request, by a session or by a token that was compared before. No password is compared, so
        that this can be called often."""
        accounts = self._settings().accounts
        if not accounts:
            return Who(LOCAL_ACCOUNT, "admin")
        if (token := bearer(headers)) is None:
            name = self._sessions.name_of(cookies.get(COOKIE, ""), accounts)
        else:  # NAME:PASSWORD
            said, _, password = token.partition(":")
            name = said if self._verdict(said, password) else None
        return None if name is None else Who(name, accounts[name].role)

    async def login(self, name: str, password: str, remote: str, gone: Callable[[], bool] = never) -> str:
        """A new session's secret, for the cookie. Raises ProblemError."""
        if not await self._compare(name, password, remote, gone):
            raise ProblemError(401, "wrong-password")
        return self._sessions.begin(name, self._settings())

    def logout(self, secret: str) -> None:
        self._sessions.end(secret)

    # -- handlers --------------------------------------------------------------------------------------------------

    async def show(self, request: web.Request) -> Session:
        """The account that is logged in, and whether a login is needed."""
        return self._shown(request[WHO])

    async def begin(self, request: web.Request) -> web.Response:
        """Log in."""
        asked = read(await request.read(), LoginRequest)
        secret = await self.login(asked.user, asked.password, request[ADDRESS], partial(has_left, request))
        settings = self._settings()
        response = json_response(self._shown(Who(asked.user, settings.accounts[asked.user].role)))
        response.set_cookie(COOKIE, secret, max_age=int(settings.session), **_cookie(request))
        return response

    async def end(self, request: web.Request) -> web.Response:
        """Log out."""
        self.logout(request.cookies.get(COOKIE, ""))
        response = web.Response(status=204)
        response.del_cookie(COOKIE, **_cookie(request))
        return response

    def _shown(self, who: Who | None) -> Session:
        return Session(self.required, who.name if who else None, who.role if who else None)

    # -- passwords -------------------------------------------------------------------------------------------------

    async def _compare(self, name: str, password: str, remote: str, gone: Callable[[], bool]) -> bool:
        """Whether this is the account's password. An unknown name takes as long. Raises ProblemError when too many are
        being tried."""
        verdict = self._verdict(name, password) if len(name) <= MAX_ACCOUNT_NAME else False
        if verdict is None:
            try:
                await self._tries.look(remote, lambda: self._look(name, password), gone)
            except ProblemError:
                self._failed(name, remote, "too many passwords are being tried")
                raise
            verdict = self._verdict(name, password)
        if verdict is None:
            self._failed(name, remote, "the client hung up, or the account was changed, before it was compared")
        elif not verdict:
            self._failed(name, remote, "wrong password" if name in self._settings().accounts else "no such account")
        return bool(verdict)

    async def _look(self, name: str, password: str) -> bool | None:
        """Compare a password and remember the result; None when the result became known while the password waited."""
        if self._verdict(name, password) is not None:
            return None
        wanted = self._wanted(name)
        sealed = self._sealed(name, wanted, password)
        if await asyncio.to_thread(wanted.admits, password):
            self._right = {known: self._right[known] for known in self._right if known in self._settings().accounts}
            self._right[name] = sealed
            return True
        self._wrong[sealed] = None
        while len(self._wrong) > _MAX_WRONG:
            del self._wrong[next(iter(self._wrong))]
        return False

    def _verdict(self, name: str, password: str) -> bool | None:
        """Whether this is the password that the account has now; None when it has not been compared lately."""
        sealed = self._sealed(name, self._wanted(name), password)
        if hmac.compare_digest(self._right.get(name, b""), sealed):
            return name in self._settings().accounts
        return False if sealed in self._wrong else None

    def _wanted(self, name: str) -> PasswordHash:
        account = self._settings().accounts.get(name)
        return account.password if account else self._nobody

    def _sealed(self, name: str, wanted: PasswordHash, password: str) -> bytes:
        """A digest of the password that fits this account with this hash alone, and this run of the program."""
        text = f"{name}\0{wanted.reveal()}\0{password}"
        return hmac.digest(self._secret, text.encode("utf-8", "surrogatepass"), "sha256")


def admit(who: Who | None, guard: Guard) -> None:
    """Check an account against the guard of a route. Raises ProblemError."""
    if guard in ("open", "login"):
        return
    if who is None:
        raise ProblemError(401, "not-logged-in")
    if guard == "change" and who.role != "admin":
        raise ProblemError(403, "not-allowed", f"{who.name} may read only")


def same_site(headers: Mapping[str, str]) -> None:
    """Check that no page of another site sent a request. Raises ProblemError. A browser adds neither a token nor PROOF
    to requests that another site makes it send, and names that site in Origin and Sec-Fetch-Site. The Host header was
    checked before."""
    if bearer(headers) is not None:
        return
    origin = headers.get("Origin")
    elsewhere = origin is not None and _place(origin) != headers.get("Host", "").lower()
    if PROOF not in headers or elsewhere or headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise ProblemError(403, "cross-site")


def _place(origin: str) -> str | None:
    """Host and port of an origin; None when the text is no origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of an Authorization header (RFC 6750)."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _cookie(request: web.Request) -> Any:
    """What the cookie of a session is set and taken away with."""
    return {"httponly": True, "samesite": "Strict", "secure": request.secure, "path": "/"}


def has_left(request: web.Request) -> bool:
    """Whether the client has closed its connection."""
    return request.transport is None or request.transport.is_closing()
