"""Answers as blocks of a chain are, and the settings of a disk tier, for its tests."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.rules import CacheClass

TAG = b"harmony-s0@1666600000.0123456789ab"
METHOD = "eth_getBlockByNumber"
LEAST = 64 << 20
"""Bytes of the smallest tier that the settings allow."""


@dataclass(frozen=True, kw_only=True)
class DiskSettings:
    """As a patient operator would set them on a busy machine: only tests of the deadline itself take a short one."""

    path: str
    size: int = LEAST
    read_timeout: float = 10.0
    queue: int = 32 << 20


def in_folder(folder: Path, **others: float) -> DiskSettings:
    """Settings for a folder."""
    return DiskSettings(path=str(folder), **others)  # type: ignore[arg-type]


def block_key(number: int, *, tag: bytes = TAG, method: str = METHOD) -> bytes:
    """The key of a block by its number."""
    return b'%b:%b:n:["0x%x",true]' % (tag, method.encode(), number)


def block(number: int, seed: int = 0) -> bytes:
    """A Harmony block without transactions, of 1.6 kB: its hashes and proofs differ from those of every other block."""
    rng = random.Random(number << 8 | seed)

    def text(length: int) -> str:
        return f"{rng.getrandbits(length * 4):0{length}x}"

    return (
        f'{{"number":"0x{number:x}","hash":"0x{text(64)}","parentHash":"0x{text(64)}","nonce":"0x{"0" * 16}",'
        f'"mixHash":"0x{"0" * 64}","sha3Uncles":"0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347",'
        f'"logsBloom":"0x{"0" * 512}","stateRoot":"0x{text(64)}","miner":"0x{rng.choice(_MINERS)}","difficulty":"0x0",'
        f'"extraData":"0x","size":"0x{rng.randrange(700, 900):x}","gasLimit":"0x4a615ae","gasUsed":"0x0",'
        f'"vrf":"0x{text(64)}","vrfProof":"0x{text(192)}","timestamp":"0x{0x6AFFF9B4 + 2 * number:x}",'
        f'"transactionsRoot":"0x{_EMPTY}","receiptsRoot":"0x{_EMPTY}","uncles":[],"transactions":[]}}'
    ).encode()


_EMPTY = "56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
_MINERS = [f"{random.Random(number).getrandbits(160):040x}" for number in range(40)]


def lasting(result: bytes, *, block: int = 7, network: str = "harmony-s0", method: str = METHOD) -> Entry:
    """An answer that never expires."""
    return Entry(
        result=result,
        cache=CacheClass.BY_NUMBER,
        block=block,
        network=network,
        method=method,
        stored_at=time.monotonic(),
    )


def blocks(numbers: range, seed: int = 0) -> dict[bytes, Entry]:
    """The answers about some blocks, by their keys."""
    return {block_key(number): lasting(block(number, seed), block=number) for number in numbers}
