import pytest

from rpcaccel.core.wire.traceparent import TraceParent, read

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_what_was_written_is_read() -> None:
    given = TraceParent(int(TRACE, 16), int(SPAN, 16))
    assert str(given) == f"00-{TRACE}-{SPAN}-01"
    assert read(str(given)) == given
    assert read(f"00-{TRACE}-{SPAN}-00") == TraceParent(given.trace, given.span, sampled=False)
    assert str(TraceParent(1, 2, sampled=False)) == f"00-{1:032x}-{2:016x}-00"


def test_of_a_version_to_come_the_part_that_is_known_is_read() -> None:
    assert read(f"01-{TRACE}-{SPAN}-03-more") == TraceParent(int(TRACE, 16), int(SPAN, 16))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n",
    ],
)
def test_what_is_no_traceparent_is_none(text: str) -> None:
    assert read(text) is None
