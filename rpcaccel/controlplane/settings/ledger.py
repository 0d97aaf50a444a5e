"""The ledger of the settings: the revision in force, older revisions, and the only way to make a new one.

A change is validated, adopted by every worker and then persisted; a refusal anywhere leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import is_not
from pathlib import Path as FilePath
from typing import Any, Literal, NamedTuple

import structlog
from msgspec import Struct

from rpcaccel.config.errors import MOST_CHANGED, ConfigError, Fault, Path, excess
from rpcaccel.config.model import Settings
from rpcaccel.config.patch import Edit, apply, difference, listing, patch_between, touches
from rpcaccel.config.validate import Misfit
from rpcaccel.controlplane.settings.kept_file import KeptFile, LostFileError
from rpcaccel.controlplane.settings.overlay import lay, newest, told_of

OF_THE_PROGRAM = ("listen", "tls_cert", "tls_key", "admin.listen", "admin.tls_cert", "admin.tls_key", "workers")
"""Settings that only a restart of the program changes, since they are used once at the start."""
OF_A_WORKER = ("disk.path", "disk.read_timeout", "disk.queue", "redis", "http.keepalive", "http.max_header")
"""Settings that only new workers take over, as SIGHUP starts them."""
READ_AGAIN = "the config file, read again"
FIRST_REVISION = 1
MAX_AUDIT_LINES = 200
MAX_EARLIER, MAX_SAVED_EARLIER = 50, 10
"""Older revisions that undo may go back to, and those of them that are saved."""

log = structlog.get_logger("rpcaccel.settings")


Action = Literal["start", "change", "undo", "reload", "shared"]


class Author(Struct, frozen=True):
    """The author of a change: the name, and the way that the change came (page, cli, api, signal)."""

    name: str
    via: str = "api"


SYSTEM = Author("rpcaccel", "start")


class Change(Struct, frozen=True, kw_only=True):
    """One line of the audit. Holds no secret."""

    revision: int
    """The revision that was made; after a refused change, the revision that stayed in force."""
    before: int
    """The revision that the change was made from."""
    at: float
    """Seconds since 1970."""
    by: str
    via: str
    action: Action
    outcome: Literal["adopted", "refused"] = "adopted"
    text: str = ""
    difference: tuple[Edit, ...] = ()
    reason: str = ""
    """Why it was refused; empty when it was adopted."""
    why: str = ""
    """Why it was made, in a sentence, where its author says so."""


class Earlier(Struct, frozen=True):
    """An older revision: its difference from the config file."""

    revision: int
    overlay: dict[str, Any]


class StateDocument(Struct, frozen=True, kw_only=True):
    """What the state file keeps of the changes made at run time."""

    version: int = 1
    revision: int
    overlay: dict[str, Any]
    """A merge patch over what file, environment and flags say."""
    changes: tuple[Change, ...] = ()
    """Oldest first."""
    earlier: tuple[Earlier, ...] = ()
    told: dict[str, Any] = {}
    """The values of flags and variables when the file was written, by path."""


def state_file(path: FilePath) -> KeptFile[StateDocument]:
    """The state file. It holds secrets."""
    return KeptFile(path, StateDocument)


class ChangedMeanwhileError(Exception):
    """The change was made for another revision than the one in force."""


class InvalidSettingsError(Exception):
    """The change would not make valid settings."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = tuple(faults)


class RefusedError(Exception):
    """A worker refused the revision; nothing is changed anywhere."""


class UnknownRevisionError(Exception):
    """The revision is not kept (any more)."""


class NoFileError(Exception):
    """There is no config file to be read again."""


class Origin(Struct, frozen=True):
    """The sources of the settings, and the file that keeps changes."""

    source: str | None = None
    """The config file; None when there are only flags and environment."""
    reread: Callable[[], Settings] | None = None
    """Reads file, environment and flags again; raises ConfigError."""
    state: KeptFile[StateDocument] | None = None
    told: Mapping[Path, str] = {}
    """By path, the names of the flags and variables that set something at this start."""
    of_this_start: Mapping[str, str] = {}
    """The values that no other start can use, by the names of their settings."""


