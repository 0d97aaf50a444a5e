"""The certificates of both ports: what is said about them, and one that signs itself for a first look."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from rpcaccel.config.model import AdminSettings, Settings
from rpcaccel.controlplane.stats.snapshot import Notice
from rpcaccel.controlplane.workers.sockets import ListenError
from rpcaccel.dataplane.certificate import CertificateError, ServedCertificate
from rpcaccel.stores.tasks import cancel_and_wait

WARN_DAYS, BAD_DAYS = 14, 3
"""Days before its end from which a certificate needs attention; an ACME client renews one some 30 days before."""
_DAY_SECONDS = 86_400.0
_SELF_SIGNED_DAYS = 397
"""The longest that browsers take."""

log = structlog.get_logger("rpcaccel.certificates")


class Certificates:
    """The certificates of one program, from `open` to `stop`. Workers read the files of `calls` by themselves; here
    they are watched for what is said about them."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.calls: ServedCertificate | None = None
        """That of the call port; None where it does without TLS."""
        self.admin: ServedCertificate | None = None
        self._ends: dict[str, float] = {}
        """When each ends (seconds since 1970), by the prefix of its settings; without those that cannot be read."""
        self._told: dict[str, str] = {}
        """The faults that the log has, by prefix."""
        self._watches: list[asyncio.Task[None]] = []

    def open(self, settings: Settings) -> None:
        """Read the files of both ports. Raises ListenError."""
        self.calls, self.admin = _served("", settings), _served("admin.", settings.admin)

    def start(self) -> None:
        """Watch the files."""
        for prefix, one in self._served():
            self._watches.append(asyncio.create_task(self._watch(prefix, one), name=f"watch {prefix}tls_cert"))

    async def stop(self) -> None:
        await cancel_and_wait(*self._watches)

    def notices(self) -> Iterator[Notice]:
        """Sentences about files that cannot be used, and about certificates that end soon."""
        for prefix, one in self._served():
            if one.fault:
                text = f"{prefix}{one.fault}; the certificate that was read before stays in force"
                yield Notice("bad", f"{prefix}tls_cert", text, "certificate files")
            left = self._ends.get(prefix, float("inf")) - self._wall()
            if left < WARN_DAYS * _DAY_SECONDS:
                yield Notice(
                    "bad" if left < BAD_DAYS * _DAY_SECONDS else "warn",
                    f"{prefix}tls_cert",
                    f"the certificate of {prefix}tls_cert {_until(left)}",
                    "certificate ends",
                )

    def _served(self) -> Iterator[tuple[str, ServedCertificate]]:
        for prefix, one in (("", self.calls), ("admin.", self.admin)):
            if one is not None:
                yield prefix, one

    async def _watch(self, prefix: str, one: ServedCertificate) -> None:
        await asyncio.to_thread(self._note_end, prefix, one)
        await one.watch(lambda renewed: self._looked(prefix, one, renewed=renewed))

    def _looked(self, prefix: str, one: ServedCertificate, *, renewed: bool) -> None:
        """Log what a look at the files found, where it is news."""
        if renewed:
            self._note_end(prefix, one)
            log.info(f"the certificate of {prefix}tls_cert was read again, for new connections", file=one.cert)
        elif one.fault and one.fault != self._told.get(prefix):
            log.warning(f"the certificate before stays in force: {prefix}{one.fault}")
        self._told[prefix] = one.fault

    def _note_end(self, prefix: str, one: ServedCertificate) -> None:
        from cryptography import x509  # noqa: PLC0415 -- only a program with a certificate needs it

        self._ends.pop(prefix, None)
        try:
            first = x509.load_pem_x509_certificates(Path(one.cert).read_bytes())[0]
        except (OSError, ValueError):  # gone again already, or in a form that OpenSSL takes and this library does not
            return
        self._ends[prefix] = first.not_valid_after_utc.timestamp()


def _served(prefix: str, place: Settings | AdminSettings) -> ServedCertificate | None:
    if not place.tls_cert:
        return None
    try:
        return ServedCertificate(place.tls_cert, place.tls_key)
    except CertificateError as error:
        raise ListenError(f"{prefix}{error}") from error


def _until(left: float) -> str:
    """ "ends in 9 days", for the seconds that are left."""
    days = int(left // _DAY_SECONDS)
    if left <= 0:
        return "has ended: clients refuse it"
    return f"ends in {days} day{'s' if days > 1 else ''}" if days else "ends in less than a day"


def write_self_signed(folder: Path) -> tuple[Path, Path]:
    """Make a key, and a certificate for this machine's loopback names that it signs itself; returns the files of
    certificate and key."""
    from cryptography import x509  # noqa: PLC0415 -- only a first look needs it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    addresses = (x509.IPAddress(ipaddress.ip_address(one)) for one in ("127.0.0.1", "::1"))
    begins = datetime.now(UTC) - timedelta(hours=1)  # for clients whose clocks are slow
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=_SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.touch(mode=0o600)
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_file, key_file
