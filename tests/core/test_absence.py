from __future__ import annotations

from rpcaccel.core.absence import Absence


def test_an_absence_counts_from_the_first_call_that_noticed_it() -> None:
    absence = Absence()
    assert [absence.noticed(now, 10.0) for now in (1.0, 5.0, 14.0)] == [1.0, 1.0, 1.0]
    assert repr(absence) == "<absent since 1.0>"


def test_an_absence_ends_with_an_answer() -> None:
    absence = Absence()
    absence.noticed(1.0, 10.0)
    absence.ended()
    assert repr(absence) == "<no absence>"
    assert absence.noticed(5.0, 10.0) == 5.0


def test_what_nobody_noticed_for_long_was_another_absence() -> None:
    absence = Absence()
    absence.noticed(1.0, 10.0)
    assert absence.noticed(12.0, 10.0) == 12.0
