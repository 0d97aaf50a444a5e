"""Settings and entries for tests of stores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.rules import CacheClass


@dataclass(frozen=True)
class Url:
    text: str

    def reveal(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Settings:
    """As a patient operator would set them on a busy machine: only tests of the deadline itself take a short one."""

    url: Url = Url("")
    replicas: tuple[Url, ...] = ()
    prefix: str = "test"
    read_timeout: float = 10.0
    write_timeout: float = 10.0
    connect_timeout: float = 10.0
    pool_size: int = 16
    queue: int = 10_000
    compress_from: int = 1024


def every(_entry: Entry) -> bool:
    """Accept any entry."""
    return True


def an_entry(result: bytes = b'"0x1"', *, method: str = "call", life: float = inf) -> Entry:
    now = time.monotonic()
    return Entry(
        result=result, cache=CacheClass.HEAD, block=7, network="s0", method=method, stored_at=now, expires=now + life
    )
