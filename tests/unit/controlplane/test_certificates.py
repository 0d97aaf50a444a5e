"""What is said about the certificates of both ports."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.certificates import Certificates, write_self_signed
from rpcaccel.controlplane.workers.sockets import ListenError
from tests.support.waiting import until

DAY = 86_400.0


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"networks": {"x": {"nodes": ["http://a"]}}, **more})


def pair(folder: Path) -> dict[str, str]:
    cert, key = write_self_signed(folder)
    return {"tls_cert": str(cert), "tls_key": str(key)}


@pytest.mark.parametrize(
    ("days", "level", "said"),
    [
        (383.5, "warn", "ends in 13 days"),
        (394.5, "bad", "ends in 2 days"),
        (395.5, "bad", "ends in 1 day"),
        (396.5, "bad", "ends in less than a day"),
        (398, "bad", "has ended: clients refuse it"),
    ],
)
async def test_the_end_of_a_certificate_is_said_before_it_comes(
    tmp_path: Path, days: float, level: str, said: str
) -> None:
    now = time.time()
    certificates = Certificates(lambda: now)
    certificates.open(settings(admin=pair(tmp_path)))
    certificates.start()
    try:
        now += days * DAY
        await until(lambda: list(certificates.notices()))
        (notice,) = certificates.notices()
    finally:
        await certificates.stop()
    assert (notice.level, notice.subject) == (level, "admin.tls_cert")
    assert notice.text == f"the certificate of admin.tls_cert {said}"


def test_a_broken_renewal_is_said_until_it_is_mended(tmp_path: Path) -> None:
    certificates, files = Certificates(), pair(tmp_path)
    certificates.open(settings(**files))
    assert certificates.calls is not None
    assert list(certificates.notices()) == []
    key = Path(files["tls_key"])
    right = key.read_bytes()
    key.write_text("no key")
    certificates.calls.look()
    (notice,) = certificates.notices()
    assert (notice.level, notice.subject) == ("bad", "tls_cert")
    assert notice.text.startswith(f"tls_key: found {key}, expected the certificate's key as PEM")
    assert notice.text.endswith("the certificate that was read before stays in force")
    key.write_bytes(right)
    certificates.calls.look()
    assert list(certificates.notices()) == []


def test_files_that_cannot_be_used_at_the_start_are_said_with_their_setting() -> None:
    with pytest.raises(ListenError, match=r"^admin.tls_cert: found /none, .*: No such file"):
        Certificates().open(settings(admin={"tls_cert": "/none", "tls_key": "/none"}))


def test_the_key_of_a_first_look_is_for_its_owner_alone(tmp_path: Path) -> None:
    _, key = write_self_signed(tmp_path)
    assert key.stat().st_mode & 0o777 == 0o600


def test_without_certificates_nothing_is_watched() -> None:
    certificates = Certificates()
    certificates.open(settings())
    assert (certificates.calls, certificates.admin, list(certificates.notices())) == (None, None, [])
    asyncio.run(certificates.stop())
