"""The decorators of kernels that borrow their arrays: they do not count references to them.

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
from typing import Any

from numba import njit
from numba.core.cpu import CPUTargetOptions

from rbd_control.dynamics.compiled import _OPTIONS, _compiled

_WITHOUT_COUNTS: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
"""Option that removes the counts; numba's own functions use it. A numba without it counts."""


def compiled_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a kernel as :func:`~rbd_control.dynamics.compiled.compiled` does, without counts.

    No references to arrays are counted, for the reason in the module's docstring.

    Args:
        function: a kernel that neither creates nor returns arrays; numba raises a TypingError at
            its first call if it creates one.
    """
    return _compiled(function, _OPTIONS | _WITHOUT_COUNTS)


def inlined_borrowing(function: Callable[..., Any]) -> Any:
    """Compile a helper as :func:`~rbd_control.dynamics.compiled.inlined` does, without counts.

    The restrictions are those of :func:`compiled_borrowing`. Functions that take only numbers and
    records count no references, so :func:`~rbd_control.dynamics.compiled.inlined` suffices for
    them.
    """
    return njit(
        forceinline=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        **_WITHOUT_COUNTS,
    )(function)
