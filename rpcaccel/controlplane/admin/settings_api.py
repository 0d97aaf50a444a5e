"""The part of the admin API about settings and their audit, workers, probes at once, and the stream of events."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from pydantic import ValidationError

from rpcaccel import chains
from rpcaccel.config.errors import from_pydantic
from rpcaccel.config.model import NodeSettings
from rpcaccel.config.patch import difference, to_table, touches
from rpcaccel.config.schema import described
from rpcaccel.controlplane.admin.admin_routes import Control
from rpcaccel.controlplane.admin.api_types import NodeTrialRequest
from rpcaccel.controlplane.admin.problems import ProblemError, json_response
from rpcaccel.controlplane.admin.settings_types import UndoRequest
from rpcaccel.controlplane.settings.audit import Author, Change
from rpcaccel.controlplane.settings.export import to_toml
from rpcaccel.controlplane.settings.ledger import (
    OF_A_WORKER,
    OF_THE_PROGRAM,
    ChangedMeanwhileError,
    InvalidSettingsError,
    Ledger,
    NoFileError,
    RefusedError,
    UnknownRevisionError,
)
from rpcaccel.controlplane.stats.proof_document import proof_document
from rpcaccel.controlplane.workers.operations import read
from rpcaccel.core import client_limits
from rpcaccel.core.heads.node_trial import NodeTrial
from rpcaccel.core.heads.served_head import NodeHead

T = TypeVar("T")

LARGEST = 1 << 20
"""Bytes of a change."""
PROBE_WITHIN = 10.0
"""Seconds."""
TRIALS = 8
"""Nodes that are tried at one time; further ones wait."""
STALLED = 30.0
"""Seconds after which the connection of a reader that takes nothing is closed."""
RESTART = (*OF_THE_PROGRAM, *OF_A_WORKER)
_TAG = re.compile(r'\s*(?:W/)?"(\d{1,18})"\s*')
_TOO_DEEP = "it is nested too deeply"
_JSON = ("application/json", "application/merge-patch+json")

AUTHOR = web.RequestKey("author", Author)
"""The author of a change, as found by the guard."""


class ChangeRoutes:
    """The handlers of settings, audit, workers, probes and events."""

    def __init__(self, control: Control, stalled: float = STALLED, probe_within: float = PROBE_WITHIN) -> None:
        """In seconds: the bound of a reader that takes nothing, and of a probe."""
        self.control = control
        self._stalled = stalled
        self._probe_within = probe_within
        self._trials = asyncio.Semaphore(TRIALS)

    def __repr__(self) -> str:
        return f"<ChangeRoutes {self.control!r}>"

    # -- settings ------------------------------------------------------------------------------------------------

    async def settings(self, _request: web.Request) -> web.Response:
        """The settings in force."""
        return self._document()

    async def patch(self, request: web.Request) -> web.Response:
        """Change the settings by a merge patch."""
        ledger = self.control.ledger
        change = await body_of(request, dict[str, Any])
        if request.query.get("dry_run", "") not in ("", "0"):
            return json_response(await self._previewed(ledger, change))
        expected = expected_revision(request, ledger)
        return await self.changed(ledger.change(change, request[AUTHOR], expected))

    async def undo(self, request: web.Request) -> web.Response:
        """Publish the settings of an older revision as a new one."""
        ledger = self.control.ledger
        to = (await body_of(request, UndoRequest)).to
        return await self.changed(ledger.undo(request[AUTHOR], to, expected_revision(request, ledger)))

    async def reload(self, request: web.Request) -> web.Response:
        """Read the config file again."""
        await body_of(request, dict[str, Any])
        return await self.changed(self.control.ledger.reload(request[AUTHOR]))

    async def difference(self, _request: web.Request) -> web.Response:
        """The difference from the config file, environment and flags."""
        ledger = self.control.ledger
        edits = difference(ledger.base, ledger.settings)
        found = {"revision": ledger.revision, "base": ledger.origin.source, "difference": msgspec.to_builtins(edits)}
        return json_response(found)

    async def described(self, _request: web.Request) -> web.Response:
        """The settings that can be changed, each with kind, explanation, default and bounds."""
        return json_response({"settings": msgspec.to_builtins(described()), "restart": list(RESTART)})

    async def known_methods(self, _request: web.Request) -> web.Response:
        """The methods that each network has a rule for, called or not."""
        networks = self.control.ledger.settings.networks
        rules = {name: chains.load(network.chain).rules for name, network in networks.items()}
        return json_response({name: sorted(rule.method for rule in table) for name, table in rules.items()})

    async def key(self, request: web.Request) -> web.Response:
        """Make an API key and its hash. Neither is stored: the hash is for the settings, the key for its holder."""
        await body_of(request, dict[str, Any])
        made = client_limits.make(secrets.token_bytes(client_limits.RANDOM_BYTES))
        return json_response({"key": made, "hash": client_limits.hashed(made)})

    async def export(self, _request: web.Request) -> web.Response:
        """The settings as a config file."""
        ledger = self.control.ledger
        text = to_toml(ledger.settings, f"rpcaccel settings, revision {ledger.revision}")
        named = {"Content-Disposition": 'attachment; filename="rpcaccel.toml"'}
        return web.Response(text=text, content_type="application/toml", headers=named)

    async def changes(self, request: web.Request) -> web.Response:
        """The audit, newest first."""
        ledger = self.control.ledger
        asked = request.query.get("limit", "100")
        limit = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 100
        newest = list(reversed(ledger.audit))[:limit]
        return json_response({"changes": [line(ledger, change) for change in newest]})

    # -- workers, nodes, events ----------------------------------------------------------------------------------

    async def workers(self, _request: web.Request) -> web.Response:
        """The workers."""
        return json_response({"workers": list(self.control.workers()), "replaced": self.control.replaced})

    async def probe(self, request: web.Request) -> web.Response:
        """Probe a node now."""
        network, node = request.match_info["network"], request.match_info["id"]
        try:
            async with asyncio.timeout(self._probe_within):
                head = await self.control.probe(network, node)
        except TimeoutError:
            head = NodeHead(id=node, note=f"it did not answer within {self._probe_within:g} s")
        if head is None:
            raise ProblemError(404, "not-found", f"there is no node {node} in {network}")
        number = head.head if head.head >= 0 else None
        about = {"network": network, "id": node, "head": number, "chain_ok": head.chain_ok}
        return json_response({**about, "answering": head.answering, "latency": head.latency, "note": head.note})

    async def prove(self, request: web.Request) -> web.Response:
        """Prove a node again; it goes on serving meanwhile."""
        network, node = request.match_info["network"], request.match_info["id"]
        head = self.control.prove(network, node)
        if head is None:
            raise ProblemError(404, "not-found", f"there is no node {node} in {network}")
        about = {"network": network, "id": node, "proving": head.proving}
        return json_response({**about, "proof": proof_document(head.proof)})

    async def test_node(self, request: web.Request) -> web.Response:
        """Probe a node that is not in the settings, and compare it with a network that it may be added to."""
        asked = await body_of(request, NodeTrialRequest)
        try:
            node = NodeSettings.model_validate({"url": asked.url, "headers": asked.headers})
        except ValidationError as error:
            faults = from_pydantic(error.errors(include_url=False), NodeSettings, {})
            raise ProblemError(422, "invalid-settings", "\n".join(map(str, faults)), faults=faults) from None
        try:
            async with self._trials, asyncio.timeout(self._probe_within):
                found = await self.control.try_node(asked.network, node)
        except TimeoutError:
            found = NodeTrial(answering=False, note=f"it did not answer within {self._probe_within:g} s")
        if found is None:
            raise ProblemError(404, "not-found", f"no network is called {asked.network!r}")
        return json_response(msgspec.to_builtins(found))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The stream of events, until the reader leaves."""
        control = self.control
        response = web.StreamResponse(headers=request[STREAM_HEADERS])
        response.content_type = "text/event-stream"
        await response.prepare(request)
        last = request.headers.get("Last-Event-ID") or request.query.get("last", "")
        # Subscribed before the greeting is written, so that no event in between is lost.
        place = control.events.subscribe(last)
        try:
            async for frame in control.events.frames(place, {"revision": control.ledger.revision}):
                if not request[STILL_ALLOWED]():
                    break
                async with asyncio.timeout(self._stalled):
                    await response.write(frame)
        except ConnectionError:
            pass
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            control.events.leave(place)
        return response

    # -- documents -----------------------------------------------------------------------------------------------

    async def changed(self, making: Awaitable[Change | None]) -> web.Response:
        """Answer with the settings after a change that is being made. Raises ProblemError when it is refused."""
        ledger = self.control.ledger
        try:
            change = await making
        except ChangedMeanwhileError:
            raise ProblemError(412, "changed-meanwhile", revision=ledger.revision) from None
        except InvalidSettingsError as error:
            raise ProblemError(422, "invalid-settings", str(error), faults=error.faults) from None
        except RefusedError as error:
            raise ProblemError(409, "refused", str(error), revision=ledger.revision) from None
        except UnknownRevisionError:
            raise ProblemError(404, "not-found", "that revision is not kept", revision=ledger.revision) from None
        except NoFileError:
            raise ProblemError(409, "no-file", "it was started without --config") from None
        except RecursionError:
            raise ProblemError(400, "not-json", _TOO_DEEP) from None
        return self._document(change=line(ledger, change) if change else None)

    def _document(self, **more: Any) -> web.Response:
        control, ledger = self.control, self.control.ledger
        waiting = ledger.waiting()
        document = {
            "revision": ledger.revision,
            "document": to_table(ledger.settings),
            "workers": [{"id": one["id"], "revision": one["revision"]} for one in control.workers()],
            "adopted": control.adopted(),
            "restart": list(RESTART),
            "waiting": [*waiting.program, *waiting.workers],
            "persisted": str(ledger.origin.state.path) if ledger.origin.state else None,
            "note": ledger.note,
            "shared": control.shared(),
            "undo": ledger.undo_to,
            **more,
        }
        response = json_response(document)
        response.headers["ETag"] = f'"{ledger.revision}"'
        return response

    @staticmethod
    async def _previewed(ledger: Ledger, change: dict[str, Any]) -> dict[str, Any]:
        try:
            edits = difference(ledger.settings, await ledger.preview(change))
        except InvalidSettingsError as error:
            raise ProblemError(422, "invalid-settings", str(error), faults=error.faults) from None
        except RecursionError:
            raise ProblemError(400, "not-json", _TOO_DEEP) from None
        found = {"revision": ledger.revision, "difference": msgspec.to_builtins(edits)}
        return {**found, "restart": list(touches(edits, RESTART))}


