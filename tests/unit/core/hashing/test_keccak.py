from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.hashing.keccak import keccak256, transaction_hash


def params(raw: bytes) -> bytes:
    return b'["0x%b"]' % raw.hex().encode()


def test_a_transaction_of_the_chain_has_the_hash_the_chain_gave_it() -> None:
    # Block 46147 of Ethereum: the first transaction ever, as archived.
    raw = (
        "f86780862d79883d2000825208945df9b87991262f6ba471f09758cde1c0fc1de734827a69801ca088ff6cf0fefd94db46111149ae4bfc17"
        "9e9b94721fffd821d38d16464b3f71d0a045e0aff800961cfce805daef7016b9b675c137a6a41a548f7b60a3484c06a33a"
    )
    wanted = b'"0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"'
    assert transaction_hash(params(bytes.fromhex(raw))) == wanted


@given(st.sampled_from([b"\x01", b"\x02", b"\x04", b"\xc0", b"\xf8"]), st.binary(max_size=300))
def test_the_hash_is_the_keccak_of_the_bytes_as_sent(start: bytes, rest: bytes) -> None:
    assert transaction_hash(params(start + rest)) == b'"0x%b"' % keccak256(start + rest).hex().encode()


@pytest.mark.parametrize("start", [b"\x03", b"\x05", b"\x7f", b"\x80", b""])
def test_what_is_not_hashed_as_it_is_sent_is_left_to_the_node(start: bytes) -> None:
    assert transaction_hash(params(start)) is None


@given(st.binary(max_size=40))
def test_no_params_make_it_raise(text: bytes) -> None:
    transaction_hash(text)


@pytest.mark.parametrize("text", [b"[]", b"[1]", b"[null]", b'["0xzz"]', b'["f8"]', b'{"a":1}', b"[[]]", b'["0xf"]'])
def test_what_is_no_raw_transaction_has_no_hash(text: bytes) -> None:
    assert transaction_hash(text) is None


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"Transfer(address,address,uint256)", "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
    ],
)
def test_digests_are_those_of_keccak_and_not_of_sha3(data: bytes, digest: str) -> None:
    assert keccak256(data).hex() == digest
