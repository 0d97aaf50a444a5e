"""`rpcaccel init` on a terminal, and the file that it writes."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path

from rpcaccel.config.load import load
from rpcaccel.simnode.server.factories import harmony_nodes
from tests.support.running import Serve


async def test_what_is_asked_on_a_terminal_is_written_and_can_be_served(tmp_path: Path, serve: Serve) -> None:
    keyboard, terminal = pty.openpty()
    file = tmp_path / "first.toml"
    async with harmony_nodes(1) as (node,):
        command = [sys.executable, "-m", "rpcaccel", "init", "-o", str(file)]
        pipe = asyncio.subprocess.PIPE
        asking = await asyncio.create_subprocess_exec(*command, stdin=terminal, stdout=pipe, stderr=pipe)
        os.close(terminal)
        os.write(keyboard, f"{node.url}/s3cret\n127.0.0.1:0\n1GB\n\n".encode())
        out, err = map(bytes.decode, await asking.communicate())
        os.close(keyboard)
        assert (asking.returncode, "s3cret" in out + err) == (0, False), err
        for question in ("Which nodes?", "[127.0.0.1:8888]: ", "[256MB]: ", "[none]: "):
            assert question in err
        settings = load(file, environ={})
        assert (settings.listen, settings.memory.size, settings.disk.path) == ("127.0.0.1:0", 10**9, "")

        proxy = await serve([], "--config", file)
        assert (await proxy.call("hmyv2_blockNumber")).result == node.head


async def test_without_any_stdin_nothing_is_asked() -> None:
    command = ["-c", 'exec "$0" -m rpcaccel init <&-', sys.executable]
    asking = await asyncio.create_subprocess_exec("sh", *command, stderr=asyncio.subprocess.PIPE)
    _, err = await asking.communicate()
    assert (asking.returncode, b"nobody can be asked for them" in err) == (2, True), err
