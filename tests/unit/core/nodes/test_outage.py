from __future__ import annotations

from rpcaccel.core.nodes.outage import Absence

GONE = ("a", "b")


def test_an_absence_counts_from_the_first_call_that_noticed_it() -> None:
    absence = Absence()
    assert [absence.noticed("m", now, 10.0, GONE) for now in (1.0, 5.0, 14.0)] == [1.0, 1.0, 1.0]
    assert repr(absence) == "<absent for 1 methods>"


def test_an_absence_ends_with_an_answer() -> None:
    absence = Absence()
    absence.noticed("m", 1.0, 10.0, GONE)
    absence.ended("m", "a")
    assert repr(absence) == "<no absence>"
    assert absence.noticed("m", 5.0, 10.0, GONE) == 5.0


def test_what_nobody_noticed_for_long_was_another_absence() -> None:
    absence = Absence()
    absence.noticed("m", 1.0, 10.0, GONE)
    assert absence.noticed("m", 12.0, 10.0, GONE) == 12.0


def test_the_absence_of_a_method_is_not_ended_by_the_answer_to_another() -> None:
    absence = Absence()
    absence.noticed("m", 1.0, 10.0, GONE)
    absence.ended("other", "a")
    absence.ended("m", "c")
    assert absence.noticed("m", 5.0, 10.0, GONE) == 1.0, "nor by one that was not gone"


def test_while_no_method_is_answered_the_first_absence_is_that_of_all() -> None:
    absence = Absence()
    absence.noticed("m", 1.0, 10.0, GONE)
    assert absence.noticed("other", 5.0, 10.0, GONE) == 1.0
    absence.ended("third", "a")
    assert absence.noticed("fourth", 6.0, 10.0, GONE) == 6.0
    assert absence.noticed("other", 7.0, 10.0, GONE) == 1.0


def test_a_node_that_was_not_gone_does_not_end_it() -> None:
    absence = Absence()
    absence.noticed("m", 1.0, 10.0, GONE)
    absence.ended("m", "c")
    assert absence.noticed("m", 5.0, 10.0, ("a",)) == 1.0
    absence.ended("m", "b")
    assert absence.noticed("m", 7.0, 10.0, GONE) == 7.0
