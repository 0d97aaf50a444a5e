"""Makes the self-signed certificate of a simulated node that serves HTTPS, with the openssl program."""

from __future__ import annotations

import os
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path

_OPENSSL = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650"),
    *("-subj", "/CN=rpcaccel simulated node", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"),
    *("-addext", "keyUsage=critical,digitalSignature,keyCertSign", "-keyout", "-"),
)
"""A new P-256 key and its certificate for localhost, 127.0.0.1 and ::1, for ten years, in PEM."""


def server_context(file: Path) -> ssl.SSLContext:
    """The TLS side of a server whose key and certificate stand in `file`; the file is made where there is none.

    Clients trust the node when the same file is named by SSL_CERT_FILE. Raises OSError.
    """
    if not file.exists():
        _write_once(file, made())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def made() -> bytes:
    """A new key and its certificate, in PEM. Raises OSError where openssl is missing or fails."""
    try:
        return subprocess.run(_OPENSSL, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise OSError("there is no such file, and openssl did not make one") from error


def _write_once(file: Path, content: bytes) -> None:
    """Write the file whole; where another process wrote one meanwhile, that one stays."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        written.write(content)
    with suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()
