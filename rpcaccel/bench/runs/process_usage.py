"""Reads CPU time and resident memory of processes from Linux' /proc; on other systems both are unknown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_LISTENING = "0A"


class Use(Struct, frozen=True):
    """The processor time and memory of some processes, up to a moment or over a period."""

    at: float
    """Monotonic seconds of the moment, or the seconds of the period."""
    cpu: float
    """Seconds of user and system time."""
    resident: int
    """Bytes at the end."""

    @property
    def cores(self) -> float:
        """Cores busy, on average: 1.0 is one core all the time."""
        return self.cpu / self.at


def listeners(port: int) -> list[int]:
    """The ids of this machine's processes that listen on a TCP port, as far as they may be seen."""
    wanted = _sockets(port, _LISTENING)
    return sorted(pid for pid in _pids() if wanted & _open_files(pid)) if wanted else []


def with_children(pids: Iterable[int]) -> list[int]:
    """The ids of some processes and of all their descendants."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if (stat := _stat(pid)) is not None:
            children.setdefault(int(stat[1]), []).append(pid)
    found, waiting = set(), list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return sorted(found)


def use(pids: Iterable[int]) -> Use | None:
    """The usage of processes up to now; None when none of them can be seen."""
    stats = [stat for pid in pids if (stat := _stat(pid)) is not None]
    cpu = sum(int(stat[11]) + int(stat[12]) for stat in stats) / _TICK
    return Use(time.monotonic(), cpu, sum(int(stat[21]) for stat in stats) * _PAGE) if stats else None


def spent(before: Use | None, after: Use | None) -> Use | None:
    """The usage between two moments; None when the usage up to one of them is not known."""
    if before is None or after is None or after.at <= before.at:
        return None
    return Use(after.at - before.at, after.cpu - before.cpu, after.resident)


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []


def _stat(pid: int) -> list[str] | None:
    """Fields of proc(5)'s stat from the third (state) on; None when the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _sockets(port: int, state: str) -> set[str]:
    """The TCP sockets of this port in a state of proc(5)'s net/tcp, as links of open files name them."""
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            lines = (line.split() for line in (_PROC / "net" / name).read_text().splitlines()[1:])
            found |= {f"socket:[{line[9]}]" for line in lines if line[3] == state and line[1].endswith(f":{port:04X}")}
    return found


def _open_files(pid: int) -> set[str]:
    """The targets of a process's open files; none where the process may not be looked into. A file may close
    meanwhile."""
    found: set[str] = set()
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(entry))
    return found
