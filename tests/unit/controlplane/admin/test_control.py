"""The port is what the supervisor and the tests' stand-in implement; mypy compares the shapes, this the names."""

from __future__ import annotations

from rpcaccel.config.model import Settings
from rpcaccel.controlplane.admin.handling import Control
from rpcaccel.controlplane.supervisor import Supervisor
from tests.support.sample_control import SampleControl, sample_settings


def as_control(control: Control) -> Control:
    return control


def test_the_supervisor_and_the_sample_are_controls() -> None:
    settings: Settings = sample_settings()
    for control in (as_control(Supervisor(settings)), as_control(SampleControl(settings))):
        assert control.ledger.settings == settings
        assert control.replaced == 0
        assert control.shared() is None
        assert isinstance(control.events.run, str)
        assert list(control.workers()) is not None
