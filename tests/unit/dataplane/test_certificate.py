"""Which files of a certificate can be used, and how changed ones come in force."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from rpcaccel.controlplane.certificates import write_self_signed
from rpcaccel.dataplane.certificate import CertificateError, ServedCertificate, tls_context
from tests.support.services import SUPPORT

LOOPBACK = SUPPORT / "loopback.pem"
OTHER_KEY = str(SUPPORT / "other_key.pem")


def two_files(folder: Path) -> tuple[str, str]:
    """The parts of the loopback certificate in files of their own."""
    text = LOOPBACK.read_text()
    start = text.index("-----BEGIN CERTIFICATE")
    end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")
    (folder / "cert.pem").write_text(text[start:end])
    (folder / "key.pem").write_text(text[:start] + text[end:])
    return str(folder / "cert.pem"), str(folder / "key.pem")


def key_of_another_type(folder: Path) -> str:
    key = rsa.generate_private_key(65537, 2048)
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "rsa.pem").write_bytes(written)
    return str(folder / "rsa.pem")


def belonging_to(cert: str) -> str:
    return f"the key that belongs to the tls_cert beside it, {cert}: this key does not"


def test_a_certificate_and_its_key_are_taken_in_two_files_or_in_one(tmp_path: Path) -> None:
    cert, key = two_files(tmp_path)
    for files in ((cert, key), (str(LOOPBACK), str(LOOPBACK))):
        assert tls_context(*files).get_ca_certs() == []


def test_what_is_wrong_with_a_certificate_is_said_of_its_file(tmp_path: Path) -> None:
    cert, key = two_files(tmp_path)
    rsa_key = key_of_another_type(tmp_path)
    text = str(tmp_path / "text.pem")
    Path(text).write_text("no certificate")
    for files, name, expected in (
        (("none.pem", key), "tls_cert", "a certificate as PEM: No such file or directory"),
        ((text, key), "tls_cert", "a certificate as PEM"),
        ((key, key), "tls_cert", "a certificate as PEM"),
        (("\0", key), "tls_cert", "a certificate as PEM"),
        ((cert, text), "tls_key", "the certificate's key as PEM, without a password"),
        ((cert, cert), "tls_key", "the certificate's key as PEM, without a password"),
        ((cert, "none.pem"), "tls_key", "the certificate's key as PEM, without a password: No such file or directory"),
        ((cert, OTHER_KEY), "tls_key", belonging_to(cert)),
        ((cert, rsa_key), "tls_key", belonging_to(cert)),
    ):
        with pytest.raises(CertificateError) as caught:
            tls_context(*files)
        assert (caught.value.name, caught.value.expected) == (name, expected)


@pytest.fixture
def served(tmp_path: Path) -> ServedCertificate:
    return ServedCertificate(*map(str, write_self_signed(tmp_path)))


def made_elsewhere(folder: Path) -> tuple[Path, Path]:
    """Another certificate and its key."""
    (folder / "elsewhere").mkdir()
    return write_self_signed(folder / "elsewhere")


def test_files_that_stay_are_not_read_again(served: ServedCertificate) -> None:
    before = served.context
    assert (served.look(), served.context) == (False, before)


def test_renewed_files_come_in_force_when_both_are_there(served: ServedCertificate, tmp_path: Path) -> None:
    cert, key = made_elsewhere(tmp_path)
    before = served.context
    os.replace(cert, served.cert)
    assert not served.look()
    assert served.fault == f"tls_key: found {served.key}, expected {belonging_to(served.cert)}"
    assert served.context is before
    os.replace(key, served.key)
    assert served.look()
    assert served.fault == ""
    assert served.context is not before


def test_a_link_that_leads_to_other_files_renews(tmp_path: Path) -> None:
    write_self_signed(tmp_path)
    live = tmp_path / "live"
    live.symlink_to(tmp_path)
    served = ServedCertificate(str(live / "cert.pem"), str(live / "key.pem"))
    made_elsewhere(tmp_path)
    (tmp_path / "new").symlink_to(tmp_path / "elsewhere")
    os.replace(tmp_path / "new", live)
    assert served.look()


def test_files_that_are_gone_leave_the_certificate_in_force_until_they_are_back(served: ServedCertificate) -> None:
    before, aside = served.context, f"{served.cert}.aside"
    os.replace(served.cert, aside)
    assert not served.look()
    assert (served.fault.endswith("No such file or directory"), served.context) == (True, before)
    os.replace(aside, served.cert)
    assert served.look()
    assert not served.fault
