"""Under which name the admin side is asked, and the certificate that it shows."""

from __future__ import annotations

import ipaddress
import ssl

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.listening import ListenError, reason_of


class CertificateError(ListenError):
    """A certificate or its key cannot be used. `name` is the setting, `expected` what it should have been."""

    def __init__(self, name: str, file: str, expected: str) -> None:
        super().__init__(f"admin.{name}: found {file}, expected {expected}")
        self.name = name
        self.expected = expected


def name_asked(host: str) -> str:
    """The name or address in a Host header, in one spelling: without port and brackets, in lower case."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdigit() else host).removeprefix("[").removesuffix("]").lower()
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name


def tls_context(settings: AdminSettings) -> ssl.SSLContext | None:
    """The server's side of TLS; None without a certificate. Raises CertificateError."""
    if not settings.tls_cert:
        return None
    cert, key = settings.tls_cert, settings.tls_key
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key, password="")  # never asked for in the terminal
    except (OSError, ValueError) as error:
        if (why := _no_certificate(cert)) is not None:
            raise CertificateError("tls_cert", cert, f"a certificate as PEM{why}") from None
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError("tls_key", key, f"the key of the certificate in {cert}") from None
        why = "" if isinstance(error, ssl.SSLError | ValueError) else f": {reason_of(error)}"
        raise CertificateError("tls_key", key, f"the certificate's key as PEM, without a password{why}") from None
    return context


def _no_certificate(file: str) -> str | None:
    """None for a file with a certificate in it; otherwise the system's reason, empty when it is just none."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=file)
    except (ssl.SSLError, ValueError):
        return ""
    except OSError as error:
        return f": {reason_of(error)}"
    return None
