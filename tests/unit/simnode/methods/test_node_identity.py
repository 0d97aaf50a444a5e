from __future__ import annotations

from random import Random

from rpcaccel.simnode.chain.knobs import Knobs
from rpcaccel.simnode.methods.node_identity import Local
from tests.support.manual_clock import ManualClock


def test_no_two_nodes_share_an_identity_or_a_filter_id() -> None:
    one, other = (Local(name, Knobs(), ManualClock(), Random(name)) for name in "ab")
    assert one.peer_id != other.peer_id
    assert len({one.token(), one.token(), other.token()}) == 3
    assert repr(one) == f"<Local a {one.peer_id[:8]}>"
