"""Blocks as Harmony's are, without transactions: of 1.6 kB, and the same for a number every time.

What differs from block to block in a chain differs here (hashes, proofs, times), and what is the same there is the same
here, so that the blocks compress as those of a chain do.
"""

from __future__ import annotations

from hashlib import shake_128

from rpcaccel.core.cache.entry import Entry
from rpcaccel.core.plan.rules import CacheClass

METHOD = "eth_getBlockByNumber"
NETWORK = "harmony-s0"
_EMPTY = b"56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
_BLOOM = b"0" * 512
_MINERS = [shake_128(b"miner %d" % number).hexdigest(20).encode() for number in range(40)]
_BLOCK = (
    b'{"number":"0x%x","hash":"0x%b","parentHash":"0x%b","nonce":"0x' + b"0" * 16 + b'","mixHash":"0x' + b"0" * 64 +
    b'","sha3Uncles":"0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347","logsBloom":"0x' + _BLOOM +
    b'","stateRoot":"0x%b","miner":"0x%b","difficulty":"0x0","extraData":"0x","size":"0x%x","gasLimit":"0x4a615ae",'
    b'"gasUsed":"0x0","vrf":"0x%b","vrfProof":"0x%b","timestamp":"0x%x","transactionsRoot":"0x' + _EMPTY +
    b'","receiptsRoot":"0x' + _EMPTY + b'","uncles":[],"transactions":[]}'
)  # fmt: skip


def _hash(number: int) -> bytes:
    return shake_128(b"hash %d" % number).hexdigest(32).encode()


def block(number: int) -> bytes:
    """The block with this number."""
    chance = shake_128(b"%d" % number)
    text = chance.hexdigest(164).encode()
    miner, size = _MINERS[int(text[320:322], 16) % len(_MINERS)], 700 + int(text[322:324], 16) % 200
    times = 0x5D136180 + 2 * number
    hashes = _hash(number), _hash(number - 1), text[:64]
    return _BLOCK % (number, *hashes, miner, size, text[64:128], text[128:320], times)


def params(number: int) -> bytes:
    """The params of a call for the block."""
    return b'["0x%x",false]' % number


def key(number: int) -> bytes:
    """The cache key of the block."""
    return b"%b@1666600000.0123456789ab:%b:n:%b" % (NETWORK.encode(), METHOD.encode(), params(number))


def entry(number: int, now: float) -> Entry:
    """The block as an answer that never expires; `now` is in monotonic seconds."""
    result = block(number)
    return Entry(result=result, cache=CacheClass.BY_NUMBER, block=number, network=NETWORK, method=METHOD, stored_at=now)
