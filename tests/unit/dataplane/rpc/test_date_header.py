"""The Date header."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from rpcaccel.dataplane.rpc.response_headers import DateHeader


def test_it_is_that_of_the_second_and_says_when_the_next_one_begins() -> None:
    date = DateHeader(b"\r\n\r\n{")
    assert date.until < 0.0
    before = time.time()
    date.turn(1000.0)
    told = parsedate_to_datetime(date.text.removeprefix("\r\nDate: ")).timestamp()
    assert int(before) <= told <= time.time()
    assert 1000.0 < date.until <= 1001.0
    assert date.bytes == date.text.encode() + b"\r\n\r\n{"
