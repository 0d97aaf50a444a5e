"""A board that hosts share in Redis: one document, replaced by compare-and-set on its mark, messages to all hosts, and
what each host tells of itself.

Hosts poll the board several times a second and do not subscribe: what was posted while a host was cut off is still
there when it comes back, also with Sentinel and in a cluster.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Literal

from msgspec import Struct

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.fault import reason
from rpcaccel.stores.redis.redis_server import Server
from rpcaccel.stores.redis.store import topology

KEPT = 1000
"""Number of messages that are kept, about. A host that was away for longer is told that it missed older ones."""
_AT_ONCE = 100
_SAY = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local run = ARGV[1]
if last[1] then run = last[1][2][2] end
return redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'run', run, 'word', ARGV[3])
"""
"""Appends a message. Each message names its run: a new run begins when the messages in Redis were lost."""

_POST = """
local now = redis.call('HGET', KEYS[1], 'mark') or ''
if now ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'document', ARGV[3])
return 1
"""

MOST_HOSTS = 200
"""Number of hosts whose documents are kept. Of more hosts, those that were heard last are."""
LONGEST_DOCUMENT = 4096
"""Bytes of what a host tells of itself."""
FORGOTTEN = 300.0
"""Seconds after which a host that was not heard is forgotten."""
_LONGEST_RUN = 64
"""Bytes of the id of a run."""
_STAMP = 16
"""Bytes that the time of a document takes, at the most."""
_MEET = """
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:', now) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local found, kept, dropped = redis.call('HGETALL', KEYS[1]), {}, 0
for i = 1, #found, 2 do
  local digits = string.match(found[i + 1], '^(%d+):')
  local age = digits and now - tonumber(digits)
  if age and age > -1000 and age < tonumber(ARGV[3]) and #found[i + 1] <= tonumber(ARGV[4])
     and #found[i] <= tonumber(ARGV[6]) then
    kept[#kept + 1] = {found[i], math.max(0, age), string.sub(found[i + 1], #digits + 2)}
  else
    redis.call('HDEL', KEYS[1], found[i])
    if not age or age < tonumber(ARGV[3]) then dropped = dropped + 1 end
  end
end
table.sort(kept, function(one, other) return one[2] < other[2] end)
while #kept > tonumber(ARGV[5]) do redis.call('HDEL', KEYS[1], table.remove(kept)[1]) end
return {dropped, kept}
"""
"""Takes in the document of one host and returns those of all, with their ages by the clock of Redis: clocks of hosts
differ. Removes entries that are too old, too long, stamped in the future (the clock of Redis was set back, or another
server with another clock took over) or no entries of this kind at all, and of too many those heard longest ago."""


class UnreachableError(Exception):
    """Redis did not answer in time."""


class Posted(Struct, frozen=True):
    """The document on the board."""

    mark: str
    """A mark that no other posted document has, even after the board was emptied."""
    document: bytes


class BoardCursor(Struct, frozen=True):
    """A reader's position: after this message of that run."""

    word: bytes
    run: bytes


class Heard(Struct, frozen=True):
    """The messages after a cursor, the new cursor, and what was lost in between.

    Lost may be nothing, the older messages of a long absence, or all messages, because Redis was emptied.
    """

    place: BoardCursor
    words: list[bytes]
    lost: Literal["", "older", "all"] = ""


class HostEntry(Struct, frozen=True):
    """What a host tells of itself, as it stands on the board."""

    run: str
    """The id of the run of that host."""
    age: float
    """Seconds since it was posted, by the clock of Redis."""
    document: bytes


class Met(Struct, frozen=True):
    """The entries of all hosts, and the number of entries that were removed because they were none of this kind."""

    entries: list[HostEntry]
    dropped: int = 0


