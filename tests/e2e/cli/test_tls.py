"""The call port over TLS, as the program serves it: with several workers, while its certificate is renewed."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp

from rpcaccel.controlplane.certificates import write_self_signed
from tests.support.fleet import Fleet
from tests.support.running import HARMONY, LOCAL
from tests.support.services import Program

CALL = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}


async def served(url: str, trusted: Path) -> bool:
    """Is a call answered over a new connection by whoever has this certificate?"""
    context = await asyncio.to_thread(ssl.create_default_context, cafile=str(trusted))
    try:
        async with aiohttp.ClientSession() as http, http.post(url, json=CALL, ssl=context) as reply:
            return "result" in await reply.json()
    except aiohttp.ClientConnectorCertificateError:
        return False


async def attention(page: str) -> str:
    async with aiohttp.ClientSession() as http, http.get(f"{page}api/v1/overview") as reply:
        return str((await reply.json())["attention"])


async def test_every_worker_takes_over_a_renewed_certificate_and_keeps_it_when_the_next_one_is_broken(
    fleet: Fleet, new_program: Callable[..., Program], tmp_path: Path
) -> None:
    cert, key = await asyncio.to_thread(write_self_signed, tmp_path)
    second, its_key = await asyncio.to_thread(made_in, tmp_path / "next")
    first, renewed = tmp_path / "first.pem", tmp_path / "renewed.pem"
    await asyncio.to_thread(shutil.copy, cert, first)
    await asyncio.to_thread(shutil.copy, second, renewed)
    flags = "--tls-cert", str(cert), "--tls-key", str(key), "--workers", "2"
    program = new_program("serve", f"{fleet.nodes[0].url},id=a", *LOCAL, *HARMONY, *flags)
    found = await asyncio.to_thread(program.wait_for, r"(https://[^/\s]+/) [\s\S]*page +(http://[^/\s]+/)")
    url, page = found[1], found[2]
    async with asyncio.timeout(60):
        assert await served(url, first)
        os.replace(second, cert)
        os.replace(its_key, key)
        in_a_row = 0
        while in_a_row < 20:  # one worker of two would be met among them
            in_a_row = in_a_row + 1 if await served(url, renewed) else 0
        os.replace(key, tmp_path / "aside.pem")
        while "the certificate that was read before stays in force" not in await attention(page):
            await asyncio.sleep(0.1)
        assert await served(url, renewed)


async def test_a_first_look_needs_no_certificate(fleet: Fleet, new_program: Callable[..., Program]) -> None:
    program = new_program("serve", f"{fleet.nodes[0].url},id=a", *LOCAL, *HARMONY, "--self-signed", "--workers", "2")
    said = r"clients trust (\S+),[\s\S]*(https://[^/\s]+/) [\s\S]*page +(http://[^/\s]+/)"
    found = await asyncio.to_thread(program.wait_for, said)
    trusted = Path(found[1])
    assert await served(found[2].replace("127.0.0.1", "localhost"), trusted)
    async with aiohttp.ClientSession() as http, http.get(f"{found[3]}api/v1/settings/export") as exported:
        assert "tls_" not in await exported.text()
    await asyncio.to_thread(program.stop)
    assert not await asyncio.to_thread(trusted.exists)


def made_in(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    return write_self_signed(folder)
