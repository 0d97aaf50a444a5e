"""The view as a value."""

from __future__ import annotations

from rpcaccel.core.view import View


def test_a_chain_is_known_once_its_id_is() -> None:
    assert not View(head=5).known
    assert View(eth_chain_id=0).known
