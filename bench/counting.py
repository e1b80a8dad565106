"""Operation counts of a compiled kernel, by running its source in plain Python.

:func:`interpreted` returns a kernel and its helpers as Python functions. With arrays of
:class:`Number` as arguments, these functions count every product, sum and difference that the
source executes. As usual in such tables, negations, loads, stores, sines and cosines are not
counted. The compiler may omit counted operations whose result is unused, or that are computed
twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from rbd_control.dynamics.papers.symbolic import uncompiled


@dataclass
class Tally:
    """Numbers of executed multiplications, and of additions and subtractions together."""

    multiplications: int = 0
    additions: int = 0


class Number:
    """A float that adds each operation on it to a :class:`Tally`.

    It supports products, sums, differences, negation and conversion to float.

    Args:
        value: the number.
        tally: counts the operations; their results count in the same tally.
    """

    __slots__ = ("tally", "value")

    def __init__(self, value: float, tally: Tally) -> None:
        self.value = value
        self.tally = tally

    def __mul__(self, other: Any) -> Number:
        self.tally.multiplications += 1
        return Number(self.value * float(other), self.tally)

    def __add__(self, other: Any) -> Number:
        self.tally.additions += 1
        return Number(self.value + float(other), self.tally)

    def __sub__(self, other: Any) -> Number:
        self.tally.additions += 1
        return Number(self.value - float(other), self.tally)

    def __rsub__(self, other: float) -> Number:
        self.tally.additions += 1
        return Number(other - self.value, self.tally)

    __rmul__ = __mul__
    __radd__ = __add__

    def __neg__(self) -> Number:
        return Number(-self.value, self.tally)

    def __float__(self) -> float:
        return self.value


def numbers(array: np.ndarray, tally: Tally) -> np.ndarray:
    """Return a float array as an object array of :class:`Number` with the same shape.

    Arrays of other types, such as indices, are returned unchanged.
    """
    if array.dtype != np.float64:
        return array
    result = np.empty(array.shape, dtype=object)
    result.flat[:] = [Number(float(x), tally) for x in array.flat]
    return result


_MATH = SimpleNamespace(
    cos=lambda x: Number(float(np.cos(float(x))), x.tally),
    sin=lambda x: Number(float(np.sin(float(x))), x.tally),
)


def interpreted(kernel: Any) -> Callable[..., Any]:
    """Return a compiled kernel as a Python function that takes arrays of :class:`Number`."""
    return uncompiled(kernel, math=_MATH)
