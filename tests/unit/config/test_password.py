"""Password hashes: right ones admit, wrong ones do not, and nothing is shown."""

from __future__ import annotations

import pytest

from rpcaccel.config.secrets import PasswordHash, hash_password, unmatched


def test_a_hash_admits_its_password_and_no_other() -> None:
    made = hash_password("correct horse", log_n=4)
    assert made.admits("correct horse")
    assert not made.admits("correct horse ")
    assert not made.admits("")
    assert hash_password("correct horse", log_n=4) != made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "scrypt:15:8:1:short:short",
        f"scrypt:30:8:1:{'a' * 22}:{'b' * 43}",
        f"scrypt:20:99:1:{'a' * 22}:{'b' * 43}",
        f"scrypt:15:8:0:{'a' * 22}:{'b' * 43}",
        f"md5:15:8:1:{'a' * 22}:{'b' * 43}",
    ],
)
def test_what_is_no_hash_or_too_dear_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="rpcaccel passwd"):
        PasswordHash(text)


def test_a_hash_of_an_odd_length_admits_nobody() -> None:
    assert not PasswordHash(f"scrypt:4:8:1:{'a' * 17}:{'b' * 45}").admits("x")


def test_a_hash_of_no_password_takes_as_long_as_others_and_admits_nothing() -> None:
    """The work that a comparison is depends on the first four parts alone."""
    assert unmatched().reveal().split(":")[:4] == hash_password("x").reveal().split(":")[:4]
    assert unmatched() != unmatched()
    assert not unmatched().admits("")
