"""The hit path: a call that was answered at once before is answered from bytes to bytes, in one function.

It looks at and counts what the ordinary way (RequestHandler.enter, Calls.begin, RequestHandler.reply and leave) looks
at and counts for such a call, and writes the same bytes; what is saved are the layers between. What a hit on a known
template checks and counts is said once, in dataplane.rpc.hit_memo. Whatever is not as it was when the call was learnt
goes the ordinary way, and is counted there alone.
"""

from __future__ import annotations

from collections.abc import Callable

from rpcaccel.core.cache.eviction import CacheSlot
from rpcaccel.core.cache.memory import MemoryTier
from rpcaccel.core.client_limits import Client
from rpcaccel.core.stats.tally import Tally
from rpcaccel.core.wire.http_head import END
from rpcaccel.core.wire.http_reply import member
from rpcaccel.core.wire.jsonrpc import OPENING, RESULT, SHARED_FROM, result_reply
from rpcaccel.dataplane.http.handler import INLINE_GZIP, RequestHandler
from rpcaccel.dataplane.http.request_head import RequestHead
from rpcaccel.dataplane.rpc import response_headers
from rpcaccel.dataplane.rpc.admission import Admission
from rpcaccel.dataplane.rpc.hit_memo import Known
from rpcaccel.dataplane.rpc.response_headers import DateHeader

_AROUND = len(OPENING) + len(RESULT) + len(b"}")


class Shortcut:
    """Answers known calls. One per worker."""

    def __init__(
        self, front: RequestHandler, admission: Admission, memory: MemoryTier, tally: Tally, clock: Callable[[], float]
    ) -> None:
        self._front = front
        self._admission = admission
        self._memory = memory
        self._tally = tally
        self._clock = clock
        self._date = DateHeader(END + OPENING)

    def answer(
        self, asked: RequestHead, body: bytes, peer: str, *, bare: bool = False
    ) -> bytes | tuple[bytes, ...] | None:
        """The whole answer to a request, its head included, a long one in parts; None when it goes the ordinary way.

        Args:
            bare: the request is a message of a WebSocket, whose answer has no head, and is in parts.
        """
        front, tally, memory, started = self._front, self._tally, self._memory, self._clock()
        if asked.under is not front.routes:
            front.read(asked)
        if asked.known is None or front.draining or tally.in_flight >= asked.most:
            return None
        known, call_id, result, slot = asked.known.find(body, memory, started)
        if known is None:
            return None
        length = len(result) + len(call_id) + _AROUND
        packed = length >= asked.compact and asked.packs
        if packed and (slot is None or length >= INLINE_GZIP):
            return None
        guest = self._admitted(asked, known, peer, started) if asked.apart else None
        if guest is None and asked.apart:
            return None
        # Nothing was counted before this line, and nothing turns the answer back after it.
        now, date = self._clock(), self._date
        seconds = now - started
        known.count(memory, slot, len(result), seconds)
        if guest is not None:
            guest.cell.answered(known.cell.method, known.outcome.source, seconds)
        tally.requests += 1
        tally.bytes_in += len(body)
        if bare:
            return result_reply(call_id, result)
        if now >= date.until:
            date.turn(now)
        told = known.told
        if seconds >= response_headers.MIN_SHOWN_SECONDS:
            shown, hundredths = front.settings.headers, response_headers.hundredths(seconds)
            told = response_headers.of_hit(slot is None, known.head, shown, hundredths)
        lines = asked.short_hit if length < asked.compact else asked.long_hit
        if packed and slot is not None:
            return self._pack(slot, call_id, result, told + lines)
        if length >= SHARED_FROM:
            return b"".join((told, lines, b"%d" % length, date.bytes, call_id, RESULT)), result, b"}"
        return b"".join((told, lines, b"%d" % length, date.bytes, call_id, RESULT, result, b"}"))

    def _pack(self, slot: CacheSlot, call_id: bytes, result: bytes, lines: bytes) -> bytes:
        """The answer to a client that takes it compressed."""
        rest = b"".join((RESULT, result, b"}"))
        body = member(OPENING + call_id, rest, self._memory.squeeze(slot, rest, self._clock()))
        return b"".join((lines, b"%d" % len(body), self._date.text.encode("ascii"), END, body))

    def _admitted(self, asked: RequestHead, known: Known, peer: str, now: float) -> Client | None:
        """The caller; None when it is not within its limits."""
        admission = self._admission
        guest = asked.guest or admission.anonymous(admission.address(peer, asked.headers))
        return guest if guest.passes(known.method, known.heavy, now) else None
