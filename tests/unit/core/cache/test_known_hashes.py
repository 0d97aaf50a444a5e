"""What results named is known to be there."""

from __future__ import annotations

import pytest

from rpcaccel.core.cache.known_hashes import MAX_HASHES, KnownHashes

ONE, TWO = b"0x" + b"Ab" * 32, b"0x" + b"2" * 64


def test_what_a_result_names_is_known_by_any_spelling() -> None:
    known = KnownHashes()
    known.note(b'{"number":"0x1","hash":"%b","parentHash":"%b"}' % (ONE, TWO))
    assert known.named_in(b'["%b",false]' % ONE.lower())
    assert known.named_in(b'[{"blockHash": "%b"}]' % ONE.upper().replace(b"0X", b"0x"))
    assert not known.named_in(b'["%b"]' % TWO), "the parent was not seen itself"
    assert not known.named_in(b'["%b"]' % (ONE + b"00")), "that is another word"
    assert not known.named_in(b"[]")


def test_as_many_hashes_as_there_is_room_for_are_kept() -> None:
    known = KnownHashes()
    for number in range(MAX_HASHES + 10):
        known.note(b'[{"transactionHash":"0x%064x"}]' % number)
    assert repr(known) == f"<{MAX_HASHES} known hashes>"
    assert not known.named_in(b'["0x%064x"]' % 9)
    assert known.named_in(b'["0x%064x"]' % 10)


@pytest.mark.parametrize("block", [b"null", b" null", b'"0x"', b'"0x' + b"0" * 64 + b'"'])
def test_a_transaction_that_is_in_no_block_yet_is_not_known(block: bytes) -> None:
    hashes = KnownHashes()
    hashes.note(b'{"blockHash":%b,"hash":"0x%064x"}' % (block, 7))
    assert not hashes.named_in(b'["0x%064x"]' % 7)
