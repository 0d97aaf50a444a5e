"""What follows when nodes differ: what is purged, who is named, and who is drained."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.nodes.disagreements import READ_EVERY, STAYS_SECONDS, Disagreements
from rpcaccel.core.agreement.cases import JUDGED_SECONDS, Case, CaseAnswer
from tests.support.manual_clock import ManualClock


class Office:
    """The supervisor, as the disagreements see it."""

    def __init__(self, **net: object) -> None:
        nodes = [f"http://127.0.0.1:1,id={name}" for name in "abc"]
        self.settings = Settings.model_validate({"networks": {"n": {"nodes": nodes, **net}}})
        self.compared: dict[tuple[str, str], int] = {}
        self.purged: list[str] = []
        self.drained: list[tuple[str, str]] = []
        self.told: list[str] = []
        self.last = False
        """Is every node the last one that takes calls?"""
        self.wall = ManualClock(1e9)
        self.kept = Disagreements(
            lambda: self.settings, lambda: self.compared, self.purge, self.drain, self.told.append, wall=self.wall.now
        )

    async def purge(self, selection: dict[str, str]) -> None:
        self.purged.append(selection.get("key") or f"{selection['network']} {selection['method']}")

    async def drain(self, network: str, node: str) -> bool:
        self.wall.advance(1)
        self.drained.append((network, node))
        return not self.last

    async def compare(self, of: int, network: str = "n") -> None:
        """So many more comparisons of every node, in which all agree."""
        for name in "abc":
            self.compared[network, name] = self.compared.get((network, name), 0) + of

    async def hear(
        self,
        minority: str = "b",
        *,
        network: str = "n",
        wrong: tuple[str, ...] = (),
        of: int = 1,
        params: str = "",
        disproved: bool = False,
    ) -> None:
        """A case, a second later, and after so many more comparisons of every node."""
        self.wall.advance(1)
        await self.compare(of, network)
        said = minority if disproved else "abc"
        answers = tuple(CaseAnswer(node=name, head=9, text="1", size=1) for name in said)
        case = Case(
            network=network, method="m", params=params or f"[{self.wall.now()}]", at=self.wall.now(), difference="d",
            answers=answers, minority=tuple(minority), wrong=wrong, disproved=disproved,
        )  # fmt: skip
        self.kept.hear(case)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    made = Office()
    yield made
    await made.kept.stop()


async def test_a_contradicted_answer_is_purged_under_all_its_keys(office: Office) -> None:
    await office.hear(wrong=("k1", "k2"))
    assert office.purged == ["k1", "k2"]


async def test_a_node_is_named_from_its_second_case_on(office: Office) -> None:
    await office.hear()
    assert not list(office.kept.suspects())
    await office.hear(of=10)
    ((network, node, said),) = office.kept.suspects()
    assert (office.kept.suspects_of("n"), office.told) == ({"b": ("m",)}, ["n"])
    assert (network, node) == ("n", "b")
    assert said == (
        "node n/b was contradicted by two others in 2 of 11 compared answers, last in one to m: "
        "look at the cases in the report on nodes"
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("d", "", "gave 1 false answer"),
        ("dd", "", "gave 2 false answers"),
        ("c", "d", "gave 1 false answer and was contradicted by two others in 1 of 9000 compared answers"),
    ],
)
async def test_one_false_answer_names_a_node_however_many_were_right(
    office: Office, before: str, after: str, said: str
) -> None:
    for kind in before + after:
        await office.hear(disproved=kind == "d", of=9000 if kind == "c" else 0)
    ((*_, told),) = office.kept.suspects()
    assert told == f"node n/b {said}, last in one to m: look at the cases in the report on nodes"
    assert (office.purged, office.kept.suspects_of("n")) == (["n m"], {"b": ("m",)})


async def test_what_is_kept_of_a_method_is_purged_once_when_a_node_is_named_for_it(office: Office) -> None:
    await office.hear()
    assert not office.purged
    await office.hear()
    await office.hear()
    assert office.purged == ["n m"]


async def test_two_wrong_answers_of_very_many_name_nobody(office: Office) -> None:
    await office.hear()
    await office.hear(of=5000)
    assert not list(office.kept.suspects())


async def test_a_case_that_nobody_could_decide_blames_nobody(office: Office) -> None:
    await office.hear("")
    await office.hear("")
    assert not list(office.kept.suspects())
    assert len(list(office.kept.cases)) == 2


async def test_a_node_is_judged_by_the_last_hour(office: Office) -> None:
    await office.hear(of=100_000)
    await office.hear()
    assert not list(office.kept.suspects())
    for _ in range(2 * int(JUDGED_SECONDS / READ_EVERY)):
        office.wall.advance(READ_EVERY)
        assert not list(office.kept.suspects())
    await office.hear()
    assert not list(office.kept.suspects())
    await office.hear(of=10)
    ((*_, said),) = office.kept.suspects()
    assert "in 2 of 11 compared answers" in said


async def test_suspicion_that_returns_has_everything_purged_again(office: Office) -> None:
    with capture_logs() as lines:
        await office.hear()
        await office.hear()
        assert office.purged == ["n m"]
        await office.compare(500)
        assert office.kept.suspects_of("n") != {}, "its last case is too near"
        office.wall.advance(STAYS_SECONDS)
        assert office.kept.suspects_of("n") == {}
    began, ended = (line["event"] for line in lines if "suspected" in line["event"])
    assert began.startswith("the node is suspected")
    assert ended == "the node is no longer suspected: cases against it known of the last hour, which chance explains: 2"
    for _ in range(4):
        await office.hear()
    assert office.purged == ["n m"] * 2


async def test_many_cases_about_one_call_name_nobody(office: Office) -> None:
    for _ in range(5):
        await office.hear(params="[1]")
    assert not list(office.kept.suspects())


async def test_a_long_range_is_purged_by_its_method(office: Office) -> None:
    await office.hear(wrong=tuple("abcde"))
    assert office.purged == ["n m"]


async def test_of_a_suspect_no_single_answers_are_purged_since_none_is_kept(office: Office) -> None:
    await office.hear("a")
    await office.hear("a")
    await office.hear("a", wrong=("k",))
    assert office.purged == ["n m"]


async def test_only_the_newest_cases_of_a_network_that_is_served_are_kept() -> None:
    office = Office(agreement={"keep": 2})
    for _ in range(3):
        await office.hear()
    await office.hear(network="gone")
    assert len(list(office.kept.cases)) == 2


async def test_a_suspect_is_drained_where_the_operator_wants_that_and_gets_a_new_trial() -> None:
    office = Office(on_disagreement="drain")
    await office.hear()
    assert not office.drained
    await office.hear()
    assert office.drained == [("n", "b")]
    await office.hear()  # it was taken back
    assert office.drained == [("n", "b")]
    await office.hear()
    assert office.drained == [("n", "b")] * 2


async def test_a_suspect_that_is_the_last_node_stays_suspected() -> None:
    office = Office(on_disagreement="drain")
    office.last = True
    await office.hear()
    await office.hear()
    assert office.kept.suspects_of("n") == {"b": ("m",)}


async def test_what_fails_keeps_nothing_else_from_being_done(office: Office) -> None:
    async def fails(_selection: dict[str, str]) -> None:
        raise OSError("a tier is gone")

    failing = Disagreements(lambda: office.settings, dict, fails, office.drain, office.told.append, wall=lambda: 1e9)
    answers = tuple(CaseAnswer(node=name, head=9, text="1", size=1) for name in "ab")
    failing.hear(Case(network="n", method="m", params="[]", at=1e9, difference="d", answers=answers, wrong=("k",)))
    await asyncio.sleep(0)
    await failing.stop()
    assert len(list(failing.cases)) == 1
