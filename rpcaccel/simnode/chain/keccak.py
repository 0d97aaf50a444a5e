"""Keccak-256 in plain Python: enough for the few hashes a simulated chain needs of real transactions.

Source: the Keccak reference, with Ethereum's original padding (0x01), not that of SHA3-256 (0x06).
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_RATE = 136
"""Bytes taken in by one permutation."""


def _round_constants() -> tuple[int, ...]:
    constants = []
    register = 1
    for _ in range(24):
        constant = 0
        for j in range(7):
            if register & 1:
                constant |= 1 << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


def _offsets() -> tuple[tuple[int, int, int], ...]:
    """(from lane, to lane, rotation) of rho and pi together; lane = x + 5 y."""
    moves = [(0, 0, 0)]
    x, y = 1, 0
    for t in range(24):
        rotation = (t + 1) * (t + 2) // 2 % 64
        new_x, new_y = y, (2 * x + 3 * y) % 5
        moves.append((x + 5 * y, new_x + 5 * new_y, rotation))
        x, y = new_x, new_y
    return tuple(moves)


_CONSTANTS = _round_constants()
_MOVES = _offsets()


def _permute(lanes: list[int]) -> list[int]:
    for constant in _CONSTANTS:
        column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        mix = [column[(x + 4) % 5] ^ ((column[(x + 1) % 5] << 1 | column[(x + 1) % 5] >> 63) & _MASK) for x in range(5)]
        moved = [0] * 25
        for source, target, rotation in _MOVES:
            lane = lanes[source] ^ mix[source % 5]
            moved[target] = (lane << rotation | lane >> (64 - rotation)) & _MASK
        lanes = [
            moved[i] ^ (~moved[i - i % 5 + (i + 1) % 5] & moved[i - i % 5 + (i + 2) % 5] & _MASK) for i in range(25)
        ]
        lanes[0] ^= constant
    return lanes


def keccak256(data: bytes) -> bytes:
    """The 32-byte Keccak-256 digest of `data`, as Ethereum and Harmony name transactions and addresses."""
    padded = bytearray(data)
    padded.append(0x01)
    padded.extend(b"\0" * (-len(padded) % _RATE))
    padded[-1] |= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE):
        for i in range(_RATE // 8):
            at = start + 8 * i
            lanes[i] ^= int.from_bytes(padded[at : at + 8], "little")
        lanes = _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])
