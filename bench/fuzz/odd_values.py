"""Numbers, names and times that programs often do not handle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

NUMBERS = (
    math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-300, 1e-30,
    1.0, -1.0, math.pi, -math.pi, 2.0 * math.pi, 1e3, -1e6, 1e15, 2.0**53, 1e30, -1e30, 1e80,
    1.4e154, -1.4e154, 1e200, 1e308, -1e308, 1.7976931348623157e308,
)  # fmt: skip
"""Numbers at the edges of the format, of their squares, and of an angle."""

INTEGERS = (
    0, 1, -1, 2, 7, 8, 100, 255, 256, 65536, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1,
    -(2**63),
)  # fmt: skip
"""Whole numbers at the edges of common types."""

TEXTS = (
    "", " ", "a", "joint_1", "nan", "{}", "%s%n", "../../..", "a/b", "~", "\n", "\t\r\n", "\x1b[2J",
    "[red]markup[/red]", "ünïcödé", "关节", "\u202egnp", "\ufeff", "\U0001f9be" * 20, "0" * 300,
    "x" * 5000, "'; DROP TABLE", "<robot/>", "null", "True", "1e999",
)  # fmt: skip
"""Texts that break formats, terminals or assumptions on length."""

LONG_TEXT = 20_000
"""Length of the longest text [characters]."""


def odd_number(random: Random) -> float:
    """Return one of :data:`NUMBERS`, or a number with a magnitude from 1e-3 to 1e12."""
    if random.random() < 0.5:
        return random.choice(NUMBERS)
    return random.choice((-1.0, 1.0)) * 10.0 ** random.uniform(-3.0, 12.0)


def odd_integer(random: Random) -> int:
    """Return one of :data:`INTEGERS`, or a whole number from -1000 to 1000."""
    return random.choice(INTEGERS) if random.random() < 0.7 else random.randint(-1000, 1000)


def odd_text(random: Random) -> str:
    """Return one of :data:`TEXTS`, random Unicode characters, or a very long text."""
    choice = random.random()
    if choice < 0.6:
        return random.choice(TEXTS)
    if choice < 0.98:
        return "".join(_character(random) for _ in range(random.randint(1, 40)))
    return _character(random) * random.randint(1000, LONG_TEXT)


def odd_stamp(random: Random) -> tuple[int, int]:
    """Return seconds and nanoseconds of a time that is invalid, negative, or far away."""
    seconds = random.choice((0, 0, 1, -1, -5, 100, 2**31 - 1, -(2**31), random.getrandbits(31)))
    nanoseconds = random.choice((0, 0, 1, 10**9 - 1, 10**9, 2**32 - 1, random.getrandbits(32)))
    return seconds, nanoseconds


def odd_shift(random: Random) -> float:
    """Return an offset of a stamp from the present, from zero or microseconds to years [s]."""
    size = random.choice((0.0, 1e-6, 1e-3, 0.01, 0.05, 0.09, 0.11, 0.5, 5.0, 3600.0, 1e8, 4e9))
    return random.choice((-1.0, 1.0)) * size


def odd_length(random: Random, usual: int) -> int:
    """Return a number of elements that mostly differs from the usual number."""
    return random.choice((0, 1, max(usual - 1, 0), usual + 1, 2 * usual, 100, 1000))


def replaced(random: Random, values: Sequence[float]) -> list[float]:
    """Return the values with one, several or all of them replaced by odd numbers."""
    result = list(values)
    if not result:
        return [odd_number(random)]
    count = random.choice((1, 1, 1, 2, len(result)))
    number = odd_number(random)
    for index in random.sample(range(len(result)), min(count, len(result))):
        result[index] = number if random.random() < 0.5 else odd_number(random)
    return result


def resized(random: Random, values: Sequence[float]) -> list[float]:
    """Return the values cut, repeated or padded to an unusual length."""
    length = odd_length(random, len(values))
    padding = [odd_number(random)] * max(length - len(values), 0)
    return [*values[:length], *padding]


def _character(random: Random) -> str:
    code = random.choice(
        (
            random.randrange(1, 128),
            random.randrange(128, 0xD800),
            random.randrange(0xE000, 0x110000),
        )
    )
    return chr(code)
