"""Keys: readable, bounded, and purgeable by network and method."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.cache.entry import Selection
from rpcaccel.core.plan import cache_key

TAG = cache_key.network_tag("harmony-s0", 1666600000)


def test_a_key_can_be_read() -> None:
    assert (
        cache_key.cache_key(TAG, "eth_call", cache_key.SCOPE_NUMBER, b"[1]") == b"harmony-s0@1666600000:eth_call:n:[1]"
    )
    assert cache_key.cache_key(TAG, "m", cache_key.scope_head(7, 1), b"[]").split(b":")[2] == b"h7.1"


def test_a_chain_begun_anew_under_the_same_ids_has_other_keys() -> None:
    tags = [cache_key.network_tag("net", 1, genesis) for genesis in ("", "0x" + "ab" * 32, "0x" + "cd" * 32)]
    assert tags == [b"net@1", b"net@1.abababababab", b"net@1.cdcdcdcdcdcd"]
    for tag in tags:
        assert Selection(network="net", method="m").matches(cache_key.cache_key(tag, "m", b"n", b"[]"))


def test_a_chain_begun_anew_with_the_same_block_0_has_other_keys() -> None:
    zero, one = "0x" + "ab" * 32, "0x" + "ef" * 32
    tags = [cache_key.network_tag("net", 1, zero, one), cache_key.network_tag("net", 1, "", one)]
    assert tags == [b"net@1.abababababab.efefefef", b"net@1..efefefef"]
    for tag in tags:
        assert Selection(network="net", method="m").matches(cache_key.cache_key(tag, "m", b"n", b"[]"))


@given(st.binary(max_size=1000), st.sampled_from(["eth_a", "eth_ab"]))
def test_keys_are_bounded_and_purged_by_their_network_and_method(params: bytes, method: str) -> None:
    key = cache_key.cache_key(TAG, method, cache_key.scope_head(3, 1), params)
    assert len(key) < 300
    assert Selection(network="harmony-s0", method=method).matches(key)
    other = "eth_a" if method == "eth_ab" else "eth_ab"
    assert not Selection(method=other).matches(key)
    assert not Selection(network="harmony-s").matches(key)


def test_the_scopes_of_one_call_are_different_keys() -> None:
    scopes = [cache_key.SCOPE_STATIC, cache_key.SCOPE_HASH, cache_key.SCOPE_NUMBER, cache_key.SCOPE_SEND]
    scopes += [
        cache_key.scope_head(1, 0),
        cache_key.scope_head(1, 1),
        cache_key.scope_head(10, 0),
    ]
    assert len({cache_key.cache_key(TAG, "m", scope, b"[]") for scope in scopes}) == len(scopes)
