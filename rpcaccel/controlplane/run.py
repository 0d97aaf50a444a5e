"""Runs the program: starts a supervisor and stops it when a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.settings.ledger import Origin
from rpcaccel.controlplane.supervisor import RunningInfo, Supervisor
from rpcaccel.dataplane import event_loop, logs

Banner = Callable[[RunningInfo], None]


async def serve(
    settings: Settings,
    *,
    banner: Banner | None = None,
    stop: asyncio.Event | None = None,
    origin: Origin | None = None,
) -> int:
    """Serve until `stop` is set, SIGINT or SIGTERM; returns the exit code.

    Raises:
        ConfigError: the state file cannot be used.
        ListenError: an address cannot be listened on.
    """
    logs.configure(settings.log)
    stop = stop or asyncio.Event()
    supervisor = Supervisor(settings, origin)
    with _signals(stop, supervisor.hang_up):
        try:
            info = await supervisor.start()
            if banner is not None:
                banner(info)
            await stop.wait()
        finally:
            await supervisor.stop()
    return 0


def run(settings: Settings, *, banner: Banner | None = None, origin: Origin | None = None) -> int:
    """Serve until told to stop; returns the exit code. Blocks."""
    return event_loop.run(serve(settings, banner=banner, origin=origin))


@contextlib.contextmanager
def _signals(stop: asyncio.Event, hang_up: Callable[[], None]) -> Iterator[None]:
    running = asyncio.get_running_loop()
    caught = {signal.SIGINT: stop.set, signal.SIGTERM: stop.set, signal.SIGHUP: hang_up}
    for number, handler in caught.items():
        running.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in caught:
            running.remove_signal_handler(number)
