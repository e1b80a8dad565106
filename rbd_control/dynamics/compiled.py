"""Decorators that compile kernels.

**The decorators of kernels that borrow their arrays: they do not count references to them.**

numba counts a reference whenever compiled code stores an array in a variable or reads it from a
tuple. A count is an atomic operation, and it keeps the fields of the tuple in memory instead of
registers. In the loop of the contact detector, which takes its arrays from named tuples, the counts
took five sixths of the time.

Python holds all arguments during a call, so a kernel that creates no arrays needs no counts. If a
function with one of these decorators creates an array, numba raises a TypingError when it compiles
the function. No array can therefore be freed too early, and none is kept for too long. Views of the
arguments, such as a row, are allowed, but a function cannot return them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from numba import njit, typeof
from numba.core.cpu import CPUTargetOptions

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


_WITHOUT_COUNTS: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
"""Option that removes the counts; numba's own functions use it. A numba without it counts."""


def compiled_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a kernel as :func:`compiled` does, without counts.

    No references to arrays are counted, for the reason in the module's docstring.

    Args:
        function: a kernel that neither creates nor returns arrays; numba raises a TypingError at
            its first call if it creates one.
    """
    return _compiled(function, _OPTIONS | _WITHOUT_COUNTS)


def inlined_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a helper as :func:`inlined` does, without counts.

    The restrictions are those of :func:`compiled_borrowing`. Functions that take only numbers and
    records count no references, so :func:`inlined` suffices for
    them.
    """
    return njit(
        forceinline=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        **_WITHOUT_COUNTS,
    )(function)
