"""Where the admin side may listen."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcaccel.config.model import AdminSettings
from rpcaccel.controlplane.workers.sockets import CertificateError, name_asked, tls_context
from tests.support.services import SUPPORT

LOOPBACK = SUPPORT / "loopback.pem"
OTHER_KEY = str(SUPPORT / "other_key.pem")


def certificate(folder: Path) -> tuple[str, str]:
    """The parts of the loopback certificate in files of their own."""
    text = LOOPBACK.read_text()
    start = text.index("-----BEGIN CERTIFICATE")
    end = text.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")
    (folder / "cert.pem").write_text(text[start:end])
    (folder / "key.pem").write_text(text[:start] + text[end:])
    return str(folder / "cert.pem"), str(folder / "key.pem")


def test_without_a_certificate_there_is_no_tls() -> None:
    assert tls_context(AdminSettings()) is None


def test_a_certificate_and_its_key_are_taken_in_two_files_or_in_one(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    for files in ((cert, key), (str(LOOPBACK), str(LOOPBACK))):
        assert tls_context(AdminSettings(tls_cert=files[0], tls_key=files[1])) is not None


def test_what_is_wrong_with_a_certificate_is_said_of_its_file(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
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
        ((cert, OTHER_KEY), "tls_key", f"the key of the certificate in {cert}"),
    ):
        with pytest.raises(CertificateError) as caught:
            tls_context(AdminSettings(tls_cert=files[0], tls_key=files[1]))
        assert (caught.value.name, caught.value.expected) == (name, expected)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("RPC.Example:8889", "rpc.example"),
        ("rpc.example", "rpc.example"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[FD00:0:0::5]:8889", "fd00::5"),
        ("[fd00::5]", "fd00::5"),
        ("fd00::5:0", "fd00::5"),
        (":8889", ""),
        ("", ""),
    ],
)
def test_a_host_header_has_one_spelling_of_its_name(host: str, name: str) -> None:
    assert name_asked(host) == name
