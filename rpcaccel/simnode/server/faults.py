"""The faults of a simulated node (knobs.FAULTS), each as it looks on the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from rpcaccel.simnode.methods.registry import RpcError
from rpcaccel.simnode.server.envelope import HEADERS, Parsed, RequestItem, cut, failure, plain
from rpcaccel.simnode.server.rate_limits import REFUSED
from rpcaccel.simnode.server.responder import Responder

HTML = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n"
Wrong = Callable[[web.BaseRequest, Parsed], Awaitable[web.StreamResponse]]


class Faulty:
    """Answers a request wrongly, or not at all."""

    def __init__(self, brain: Responder) -> None:
        self._brain = brain
        self._ways: dict[str, Wrong] = {
            "hang": self._hang,
            "reset": self._reset,
            "half_body": self._half_body,
            "html": self._html,
            "too_many": self._too_many,
            "unavailable": self._unavailable,
            "empty": self._empty,
            "garbage": self._garbage,
            "wrong_id": self._wrong_id,
            "missing_id": self._missing_id,
            "error": self._error,
            "rate_limit": self._rate_limit,
            "invalid_reply": self._invalid_reply,
        }

    async def answer(self, request: web.BaseRequest, fault: str, parsed: Parsed) -> web.StreamResponse:
        """Meet the request with `fault`. The calls are counted, and only the faults that send a result run them."""
        if fault not in ("half_body", "wrong_id", "missing_id"):
            for call in parsed.calls:
                self._brain.counts.methods[call.method] += 1
                self._brain.counts.log.append((call.method, call.params))
            self._brain.counts.settle()
        return await self._ways[fault](request, parsed)

    async def _hang(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        # Ends when the client leaves (aiohttp cancels the handler then) or the node is stopped.
        await asyncio.get_running_loop().create_future()
        return web.Response()

    async def _reset(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return cut(request)

    async def _half_body(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:
        body = await self._body(parsed, lambda call: call.id)
        response = web.StreamResponse(headers=HEADERS)
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        if request.transport is not None:
            request.transport.close()
        return response

    async def _html(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return plain(502, HTML, content_type="text/html")

    async def _too_many(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return self._retry_later(429, "too many requests\n")

    async def _unavailable(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return self._retry_later(503, "service unavailable\n")

    def _retry_later(self, status: int, written: str) -> web.Response:
        response = plain(status, written)
        response.headers["Retry-After"] = f"{self._brain.knobs.retry_after:g}"
        return response

    async def _empty(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return web.Response(body=b"", headers=HEADERS)

    async def _garbage(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return web.Response(body=b'{"jsonrpc":"2.0","id":1,"result":{"number":', headers=HEADERS)

    async def _wrong_id(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        body = await self._body(parsed, lambda call: b'"somebody else"' if call.id is not None else None)
        return web.Response(body=body, headers=HEADERS)

    async def _missing_id(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        marker = b'"no id at all"'
        body = await self._body(parsed, lambda call: marker if call.id is not None else None)
        return web.Response(body=body.replace(b'"id":' + marker + b",", b""), headers=HEADERS)

    async def _error(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        knobs = self._brain.knobs
        return self._all(parsed, RpcError(knobs.error_code, knobs.error_text))

    async def _rate_limit(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        return self._all(parsed, RpcError(-32000, REFUSED))

    async def _invalid_reply(self, request: web.BaseRequest, parsed: Parsed) -> web.StreamResponse:  # noqa: ARG002
        replies = [json.dumps({"jsonrpc": "2.0", "id": json.loads(call.id or b"null")}) for call in parsed.calls]
        return web.Response(body=_joined([reply.encode() for reply in replies], parsed), headers=HEADERS)

    def _all(self, parsed: Parsed, error: RpcError) -> web.Response:
        self._brain.counts.errors += len(parsed.calls)
        replies = [failure(call.id, error.encode()) for call in parsed.calls if call.id is not None]
        return web.Response(body=_joined(replies, parsed), headers=HEADERS)

    async def _body(self, parsed: Parsed, rename: Callable[[RequestItem], bytes | None]) -> bytes:
        replies = [
            await self._brain.reply(RequestItem(call.method, call.params, rename(call))) for call in parsed.calls
        ]
        return _joined([reply for reply in replies if reply is not None], parsed)


def _joined(replies: list[bytes], parsed: Parsed) -> bytes:
    if not replies:
        return b""
    return (b"[" + b",".join(replies) + b"]\n") if parsed.batch else replies[0] + b"\n"
