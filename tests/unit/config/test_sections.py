"""What holds for every part of the settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from rpcaccel.config.sections import LogSettings, Section


def test_a_part_is_frozen_takes_no_other_keys_and_tells_no_values() -> None:
    assert issubclass(LogSettings, Section)
    with pytest.raises(ValidationError):
        LogSettings().access = True
    with pytest.raises(ValidationError) as caught:
        LogSettings.model_validate({"level": "hunter2", "other": 1})
    assert "hunter2" not in str(caught.value)
