"""The names of entries: short, distinct, and in the order of blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.plan import cache_key
from rpcaccel.stores.disk.entry_names import ID_BYTES, LONGEST, name_of, names_under, number_in, prefix_of
from tests.support.stores.disk import block_key

TAG = cache_key.network_tag("net", 1)
params = st.one_of(
    st.binary(max_size=cache_key.LONGEST_PARAMS),
    st.binary(max_size=LONGEST).map(lambda text: b"[" + text + b"]"),
    st.sampled_from([b"", b"[", b"]", b"[]", b"[[]]", b"[\xff]", b"[\xff" + b"x" * 20 + b"]"]),
)


def test_the_prefix_of_a_key_ends_with_its_scope() -> None:
    key = cache_key.cache_key(TAG, "eth_call", cache_key.SCOPE_NUMBER, b'[{"to":"0x1:2"},"0x1"]')
    assert prefix_of(key) == b"net@1:eth_call:n:"


def test_a_key_of_another_form_has_what_it_has_of_a_prefix() -> None:
    assert prefix_of(b"s0:call:1") == b"s0:call:"
    assert prefix_of(b"key") == b""


@given(params, params, st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_names_are_distinct_for_distinct_calls(one: bytes, other: bytes, first: int, second: int) -> None:
    assert (name_of(first, one) == name_of(second, other)) == ((first, one) == (second, other))


@given(params, st.integers(0, 2**24 - 2))
def test_a_name_tells_the_number_of_its_prefix_and_stands_within_its_bounds(text: bytes, number: int) -> None:
    name = name_of(number, text)
    first, end = names_under(number)
    assert number_in(name) == number
    assert first <= name < end


def test_neighbouring_blocks_are_neighbours() -> None:
    prefix = prefix_of(block_key(1))
    names = [name_of(1, block_key(number)[len(prefix) :]) for number in range(0x1000000, 0x1000400)]
    assert names == sorted(names)


@given(st.binary(min_size=25, max_size=200))
def test_long_params_take_no_more_than_a_digest(text: bytes) -> None:
    assert len(name_of(1, text)) == ID_BYTES + 21
