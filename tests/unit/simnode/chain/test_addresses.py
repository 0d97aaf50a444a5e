from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.simnode.chain.addresses import parse, to_hex, to_one

ONE = "one155jp2y76nazx8uw5sa94fr0m4s5aj8e5xm6fu3"
HEX = "0xA5241513DA9F4463F1d4874b548dFBAC29D91f34"


def test_both_spellings_name_one_account() -> None:
    assert parse(ONE) == parse(HEX)
    assert to_one(parse(HEX)) == ONE
    assert to_hex(parse(ONE)) == HEX.lower()


@given(st.binary(min_size=20, max_size=20))
def test_an_address_survives_both_spellings(address: bytes) -> None:
    assert parse(to_one(address)) == parse(to_hex(address)) == address


@pytest.mark.parametrize("text", ["zzz", "", "0x12", ONE[:-1] + "4", ONE.replace("one1", "two1"), ONE[:-1] + "b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller words it
        parse(text)
