"""Output that never delays or ends the program: a disk may be full, a pipe without a reader, a terminal stopped.

What is written goes into a bounded queue, which a thread empties. Lines that find no room, or cannot be written, are
lost and counted. The thread writes to the descriptor itself: it holds no lock that the end of the program waits for.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
from collections import deque
from typing import Literal

MAX_QUEUE_BYTES = 1 << 20
"""Bytes that wait to be written, at the most."""
END_SECONDS = 0.5
"""Seconds that the end of the program waits until everything is written."""

Name = Literal["stdout", "stderr"]
_NUMBERS: dict[Name, int] = {"stdout": 1, "stderr": 2}


class QueuedWriter(io.RawIOBase):
    """Writes to a descriptor in a thread. No method raises because of what the descriptor does, or waits for it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._lost = 0

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        """Queue the bytes."""
        content = bytes(data)
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"output {self._descriptor}", daemon=True)
                self._thread.start()
            if self._size + len(content) > MAX_QUEUE_BYTES:
                self._lost += 1
            else:
                self._waiting.append(content)
                self._size += len(content)
                self._changed.notify_all()
        return len(content)

    def take_lost(self) -> int:
        """The number of writes that were lost since this was asked last; 0 while there is hardly room to tell it."""
        with self._changed:
            if self._size > MAX_QUEUE_BYTES // 2:
                return 0
            lost, self._lost = self._lost, 0
        return lost

    def drain(self, within: float = END_SECONDS) -> None:
        """Wait until everything is written, or for `within` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: not self._size, within)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                content = self._waiting.popleft()
            written = self._send(content)
            with self._changed:
                self._size -= len(content)
                self._lost += not written
                self._changed.notify_all()

    def _send(self, content: bytes) -> bool:
        view = memoryview(content)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # another program made the descriptor non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                return False
        return True

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)


def shield(name: Name) -> None:
    """Replace sys.stdout or sys.stderr by a stream over a QueuedWriter. A closed standard descriptor, that of input
    included, becomes one that discards everything, for this process and those it starts: a socket might get its number,
    and uvloop ends the program when it is to close such a number."""
    for closed in (at for at, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None):
        discarding = os.open(os.devnull, os.O_RDWR)
        if discarding != closed:
            os.dup2(discarding, closed)
            os.close(discarding)
        os.set_inheritable(closed, True)
    number = _NUMBERS[name]
    writer = QueuedWriter(number)
    stream = io.TextIOWrapper(writer, encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[type-var]
    setattr(sys, name, stream)
    atexit.register(writer.drain)


def take_lost() -> int:
    """The number of lines on stderr that were lost since this was asked last."""
    writer = getattr(sys.stderr, "buffer", None)
    return writer.take_lost() if isinstance(writer, QueuedWriter) else 0
