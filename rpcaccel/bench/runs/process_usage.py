"""CPU and resident memory of processes, from Linux' /proc; elsewhere nothing is known, and that is said."""

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
    """What some processes have used until a moment."""

    at: float
    """Monotonic seconds."""
    cpu: float
    """Seconds of user and system time."""
    resident: int
    """Bytes."""


class ProcessorTime(Struct, frozen=True):
    """What some processes used between two moments."""

    cores: float
    """Cores busy, on average: 1.0 is one core all the time."""
    resident: int
    """Bytes at the end."""


def listeners(port: int) -> list[int]:
    """The ids of this machine's processes that listen on a TCP port, as far as they may be seen."""
    sockets = _sockets(port)
    return sorted(pid for pid in _pids() if sockets and sockets & _held(pid)) if sockets else []


def with_children(pids: Iterable[int]) -> list[int]:
    """These processes and all that come from them."""
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
    """What the processes have used so far; None when none of them can be seen."""
    cpu, resident, seen = 0.0, 0, False
    for pid in pids:
        stat = _stat(pid)
        if stat is not None:
            seen = True
            cpu += (int(stat[11]) + int(stat[12])) / _TICK
            resident += int(stat[21]) * _PAGE
    return Use(time.monotonic(), cpu, resident) if seen else None


def spent(before: Use | None, after: Use | None) -> ProcessorTime | None:
    """What lies between; None when one of them is not known."""
    if before is None or after is None or after.at <= before.at:
        return None
    return ProcessorTime((after.cpu - before.cpu) / (after.at - before.at), after.resident)


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []


def _stat(pid: int) -> list[str] | None:
    """Fields of proc(5)'s stat from the third (state) on; None when the process is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _sockets(port: int) -> set[str]:
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        fields = (line.split() for line in lines)
        found |= {
            f"socket:[{line[9]}]" for line in fields if line[3] == _LISTENING and line[1].endswith(f":{port:04X}")
        }
    return found


def _held(pid: int) -> set[str]:
    """What the process has open. One that may not be looked into holds nothing; a file may close meanwhile."""
    found: set[str] = set()
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(entry))
    return found
