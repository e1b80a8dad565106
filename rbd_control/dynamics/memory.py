"""Arrays inside compiled kernels that cost nothing to make: on the stack, or parts of another.

An array from ``np.empty`` takes numba 25 ns and more; a sweep over seven bodies is done in a few
hundred and needs ten of them. Neither kind here may outlive the call of the kernel that makes it.
"""

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

STACK_NUMBERS = 16384
"""More go to the heap, as a thread's stack may be half a megabyte."""


@intrinsic
def _on_stack(_context, count):
    def code(_, builder, __, arguments):
        return builder.alloca(ir.DoubleType(), size=arguments[0])

    return types.CPointer(types.float64)(types.intp), code


def _address(number, _context, array, first):
    def code(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = cgutils.gep(builder, data, arguments[1])
        return builder.bitcast(place, context.get_value_type(number).as_pointer())

    return types.CPointer(number)(array, types.intp), code


@intrinsic
def _address_of_numbers(context, array, first):
    return _address(types.float64, context, array, first)


@intrinsic
def _address_of_integers(context, array, first):
    return _address(types.int64, context, array, first)


@njit(inline="always")
def scratch(size):
    """Return ``size`` floats like ``np.empty(size)``, as workspace of a kernel.

    One a kernel will do: :func:`numbers` makes many arrays of it. numba inlines this, and what
    calls it must be a kernel or inlined by numba in the same way: the stack of a helper would be
    gone when the helper returns.
    """
    if size <= STACK_NUMBERS:
        return carray(_on_stack(size), (size,))
    return np.empty(size)


@njit(forceinline=True)
def numbers(array, first, shape):
    """Return the floats from ``array[first]`` as an array of ``shape``, without a reference."""
    return carray(_address_of_numbers(array, first), shape)


@njit(forceinline=True)
def integers(array, first, shape):
    """Return the same eight bytes each, read as integers."""
    return carray(_address_of_integers(array, first), shape)
