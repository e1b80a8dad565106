"""Run the source of a kernel as plain Python on any objects that can be added and multiplied.

The kernels compute with scalars. With symbols in place of floats the same source yields expressions
(``symbolic.py``, and ``rbd_control.export`` for C code); with objects that count their operations
it yields operation counts (``bench/counting.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from rbd_control.dynamics.constants import unpacked
from rbd_control.dynamics.fused import fma
from rbd_control.dynamics.memory import numbers, scratch
from rbd_control.dynamics.trigonometry import cos_sin


def _empty(shape: int | tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, dtype=object)


def _numbers(array: np.ndarray, first: int, shape: tuple[int, ...]) -> np.ndarray:
    return array[first : first + int(np.prod(shape))].reshape(shape)


_IN_PYTHON: dict[int, Callable[..., Any]] = {
    id(scratch): _empty,
    id(numbers): _numbers,
    id(fma): lambda a, b, c: a * b + c,
    id(unpacked): lambda constants: constants,
}
"""Python functions that replace the functions which exist in compiled code only."""

_NUMPY = SimpleNamespace(empty=_empty)


def uncompiled(
    kernel: Any, math: Any, constant: Callable[[float], Any] = float
) -> Callable[..., Any]:
    """Return the source of a compiled kernel as a plain Python function.

    The helpers that the kernel calls run as Python functions as well. The result takes the
    arguments of the kernel, with arrays of any objects that can be added and multiplied.

    Args:
        kernel: a function made by ``compiled`` or ``inlined``. The only function of numpy that it
            may use is ``empty``, which makes arrays of objects here, as does ``scratch``.
        math: module or object that replaces ``math``; it has ``cos``, ``sin`` and every other
            function of ``math`` that the kernel calls.
        constant: converts floats in the source, such as 0.5.
    """
    function = kernel.py_func
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        part = _IN_PYTHON.get(id(names.get(name)))
        if part:
            names[name] = part
        elif names.get(name) is cos_sin:
            names[name] = lambda x: (math.cos(x), math.sin(x))
        elif hasattr(names.get(name), "py_func"):
            names[name] = uncompiled(names[name], math, constant)
        elif name == "math":
            names[name] = math
        elif name == "np":
            names[name] = _NUMPY

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        return constant(value) if isinstance(value, float) else value

    code = function.__code__.replace(co_consts=replaced(function.__code__.co_consts))
    return FunctionType(code, names, function.__name__)
