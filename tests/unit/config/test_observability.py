import pytest
from pydantic import ValidationError

from rpcaccel.config.sections import ErrorsSettings, LogSettings, TracingSettings


def test_nobody_is_told_anything_unless_it_is_asked_for() -> None:
    assert (LogSettings().access, LogSettings().slow) == (False, 0.0)
    assert TracingSettings().endpoint == ""


@pytest.mark.parametrize("wrong", [{"endpoint": "nonsense"}, {"sample": 1.5}, {"sample": -1}, {"service": ""}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TracingSettings.model_validate(wrong)


@pytest.mark.parametrize("wrong", [{"warn": 0}, {"bad": 1.1}, {"params": "maybe"}, {"warn": 0.3}, {"bad": 0.01}])
def test_shares_of_failed_calls_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ErrorsSettings.model_validate(wrong)
    assert ErrorsSettings(warn=0.2, bad=0.2).params
