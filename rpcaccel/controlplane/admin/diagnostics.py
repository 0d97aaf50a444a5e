"""The part of the admin API that looks closer: the past of everything or of one method, how a single call goes, and
what the workers keep of answers and calls.

`POST /api/v1/explain` tells how a call would be treated, and what every process holds of its answer. `POST /api/v1/run`
sends a call through the proxy's own front over a connection of its own, as a client would, and tells how it went.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated
from urllib.parse import quote

import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, web
from msgspec import Meta, Raw, Struct
from yarl import URL

from rpcaccel.config.secrets import parse_listen
from rpcaccel.controlplane.admin.handling import AUTHOR, Control, ProblemError
from rpcaccel.controlplane.documents.series import RANGES, MethodPast, Past, PastQuestion, method_past, past
from rpcaccel.controlplane.stats.history import History
from rpcaccel.controlplane.stats.snapshot import AdminView
from rpcaccel.controlplane.stats.summaries import extended
from rpcaccel.controlplane.workers.link import Link
from rpcaccel.controlplane.workers.operations import (
    OperationRefused,
    Purged,
    RecordedCalls,
    purge,
    read,
    record,
    wanted_of,
)
from rpcaccel.core.explanation import Explanation
from rpcaccel.core.wire import jsonrpc
from rpcaccel.core.wire.jsonrpc import Invalid
from rpcaccel.core.wire.printable import printable
from rpcaccel.dataplane.rpc.observers import UNASKED_SECONDS

RUN_TIMEOUT_SECONDS = 40.0
"""Seconds: longer than any deadline of a call is by default."""

MAX_SHOWN_BYTES = 200_000
"""Bytes of the answer that are shown."""

SHOWN_HEADERS = ("content-type", "server-timing", "retry-after")
"""Headers of the answer that are shown, beside those of the proxy itself."""


log = structlog.get_logger("rpcaccel.admin")


class CallRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request about one call."""

    call: Raw
    """A JSON-RPC call, as a client would send it; to be run, also a batch."""
    network: str = ""
    """The network that it is sent to; the default one when empty."""


class Ran(Struct, frozen=True, kw_only=True):
    """The answer to a call that was sent through the proxy's own front."""

    status: int
    headers: Annotated[dict[str, str], Meta(description="The telling ones, in lower case.")]
    seconds: float
    size: Annotated[int, Meta(description="Bytes of the body.")]
    body: Annotated[str, Meta(description="Its beginning, as text.")]


class ExplainedCall(Explanation, frozen=True, kw_only=True):
    """One call, as the workers would treat it now."""

    workers: Annotated[list[str], Meta(description="The workers that were asked.")]


