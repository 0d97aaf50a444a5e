"""Who may pass: accounts, sessions, the roles, and the proof that a change was not sent by a page elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from rpcaccel.config.model import AccountSettings, AdminSettings
from rpcaccel.config.password import PasswordHash, hash_password
from rpcaccel.controlplane.problem import ProblemError

Guard = Literal["open", "login", "read", "change"]
"""Who may pass: anyone who asks under a right name ("open"), and not from a page elsewhere ("login"); who may read; who
may change, and not from a page elsewhere."""

COOKIE = "rpcaccel_session"
PROOF = "X-Rpcaccel-Request"
"""A header that a page elsewhere cannot send: a browser asks first, and is not answered."""
TRIES = 5
"""Wrong passwords from one address within WITHIN seconds, before it has to wait."""
WITHIN = 60.0
_AT_ONCE = 2
"""Passwords compared at the same time; each takes 32 MiB."""
_ADDRESSES = 1000
_SESSIONS = 1000

LOCAL = "local"


class Who(Struct, frozen=True):
    """Somebody who may pass."""

    name: str
    role: Literal["admin", "read"]


class _Session(Struct, frozen=True):
    name: str
    password: PasswordHash
    """What the account had at login: a session ends when the password is changed."""
    expires: float
    """Monotonic seconds."""


class Gate:
    """Knows who is logged in. `settings` gives the accounts of this moment."""

    def __init__(self, settings: Callable[[], AdminSettings], clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}
        self._tokens: dict[bytes, tuple[str, PasswordHash]] = {}
        self._failures: dict[str, list[float]] = {}
        self._comparing = asyncio.Semaphore(_AT_ONCE)
        self._nobody: PasswordHash | None = None

    def __repr__(self) -> str:
        return f"<Gate {len(self._sessions)} sessions>"

    @property
    def required(self) -> bool:
        """Does one have to log in at all?"""
        return bool(self._settings().accounts)

    async def who(self, headers: Mapping[str, str], cookies: Mapping[str, str], remote: str) -> Who | None:
        """Who asks; None for somebody unknown. Raises ProblemError when a token was wrong too often."""
        accounts = self._settings().accounts
        if not accounts:
            return Who(LOCAL, "admin")
        if (token := bearer(headers)) is not None:
            return await self._by_token(token, remote)
        return self._by_cookie(cookies)

    def still(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Would who was let in with these be known now? Compares no password, so that it can be asked often."""
        accounts = self._settings().accounts
        if not accounts:
            return True
        if (token := bearer(headers)) is not None:
            account = accounts.get(token.partition(":")[0])
            known = self._tokens.get(_digest(token))
            return account is not None and known is not None and known[1] == account.password
        return self._by_cookie(cookies) is not None

    def _by_cookie(self, cookies: Mapping[str, str]) -> Who | None:
        session = self._sessions.get(_digest(cookies.get(COOKIE, "")))
        account = self._settings().accounts.get(session.name) if session else None
        if session is None or account is None or not self._holds(session, account):
            return None
        return Who(session.name, account.role)

    def _holds(self, session: _Session, account: AccountSettings) -> bool:
        return session.expires > self._clock() and session.password == account.password

    async def _by_token(self, token: str, remote: str) -> Who | None:
        """A token is NAME:PASSWORD. One that was right is remembered: comparing takes a tenth of a second."""
        name, _, password = token.partition(":")
        account = self._settings().accounts.get(name)
        key = _digest(token)
        if account is None or self._tokens.get(key) != (name, account.password):
            if not await self._compare(name, password, remote):
                return None
            account = self._settings().accounts[name]
            self._tokens[key] = (name, account.password)
            while len(self._tokens) > _SESSIONS:
                del self._tokens[next(iter(self._tokens))]
        return Who(name, account.role)

    async def login(self, name: str, password: str, remote: str) -> str:
        """A new session's secret, for the cookie. Raises ProblemError."""
        if not await self._compare(name, password, remote):
            raise ProblemError(401, "wrong-password")
        settings = self._settings()
        now = self._clock()
        self._sessions = {key: one for key, one in self._sessions.items() if one.expires > now}
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        session = _Session(name, settings.accounts[name].password, now + settings.session)
        self._sessions[_digest(secret)] = session
        return secret

    def logout(self, secret: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(secret), None)

    async def _compare(self, name: str, password: str, remote: str) -> bool:
        """Is it the account's password? An unknown name takes as long. Raises ProblemError after too many tries."""
        async with self._comparing:
            self._slow_down(remote)
            account = self._settings().accounts.get(name)
            wanted = account.password if account else await self._stand_in()
            right = await asyncio.to_thread(wanted.admits, password) and account is not None
            # The accounts may have been changed while it was compared.
            now_there = self._settings().accounts.get(name)
            right = right and now_there is not None and now_there.password == wanted
            if right:
                self._failures.pop(remote, None)
            else:
                self._failed(remote)
            return right

    async def _stand_in(self) -> PasswordHash:
        if self._nobody is None:
            self._nobody = await asyncio.to_thread(hash_password, secrets.token_urlsafe())
        return self._nobody

    def _slow_down(self, remote: str) -> None:
        now = self._clock()
        recent = [at for at in self._failures.get(remote, ()) if now - at < WITHIN]
        if len(recent) >= TRIES:
            wait = max(1, round(WITHIN - (now - recent[0])))
            raise ProblemError(429, "too-many-logins", headers={"Retry-After": str(wait)})

    def _failed(self, remote: str) -> None:
        now = self._clock()
        recent = [at for at in self._failures.pop(remote, ()) if now - at < WITHIN]
        self._failures[remote] = [*recent, now]
        while len(self._failures) > _ADDRESSES:
            del self._failures[next(iter(self._failures))]


def admit(who: Who | None, guard: Guard) -> None:
    """Let pass, or not. Raises ProblemError."""
    if guard in ("open", "login"):
        return
    if who is None:
        raise ProblemError(401, "not-logged-in")
    if guard == "change" and who.role != "admin":
        raise ProblemError(403, "not-allowed", f"{who.name} may read only")


def same_site(headers: Mapping[str, str]) -> None:
    """The proof that no page elsewhere sent this. Raises ProblemError.

    A browser adds neither a token nor PROOF to what another site has it send, and says by Origin and Sec-Fetch-Site
    where it comes from. Host has been found to be ours before.
    """
    if bearer(headers) is not None:
        return
    origin = headers.get("Origin")
    elsewhere = origin is not None and _place(origin) != headers.get("Host", "").lower()
    if PROOF not in headers or elsewhere or headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise ProblemError(403, "cross-site")


def _place(origin: str) -> str | None:
    """Host and port of an origin; None when it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def bearer(headers: Mapping[str, str]) -> str | None:
    """The token of an Authorization header (RFC 6750)."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def is_loopback(host: str) -> bool:
    """Does this name mean this machine alone?"""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _digest(secret: str) -> bytes:
    """Secrets are looked up by digest: neither memory nor the time of a look-up tells them."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
