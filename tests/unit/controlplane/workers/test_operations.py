import pytest

from rpcaccel.controlplane.workers.operations import OperationRefused, read


def test_a_refusal_says_the_same_to_programs_and_to_people() -> None:
    refusal = OperationRefused(404, "not-found", "no network is called x")
    assert (refusal.status, refusal.code, str(refusal)) == (404, "not-found", refusal.detail)


@pytest.mark.parametrize("body", [b"", b"1", b'{"x": 1}', b'{"x": "\xff"}', b'{"x": ' + b"[" * 100_000])
def test_a_body_that_is_none_is_refused_whatever_it_is(body: bytes) -> None:
    assert read(b'{"x": "y"}', dict[str, str]) == {"x": "y"}
    with pytest.raises(OperationRefused) as refused:
        read(body, dict[str, str])
    assert (refused.value.status, refused.value.code) == (400, "not-json")
