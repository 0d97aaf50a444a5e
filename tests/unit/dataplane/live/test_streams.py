"""Whatever happens, every subscriber is sent what a perfect observer of the served branch would have sent.

What can happen stands in `tests/support/dataplane/live_machine.py`, what must hold in `live_observer.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.dataplane.live_machine import FinalStreams, Streams
from tests.support.properties import examples


@pytest.mark.hypothesis
@pytest.mark.parametrize("machine", [Streams, FinalStreams])
def test_every_stream_is_that_of_a_perfect_observer(machine: type[Streams]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=examples(100), stateful_step_count=40))
