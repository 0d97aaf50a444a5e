"""The ledger: a change is in force everywhere and kept, or nowhere."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rpcaccel.config.errors import ConfigError, Fault
from rpcaccel.config.model import Settings
from rpcaccel.config.validate import Misfit, validate
from rpcaccel.controlplane.settings.kept_file import KeptFile
from rpcaccel.controlplane.settings.ledger import (
    MAX_AUDIT_LINES,
    MAX_EARLIER,
    Author,
    ChangedMeanwhileError,
    InvalidSettingsError,
    Ledger,
    NoFileError,
    Origin,
    RefusedError,
    StateDocument,
    UnknownRevisionError,
    state_file,
)

ME = Author("me", "page")
Document = dict[str, Any]


def made(weight: int = 1, **more: Any) -> Settings:
    return Settings.model_validate({"networks": {"x": {"nodes": [f"http://a,weight={weight}", "http://b"]}}, **more})


def weigh(weight: int) -> Document:
    return {"networks": {"x": {"nodes": {"a": {"weight": weight}}}}}


def weight(ledger: Ledger) -> int:
    return ledger.settings.networks["x"].nodes[0].weight


class Crew:
    """Workers that adopt what they are told, unless told to refuse."""

    def __init__(self, ledger: Ledger) -> None:
        self.refusal = ""
        self.adopted: list[int] = []
        ledger.publish = self.publish

    async def publish(self, _settings: Settings, revision: int) -> str:
        await asyncio.sleep(0)
        if not self.refusal:
            self.adopted.append(revision)
        return self.refusal


StateFile = KeptFile[StateDocument]


@pytest.fixture
def state(tmp_path: Path) -> StateFile:
    return state_file(tmp_path / "state.json")


@pytest.fixture
def ledger(state: StateFile) -> Ledger:
    ledger = Ledger(made(), Origin("file.toml", made, state), wall=lambda: 5.0)
    assert ledger.open() == ()
    return ledger


async def test_a_change_is_adopted_kept_and_written_down(ledger: Ledger, state: StateFile) -> None:
    crew = Crew(ledger)
    change = await ledger.change(weigh(5), ME, 1)
    assert (change.revision, change.before, change.by, change.via, change.at) == (2, 1, "me", "page", 5.0)
    assert (change.text, change.outcome) == ("networks.x.nodes.a.weight: 1 -> 5", "adopted")
    assert (weight(ledger), ledger.revision, crew.adopted) == (5, 2, [2])
    again = Ledger(made(), Origin(state=state))
    again.open()
    assert (weight(again), again.revision) == (5, 2)
    assert again.audit[-2].text == "networks.x.nodes.a.weight: 1 -> 5"
    assert again.audit.maxlen == MAX_AUDIT_LINES


async def test_a_refused_change_changes_nothing_but_the_audit(ledger: Ledger, state: StateFile) -> None:
    crew = Crew(ledger)
    crew.refusal = "worker w2: no"
    with pytest.raises(RefusedError, match="w2"):
        await ledger.change(weigh(5), ME)
    assert (weight(ledger), ledger.revision, ledger.undo_to, state.load()) == (1, 1, None, None)
    line = ledger.audit[-1]
    assert (line.outcome, line.reason, line.revision) == ("refused", "worker w2: no", 1)
    crew.refusal = ""
    change = await ledger.change(weigh(5), ME)
    assert change.revision == 3, "the number of a refused change is not used again"


async def test_what_makes_no_settings_names_the_field(ledger: Ledger) -> None:
    crew = Crew(ledger)
    with pytest.raises(InvalidSettingsError) as caught:
        await ledger.change(weigh(5000), ME)
    assert [fault.path for fault in caught.value.faults] == ["networks.x.nodes.a.weight"]
    assert (crew.adopted, len(ledger.audit)) == ([], 1)


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"networks": {"x": {"nodes": {"a": {"headers": {"X": "***"}}}}}}, "networks.x.nodes.a.headers.X"),
        ({"redis": {"replicas": ["redis://***"]}}, "redis.replicas[0]"),
    ],
)
async def test_a_hidden_value_that_comes_back_is_not_taken_for_one(ledger: Ledger, patch: Document, path: str) -> None:
    with pytest.raises(InvalidSettingsError) as caught:
        await ledger.change(patch, ME)
    assert caught.value.faults[0].path == path


async def test_what_else_the_program_would_not_start_with_is_refused(state: StateFile) -> None:
    asked: list[tuple[int, int]] = []

    def check(settings: Settings, before: Settings) -> list[Misfit]:
        asked.append((settings.workers, before.workers))
        return [Misfit(("admin", "tls_cert"), "", "no")] if settings.workers > 1 else []

    ledger = Ledger(made(), check=check)
    with pytest.raises(InvalidSettingsError, match="no"):
        await ledger.change({"workers": 2}, ME)
    with pytest.raises(InvalidSettingsError) as caught:
        await ledger.change({"workers": 3, "listen": "nowhere", **weigh(-1)}, ME)
    assert {fault.path for fault in caught.value.faults} == {"listen", "networks.x.nodes.a.weight"}
    other = Ledger(made(), Origin(state=state))
    await other.change({"workers": 2}, ME)
    again = Ledger(made(), Origin(state=state), check=check)
    again.open()
    with pytest.raises(ConfigError, match=r"state\.json"):
        await again.check()
    assert asked == [(2, 1), (2, 1)]


async def test_nothing_changed_is_no_revision(ledger: Ledger) -> None:
    crew = Crew(ledger)
    assert await ledger.change(weigh(1), ME) is None
    assert (repr(ledger), crew.adopted) == ("<Ledger r1, 0 earlier>", [])


async def test_one_of_two_changes_made_for_the_same_revision_comes_too_late(ledger: Ledger) -> None:
    Crew(ledger)
    results = await asyncio.gather(
        ledger.change(weigh(5), ME, 1), ledger.change(weigh(6), ME, 1), return_exceptions=True
    )
    assert isinstance(results[1], ChangedMeanwhileError)
    assert weight(ledger) == 5


async def test_undo_goes_back_by_a_new_revision_and_undoing_that_goes_forth(ledger: Ledger) -> None:
    Crew(ledger)
    with pytest.raises(UnknownRevisionError):
        await ledger.undo(ME)
    await ledger.change(weigh(5), ME)
    await ledger.change(weigh(6), ME)
    change = await ledger.undo(ME, expected=3)
    assert (weight(ledger), ledger.revision, change.action) == (5, 4, "undo")
    await ledger.undo(ME)
    assert weight(ledger) == 6
    await ledger.undo(ME, to=1)
    assert weight(ledger) == 1
    assert ledger.knows(2)
    with pytest.raises(UnknownRevisionError):
        await ledger.undo(ME, to=99)


async def test_undo_reaches_back_over_a_restart(ledger: Ledger, state: StateFile) -> None:
    await ledger.change(weigh(5), ME)
    await ledger.change(weigh(6), ME)
    again = Ledger(made(), Origin(state=state))
    again.open()
    await again.undo(ME)
    assert weight(again) == 5


async def test_old_revisions_are_forgotten_in_the_end(ledger: Ledger) -> None:
    for number in range(MAX_EARLIER + 3):
        await ledger.change(weigh(number % 7 + 2), ME)
    assert not ledger.knows(1)
    assert ledger.knows(ledger.revision - MAX_EARLIER)


async def test_a_reload_keeps_what_was_changed_at_run_time_on_top(state: StateFile) -> None:
    files = [made(1), made(2, workers=4)]
    ledger = Ledger(files[0], Origin("f", lambda: files[1], state))
    ledger.open()
    crew = Crew(ledger)
    await ledger.change({"networks": {"x": {"nodes": {"b": {"weight": 9}}}}}, ME)
    change = await ledger.reload(ME)
    assert (change.action, crew.adopted) == ("reload", [2, 3])
    assert [node.weight for node in ledger.settings.networks["x"].nodes] == [2, 9]
    assert ledger.waiting().program == ("workers",)
    assert ledger.overlay() == {"networks": {"x": {"nodes": {"b": {"weight": 9}}}}}


async def test_a_reload_that_is_refused_or_cannot_be_read_leaves_the_old_file_in_force(
    state: StateFile,
) -> None:
    def unreadable() -> Settings:
        raise ConfigError([Fault("f", "", "cannot be read")])

    ledger = Ledger(made(), Origin("f", unreadable, state))
    with pytest.raises(InvalidSettingsError, match="cannot be read"):
        await ledger.reload(ME)
    line = ledger.audit[-1]
    assert (line.action, line.outcome, line.text) == ("reload", "refused", "the config file, read again")
    assert "cannot be read" in line.reason
    assert ledger.refused_file == line.reason
    ledger.origin = Origin("f", lambda: made(7), state)
    crew = Crew(ledger)
    crew.refusal = "no"
    with pytest.raises(RefusedError):
        await ledger.reload(ME)
    assert (ledger.base, weight(ledger)) == (made(), 1)
    assert ledger.refused_file == "no"
    crew.refusal = ""
    await ledger.reload(ME)
    assert (ledger.refused_file, ledger.over_the_file()) == ("", "")
    await ledger.change({"networks": {"x": {"nodes": {"a": {"weight": 9}}}}}, ME)
    assert ledger.over_the_file().startswith("changed at run time, in force over f: networks.x.nodes.a.weight: 7 -> 9")
    ledger.origin = Origin("f", unreadable, state)
    with pytest.raises(InvalidSettingsError):
        await ledger.reload(ME)
    ledger.origin = Origin("f", lambda: made(7), state)
    assert await ledger.reload(ME) is None
    line = ledger.audit[-1]
    assert (line.action, line.outcome, line.text) == ("reload", "adopted", "the config file, read again")
    with pytest.raises(NoFileError):
        await Ledger(made()).reload(ME)


async def test_what_waits_for_a_restart_is_named_until_then(ledger: Ledger) -> None:
    Crew(ledger)
    await ledger.change({"listen": "127.0.0.1:1", "redis": {"prefix": "other"}, "http": {"max_batch": 5}}, ME)
    assert ledger.waiting() == (("listen",), ("redis.prefix",))
    ledger.renewed()
    assert ledger.waiting() == (("listen",), ())
    await ledger.undo(ME)
    assert ledger.waiting() == ((), ("redis.prefix",))


async def test_a_state_file_that_cannot_be_written_stops_no_change_and_is_said(tmp_path: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    ledger = Ledger(made(), Origin(state=state_file(folder / "gone" / "state.json")))
    await ledger.change(weigh(5), ME)
    assert weight(ledger) == 5
    assert "cannot be written (No such file or directory)" in ledger.note
    (folder / "gone").mkdir()
    await ledger.change(weigh(6), ME)
    assert ledger.note == ""


async def test_what_another_host_made_is_taken_over_and_not_offered_back(ledger: Ledger) -> None:
    crew = Crew(ledger)
    seen: list[Any] = []
    ledger.offer = offering(True, seen)
    await ledger.change(weigh(5), ME)
    change = await ledger.take_over(weigh(8), Author("you at there", "shared"))
    assert (weight(ledger), ledger.revision, change.action, crew.adopted) == (8, 3, "shared", [2, 3])
    assert await ledger.take_over(weigh(8), ME) is None
    with pytest.raises(InvalidSettingsError):
        await ledger.take_over(weigh(-1), ME)
    assert len(seen) == 1


def offering(taken: bool, seen: list[Any]) -> Callable[[Mapping[str, Any], str], Any]:
    async def offer(patch: Mapping[str, Any], author: str) -> bool:
        seen.append((patch, author))
        return taken

    return offer


async def test_a_change_is_offered_to_other_hosts_and_taken_back_when_one_was_quicker(ledger: Ledger) -> None:
    crew = Crew(ledger)
    seen: list[Any] = []
    ledger.offer = offering(True, seen)
    await ledger.change(weigh(5), ME)
    assert seen == [(weigh(5), "me")]
    ledger.offer = offering(False, seen)
    with pytest.raises(ChangedMeanwhileError):
        await ledger.change(weigh(6), ME)
    assert (weight(ledger), ledger.revision, crew.adopted) == (5, 2, [2, 3, 2])


async def test_a_flag_that_was_there_before_a_change_does_not_take_it_back_and_one_given_later_does(
    state: StateFile,
) -> None:
    flag = {("memory", "size"): "--memory"}

    def started(size: int) -> Ledger:
        ledger = Ledger(made(memory={"size": size}), Origin(state=state, told=flag))
        assert ledger.open() == ()
        return ledger

    assert await started(100).change({"memory": {"size": 200}}, ME) is not None
    again = started(100)
    assert (again.settings.memory.size, "overruled" in again.met[0]) == (200, True)
    later = started(300)
    assert (later.settings.memory.size, "and holds" in later.met[0]) == (300, True)
    assert await later.change({"memory": {"size": 400}}, ME) is not None
    assert started(300).settings.memory.size == 400


async def test_without_a_network_only_a_change_that_brings_one_is_made_and_undo_goes_back_to_none(
    state: StateFile,
) -> None:
    empty = validate({}, networks_later=True)
    assert isinstance(empty, Settings)
    ledger = Ledger(empty, Origin(state=state))
    ledger.open()
    with pytest.raises(InvalidSettingsError, match="at least one network"):
        await ledger.change({"memory": {"size": "1GB"}}, ME)
    await ledger.change({"networks": {"x": {"nodes": [{"id": "a", "url": "http://a/k"}]}}}, ME)

    later = Ledger(empty, Origin(state=state))
    later.open()
    assert [node.url.reveal() for node in later.settings.networks["x"].nodes] == ["http://a/k"]
    with pytest.raises(InvalidSettingsError, match="at least one network"):
        await later.change({"networks": {"x": None}}, ME)
    await later.undo(ME)
    assert later.settings == empty
    again = Ledger(empty, Origin(state=state))
    assert (again.open(), again.settings, again.revision) == ((), empty, 3)
