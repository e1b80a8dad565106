"""Damage to the bytes of a file, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Damage = Callable[[np.random.Generator, bytes], bytes]


def cut(rng: np.random.Generator, raw: bytes) -> bytes:
    """Cut the end off."""
    return raw[: int(rng.integers(len(raw)))]


def flip_bits(rng: np.random.Generator, raw: bytes) -> bytes:
    """Flip some single bits."""
    content = bytearray(raw)
    for at in rng.integers(len(raw), size=int(rng.integers(1, 30))):
        content[at] ^= 1 << int(rng.integers(8))
    return bytes(content)


def zero_page(rng: np.random.Generator, raw: bytes) -> bytes:
    """Fill a page with zeros, as a disk does that lost it."""
    pages = max(len(raw) // 4096, 1)
    begin = 4096 * int(rng.integers(pages))
    size = len(raw[begin : begin + 4096])
    return raw[:begin] + bytes(size) + raw[begin + size :]


def remove(rng: np.random.Generator, raw: bytes) -> bytes:
    """Take a stretch out."""
    begin = int(rng.integers(len(raw)))
    return raw[:begin] + raw[begin + int(rng.integers(1, 2000)) :]


def huge_number(rng: np.random.Generator, raw: bytes) -> bytes:
    """Overwrite eight bytes with a huge number, as a length or an offset may be one."""
    at = int(rng.integers(max(len(raw) - 8, 1)))
    number = (2**63 - 1, 2**62, 2**40, 2**31, 2**64 - 1)[int(rng.integers(5))]
    return raw[:at] + number.to_bytes(8, "little") + raw[at + 8 :]


def noise(rng: np.random.Generator, raw: bytes) -> bytes:
    """Replace everything but the first bytes with random ones."""
    keep = int(rng.integers(64))
    return raw[:keep] + rng.bytes(int(rng.integers(1, len(raw) + 1)))


DAMAGES: tuple[Damage, ...] = (cut, flip_bits, zero_page, remove, huge_number, noise)


def any_damage(rng: np.random.Generator, raw: bytes) -> bytes:
    """Return damaged bytes."""
    return DAMAGES[int(rng.integers(len(DAMAGES)))](rng, raw)
