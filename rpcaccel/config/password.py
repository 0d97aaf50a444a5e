"""Password hashes (scrypt, RFC 7914): made by `rpcaccel passwd`, kept in the settings, compared at login."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from rpcaccel.config.address import Secret

_LOG_N, _R, _P = 15, 8, 1
"""2^15 rounds of 8 blocks: 32 MiB and about a tenth of a second for each try."""
_LENGTH = 32
_FORM = re.compile(r"scrypt:(\d{1,2}):(\d{1,2}):(\d{1,2}):([A-Za-z0-9_-]{16,64}):([A-Za-z0-9_-]{32,128})")
_LARGEST = 128 << 20


class PasswordHash(Secret):
    """`scrypt:LOG2N:R:P:SALT:HASH`; never shown, though it is no password."""

    __slots__ = ()
    expected = "a hash printed by `rpcaccel passwd`"

    @classmethod
    def checked(cls, value: str) -> str:
        text = super().checked(value.strip())
        match = _FORM.fullmatch(text)
        if match is None or not _bearable(int(match[1]), int(match[2]), int(match[3])):
            raise ValueError(cls.expected)
        return text

    def admits(self, password: str) -> bool:
        """Is this the password? Takes about a tenth of a second on purpose. Blocks."""
        _, log_n, r, p, salt, wanted = self.reveal().split(":")
        try:
            bytes_wanted = _unbase(wanted)
            made = _scrypt(password, _unbase(salt), int(log_n), int(r), int(p), len(bytes_wanted))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(made, bytes_wanted)


def hash_password(password: str, *, log_n: int = _LOG_N) -> PasswordHash:
    """The hash of a password, with a salt of its own. Blocks."""
    salt = secrets.token_bytes(16)
    made = _scrypt(password, salt, log_n, _R, _P, _LENGTH)
    return PasswordHash(f"scrypt:{log_n}:{_R}:{_P}:{_base(salt)}:{_base(made)}")


def unmatched() -> PasswordHash:
    """A hash of no password: to compare with it takes as long as with any other."""
    salt, made = _base(secrets.token_bytes(16)), _base(secrets.token_bytes(_LENGTH))
    return PasswordHash(f"scrypt:{_LOG_N}:{_R}:{_P}:{salt}:{made}")


def _bearable(log_n: int, r: int, p: int) -> bool:
    """Whether one try stays within its memory and time."""
    return 1 <= log_n <= 20 and r >= 1 and 1 <= p <= 4 and 128 * (1 << log_n) * r <= _LARGEST // 2


def _scrypt(password: str, salt: bytes, log_n: int, r: int, p: int, length: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=1 << log_n, r=r, p=p, maxmem=_LARGEST, dklen=length
    )


def _base(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
