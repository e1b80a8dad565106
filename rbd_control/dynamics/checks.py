"""Checks of array arguments that need no model: numbers, shape, finite values."""

from __future__ import annotations

from typing import Any

import numpy as np

from rbd_control.errors import InputError


def numbers_of(name: str, value: Any) -> np.ndarray:
    """Return ``value`` as a C-ordered array of floats, or raise an :class:`InputError`."""
    try:
        return np.asarray(value, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not an array of numbers: {error}") from error


def checked_array(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``value`` as a finite array of ``shape``, or raise an :class:`InputError`."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is {value!r}; give numbers") from error
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; it must be {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} is {array.tolist()}; give finite numbers")
    return array
