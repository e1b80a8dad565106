"""The decorators that compile kernels and their parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from numba import njit, typeof

from rbd_control.dynamics.kernel_cache import KernelCache

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile ``function`` on first use (numba, nopython) and keep the machine code on disk.

    The result is numba's dispatcher, or ``function`` itself with NUMBA_DISABLE_JIT. It releases
    Python's global interpreter lock, and a division by zero gives inf or NaN as in numpy. The code
    of a function without a source file is not kept. Helpers that only kernels call are
    :func:`inlined` and need no entry of their own on disk.
    """
    return _compiled(function, _OPTIONS)


def compiled_for_one_state(function: Callable[..., Any]) -> Any:
    """Compile a kernel as :func:`compiled` does, but let it hold the global interpreter lock.

    The decorator is for kernels that run for microseconds: releasing and acquiring the lock would
    add 40 ns to a call from Python.
    """
    return _compiled(function, _OPTIONS | {"nogil": False})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    dispatcher: Any = njit(**options)(function)
    # With NUMBA_DISABLE_JIT the result is the plain function. Without a source file, as for a
    # function that was typed at a prompt, nothing shows whether stored code is up to date.
    with suppress(OSError):
        if hasattr(dispatcher, "py_func"):
            dispatcher._cache = KernelCache(function, options)
    return dispatcher


def for_types_of(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of a kernel for arguments of these types, compiled if necessary.

    A call of the machine code skips the search for the types of the arguments, which takes half of
    the time of a short kernel with arrays of records. It accepts only arguments of these types.

    Args:
        kernel: result of :func:`compiled`.
        arguments: arguments of the types with which the result will be called.
    """
    if not hasattr(kernel, "py_func"):  # NUMBA_DISABLE_JIT: a function of Python
        return cast("Callable[..., Any]", kernel)
    types = tuple(typeof(argument) for argument in arguments)
    kernel.compile(types)
    return cast("Callable[..., Any]", kernel.overloads[types].entry_point)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a helper into every kernel that calls it; Python cannot call the result.

    Forcing the inlining saves a third of the time of the 7-joint sweep of ``coriolis.py``. Without
    numba's wrappers for calls from Python and C, kernels compile faster, and arguments may be of
    types that Python does not have.
    """
    return njit(
        forceinline=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
