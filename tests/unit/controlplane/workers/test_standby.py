"""The spare: started beforehand, taken once, and gone when it is not needed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from rpcaccel.controlplane.workers.sockets import bind
from rpcaccel.controlplane.workers.spawn import Born, spawn
from rpcaccel.controlplane.workers.standby import Spares


def places(count: int) -> dict[str, socket.socket]:
    return {f"w{number}": bind("127.0.0.1:0", "listen") for number in range(1, count + 1)}


async def test_it_is_taken_once_for_the_place_that_needs_it() -> None:
    sockets = places(2)
    spares = Spares(spawn)
    assert repr(spares) == "<Spares none>"
    spares.keep(sockets)
    spares.keep(sockets)
    spare = await spares.take("w2", sockets)
    assert spare is not None
    assert spare.number == 1
    assert await spares.take("w1", sockets) is None
    await spare.born.dismiss()
    for sock in sockets.values():
        sock.close()


async def test_a_single_place_and_a_program_that_starts_none_have_none() -> None:
    for spares, sockets in ((Spares(spawn), places(1)), (Spares(None), places(2))):
        spares.keep(sockets)
        assert await spares.take("w1", sockets) is None
        for sock in sockets.values():
            sock.close()


async def test_one_that_died_or_did_not_start_is_no_help() -> None:
    sockets = places(2)
    spares = Spares(spawn)
    spares.keep(sockets)
    (waiting,) = [task for task in asyncio.all_tasks() if task.get_name() == "spare worker"]
    born: Born = await waiting
    born.process.kill()
    await born.process.wait()
    assert await spares.take("w1", sockets) is None

    async def fail(_name: str, _sockets: Sequence[socket.socket]) -> Born:
        raise OSError("no more processes")

    broken = Spares(fail)
    broken.keep(sockets)
    assert await broken.take("w1", sockets) is None
    broken.keep(sockets)
    await broken.dismiss()
    for sock in sockets.values():
        sock.close()


async def test_it_ends_when_it_is_not_needed() -> None:
    sockets = places(2)
    spares = Spares(spawn)
    spares.keep(sockets)
    (waiting,) = [task for task in asyncio.all_tasks() if task.get_name() == "spare worker"]
    born: Born = await waiting
    await spares.dismiss()
    assert born.process.returncode is not None
    for sock in sockets.values():
        sock.close()
