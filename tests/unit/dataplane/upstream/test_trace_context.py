from rpcaccel.dataplane.upstream.trace_context import CURRENT, FORWARDED


def test_nothing_is_traced_and_no_node_told_unless_somebody_says_so() -> None:
    assert CURRENT.get() is None
    assert FORWARDED.get() == ""
