"""Memory, processor time and open files of a process, as the system reports them."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct


class Usage(Struct, frozen=True):
    """The resources that one process uses."""

    resident: int
    """Bytes."""
    cpu: float
    """Seconds, user and system."""
    open_fds: int


def usage(pid: int, proc: Path = Path("/proc")) -> Usage | None:
    """The usage of `pid` by proc(5); None where there is no such process or no /proc."""
    home = proc / str(pid)
    try:
        stat = (home / "stat").read_text()
        # The name in parentheses may itself hold spaces and parentheses.
        fields = stat[stat.rindex(")") + 2 :].split()
        return Usage(
            resident=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
            cpu=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
            open_fds=sum(1 for _ in (home / "fd").iterdir()),
        )
    except (OSError, ValueError, IndexError):
        return None
