"""Reads the members of answers, and writes them as they are hashed.

Answers are untrusted: what is read in any of these functions takes time in proportion to its length, and raises nothing
but NotProvable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from rpcaccel.core.hashing import bech32
from rpcaccel.core.hashing.rlp import number, sequence, string

Json: TypeAlias = Mapping[str, Any]
"""An object of JSON: a dict."""
Writer: TypeAlias = Callable[[Any, str], bytes]
"""Writes a value in RLP; the other argument is the name of the member, for errors."""
_MAX_NUMBER = len("0x") + 64
"""Characters of a number of 32 bytes."""
_SLICE = 1 << 18
"""Digits of data that are read in one step, of less than half a millisecond, so that other threads are not held up."""


class NotProvable(Exception):
    """An answer lacks what its hash is made of, or has it in an unknown form. The text says what."""


class OtherForm(NotProvable):
    """The chain is known to hash what an answer shows in another way. The text says what."""


class Disproved(Exception):
    """An answer contradicts the hash that it is proved by. The text says where."""


@contextmanager
def said_of(what: str) -> Iterator[None]:
    """Put `what` before the text of a NotProvable or Disproved that is raised within."""
    try:
        yield
    except (NotProvable, Disproved) as error:
        raise type(error)(f"{what}: {error}") from None


def whole(value: Any, name: str) -> int:
    """A number as answers write it: hex digits behind 0x, or a bare integer, as Harmony's second version does. Numbers
    of 32 bytes are the longest that the EVM has."""
    if isinstance(value, str):
        # The checks of letters keep out the signs, underscores, spaces and foreign digits that int() reads.
        if value[:2] == "0x" and len(value) <= _MAX_NUMBER and value.isalnum() and value.isascii():
            try:
                return int(value, 16)
            except ValueError:
                pass
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 256:
        return value
    raise NotProvable(f"{name} is no number")


def data(value: Any, name: str, size: int | None = None) -> bytes:
    """Bytes as answers write them, `size` of them if that is given."""
    if isinstance(value, str) and value[:2] == "0x":
        try:
            found = bytes.fromhex(value[2:]) if len(value) <= _SLICE else _long_data(value)
        except ValueError:
            found = b""
        # The length keeps out the spaces that fromhex() reads.
        if 2 + 2 * len(found) == len(value) and size in (None, len(found)):
            return found
    raise NotProvable(f"{name} is not {size if size is not None else 'a number of'} bytes in hex")


def _long_data(value: str) -> bytes:
    return b"".join([bytes.fromhex(value[at : at + _SLICE]) for at in range(2, len(value), _SLICE)])


def data32(value: Any, name: str) -> bytes:
    """The 32 bytes of a hash or a topic."""
    return data(value, name, 32)


def address(value: Any, name: str) -> bytes:
    """The 20 bytes of an address, in hex or as Harmony's own methods spell it."""
    if isinstance(value, str) and value.startswith(bech32.ADDRESS_PREFIX):
        try:
            return bech32.read(value)
        except ValueError:
            raise NotProvable(f"{name} is no address") from None
    return data(value, name, 20)


def items(value: Any, name: str) -> list[Any]:
    """An array."""
    if not isinstance(value, list):
        raise NotProvable(f"{name} is no array")
    return value


def member(of: Any, name: str) -> Any:
    """A member of an object."""
    if not isinstance(of, dict) or name not in of:
        raise NotProvable(f"{name} is missing")
    return of[name]


def write_number(value: Any, name: str) -> bytes:
    """The Writer of numbers."""
    return number(whole(value, name))


def _data(value: Any, name: str) -> bytes:
    return string(data(value, name))


def write_address(value: Any, name: str) -> bytes:
    """The Writer of an address, or null for none."""
    return b"\x80" if value is None else string(address(value, name))


def _header_nonce(value: Any, name: str) -> bytes:
    """Eight bytes, which some versions of nethermind write as a number."""
    try:
        return string(whole(value, name).to_bytes(8, "big"))
    except OverflowError:
        raise NotProvable(f"{name} is longer than 8 bytes") from None


def _flag(value: Any, name: str) -> bytes:
    if not isinstance(value, bool):
        raise NotProvable(f"{name} is neither true nor false")
    return b"\x01" if value else b"\x80"


def _hashes(value: Any, name: str) -> bytes:
    return sequence([string(data32(one, name)) for one in items(value, name)])


def _access_list(value: Any, name: str) -> bytes:
    """EIP-2930: addresses, each with keys of its storage."""
    return sequence(
        [
            sequence((string(data(member(one, "address"), name, 20)), _hashes(member(one, "storageKeys"), name)))
            for one in items(value, name)
        ]
    )


_PERMISSION = ("chainId", "address", "nonce", "yParity", "r", "s")


def _authorizations(value: Any, name: str) -> bytes:
    """EIP-7702: signed permissions."""
    return sequence([sequence(encoded(one, _PERMISSION)) for one in items(value, name)])


_NUMBERS = """blobGasUsed baseFeePerGas blockGasCost chainId difficulty excessBlobGas epoch extDataGasUsed gas gasLimit
    gasPrice gasUsed maxFeePerBlobGas maxFeePerGas maxPriorityFeePerGas mint nonce number r s shardID slotNumber
    timestamp toShardID v value viewID yParity"""
TRANSACTION_WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys(_NUMBERS.split(), write_number),
    "to": write_address,
    "isSystemTx": _flag,
    "blobVersionedHashes": _hashes,
    "accessList": _access_list,
    "authorizationList": _authorizations,
}
"""How the members of transactions are written that are not plain bytes."""
HEADER_WRITERS: Mapping[str, Writer] = {**TRANSACTION_WRITERS, "nonce": _header_nonce}
"""The same of headers."""


def encoded(of: Any, names: Iterable[str], writers: Mapping[str, Writer] = TRANSACTION_WRITERS) -> list[bytes]:
    """These members of an object, each in RLP; those without a writer are bytes.

    Raises:
        NotProvable: a member is missing, or its value is none of its kind.
    """
    if not isinstance(of, dict):
        raise NotProvable("an object is missing")
    try:
        return [writers.get(name, _data)(of[name], name) for name in names]
    except KeyError as error:
        raise NotProvable(f"{error.args[0]} is missing") from None
