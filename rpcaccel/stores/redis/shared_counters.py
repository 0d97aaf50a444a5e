"""Counters that hosts share in Redis: the tokens that clients spent, and what was used of the quotas of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rpcaccel.core.nodes.limits import Brought
from rpcaccel.stores.base import StoreSettings
from rpcaccel.stores.redis.topology import Command, KeptKey, RedisSharedState, Topology
from rpcaccel.stores.shared_board import QuotaSums

SPENT_SECONDS = 60
"""Seconds after its last use at which the counter of a client expires."""
KEPT_SECONDS = 3600
"""Seconds for which a count is kept after the window of its quota: the clocks of hosts differ."""
_BEYOND_ANY = 1e18
"""Above every use of a quota, and every time in seconds since 1970."""
_MAX_COUNTS = 1000
_MAX_COUNT_BYTES = 64
_COUNT = """
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
  redis.call('EXPIREAT', KEYS[1], ARGV[3])
end
local foreign, told = 0, {}
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
_QUOTAS = KeptKey("the counts of quotas", "hash")
_CLIENTS = KeptKey("counters of clients", "string")


class Spending:
    """The shared counters of clients under `prefix`; `timeout` is in seconds.

    One round trip adds the tokens spent here and returns the sum. The difference from the last sum is what others
    spent.
    """

    def __init__(self, topology: Topology, *, prefix: bytes, timeout: float) -> None:
        self._topology = topology
        self._prefix = prefix
        self._timeout = timeout
        self._sums: dict[bytes, int] = {}

    async def exchange(self, spent: Mapping[bytes, int]) -> dict[bytes, int] | None:
        """Add the tokens spent here; return by client the tokens that others spent since the last exchange.

        None when Redis did not answer in time; the next exchange then starts anew, so that no client is charged twice.
        A client that was not part of the last exchange gets 0, because the time of the others' calls is not known.
        """
        before, self._sums = self._sums, {}
        commands: list[Command] = []
        for key, tokens in spent.items():
            name = self._prefix + key
            commands += [("INCRBY", name, tokens), ("PEXPIRE", name, SPENT_SECONDS * 1000)]
        replies = await self._topology.ask(int, commands, self._timeout, _CLIENTS)
        if any(isinstance(reply, Exception) for reply in replies):
            return None
        self._sums = dict(zip(spent, replies[::2], strict=True))
        return {
            key: max(0, total - spent[key] - before[key]) if total >= before.get(key, total + 1) else 0
            for key, total in self._sums.items()
        }


class RedisQuotaSums(RedisSharedState, QuotaSums):
    """What hosts used of the quotas of nodes: a hash for each quota and window, with a field for each host.

    A host writes its own count again and again, so that an exchange that was lost, or a Redis that was emptied, is made
    good by the next exchange. After a restart it asks for the count that it wrote last.
    """

    def __init__(self, settings: StoreSettings, host: str) -> None:
        """The counts under the prefix of `settings`; an exchange has the write timeout. `host` names this host, over
        its restarts if it has a state file."""
        super().__init__(settings)
        self._prefix = f"{settings.prefix}{self._topology.tag}:quota:"
        self._host = host.encode()

    async def exchange(self, own: Sequence[Brought]) -> list[Brought]:

        def count(one: Brought) -> Command:
            # A host without a state file has a new name, and would have a new field, at each start.
            mine = f"{one.used!r} {one.since!r}" if one.used else ""
            bounds = (int(one.renews) + KEPT_SECONDS, _MAX_COUNT_BYTES, _MAX_COUNTS)
            return ("EVAL", _COUNT, 1, self._name(one), self._host, mine, *bounds)

        told = await self._ask(tuple[int, list[bytes]], own, count)
        return [self._others(one, *said) for one, said in told]

    async def earlier(self, own: Sequence[Brought]) -> list[Brought]:
        told = await self._ask(bytes | None, own, lambda one: ("HGET", self._name(one), self._host))
        counts = [(one, _count(said or b"") or (0.0, one.since)) for one, said in told]
        return [replace(one, used=used, since=since) for one, (used, since) in counts]

    async def _ask(
        self, shape: Any, own: Sequence[Brought], command: Callable[[Brought], Command]
    ) -> list[tuple[Brought, Any]]:
        """The quotas with the replies to their commands; those without a reply are left out."""
        replies = await self._topology.ask(shape, [command(one) for one in own], self._timeout, _QUOTAS)
        return [(one, said) for one, said in zip(own, replies, strict=True) if not isinstance(said, Exception)]

    def _others(self, own: Brought, foreign: int, texts: Sequence[bytes]) -> Brought:
        counts = [_count(text) for text in texts]
        told = [count for count in counts if count is not None]
        self._topology.foreign.note(_QUOTAS.words, foreign + len(counts) - len(told))
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
