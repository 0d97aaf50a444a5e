"""Makes the self-signed certificate of a simulated node that serves HTTPS (RFC 5280, in the DER of ITU-T X.690)."""

from __future__ import annotations

import os
import secrets
import ssl
from base64 import encodebytes
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path

from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.Signature import DSS

YEARS = 10
"""How long a certificate is valid."""
_SEQUENCE, _SET, _OCTETS, _BITS, _UTF8, _TIME = 0x30, 0x31, 0x04, 0x03, 0x0C, 0x17
"""Tags of X.690; 0xA0 + n and 0x80 + n are the context's own, constructed and primitive."""
_TRUE = b"\x01\x01\xff"
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("0603550403")
_BASIC_CONSTRAINTS, _KEY_USAGE = bytes.fromhex("0603551d13"), bytes.fromhex("0603551d0f")
_SUBJECT_KEY, _ISSUER_KEY = bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d23")
_ALTERNATIVE_NAMES = bytes.fromhex("0603551d11")
_SIGNS = bytes.fromhex("03020284")
"""Key usage: digital signature and certificate signature."""


def server_context(file: Path) -> ssl.SSLContext:
    """The TLS side of a server whose key and certificate stand in `file`; the file is made where there is none.

    Clients trust the node when the same file is named by SSL_CERT_FILE. Raises OSError.
    """
    if not file.exists():
        _write_once(file, made())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def made() -> str:
    """A new P-256 key and its certificate for localhost, 127.0.0.1 and ::1, in PEM."""
    key = ECC.generate(curve="P-256")
    public = key.public_key().export_key(format="DER")
    name = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _COMMON_NAME, _der(_UTF8, b"rpcaccel simulated node"))))
    now = datetime.now(UTC)
    times = (now - timedelta(days=1), now + timedelta(days=365 * YEARS))
    key_id = sha1(public, usedforsecurity=False).digest()
    names = (_der(0x82, b"localhost"), _der(0x87, bytes((127, 0, 0, 1))), _der(0x87, bytes(15) + b"\x01"))
    extensions = (
        _der(_SEQUENCE, _BASIC_CONSTRAINTS, _TRUE, _der(_OCTETS, _der(_SEQUENCE, _TRUE))),
        _der(_SEQUENCE, _KEY_USAGE, _TRUE, _der(_OCTETS, _SIGNS)),
        _der(_SEQUENCE, _SUBJECT_KEY, _der(_OCTETS, _der(_OCTETS, key_id))),
        _der(_SEQUENCE, _ISSUER_KEY, _der(_OCTETS, _der(_SEQUENCE, _der(0x80, key_id)))),
        _der(_SEQUENCE, _ALTERNATIVE_NAMES, _der(_OCTETS, _der(_SEQUENCE, *names))),
    )
    unsigned = _der(
        _SEQUENCE,
        bytes.fromhex("a003020102"),  # version 3
        _der(0x02, b"\x01" + secrets.token_bytes(8)),  # the serial number
        _ECDSA_WITH_SHA256,
        name,
        _der(_SEQUENCE, *(_der(_TIME, time.strftime("%y%m%d%H%M%SZ").encode()) for time in times)),
        name,
        public,
        _der(0xA3, _der(_SEQUENCE, *extensions)),
    )
    signature = DSS.new(key, "deterministic-rfc6979", encoding="der").sign(SHA256.new(unsigned))
    certificate = _der(_SEQUENCE, unsigned, _ECDSA_WITH_SHA256, _der(_BITS, b"\0" + signature))
    lines = encodebytes(certificate).decode().strip()
    return f"{key.export_key(format='PEM')}\n-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"


def _der(tag: int, *parts: bytes) -> bytes:
    """One value with its tag and length (X.690 section 8.1)."""
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + body


def _write_once(file: Path, text: str) -> None:
    """Write the file whole; where another process wrote one meanwhile, that one stays."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as written:
        written.write(text)
    with suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()