class Board:
    """The board under the prefix of `settings`; every command has the write timeout."""

    def __init__(self, settings: StoreSettings) -> None:
        self._topology = topology(settings)
        self._timeout = settings.write_timeout
        tagged = settings.prefix + self._topology.tag
        self._document = f"{tagged}:settings".encode()
        self._words = f"{tagged}:words".encode()
        self._hosts = f"{tagged}:hosts".encode()

    def __repr__(self) -> str:
        return f"<Board {' '.join(map(repr, self._topology.servers))}>"

    async def open(self) -> None:
        """Connect, in the background if a server does not answer. Never raises."""
        await self._topology.open()

    async def close(self) -> None:
        """Disconnect."""
        await self._topology.close()

    async def mark(self) -> str:
        """The mark of the document; empty without a document. Raises UnreachableError."""
        return _text(await self._ask(self._document, "HGET", self._document, "mark"))

    async def read(self) -> Posted | None:
        """The document on the board; None without one. Raises UnreachableError."""
        mark, document = await self._ask(self._document, "HMGET", self._document, "mark", "document")
        return Posted(_text(mark), document) if document is not None else None

    async def post(self, before: str, mark: str, document: bytes) -> bool:
        """Replace the document with the mark `before` (empty: no document); False when another one is there.

        Raises UnreachableError.
        """
        done = await self._ask(self._document, "EVAL", _POST, 1, self._document, before, mark, document)
        return bool(int(done))

    async def say(self, word: bytes) -> None:
        """Post a message to every host. Raises UnreachableError."""
        run = secrets.token_hex(8)
        await self._ask(self._words, "EVAL", _SAY, 1, self._words, run, KEPT, word)

    async def last(self) -> BoardCursor:
        """The cursor after the last message; without any, an empty message is posted first. Raises UnreachableError."""
        while not (found := await self._ask(self._words, "XREVRANGE", self._words, "+", "-", "COUNT", 1)):
            await self.say(b"")
        return _place(found[0])

    async def heard(self, place: BoardCursor) -> Heard:
        """The messages after a cursor. Raises UnreachableError."""
        found = await self._range(place.word)
        if found and bytes(found[0][0]) == place.word and _place(found[0]).run == place.run:
            return Heard(_place(found[-1]), [_word(entry) for entry in found[1:]])
        await self.last()  # posts a message if there is none
        found = await self._range(b"-")
        lost: Literal["older", "all"] = "older" if found and _place(found[0]).run == place.run else "all"
        return Heard(_place(found[-1]) if found else place, [_word(entry) for entry in found], lost)

    async def meet(self, run: str, document: bytes) -> Met:
        """Replace what the host of this run tells, and return what all hosts tell. Raises UnreachableError."""
        bounds = (int(FORGOTTEN * 1000), LONGEST_DOCUMENT + _STAMP, MOST_HOSTS, _LONGEST_RUN)
        dropped, kept = await self._ask(self._hosts, "EVAL", _MEET, 1, self._hosts, run, document, *bounds)
        found = [HostEntry(_readable(name), int(age) / 1000, bytes(text)) for name, age, text in kept]
        return Met(found, int(dropped))

    async def leave(self, run: str) -> None:
        """Remove what the host of this run told of itself. Raises UnreachableError."""
        await self._ask(self._hosts, "HDEL", self._hosts, run)

    async def _range(self, first: bytes) -> Any:
        return await self._ask(self._words, "XRANGE", self._words, first, "+", "COUNT", _AT_ONCE)

    async def _ask(self, key: bytes, *command: Any) -> Any:
        routes = self._topology.for_writing([key])
        if not routes or not routes[0][1]:
            raise UnreachableError(self._topology.fault)
        server: Server = routes[0][0]
        try:
            async with asyncio.timeout(self._timeout):
                answer = await server.call(*command)
        except Exception as error:  # whatever the client raises means that there is no answer
            server.failed(error)
            raise UnreachableError(reason(error)) from error
        server.succeeded()
        return answer


def _text(found: bytes | None) -> str:
    return found.decode() if found else ""


def _readable(name: bytes) -> str:
    """The name of a field, which another program may have made of any bytes."""
    return name.decode(errors="replace")


def _place(entry: Any) -> BoardCursor:
    return BoardCursor(bytes(entry[0]), bytes(_fields(entry[1]).get(b"run", b"")))


def _word(entry: Any) -> bytes:
    return bytes(_fields(entry[1])[b"word"])


def _fields(found: Any) -> dict[bytes, bytes]:
    """Fields of a hash or message; redis-py returns a flat list or a dict."""
    return found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