class NotInForce(NamedTuple):
    """Paths of changed settings that are not in force yet."""

    program: tuple[str, ...]
    workers: tuple[str, ...]


Publish = Callable[[Settings, int], Awaitable[str]]
"""Has a revision adopted by all workers or by none; returns the reason of a refusal, empty when the revision is in
force."""
Offer = Callable[[Mapping[str, Any], str], Awaitable[bool]]
"""Offers a change that is in force here to other hosts, as a merge patch with its author; False when another host was
first."""


async def _nobody(_settings: Settings, _revision: int) -> str:
    return ""


class Ledger:
    """The settings in force and the revisions before them. `open` comes first; changes are made one at a time."""

    def __init__(
        self,
        base: Settings,
        origin: Origin | None = None,
        *,
        check: Callable[[Settings, Settings], Sequence[Misfit]] = lambda _settings, _before: (),
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`check` returns the broken rules of settings that are to follow others. It may block: it runs in a thread."""
        self.base = base
        self.origin = origin or Origin()
        self.settings = base
        self.revision = FIRST_REVISION
        self.audit: deque[Change] = deque(maxlen=MAX_AUDIT_LINES)
        """The last changes, refused ones included, oldest first."""
        self.met: tuple[str, ...] = ()
        """Sentences about flags or variables that contradict a change made at run time: which of the two holds."""
        self.refused_file = ""
        """Why the config file was not taken over when it was read again last; empty when it was, or never was read."""
        self.note = "" if self.origin.state else "changes live until the restart: there is no state file"
        self.publish: Publish = _nobody
        self.offer: Offer | None = None
        self.heard: Callable[[Change], None] = lambda _change: None
        self._told = told_of(base, self.origin.told)
        self._check = check
        self._wall = wall
        self.changing = asyncio.Lock()
        """A lock that is held while a change is being made."""
        self._last_number = FIRST_REVISION
        self._earlier: dict[int, Settings] = {}
        self._program = self._workers = base
        self._waiting: tuple[tuple[Settings, ...], NotInForce] | None = None

    def __repr__(self) -> str:
        return f"<Ledger r{self.revision}, {len(self._earlier)} earlier>"

    def open(self) -> tuple[str, ...]:
        """Lay the state file over the config; returns sentences about changes that no longer have a place. Raises
        ConfigError."""
        left_out: tuple[str, ...] = ()
        try:
            saved = self.origin.state.load() if self.origin.state else None
        except LostFileError as lost:
            path = str(self.origin.state.path) if self.origin.state else ""
            raise ConfigError([Fault(path, "", f"{lost}; move it away to start without it")]) from None
        if saved is not None:
            try:
                overlay, self.met = newest(saved.overlay, self._told, saved.told)
                self.settings, left_out = lay(self.base, overlay)
            except ConfigError as error:
                raise self._of_the_state(error.faults) from None
            self.revision = saved.revision
            self.audit.extend(saved.changes)
            self._recall(saved.earlier)
        self._last_number = self.revision
        self._program = self._workers = self.settings
        self._write("start", SYSTEM, self.revision, edits=difference(self.base, self.settings))
        return left_out

    async def check(self) -> None:
        """Check the changes of the state file for this start. Raises ConfigError."""
        faults = await asyncio.to_thread(self._faults, self.settings, self.base)
        if faults:
            raise self._of_the_state(faults)

    def _faults(self, settings: Settings, before: Settings) -> list[Fault]:
        return [one.fault({}) for one in self._check(settings, before)]

    def _of_the_state(self, faults: Sequence[Fault]) -> ConfigError:
        where = f"from {self.origin.state.path}" if self.origin.state else ""
        return ConfigError([Fault(fault.path, fault.found, fault.expected, where) for fault in faults])

    def _recall(self, earlier: Sequence[Earlier]) -> None:
        for old in earlier:
            try:
                self._earlier[old.revision] = lay(self.base, old.overlay).settings
            except ConfigError:
                continue  # the older revision no longer fits the config file

    # -- what there is to see ------------------------------------------------------------------------------------

    @property
    def undo_to(self) -> int | None:
        """The revision that undo goes back to; None when there is none."""
        return next(reversed(self._earlier), None)

    def knows(self, revision: int) -> bool:
        """Whether undo may go back to this revision."""
        return revision in self._earlier

    def waiting(self) -> NotInForce:
        """The changed settings that wait for a restart, of the program or of the workers. They are compared once for
        each revision: a comparison takes milliseconds, and every frame of the page asks."""
        compared = self._program, self._workers, self.settings
        if self._waiting is None or any(map(is_not, compared, self._waiting[0])):
            found = NotInForce(
                touches(difference(self._program, self.settings), OF_THE_PROGRAM),
                touches(difference(self._workers, self.settings), OF_A_WORKER),
            )
            self._waiting = compared, found
        return self._waiting[1]

    def over_the_file(self) -> str:
        """A sentence about the changes made at run time, which are in force over the config file; empty without any."""
        edits, file = difference(self.base, self.settings), self.origin.source or "the config"
        return f"changed at run time, in force over {file}: {listing(edits)}" if edits else ""

    def overlay(self) -> dict[str, Any]:
        """The changes made at run time, as a merge patch that holds the secrets themselves."""
        return patch_between(self.base, self.settings)

    def lasting(self, settings: Settings) -> Settings:
        """These settings, without values that no other start can use."""
        of_this_start = self.origin.of_this_start.items()
        return settings.model_copy(
            update={name: "" for name, value in of_this_start if getattr(settings, name) == value}
        )

    def renewed(self) -> None:
        """Note that every worker is new, so that settings which only new workers take over are in force."""
        self._workers = self.settings

    # -- changes -------------------------------------------------------------------------------------------------

    async def preview(self, patch: Mapping[str, Any]) -> Settings:
        """The settings that a merge patch would make. Raises InvalidSettingsError."""
        if (too_large := await asyncio.to_thread(excess, patch, MOST_CHANGED)) is not None:
            raise InvalidSettingsError([too_large])
        if hidden := _hidden(patch):
            raise InvalidSettingsError([Fault(hidden, '"***"', "the value itself: *** stands for a hidden one")])
        before = self.settings
        result = await asyncio.to_thread(apply, before, patch, lambda settings: self._check(settings, before))
        if isinstance(result, list):
            raise InvalidSettingsError(result)
        return result

    async def change(
        self, patch: Mapping[str, Any], author: Author, expected: int | None = None, *, why: str = ""
    ) -> Change | None:
        """Make a revision by a merge patch; None when nothing differs. `expected`: the revision it was made for; `why`:
        the reason in a sentence, for the audit.

        Raises ChangedMeanwhileError, InvalidSettingsError or RefusedError; then nothing has changed anywhere.
        """
        async with self.changing:
            self._expect(expected)
            return await self._make(await self.preview(patch), "change", author, why)

    async def undo(self, author: Author, to: int | None = None, expected: int | None = None) -> Change | None:
        """Publish an older revision's settings as a new revision. Raises what `change` raises, and
        UnknownRevisionError."""
        async with self.changing:
            self._expect(expected)
            number = self.undo_to if to is None else to
            older = None if number is None else self._earlier.get(number)
            if older is None:
                raise UnknownRevisionError
            return await self._make(await self._checked(older), "undo", author, f"back to revision {number}")

    async def reload(self, author: Author) -> Change | None:
        """Read the config file again, with the changes made at run time on top. Raises what `change` raises, and
        NoFileError."""
        if self.origin.reread is None:
            raise NoFileError
        async with self.changing:
            try:
                base = await asyncio.to_thread(self.origin.reread)
                settings = await self._checked(lay(base, self.overlay()).settings)
            except (ConfigError, InvalidSettingsError) as error:
                self.refused_file = "; ".join(map(str, error.faults))
                self._write("reload", author, self.revision, edits=(), reason=self.refused_file)
                raise InvalidSettingsError(error.faults) from None
            before, self.base = self.base, base
            try:
                change = await self._make(settings, "reload", author)
            except BaseException as error:
                self.base = before
                self.refused_file = str(error)
                raise
            if change is None and self.refused_file:  # or else the refusal would be the last that is said
                self._write("reload", author, self.revision, edits=())
            self.refused_file = ""
            return change

    async def take_over(self, overlay: Mapping[str, Any], author: Author) -> Change | None:
        """Adopt the overlay of another host instead of the one in force. The caller holds `changing`."""
        try:
            laid = lay(self.base, overlay)
            settings = await self._checked(laid.settings)
        except ConfigError as error:
            raise InvalidSettingsError(error.faults) from None
        for sentence in laid.left_out:
            log.warning(sentence, by=author.name)
        return await self._make(settings, "shared", author)

    def _expect(self, revision: int | None) -> None:
        if revision is not None and revision != self.revision:
            raise ChangedMeanwhileError

    async def _checked(self, settings: Settings) -> Settings:
        faults = await asyncio.to_thread(self._faults, settings, self.settings)
        if faults:
            raise InvalidSettingsError(faults)
        return settings

    async def _make(self, settings: Settings, action: Action, author: Author, why: str = "") -> Change | None:
        """Have `settings` adopted as a new revision and persist them. Refused ones leave only a line in the audit."""
        edits = await asyncio.to_thread(difference, self.settings, settings)
        if not edits:
            return None
        # A number is used once, also by a change that is refused: no late answer is taken for that to another.
        self._last_number = revision = self._last_number + 1
        reason = await self.publish(settings, revision)
        if reason:
            self._write(action, author, self.revision, edits=edits, reason=reason, why=why)
            raise RefusedError(reason)
        before, old = self.revision, self.settings
        # Changes that came from other hosts, or from this host's own file, are not offered to them.
        offer = None if action in ("shared", "reload") else self.offer
        if offer is not None and not await offer(patch_between(old, settings), author.name):
            await self.publish(old, before)
            raise ChangedMeanwhileError
        self._earlier.pop(before, None)
        self._earlier[before] = old
        while len(self._earlier) > MAX_EARLIER:
            del self._earlier[next(iter(self._earlier))]
        self.settings, self.revision = settings, revision
        change = self._write(action, author, before, edits=edits, why=why)
        await self._save()
        return change

    def _write(
        self,
        action: Action,
        author: Author,
        before: int,
        *,
        edits: tuple[Edit, ...],
        reason: str = "",
        why: str = "",
    ) -> Change:
        change = Change(
            revision=self.revision,
            before=before,
            at=self._wall(),
            by=author.name,
            via=author.via,
            action=action,
            outcome="refused" if reason else "adopted",
            text=listing(edits) or (READ_AGAIN if action == "reload" else ""),
            difference=edits,
            reason=reason,
            why=why,
        )
        self.audit.append(change)
        self.heard(change)
        return change

    async def _save(self) -> None:
        """Persist the revision for the next start. A failure does not stop the change; it becomes a note."""
        if self.origin.state is None:
            return
        saved = StateDocument(
            revision=self.revision,
            overlay=self.overlay(),
            changes=tuple(self.audit),
            earlier=tuple(
                Earlier(number, patch_between(self.base, old))
                for number, old in list(self._earlier.items())[-MAX_SAVED_EARLIER:]
            ),
            told={told.key: told.value for told in self._told},
        )
        try:
            await asyncio.to_thread(self.origin.state.save, saved)
            self.note = ""
        except OSError as error:
            why = error.strerror or type(error).__name__
            self.note = f"changes live until the restart: {self.origin.state.path} cannot be written ({why})"


def _hidden(value: Any, path: str = "") -> str:
    """The path of the first masked value ("***") in a patch; empty when there is none."""
    if isinstance(value, Mapping):
        inner = (_hidden(part, f"{path}.{key}" if path else str(key)) for key, part in value.items())
        return next(filter(None, inner), "")
    if isinstance(value, list):
        return next(filter(None, (_hidden(part, f"{path}[{index}]") for index, part in enumerate(value))), "")
    return path or "." if isinstance(value, str) and "***" in value else ""
