"""Damage to the bytes of a file, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

Damage = Callable[[np.random.Generator, bytes], bytes]


def write_damaged_text(
    rng: np.random.Generator, path: Path, text: str, draw: float, bounds: tuple[float, ...]
) -> bool:
    """Write a text file with damaged bytes or in UTF-16, or a link or folder in its place.

    Args:
        rng: source of the damage.
        path: file to write.
        text: undamaged content.
        draw: number from 0 to 1 that chooses the damage.
        bounds: increasing upper bounds of ``draw`` for damaged bytes, UTF-16, a link to /dev/zero
            and, if there are four, a folder.

    Returns:
        Whether ``draw`` lies below one of the bounds, so that something was written.
    """
    if draw < bounds[0]:
        path.write_bytes(any_damage(rng, text.encode())[1])
    elif draw < bounds[1]:
        path.write_bytes(text.encode("utf-16"))
    elif draw < bounds[2]:
        path.symlink_to("/dev/zero")
    elif draw < bounds[-1]:
        path.mkdir()
    return draw < bounds[-1]


def cut(rng: np.random.Generator, raw: bytes) -> bytes:
    """Cut the end off."""
    return raw[: int(rng.integers(len(raw)))]


def cut_little(rng: np.random.Generator, raw: bytes) -> bytes:
    """Cut a few bytes off the end."""
    return raw[: -int(rng.integers(1, 60))]


def flip_bits(rng: np.random.Generator, raw: bytes) -> bytes:
    """Flip some single bits."""
    content = bytearray(raw)
    for at in rng.integers(len(raw), size=int(rng.integers(1, 30))):
        content[at] ^= 1 << int(rng.integers(8))
    return bytes(content)


def flip_head(rng: np.random.Generator, raw: bytes) -> bytes:
    """Replace bytes among the first."""
    content = bytearray(raw)
    for at in rng.integers(min(len(raw), 200), size=int(rng.integers(1, 6))):
        content[at] = int(rng.integers(256))
    return bytes(content)


def flip_tail(rng: np.random.Generator, raw: bytes) -> bytes:
    """Replace bytes among the last, where indices are."""
    content = bytearray(raw)
    for at in rng.integers(1, min(len(raw), 800), size=int(rng.integers(1, 6))):
        content[-at] = int(rng.integers(256))
    return bytes(content)


def zero_page(rng: np.random.Generator, raw: bytes) -> bytes:
    """Fill a page with zeros, as a disk does that lost it."""
    pages = max(len(raw) // 4096, 1)
    begin = 4096 * int(rng.integers(pages))
    size = len(raw[begin : begin + 4096])
    return raw[:begin] + bytes(size) + raw[begin + size :]


def fill(rng: np.random.Generator, raw: bytes) -> bytes:
    """Fill a stretch with one byte."""
    begin = int(rng.integers(len(raw)))
    size = min(int(rng.integers(1, 5000)), len(raw) - begin)
    return raw[:begin] + bytes([int(rng.integers(256))]) * size + raw[begin + size :]


def remove(rng: np.random.Generator, raw: bytes) -> bytes:
    """Take a stretch out."""
    begin = int(rng.integers(len(raw)))
    return raw[:begin] + raw[begin + int(rng.integers(1, 2000)) :]


def repeat(rng: np.random.Generator, raw: bytes) -> bytes:
    """Repeat a stretch."""
    begin = int(rng.integers(len(raw)))
    end = begin + int(rng.integers(1, 2000))
    return raw[:end] + raw[begin:end] + raw[end:]


def insert(rng: np.random.Generator, raw: bytes) -> bytes:
    """Insert random bytes."""
    at = int(rng.integers(len(raw)))
    return raw[:at] + rng.bytes(int(rng.integers(1, 500))) + raw[at:]


def huge_number(rng: np.random.Generator, raw: bytes) -> bytes:
    """Overwrite eight bytes with a huge number, as a length or an offset may be one."""
    at = int(rng.integers(max(len(raw) - 8, 1)))
    number = (2**63 - 1, 2**62, 2**40, 2**31, 2**64 - 1)[int(rng.integers(5))]
    return raw[:at] + number.to_bytes(8, "little") + raw[at + 8 :]


def append(rng: np.random.Generator, raw: bytes) -> bytes:
    """Append random bytes."""
    return raw + rng.bytes(int(rng.integers(1, 5000)))


def noise(rng: np.random.Generator, raw: bytes) -> bytes:
    """Replace everything but the first bytes with random ones."""
    keep = int(rng.integers(64))
    return raw[:keep] + rng.bytes(int(rng.integers(1, len(raw) + 1)))


def nothing(rng: np.random.Generator, raw: bytes) -> bytes:
    """Leave an empty file."""
    return b""


DAMAGES: tuple[Damage, ...] = (
    cut, cut_little, flip_bits, flip_head, flip_tail, zero_page, fill, remove, repeat, insert,
    huge_number, append, noise, nothing,
)  # fmt: skip


def any_damage(rng: np.random.Generator, raw: bytes) -> tuple[str, bytes]:
    """Return the name of a damage and the damaged bytes."""
    damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
    return damage.__name__, damage(rng, raw)
