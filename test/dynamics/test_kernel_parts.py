"""Building blocks of the kernels: sines and cosines, arrays on the stack, the packed model."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from rbd_control.dynamics.memory import STACK_NUMBERS, numbers, scratch
from rbd_control.dynamics.small_systems import REACH, cos_sin


@njit
def _cos_sin(x: np.ndarray, cosine: np.ndarray, sine: np.ndarray) -> None:
    for i in range(x.shape[0]):
        cosine[i], sine[i] = cos_sin(x[i])


def in_units_of_the_last_place(value: np.ndarray, reference: np.ndarray) -> float:
    return float((np.abs(value - reference) / np.spacing(np.abs(reference).astype(float))).max())


def test_cosines_and_sines() -> None:
    rng = np.random.default_rng(0)
    turns = np.arange(-4000, 4001) * (np.pi / 4.0)
    x = np.concatenate(
        [
            turns,  # next to zeros, where what is left of the angle is all there is
            np.nextafter(turns, np.inf),
            *(rng.uniform(-r, r, 20000) for r in (1e-9, 1.0, 10.0, REACH)),
            [REACH, -REACH, 1.1 * REACH, -1e9, 1e300],
        ]
    )
    cosine, sine = np.empty_like(x), np.empty_like(x)
    _cos_sin(x, cosine, sine)
    # Two units are promised; the reference may be off by half of one itself.
    assert in_units_of_the_last_place(cosine, np.cos(x.astype(np.longdouble))) < 2.5
    assert in_units_of_the_last_place(sine, np.sin(x.astype(np.longdouble))) < 2.5


@njit
def _sums(n: int, rounds: int) -> float:
    total = 0.0
    a = scratch(n)
    memory = scratch(2 * n)
    b = numbers(memory, 0, (n, 2))
    for _ in range(rounds):
        for i in range(n):
            a[i], b[i, 0], b[i, 1] = i, 2 * i, 3 * i
        for i in range(n):
            total += a[i] + b[i, 0] + b[i, 1]
    return total if memory.shape[0] == 2 * n else -1.0  # kept alive until here


@pytest.mark.parametrize("n", [0, 1, STACK_NUMBERS // 2, STACK_NUMBERS, 10 * STACK_NUMBERS])
def test_workspace_on_the_stack_or_not(n: int) -> None:
    assert _sums(n, 2) == 6.0 * n * (n - 1)
