"""The certificate of a listening socket: which files can be used, and reading them again when they change."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable

from rpcaccel.config.errors import reason_of

LOOK_SECONDS = 2.0
"""Seconds between two looks whether the files have changed."""
_ANOTHER_KEY = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""What OpenSSL says of a usable key that is not the certificate's; for one of another type, the latter two, by its
version."""


class CertificateError(RuntimeError):
    """A certificate or its key cannot be used. `name` is the setting, `expected` what it should have been."""

    def __init__(self, name: str, file: str, expected: str) -> None:
        super().__init__(f"{name}: found {file}, expected {expected}")
        self.name = name
        self.expected = expected


def tls_context(cert: str, key: str) -> ssl.SSLContext:
    """The server's side of TLS, with these files. Raises CertificateError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Every cipher that is left is a good one, so the client says which is quick on its machine.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    # The one group that every client has; of those that OpenSSL takes besides, ffdhe8192 would hold the loop for 0.2 s.
    context.set_ecdh_curve("prime256v1")
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password="")  # never asked for in the terminal
    except (OSError, ValueError) as error:
        if (why := _no_certificate(cert)) is not None:
            raise CertificateError("tls_cert", cert, f"a certificate as PEM{why}") from None
        if isinstance(error, ssl.SSLError) and error.reason in _ANOTHER_KEY:
            expected = f"the key that belongs to the tls_cert beside it, {cert}: this key does not"
            raise CertificateError("tls_key", key, expected) from None
        why = "" if isinstance(error, ssl.SSLError | ValueError) else f": {reason_of(error)}"
        raise CertificateError("tls_key", key, f"the certificate's key as PEM, without a password{why}") from None
    return context


def _no_certificate(file: str) -> str | None:
    """None for a file with a certificate; otherwise the system's reason, empty for a readable file without one."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except (ssl.SSLError, ValueError):
        return ""
    except OSError as error:
        return f": {reason_of(error)}"
    return None


class ServedCertificate:
    """A certificate and its key. New connections get what the files held when they could be used last."""

    def __init__(self, cert: str, key: str) -> None:
        """Read the files. Raises CertificateError."""
        self.cert, self.key = cert, key
        self._seen = self._stamps()
        self.context = tls_context(cert, key)
        self.fault = ""
        """Why the files cannot be used now; empty when they can."""

    def __repr__(self) -> str:
        return f"<certificate of {self.cert}{f', {self.fault}' if self.fault else ''}>"

    def look(self) -> bool:
        """Read the files again where they have changed; returns whether their certificate is in force now. Blocks."""
        seen = self._stamps()
        if seen == self._seen and not self.fault:
            return False
        try:
            self.context = tls_context(self.cert, self.key)
        except CertificateError as error:
            self.fault = str(error)
            return False
        # What was written since the stamps were taken has other stamps, and is read at the next look.
        self._seen, self.fault = seen, ""
        return True

    async def watch(self, looked: Callable[[bool], None] = lambda _renewed: None, every: float = LOOK_SECONDS) -> None:
        """Look for ever; `looked` is called after each look, with what it returned."""
        while True:
            await asyncio.sleep(every)
            looked(await asyncio.to_thread(self.look))

    def _stamps(self) -> tuple[tuple[int, ...] | None, ...]:
        """What changes with the content of the files, also where a link leads to another file."""
        return _stamp(self.cert), _stamp(self.key)


def _stamp(file: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
