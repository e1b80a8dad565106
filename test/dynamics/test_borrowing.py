"""Kernels that count no references to their arrays, and the loops that depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from sys import getrefcount
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from rbd_control.dynamics.compiled import compiled_borrowing, inlined_borrowing
from rbd_control.estimation import decision, thresholds, validity
from rbd_control.joint_states import acceptance


class Pair(NamedTuple):
    """Arrays in a named tuple, as the kernels take them."""

    rows: np.ndarray
    sums: np.ndarray


@inlined_borrowing
def add_row(pair: Any, k: int) -> None:
    row = pair.rows[k]
    for i in range(row.shape[0]):
        pair.sums[i] += row[i]


@compiled_borrowing
def add_rows(pair: Any) -> None:
    for k in range(pair.rows.shape[0]):
        add_row(pair, k)


@compiled_borrowing
def allocate(count: int) -> float:
    return float(np.zeros(count)[0])


def test_arrays_are_used_and_released() -> None:
    pair = Pair(np.arange(6.0).reshape(3, 2), np.zeros(2))
    before = getrefcount(pair.rows), getrefcount(pair.sums)
    add_rows(pair)
    assert pair.sums.tolist() == [6.0, 9.0]
    assert (getrefcount(pair.rows), getrefcount(pair.sums)) == before


@pytest.mark.parametrize("counts", [False, True])
def test_the_option_removes_the_counts(counts: bool) -> None:
    """Code from the cache cannot be inspected, so the function is compiled once more."""
    options = {} if counts else {"_nrt": add_rows.targetoptions["_nrt"]}
    fresh: Any = njit(**options)(add_rows.py_func)
    fresh(Pair(np.zeros((1, 2)), np.zeros(2)))
    assert ("@NRT_decref" in fresh.inspect_llvm(fresh.signatures[0])) == counts


def test_a_kernel_that_creates_an_array_does_not_compile() -> None:
    with pytest.raises(TypingError):
        allocate(3)


def dispatchers(module: ModuleType) -> Iterator[Dispatcher]:
    """Yield the compiled functions that a module defines."""
    for each in vars(module).values():
        if isinstance(each, Dispatcher) and each.__module__ == module.__name__:
            yield each


@pytest.mark.parametrize("module", [decision, validity, acceptance, thresholds])
def test_the_loops_over_samples_borrow(module: ModuleType) -> None:
    """References that these loops counted took a third of the time of a replay."""
    found = [
        each
        for each in dispatchers(module)
        if module is not thresholds or "memory" in signature(each.py_func).parameters
    ]
    assert found
    counting = [each.py_func.__name__ for each in found if each.targetoptions.get("_nrt", True)]
    assert not counting
