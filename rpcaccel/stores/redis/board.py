"""The board of hosts in Redis. They poll it several times a second and do not subscribe: what was posted while a host
was cut off is still there when it comes back, also with Sentinel and in a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.replies import NoServerError, reason
from rpcaccel.stores.redis.topology import KeptKey, RedisSharedState
from rpcaccel.stores.shared_board import (
    Board,
    HostEntries,
    HostEntry,
    MessagesSince,
    SharedDocument,
    UnreachableError,
)

MAX_MESSAGES = 1000
"""Number of messages that are kept, at least. A host that was away for longer is told that it missed older ones."""
_MAX_READ_MESSAGES = 100
_MAX_RUN_BYTES = 64
"""Bytes of the id of a host's run."""
_MAX_MARK_BYTES = 64
_MAX_SHARED_BYTES = 4 << 20
"""Bytes of the posted document, and of all messages that are read at once but the last."""
_HEAR = """
local told, size = {}, 0
for _, entry in ipairs(redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4])) do
  local field = entry[2]
  local word = #field == 4 and field[1] == 'run' and field[3] == 'word' and field[4]
  if word and #word > tonumber(ARGV[5]) then word = false end
  told[#told + 1] = {entry[1], word}
  size = size + (word and #word or 0)
  if size > tonumber(ARGV[5]) then break end
end
return told
"""
"""Returns the ids and the texts of messages; of an entry that is no message only the id, however large it is."""

_READ = """
local mark = redis.call('HGET', KEYS[1], 'mark')
if mark and #mark > tonumber(ARGV[1]) then redis.call('DEL', KEYS[1]) return {false, false} end
local document = ARGV[2] ~= '0' and redis.call('HGET', KEYS[1], 'document')
if document and #document > tonumber(ARGV[2]) then document = '' end
return {mark, document}
"""
"""Returns the mark, and the document if its greatest length is given. An entry too long for either is none."""

_POST = """
local now = redis.call('HGET', KEYS[1], 'mark') or ''
if now ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'document', ARGV[3])
return 1
"""

MAX_HOSTS = 200
"""Number of hosts whose documents are kept. Of more hosts, those that were heard last are."""
MAX_HOST_BYTES = 4096
"""Bytes of what a host tells of itself."""
FORGOTTEN_SECONDS = 300.0
"""Seconds after which a host that was not heard is forgotten."""
_STAMP_BYTES = 16
"""Bytes that the time of a document takes, at the most."""
_MEET = """
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


_SETTINGS = KeptKey("the shared settings", "hash")
_WORDS = KeptKey("the stream of purges", "stream")
_HOSTS = KeptKey("what hosts tell of themselves", "hash")
_StreamEntry = tuple[bytes, bytes | None]
"""The id and the text of a message; no text of an entry that another program wrote."""
_Age = Annotated[int, Meta(ge=0, le=1 << 53)]


class RedisBoard(RedisSharedState, Board):
    """The board under the prefix of `settings`."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        tagged = settings.prefix + self._topology.tag
        self._document = f"{tagged}:settings".encode()
        self._words = f"{tagged}:words".encode()
        self._hosts = f"{tagged}:hosts".encode()

    async def mark(self) -> str:
        return (await self._read(0)).mark

    async def read(self) -> SharedDocument | None:
        posted = await self._read(_MAX_SHARED_BYTES)
        return posted if posted.mark else None

    async def post(self, before: str, mark: str, document: bytes) -> bool:
        marks = before.encode("latin-1"), mark.encode("latin-1")
        return bool(await self._ask(int, _SETTINGS, "EVAL", _POST, 1, self._document, *marks, document))

    async def say(self, word: bytes) -> bytes:
        # Hosts of the versions before this one pass over what has no run.
        fields = ("run", "", "word", word)
        place: bytes = await self._ask(bytes, _WORDS, "XADD", self._words, "MAXLEN", "~", MAX_MESSAGES, "*", *fields)
        return place

    async def last(self) -> bytes:
        found = await self._range("XREVRANGE", b"+", b"-", 1)
        return found[0][0] if found else await self.say(b"")

    async def heard(self, place: bytes) -> MessagesSince:
        found = await self._range("XRANGE", place, b"+", _MAX_READ_MESSAGES)
        if found and found[0][0] == place:
            return self._since(place, found[1:])
        await self.last()  # posts a message if there is none
        found = await self._range("XRANGE", b"-", b"+", _MAX_READ_MESSAGES)
        # A stream that is shorter than any that was cut began anew, after Redis was emptied.
        length = await self._ask(int, _WORDS, "XLEN", self._words)
        return self._since(place, found, "older" if length >= MAX_MESSAGES else "all")

    def _since(
        self, place: bytes, found: Sequence[_StreamEntry], lost: Literal["", "older", "all"] = ""
    ) -> MessagesSince:
        words = [word for _, word in found if word is not None]
        self._topology.foreign.note(_WORDS.words, len(found) - len(words))
        return MessagesSince(found[-1][0] if found else place, words, lost)

    async def meet(self, run: str, document: bytes) -> HostEntries:
        bounds = (int(FORGOTTEN_SECONDS * 1000), MAX_HOST_BYTES + _STAMP_BYTES, MAX_HOSTS, _MAX_RUN_BYTES)
        shape = tuple[int, list[tuple[bytes, _Age, bytes]]]
        dropped, kept = await self._ask(shape, _HOSTS, "EVAL", _MEET, 1, self._hosts, run, document, *bounds)
        self._topology.foreign.note(_HOSTS.words, dropped)
        # Another program may have made the name of any bytes.
        return HostEntries(
            [HostEntry(name.decode(errors="replace"), age / 1000, told) for name, age, told in kept], dropped
        )

    async def leave(self, run: str) -> None:
        await self._ask(int, _HOSTS, "HDEL", self._hosts, run)

    async def _read(self, longest: int) -> SharedDocument:
        bounds = (_MAX_MARK_BYTES, longest)
        shape = tuple[bytes | None, bytes | None]
        mark, document = await self._ask(shape, _SETTINGS, "EVAL", _READ, 1, self._document, *bounds)
        self._topology.foreign.note(_SETTINGS.words, int(bool(longest and mark and not document)))
        return SharedDocument((mark or b"").decode("latin-1"), document or b"")

    async def _range(self, command: str, first: bytes, last: bytes, most: int) -> list[_StreamEntry]:
        bounds = (command, first, last, most, _MAX_SHARED_BYTES)
        found: list[_StreamEntry] = await self._ask(list[_StreamEntry], _WORDS, "EVAL", _HEAR, 1, self._words, *bounds)
        return found

    async def _ask(self, shape: Any, kept: KeptKey, *command: Any) -> Any:
        """The reply to a command, of the type `shape`. Raises UnreachableError."""
        (reply,) = await self._topology.ask(shape, [command], self._timeout, kept)
        if isinstance(reply, Exception):
            why = self._topology.fault if isinstance(reply, NoServerError) else reason(reply)
            raise UnreachableError(why) from reply
        return reply