STREAM_HEADERS = web.RequestKey("stream_headers", dict[str, str])
"""The headers of every answer, which a stream needs before it begins."""
STILL_ALLOWED: web.RequestKey[Callable[[], bool]] = web.RequestKey("still_allowed")
"""A function that tells whether the reader of a stream may still read."""


def line(ledger: Ledger, change: Change) -> dict[str, Any]:
    """The document of one line of the audit."""
    found: dict[str, Any] = msgspec.to_builtins(change)
    return {**found, "undo": change.outcome == "adopted" and ledger.knows(change.before)}


def expected_revision(request: web.Request, ledger: Ledger) -> int | None:
    """The revision in If-Match (RFC 9110, section 13.1.1); None for any. Raises ProblemError."""
    asked = request.headers.get("If-Match")
    if asked is None:
        raise ProblemError(428, "if-match-required", revision=ledger.revision)
    if asked.strip() == "*":
        return None
    match = _TAG.fullmatch(asked)
    if match is None or int(match[1]) != ledger.revision:
        raise ProblemError(412, "changed-meanwhile", revision=ledger.revision)
    return int(match[1])


async def body_of(request: web.Request, kind: type[T]) -> T:
    """The document in the body; an empty body is an empty object. Raises ProblemError or OperationRefused."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise ProblemError(413, "too-large", f"at most {LARGEST} bytes are read") from None
    if body and request.content_type not in _JSON:
        raise ProblemError(415, "not-json", f"send {_JSON[0]} or {_JSON[1]}")
    return read(body or b"{}", kind)
