from rpcaccel.dataplane.upstream.trace_context import CURRENT


def test_nothing_is_traced_unless_somebody_says_so() -> None:
    assert CURRENT.get() is None
