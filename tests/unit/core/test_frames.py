"""Frames: messages survive any way of cutting the stream, and a fault is an error, not a wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core import messages
from rpcaccel.core.messages import Hint

HINTS = st.lists(st.builds(Hint, st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**62)), max_size=5)


@given(HINTS, st.lists(st.integers(1, 40), max_size=30))
def test_messages_arrive_whole_and_in_order_however_the_stream_is_cut(hints: list[Hint], cuts: list[int]) -> None:
    stream = b"".join(messages.encode(hint) for hint in hints)
    reader = messages.FrameReader(Hint)
    heard = []
    for cut in cuts:
        heard += reader.feed(stream[:cut])
        stream = stream[cut:]
    heard += reader.feed(stream)
    assert heard == hints


def test_a_frame_of_absurd_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="bytes"):
        messages.FrameReader(Hint).feed(b"\xff\xff\xff\xff")


def test_a_frame_that_is_no_message_is_an_error() -> None:
    with pytest.raises(ValueError, match="Expected"):
        messages.FrameReader(Hint).feed(messages.encode([1, 2]))
