"""A worker process obeys its link, and does not outlive it."""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys

import aiohttp
import pytest

from rpcaccel.core import messages
from rpcaccel.core.messages import Adopt, Adopted, Drain, PurgeDone, Started, Word, WorkerReport
from rpcaccel.dataplane.process import answer
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.proxy import settings_for


async def start(
    stderr: int | None = None,
) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter]:
    ours, theirs = socket.socketpair()
    listening = socket.create_server(("127.0.0.1", 0))
    fds = (theirs.fileno(), listening.fileno())
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rpcaccel.dataplane.process", "w1", *map(str, fds), pass_fds=fds, stderr=stderr
    )
    theirs.close()
    listening.close()
    return process, *await asyncio.open_connection(sock=ours)


async def words_until(reader: asyncio.StreamReader, kind: type) -> list[Word]:
    heard: list[Word] = []
    words: messages.FrameReader[Word] = messages.FrameReader(Word)  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        while not any(isinstance(word, kind) for word in heard):
            heard += words.feed(await reader.read(65536))
    return heard


async def test_it_starts_reports_and_ends_when_told_to_drain() -> None:
    async with harmony_nodes(1) as nodes:
        process, reader, writer = await start()
        writer.write(messages.encode(Adopt(1, pickle.dumps(settings_for(nodes)), 7)))
        (started,) = [word for word in await words_until(reader, Started) if isinstance(word, Started)]
        assert started.port > 0
        assert started.number == 7
        assert await words_until(reader, WorkerReport)
        writer.write(messages.encode(Adopt(2, pickle.dumps(settings_for(nodes)), 8)))
        assert Adopted(2, "", 8) in await words_until(reader, Adopted)
        writer.write(messages.encode(Drain(1.0)))
        assert await process.wait() == 0
        writer.close()


async def test_it_ends_when_the_supervisor_is_gone() -> None:
    async with harmony_nodes(1) as nodes:
        process, reader, writer = await start()
        writer.write(messages.encode(Adopt(1, pickle.dumps(settings_for(nodes)))))
        await words_until(reader, Started)
        writer.close()
        async with asyncio.timeout(10):
            assert await process.wait() == 0


async def test_the_log_stays_as_it_was_when_a_revision_is_refused() -> None:
    async with harmony_nodes(1) as nodes, aiohttp.ClientSession() as http:
        process, reader, writer = await start(asyncio.subprocess.PIPE)
        told = settings_for(nodes, log={"access": True, "format": "console"})
        writer.write(messages.encode(Adopt(1, pickle.dumps(told), 1)))
        (started,) = [word for word in await words_until(reader, Started) if isinstance(word, Started)]
        (network,) = told.networks.values()
        refused = settings_for(nodes, log={"access": True, "format": "json"}).model_copy(
            update={"networks": {"broken": network.model_copy(update={"chain": "nowhere"})}}
        )
        writer.write(messages.encode(Adopt(2, pickle.dumps(refused), 2)))
        (answered,) = [word for word in await words_until(reader, Adopted) if isinstance(word, Adopted)]
        assert "nowhere" in answered.refusal
        await http.post(f"http://127.0.0.1:{started.port}", data=b'{"id":1,"method":"nothing","params":[]}')
        assert process.stderr
        line = await asyncio.wait_for(process.stderr.readline(), 20)
        assert b"method=nothing" in line
        writer.write(messages.encode(Drain(0.0)))
        assert await process.wait() == 0
        writer.close()


async def test_who_asked_for_something_that_fails_gets_a_word_all_the_same() -> None:
    async def fails() -> Word:
        raise KeyError("a bug")

    async def works() -> Word:
        return PurgeDone(1, 2, number=3)

    said: list[Word] = []
    nothing = PurgeDone.nothing(3)
    with pytest.raises(KeyError):
        await answer(fails(), nothing, said.append)
    await answer(works(), nothing, said.append)
    assert said == [nothing, PurgeDone(1, 2, number=3)]
