"""A bloom never excludes what is there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpcaccel.core.hashing.bloom import bloom_bits, bloom_of
from rpcaccel.core.hashing.bloom import excludes as excludes_masks

VALUES = st.lists(st.binary(min_size=20, max_size=32), min_size=1, max_size=8)


def excludes(bloom: bytes, wanted: list[list[bytes]]) -> bool:
    return excludes_masks(bloom, [[bloom_bits(value) for value in part] for part in wanted])


@given(VALUES, st.data())
def test_what_is_there_is_never_excluded(values: list[bytes], data: st.DataObject) -> None:
    found = data.draw(st.sampled_from(values))
    assert not excludes(bloom_of(values), [[found], [], [b"other", found]])


def test_what_is_not_there_is_excluded_unless_one_of_its_alternatives_may_be() -> None:
    bloom = bloom_of([b"a" * 20])
    assert excludes(bloom, [[b"b" * 20]])
    assert excludes(bloom, [[b"a" * 20], [b"b" * 32]])
    assert not excludes(bloom, [[b"b" * 20, b"a" * 20]])
    assert excludes(bytes(256), [[b"a" * 20]])
    assert not excludes(bytes(256), [[], []])
