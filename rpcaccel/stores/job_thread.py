"""A thread that runs jobs one after the other and hands their results back to the event loop.

The threads of an executor would be waited for when the program ends; one that hangs in a call of the disk would keep
the program from ending. These threads are daemons.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Job = Callable[[], Any]
Done = Callable[[Any], None]
"""Called in the event loop with the result of a job, or with the exception that it raised."""


class JobThread:
    """Runs jobs in the order in which they were submitted."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done) -> None:
        """Run `job` in the thread after the jobs before it, then call `done` in the event loop."""
        self._jobs.put((job, done))

    def stop(self) -> None:
        """End the thread once the jobs submitted so far have run. Does not wait for it."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (work := self._jobs.get()) is not None:
            job, done = work
            result: Any
            try:
                result = job()
            except Exception as error:
                result = error
            try:
                self._loop.call_soon_threadsafe(done, result)
            except RuntimeError:  # the loop is closed: nobody waits for results any more
                return
            del work, job, done, result  # nothing of a job is kept alive until the next one comes
