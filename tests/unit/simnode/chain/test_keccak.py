from __future__ import annotations

import pytest

from rpcaccel.simnode.chain.keccak import keccak256


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        (b"Transfer(address,address,uint256)", "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
    ],
)
def test_known_digests_come_out(data: bytes, digest: str) -> None:
    assert keccak256(data).hex() == digest


def test_every_length_around_a_block_of_the_sponge_has_its_own_digest() -> None:
    assert len({keccak256(b"x" * length) for length in (134, 135, 136, 137, 271, 272, 273)}) == 7
