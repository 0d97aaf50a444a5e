from __future__ import annotations

import pytest

from rpcaccel.core.dispatch.commands import CancelAttempt, SetTimer, Settle, StartAttempt
from rpcaccel.core.nodes.node import Node


@pytest.mark.parametrize(
    "command", [StartAttempt(1, Node("a"), 2.0), CancelAttempt(1), SetTimer(1.0), Settle(None, None, None)]
)
def test_a_command_cannot_be_changed_once_given(command: object) -> None:
    with pytest.raises(AttributeError):
        setattr(command, command.__struct_fields__[0], 9)  # type: ignore[attr-defined]