async def run(
    trial: CallRequest, listen: tuple[str, int], patience: float = RUN_TIMEOUT_SECONDS, *, scheme: str = "http"
) -> Ran:
    """Send the call, and tell how it went. Raises OSError when there is no whole answer."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen[0], listen[0])
    place = f"[{host}]:{listen[1]}" if ":" in host else f"{host}:{listen[1]}"
    url = URL(f"{scheme}://{place}/{quote(trial.network, safe='')}", encoded=True)
    try:
        async with asyncio.timeout(patience):
            return await _run(url, bytes(trial.call))
    except TimeoutError:
        raise TimeoutError(f"not within {patience:g} s") from None
    except ClientError as error:
        raise ConnectionError(str(error)) from error


async def _run(url: URL, call: bytes) -> Ran:
    started = time.perf_counter()
    # The certificate is this program's own, and for another name than this address.
    own = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with (
        ClientSession(timeout=ClientTimeout(), trust_env=False) as session,
        session.post(url, data=call, headers=own, allow_redirects=False, ssl=False) as reply,
    ):
        kept, size = bytearray(), 0
        async for chunk in reply.content.iter_any():
            kept += chunk[: MAX_SHOWN_BYTES - len(kept)]
            size += len(chunk)
        return Ran(
            status=reply.status,
            headers=_shown(reply.headers),
            seconds=time.perf_counter() - started,
            size=size,
            body=kept.decode("utf-8", "replace"),
        )


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name in SHOWN_HEADERS or name.startswith("x-rpcaccel-")}


class QueryRoutes:
    """Handlers over one history, and the front that `view` knows the address of."""

    def __init__(
        self,
        history: History,
        view: AdminView,
        control: Control,
        links: Sequence[Link] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = history
        self._view = view
        self._control = control
        self._links = links
        self._clock = clock
        self._recording_until = -math.inf

    def __repr__(self) -> str:
        return f"<QueryRoutes over {self._history!r}>"

    async def past(self, request: web.Request) -> Past:
        """The last `range`, or what there is from `from` to `to`: of one network, or of all together."""
        settings = self._control.ledger.settings
        asked = PastQuestion(
            over=request.query.get("range", "5m"),
            network=request.query.get("network", ""),
            since=_time(request.query, "from"),
            until=_time(request.query, "to"),
        )
        if asked.network and asked.network not in settings.networks:
            raise ProblemError(404, "not-found", f"no network is called {printable(asked.network)!r}")
        prices = {name: network.price for name, network in settings.networks.items()}
        document = await asyncio.to_thread(past, self._history, asked, prices, settings.admin.currency)
        if document is None:
            raise ProblemError(404, "not-found", RANGES)
        return document

    async def method(self, request: web.Request) -> MethodPast:
        """The last five minutes of one method."""
        return method_past(self._history, request.query.get("network", ""), request.query.get("method", ""))

    async def run(self, request: web.Request) -> Ran:
        """Send a call through the front as a client would, and tell how it went."""
        asked = read(await request.read(), CallRequest)
        shown = self._view.settings()
        front, scheme = parse_listen(str(shown.get("listen", ""))), "https" if shown.get("tls_cert") else "http"
        try:
            return await run(asked, front, scheme=scheme)
        except OSError as error:
            raise ProblemError(502, "no-answer", f"the front did not answer: {error}") from None

    async def explain(self, request: web.Request) -> ExplainedCall:
        """Explain how a call would be treated."""
        return await explain(await request.read(), self._links)

    async def purge(self, request: web.Request) -> Purged:
        """Remove kept answers, here and on the hosts that share the Redis."""
        body = await request.read()
        done = await purge(body, self._links)
        if not done.dry_run:
            about = {"memory": done.memory, "disk": done.disk, "store": done.store}
            log.info("kept answers are purged", by=request[AUTHOR].name, **about)
            await self._control.purged(body, complete=done.complete)
        return done

    async def record(self, request: web.Request) -> RecordedCalls:
        """Hand over the calls that clients made since the last time, and go on keeping them for a while."""
        wanted, now = wanted_of(await request.read()), self._clock()
        if not wanted.stop and now > self._recording_until:
            log.info("calls are being recorded", by=request[AUTHOR].name, share=wanted.sample)
        self._recording_until = -math.inf if wanted.stop else now + UNASKED_SECONDS
        return await record(wanted, self._links)


def _time(query: Mapping[str, str], name: str) -> float | None:
    """A time in a query, in seconds since 1970; None where it is not given. Raises ProblemError."""
    text = query.get(name)
    if text is None:
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ProblemError(400, "invalid-question", f"{name}: expected seconds since 1970, found {printable(text)}")
    return found


async def explain(body: bytes, links: Sequence[Link]) -> ExplainedCall:
    """One worker's plan, and what all of them hold. Raises OperationRefused for a question that cannot be answered."""
    question = asked(body)
    call = jsonrpc.decode(bytes(question.call))
    if isinstance(call, list):
        raise OperationRefused(400, "not-a-call", "a batch is explained call by call: send one of them")
    if isinstance(call, Invalid):
        raise OperationRefused(400, "not-a-call", call.message)
    told = await asyncio.gather(*(link.explain(question.network, call.method, call.params) for link in links))
    explanations = [one for one in told if one is not None]
    if not explanations:
        missing = f"no network is called {question.network!r}" if question.network else "there are no networks yet"
        if not links:
            missing = "no worker is running"
        raise OperationRefused(404, "not-found", missing)
    first, *others = explanations
    return extended(
        ExplainedCall,
        first,
        # The tier that all workers share is named once.
        held=(*first.held, *(held for one in others for held in one.held if held.tier == "memory")),
        in_flight=any(one.in_flight for one in explanations),
        workers=[one.worker for one in explanations],
    )


def asked(body: bytes) -> CallRequest:
    """The question in a body: `{"call": ..., "network": ...}`, or the call alone. Raises OperationRefused."""
    try:
        return read(body, CallRequest) if "call" in read(body, dict[str, Raw]) else CallRequest(Raw(body))
    except OperationRefused as error:
        raise OperationRefused(
            400, "not-json", f'expected {{"call": {{...}}, "network": "..."}}: {error.detail}'
        ) from None
