"""Floating-point instructions that numba does not provide, for floats and lanes."""

from numba import types
from numba.extending import intrinsic

from rbd_control.dynamics.lanes import call_llvm, lanes, on_lanes


@intrinsic
def fma(_context, a, b, c):
    """Return a b + c, rounded once if the processor has FMA; for compiled code only.

    The sources call this function explicitly. If the compiler chose which products to fuse, its
    choice could differ between kernels, and their results would differ in the last bits.
    """
    kind = lanes if on_lanes((a, b, c)) else types.float64

    def code(context, builder, signature, arguments):
        converted = [
            context.cast(builder, value, given, kind)
            for value, given in zip(arguments, signature.args, strict=True)
        ]
        return call_llvm(builder, "llvm.fmuladd", *converted)

    return kind(a, b, c), code


@intrinsic
def floor(_context, x):
    """Return the largest integer not above x, as a float or lanes, in compiled code only."""
    kind = lanes if on_lanes((x,)) else types.float64

    def code(_, builder, __, arguments):
        return call_llvm(builder, "llvm.floor", *arguments)

    return kind(kind), code
