"""Kernels that count no references to their arrays, and the loops that depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from types import ModuleType

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

from rbd_control.dynamics.compiled import compiled_borrowing
from rbd_control.estimation import decision, thresholds, validity
from rbd_control.joint_states import acceptance


@compiled_borrowing
def allocate(count: int) -> float:
    return float(np.zeros(count)[0])


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
