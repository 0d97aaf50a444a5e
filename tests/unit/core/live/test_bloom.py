from __future__ import annotations

import pytest

from rpcaccel.core.live.log_filter import EVERYTHING, LogFilter, may_match

ADDRESS = "0x095e7baea6a6c7c4c2dfeb977efac326af552d87"
TOPIC = "0x" + "0" * 64
OTHER = "0x" + "1" * 64
BITS = (222, 698, 1980, 269, 1163, 1241)
"""The bits of ADDRESS and of TOPIC, as go-ethereum numbers them."""
BLOOM = f"0x{sum(1 << bit for bit in BITS):0512x}"


def header(bloom: str) -> bytes:
    return b'{"number":"0x1","logsBloom":"%b"}' % bloom.encode()


@pytest.mark.parametrize(
    ("wanted", "may"),
    [
        (EVERYTHING, True),
        (LogFilter.of([ADDRESS]), True),
        (LogFilter.of([OTHER[:42], ADDRESS]), True),
        (LogFilter.of([OTHER[:42]]), False),
        (LogFilter.of([], [[TOPIC]]), True),
        (LogFilter.of([], [[OTHER, TOPIC]]), True),
        (LogFilter.of([], [[OTHER]]), False),
        (LogFilter.of([ADDRESS], [[], [OTHER]]), False),
        (LogFilter.of([ADDRESS], [[], []]), True),
    ],
)
def test_a_block_may_have_the_logs_whose_words_are_in_its_bloom(wanted: LogFilter, may: bool) -> None:
    assert may_match(header(BLOOM), wanted) is may


@pytest.mark.parametrize(
    "said",
    [
        b"{}",
        b"null",
        b"no JSON",
        b'{"logsBloom":null}',
        header("0x" + "0" * 512),
        header("0x" + "f" * 512),
        header("0x01"),
        header("0x" + "x" * 512),
    ],
)
def test_a_header_without_a_bloom_says_nothing(said: bytes) -> None:
    assert not may_match(said, EVERYTHING)
