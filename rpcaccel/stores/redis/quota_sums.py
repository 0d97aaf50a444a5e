"""What hosts used of the quotas of nodes: in Redis a hash for each quota and window, with a field for each host.

A host writes its own count again and again, so that an exchange that was lost, or a Redis that was emptied, is made
good by the next exchange. After a restart it asks for the count that it wrote last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from rpcaccel.core.nodes.limits import Brought
from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.board_entries import ForeignData
from rpcaccel.stores.redis.redis_server import Server
from rpcaccel.stores.redis.replies import as_bytes, as_integer, as_list, is_about_key
from rpcaccel.stores.redis.store import topology

_Command = Callable[[Brought], tuple[Any, ...]]
_Read = Callable[[Brought, Any], Brought | None]
KEPT = 3600
"""Seconds for which a count is kept after its window: the clocks of hosts differ."""
_BEYOND_ANY = 1e18
"""Above every use of a quota, and every time in seconds since 1970."""
_MAX_COUNTS = 1000
_MAX_COUNT_BYTES = 64
_COUNT = """
local kind = redis.call('TYPE', KEYS[1])['ok']
local foreign, told = 0, {}
if kind ~= 'hash' and kind ~= 'none' then
  redis.call('DEL', KEYS[1])
  foreign = 1
end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('EXPIREAT', KEYS[1], ARGV[3])
end
local found = redis.call('HGETALL', KEYS[1])
for i = 1, #found, 2 do
  if found[i] ~= ARGV[1] then
    if #found[i + 1] <= tonumber(ARGV[4]) and #told < tonumber(ARGV[5]) then told[#told + 1] = found[i + 1]
    else foreign = foreign + 1 end
  end
end
return {foreign, told}
"""
"""Takes in the count of one host, and returns those of the others and how much was no count."""


class QuotaSums:
    """The counts of all hosts under the prefix of `settings`; an exchange has the write timeout."""

    def __init__(self, settings: StoreSettings, host: str) -> None:
        """`host` names this host, over its restarts if it has a state file."""
        self._topology = topology(settings)
        self._timeout = settings.write_timeout
        self._prefix = f"{settings.prefix}{self._topology.tag}:quota:"
        self._host = host.encode()
        self._foreign = ForeignData()

    def __repr__(self) -> str:
        return f"<QuotaSums {' '.join(map(repr, self._topology.servers))}>"

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""
        await self._topology.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._topology.close()

    def notices(self) -> list[str]:
        """Sentences about what was passed over, because another program wrote it."""
        return self._foreign.notices()

    async def exchange(self, own: Sequence[Brought]) -> list[Brought]:
        """Say what this host used; return what the others used of the same quotas. What is not known, since a server
        did not answer, is left out. Never raises."""

        def count(one: Brought) -> tuple[Any, ...]:
            # A host without a state file has a new name, and would have a new field, at each start.
            mine = f"{one.used!r} {one.since!r}" if one.used else ""
            bounds = (int(one.renews) + KEPT, _MAX_COUNT_BYTES, _MAX_COUNTS)
            return ("EVAL", _COUNT, 1, self._name(one), self._host, mine, *bounds)

        return await self._ask(own, count, self._others)

    async def earlier(self, own: Sequence[Brought]) -> list[Brought]:
        """What this host said before, also in an earlier run, which may have ended before it kept that. What is not
        known is left out. Never raises."""
        return await self._ask(own, lambda one: ("HGET", self._name(one), self._host), _mine)

    async def _ask(self, own: Sequence[Brought], command: _Command, read: _Read) -> list[Brought]:
        asked: dict[Server, list[Brought]] = {}
        for one in own:
            for server, _ in self._topology.for_writing([self._name(one)]):
                asked.setdefault(server, []).append(one)
        told = await asyncio.gather(*(self._ask_one(server, some, command, read) for server, some in asked.items()))
        return [one for some in told for one in some]

    async def _ask_one(self, server: Server, own: Sequence[Brought], command: _Command, read: _Read) -> list[Brought]:
        try:
            async with asyncio.timeout(self._timeout):
                replies = await server.together([command(one) for one in own])
            told = [read(one, said) for one, said in zip(own, replies, strict=True)]
        except Exception as error:  # whatever the client raises means that there is no answer
            server.failed(error)
            return []
        server.succeeded()
        return [one for one in told if one is not None]

    def _others(self, own: Brought, said: Any) -> Brought | None:
        """What the other hosts used; None where the server refused to say it. Raises ForeignReplyError."""
        if isinstance(said, Exception):
            return None
        foreign, texts = as_list(said, 2)
        counts = [_count(as_bytes(text)) for text in as_list(texts)]
        told = [count for count in counts if count is not None]
        self._foreign.note("the counts of quotas", as_integer(foreign) + len(counts) - len(told))
        used, since = sum(used for used, _ in told), min([own.since, *(since for _, since in told)])
        return replace(own, used=used, since=since)

    def _name(self, one: Brought) -> bytes:
        return f"{self._prefix}{one.network}:{one.node}:{one.window}:{one.renews:.0f}".encode()


def _count(text: bytes) -> tuple[float, float] | None:
    """What a host used, and since when; None when the text is no count of this program."""
    try:
        used, since = (float(part) for part in text.split())
    except ValueError:
        return None
    return (used, since) if 0.0 <= used < _BEYOND_ANY and 0.0 <= since < _BEYOND_ANY else None


def _mine(own: Brought, said: Any) -> Brought | None:
    """What this host said it had used; None where the server refused to say it. Raises ForeignReplyError."""
    if isinstance(said, Exception) and not is_about_key(said):
        return None
    used, since = (None if said is None or isinstance(said, Exception) else _count(as_bytes(said))) or (0.0, own.since)
    return replace(own, used=used, since=since)
