"""The part of the admin API about settings and their audit, workers, and probes at once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType
from pydantic import ValidationError

from rpcaccel import chains
from rpcaccel.config.errors import ConfigError, from_pydantic
from rpcaccel.config.model import NodeSettings
from rpcaccel.config.patch import Edit, difference, to_table, touches
from rpcaccel.config.schema import Described, described
from rpcaccel.controlplane.admin.handling import (
    AUTHOR,
    Control,
    ProblemError,
    body_of,
    expected_revision,
    json_response,
)
from rpcaccel.controlplane.settings.config_file import FIRST_TITLE, to_toml
from rpcaccel.controlplane.settings.ledger import (
    OF_A_WORKER,
    OF_THE_PROGRAM,
    Change,
    ChangedMeanwhileError,
    InvalidSettingsError,
    Ledger,
    NoFileError,
    RefusedError,
    UnknownRevisionError,
)
from rpcaccel.controlplane.stats.summaries import ExaminationNow, examination_document, extended
from rpcaccel.controlplane.workers.workers import WorkerStanding
from rpcaccel.core import client_limits
from rpcaccel.core.heads.identity import NodesFound, NodeTrial
from rpcaccel.core.heads.served_head import NodeHead

PROBE_TIMEOUT_SECONDS = 10.0
"""Seconds."""
FIND_TIMEOUT_SECONDS = 30.0
"""Seconds that nodes which no network has yet may take to say what they are, all together."""
MAX_TRIALS = 8
"""Nodes that are tried at one time; further ones wait."""
RESTART_PATHS = (*OF_THE_PROGRAM, *OF_A_WORKER)


class Difference(Struct, frozen=True):
    """The difference from the config file, environment and flags."""

    revision: int
    base: Annotated[str | None, Meta(description="The config file; null without one.")]
    difference: Sequence[Edit]


class Preview(Struct, frozen=True):
    """The difference that a change would make, asked for with dry_run."""

    revision: int
    difference: Sequence[Edit]
    restart: Annotated[Sequence[str], Meta(description="Paths of those that would wait for a restart.")]


class SettingsDescribed(Struct, frozen=True):
    """The settings that can be changed."""

    settings: Sequence[Described]
    restart: Annotated[Sequence[str], Meta(description="Paths that take a restart, those below them included.")]


MergePatch = Annotated[
    dict[str, Any],
    Meta(
        description="A JSON merge patch (RFC 7396) of the settings, with each network's nodes as a table by id; "
        "null removes a node and puts a setting back to its default."
    ),
]


class UndoRequest(Struct, frozen=True):
    """Which revision to go back to."""

    to: Annotated[int | None, Meta(description="A revision; the last one if unset.")] = None


class ChangeLine(Change, frozen=True, kw_only=True):
    """A line of the audit."""

    undo: Annotated[bool, Meta(description="Can the settings before this change be brought back?")]


class Changes(Struct, frozen=True):
    """The audit, newest first."""

    changes: list[ChangeLine]


class WorkerRevision(Struct, frozen=True):
    """A worker and the revision that it runs."""

    id: str
    revision: int


class SettingsNow(Struct, frozen=True, kw_only=True):
    """The settings in force."""

    revision: int
    document: Annotated[dict[str, Any], Meta(description="As the config file, but nodes as a table by id.")]
    workers: list[WorkerRevision]
    adopted: Annotated[int, Meta(description="Workers that run this revision.")]
    restart: Annotated[Sequence[str], Meta(description="Paths that take a restart, those below them included.")]
    waiting: Annotated[Sequence[str], Meta(description="Paths that were changed and wait for a restart.")]
    persisted: Annotated[str | None, Meta(description="The state file; null without one.")]
    note: Annotated[str, Meta(description="A sentence when changes will not outlive a restart.")]
    shared: Annotated[dict[str, Any] | None, Meta(description="How it goes with the hosts of one Redis.")]
    undo: Annotated[int | None, Meta(description="The revision that undo goes back to.")]
    change: Annotated[
        ChangeLine | UnsetType | None, Meta(description="After a change: its line; null where nothing differs.")
    ] = UNSET


class NewKey(Struct, frozen=True):
    """An API key, told this once."""

    key: str
    hash: Annotated[str, Meta(description="What the settings hold of it.")]


class WorkerList(Struct, frozen=True):
    """The workers that run."""

    workers: Sequence[WorkerStanding]
    replaced: Annotated[int, Meta(description="Those that died or hung and were replaced since the start.")]


class ProbeOutcome(Struct, frozen=True, kw_only=True):
    """A node as it was just found."""

    network: str
    id: str
    head: int | None
    chain_ok: Annotated[bool | None, Meta(description="Does it serve the right chain? null: it did not say.")]
    answering: bool
    latency: Annotated[float | None, Meta(description="Seconds.")]
    note: Annotated[str, Meta(description="A sentence when something is wrong.")]


class ExamineReply(Struct, frozen=True):
    """A node whose examination begins; the event `examination` tells when it has ended."""

    network: str
    id: str
    examining: Annotated[bool, Meta(description="Does it get no calls until then?")]
    examination: Annotated[ExaminationNow | None, Meta(description="The last examination before this one.")]


class NodeTrialRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is to be tried before it is added."""

    network: Annotated[str, Meta(description="The network it would be part of.")]
    url: Annotated[str, Meta(description="Its address, as in the settings.")]
    headers: Annotated[dict[str, str], Meta(description="Sent to it, as in the settings.")] = {}


class FindNodesRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that no network has yet."""

    nodes: Annotated[
        list[Annotated[str, Meta(max_length=4200)]],
        Meta(min_length=1, max_length=50, description="URL[,weight=N][,id=NAME] each, or names of chains."),
    ]


class FirstFile(Struct, frozen=True):
    """The configuration file of a proxy that has no nodes yet."""

    toml: str


class ChangeRoutes:
    """The handlers of settings, audit, workers and probes."""

    def __init__(self, control: Control, probe_within: float = PROBE_TIMEOUT_SECONDS) -> None:
        """`probe_within`: seconds that a probe may take."""
        self.control = control
        self._probe_within = probe_within
        self._trials = asyncio.Semaphore(MAX_TRIALS)

    def __repr__(self) -> str:
        return f"<ChangeRoutes {self.control!r}>"

    # -- settings ------------------------------------------------------------------------------------------------

    async def settings(self, _request: web.Request) -> web.Response:
        """The settings in force."""
        return self._answer()

    async def patch(self, request: web.Request) -> web.Response | Preview:
        """Change the settings by a merge patch."""
        ledger = self.control.ledger
        change = await body_of(request, dict[str, Any])
        if request.query.get("dry_run", "") not in ("", "0"):
            with _refusals_told(ledger):
                edits = difference(ledger.settings, await ledger.preview(change))
            return Preview(ledger.revision, edits, touches(edits, RESTART_PATHS))
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

    async def difference(self, _request: web.Request) -> Difference:
        """The difference from the config file, environment and flags."""
        ledger = self.control.ledger
        return Difference(ledger.revision, ledger.origin.source, difference(ledger.base, ledger.settings))

    async def described(self, _request: web.Request) -> SettingsDescribed:
        """The settings that can be changed, each with kind, explanation, default and bounds."""
        return SettingsDescribed(described(), RESTART_PATHS)

    async def known_methods(self, _request: web.Request) -> dict[str, list[str]]:
        """The methods that each network has a rule for, called or not."""
        networks = self.control.ledger.settings.networks
        rules = {name: chains.load(network.chain).rules for name, network in networks.items()}
        return {name: sorted(rule.method for rule in table) for name, table in rules.items()}

    async def key(self, request: web.Request) -> NewKey:
        """Make an API key and its hash. Neither is stored: the hash is for the settings, the key for its holder."""
        await body_of(request, dict[str, Any])
        made = client_limits.make(secrets.token_bytes(client_limits.RANDOM_BYTES))
        return NewKey(made, client_limits.hashed(made))

    async def export(self, _request: web.Request) -> web.Response:
        """The settings as a config file."""
        ledger = self.control.ledger
        text = to_toml(ledger.lasting(ledger.settings), f"rpcaccel settings, revision {ledger.revision}")
        named = {"Content-Disposition": 'attachment; filename="rpcaccel.toml"'}
        return web.Response(text=text, content_type="application/toml", headers=named)

    async def changes(self, request: web.Request) -> Changes:
        """The audit, newest first."""
        ledger = self.control.ledger
        asked = request.query.get("limit", "100")
        limit = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 6 else 100
        return Changes([line(ledger, change) for change in list(reversed(ledger.audit))[:limit]])

    # -- workers, nodes ----------------------------------------------------------------------------------

    async def workers(self, _request: web.Request) -> WorkerList:
        """The workers."""
        return WorkerList(self.control.workers(), self.control.replaced)

    async def probe(self, request: web.Request) -> ProbeOutcome:
        """Probe a node now."""
        network, node = request.match_info["network"], request.match_info["id"]
        try:
            async with asyncio.timeout(self._probe_within):
                head = await self.control.probe(network, node)
        except TimeoutError:
            head = NodeHead(id=node, note=f"it did not answer within {self._probe_within:g} s")
        if head is None:
            raise ProblemError(404, "not-found", f"there is no node {node} in {network}")
        return extended(ProbeOutcome, head, network=network, head=head.head if head.head >= 0 else None)

    async def examine(self, request: web.Request) -> ExamineReply:
        """Examine a node again; it goes on serving meanwhile."""
        network, node = request.match_info["network"], request.match_info["id"]
        head = self.control.examine(network, node)
        if head is None:
            raise ProblemError(404, "not-found", f"there is no node {node} in {network}")
        return ExamineReply(network, node, head.examining, examination_document(head.examination))

    async def test_node(self, request: web.Request) -> NodeTrial:
        """Probe a node that is not in the settings, and compare it with a network that it may be added to."""
        asked = await body_of(request, NodeTrialRequest)
        try:
            node = NodeSettings.model_validate({"url": asked.url, "headers": asked.headers})
        except ValidationError as error:
            faults = from_pydantic(error.errors(include_url=False), NodeSettings, {})
            raise ProblemError(422, "invalid-settings", "\n".join(map(str, faults)), faults=faults) from None
        try:
            async with asyncio.timeout(self._probe_within), self._trials:
                found = await self.control.try_node(asked.network, node)
        except TimeoutError:
            found = NodeTrial(answering=False, note=f"it did not answer within {self._probe_within:g} s")
        if found is None:
            raise ProblemError(404, "not-found", f"no network is called {asked.network!r}")
        return found

    async def find_nodes(self, request: web.Request) -> NodesFound:
        """Ask nodes that no network has what they are, and which networks they make."""
        texts = (await body_of(request, FindNodesRequest)).nodes
        try:
            async with asyncio.timeout(FIND_TIMEOUT_SECONDS), self._trials:
                return await self.control.find_nodes(texts)
        except ConfigError as error:
            raise ProblemError(422, "invalid-settings", str(error), faults=error.faults) from None
        except TimeoutError:
            why = f"they did not all answer within {FIND_TIMEOUT_SECONDS:g} s"
            raise ProblemError(504, "nodes-too-slow", why) from None

    async def first_file(self, request: web.Request) -> FirstFile:
        """Write a config file with the networks of a merge patch, before there are any.

        The secrets of the patch stand in it, since its sender knows them; all others are hidden."""
        ledger = self.control.ledger
        change = await body_of(request, dict[str, Any])
        if ledger.settings.networks:
            raise ProblemError(409, "nodes-known", "their file is at /api/v1/settings/export, secrets hidden")
        with _refusals_told(ledger):
            settings = ledger.lasting(await ledger.preview({"networks": change.get("networks")}))
        title = FIRST_TITLE.format(file="rpcaccel.toml")
        return FirstFile(await asyncio.to_thread(to_toml, settings, title, revealed=("networks",), suggest=True))

    # -- documents -----------------------------------------------------------------------------------------------

    async def changed(self, making: Awaitable[Change | None]) -> web.Response:
        """Answer with the settings after a change that is being made. Raises ProblemError when it is refused."""
        ledger = self.control.ledger
        with _refusals_told(ledger):
            change = await making
        return self._answer(line(ledger, change) if change else None)

    def _answer(self, change: ChangeLine | UnsetType | None = UNSET) -> web.Response:
        control, ledger = self.control, self.control.ledger
        waiting = ledger.waiting()
        document = SettingsNow(
            revision=ledger.revision,
            document=to_table(ledger.settings),
            workers=[WorkerRevision(one.id, one.revision) for one in control.workers()],
            adopted=control.adopted(),
            restart=RESTART_PATHS,
            waiting=[*waiting.program, *waiting.workers],
            persisted=str(ledger.origin.state.path) if ledger.origin.state else None,
            note=ledger.note,
            shared=control.shared(),
            undo=ledger.undo_to,
            change=change,
        )
        response = json_response(document)
        response.headers["ETag"] = f'"{ledger.revision}"'
        return response


@contextmanager
def _refusals_told(ledger: Ledger) -> Iterator[None]:
    """Raise ProblemError for a change that the ledger refuses."""
    try:
        yield
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
        raise ProblemError(400, "not-json", "it is nested too deeply") from None


def line(ledger: Ledger, change: Change) -> ChangeLine:
    """The document of one line of the audit."""
    return extended(ChangeLine, change, undo=change.outcome == "adopted" and ledger.knows(change.before))
