"""Arrays for compiled kernels without allocation cost: on the stack, or views of another array.

``np.empty`` takes at least 25 ns in numba. A sweep over seven bodies takes a few hundred
nanoseconds and needs ten arrays. Only large workspaces are on the heap. The arrays of this module
must not be used after the kernel that created them has returned.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from rbd_control.dynamics.lanes import VECTOR, WIDTH, lanes

STACK_NUMBERS = 16384
"""Number of floats above which a workspace is on the heap, as a thread's stack may be 0.5 MB."""

_ALIGNMENT = 8 * WIDTH
"""Alignment of lanes [bytes]."""


def array_at(context, builder, kind, data, sizes, owner=None):
    """Return the struct of a C-contiguous array of type ``kind`` at the address ``data``.

    ``sizes`` are its lengths, values of the type ``intp``. For the code of intrinsics.
    """
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [context.get_constant(types.intp, item)]
    for size in reversed(sizes[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    result = context.make_array(kind)(context, builder)
    populate_array(
        result,
        data=builder.bitcast(data, result.data.type),
        shape=sizes,
        strides=strides,
        itemsize=context.get_constant(types.intp, item),
        meminfo=owner,
    )
    return result._getvalue()


def _part(number, array, shape):
    """Return typing and code of an array that is a view of another array."""
    kind = types.Array(number, len(shape), "C")

    def code(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        sizes = [
            context.cast(builder, size, given, types.intp)
            for size, given in zip(
                cgutils.unpack_tuple(builder, arguments[2]), signature.args[2], strict=True
            )
        ]
        return array_at(context, builder, kind, cgutils.gep(builder, data, arguments[1]), sizes)

    return kind(array, types.intp, shape), code


@intrinsic
def numbers(_context, array, first, shape):
    """Return a view of ``array`` from its entry ``first`` on, with the given ``shape``.

    ``array`` is C-contiguous; its entries are floats or lanes. Its length is not checked. The
    result does not keep ``array`` alive, see :func:`keep`. For compiled code only.
    """
    return _part(array.dtype, array, shape)


@intrinsic
def keep(_context, array):
    """Keep ``array`` alive until this call, for the views of it that :func:`numbers` returned."""

    def code(context, *_):
        return context.get_dummy_value()

    return types.void(array), code


@intrinsic
def integers(_context, array, first, shape):
    """Return a view of floats from entry ``first`` on, with their bytes read as int64.

    The result has the given ``shape`` and does not keep ``array`` alive. For compiled code only.
    """
    return _part(types.int64, array, shape)


@intrinsic
def floats_of(_context, array):
    """Return a view of an array of lanes as floats, (entries, WIDTH).

    The result does not keep ``array`` alive, see :func:`keep`. For compiled code only.
    """
    kind = types.Array(types.float64, 2, "C")

    def code(context, builder, signature, arguments):
        source = context.make_array(signature.args[0])(context, builder, arguments[0])
        width = context.get_constant(types.intp, WIDTH)
        return array_at(context, builder, kind, source.data, [source.nitems, width])

    return kind(array), code


def _on_stack(number, item):
    kind = types.Array(number, 1, "C")

    def code(context, builder, signature, arguments):
        data = builder.alloca(item, size=arguments[0])
        return array_at(context, builder, kind, data, list(arguments))

    return kind(types.intp), code


@intrinsic
def _floats_on_stack(_context, count):
    return _on_stack(types.float64, ir.DoubleType())


@intrinsic
def _lanes_on_stack(_context, count):
    return _on_stack(lanes, VECTOR)


@intrinsic
def _as_lanes(_context, array):
    """Return a view of n floats as n / WIDTH - 1 aligned lanes, which keeps the floats alive."""
    kind = types.Array(lanes, 1, "C")

    def code(context, builder, signature, arguments):
        source = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.ptrtoint(source.data, ir.IntType(64))
        address = builder.add(address, ir.IntType(64)(_ALIGNMENT - 1))
        address = builder.and_(address, ir.IntType(64)(-_ALIGNMENT))
        data = builder.inttoptr(address, VECTOR.as_pointer())
        width = context.get_constant(types.intp, WIDTH)
        count = builder.sub(builder.sdiv(source.nitems, width), context.get_constant(types.intp, 1))
        context.nrt.incref(builder, signature.args[0], arguments[0])
        return array_at(context, builder, kind, data, [count], source.meminfo)

    return kind(array), code


@njit(inline="always")
def scratch(size):
    """Return ``size`` floats like ``np.empty(size)``, uninitialised, as workspace of a kernel.

    A kernel needs only one workspace; :func:`numbers` divides it into several arrays. numba inlines
    this function. Its caller must be a kernel, or be inlined by numba in the same way, because the
    stack of a helper is released when the helper returns.
    """
    if size <= STACK_NUMBERS:
        return _floats_on_stack(size)
    return np.empty(size)


@njit(inline="always")
def lane_scratch(size):
    """Return ``size`` vectors (``Lanes``: ``WIDTH`` numbers each, one of each state of a batch).

    They are not initialized. Up to ``STACK_NUMBERS`` numbers are on the stack of the caller, more
    on the heap; as :func:`scratch`, call it only from a kernel or from an inlined function.
    """
    if WIDTH * size <= STACK_NUMBERS:
        return _lanes_on_stack(size)
    return _as_lanes(np.empty(WIDTH * (size + 1)))
