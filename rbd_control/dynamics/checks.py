"""Checks of array arguments that need no model: numbers, shape, finite values."""

from __future__ import annotations

from typing import Any

import numpy as np

from rbd_control.errors import InputError


def numbers_of(name: str, value: Any) -> np.ndarray:
    """Return ``value`` as a C-ordered array of float64, without a copy if it is one already.

    Raises:
        InputError: if ``value`` is not an array of numbers; the message begins with ``name``.
    """
    try:
        return np.asarray(value, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error


def checked_array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return a copy of ``value`` as a float64 array, after checking its shape and its numbers.

    Raises:
        InputError: if ``value`` is not numeric, has another shape than ``shape`` or is not finite;
            the message begins with ``name``.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} is {value!r}; give numbers") from error
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; it must be {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} is {array.tolist()}; give finite numbers")
    return array
