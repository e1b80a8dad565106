"""Product and sum in one instruction, where the processor has it."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def fma(_context, a, b, c):
    """Return a b + c, rounded once if the processor has FMA; for compiled code only.

    Written out where it is meant: if the compiler were free to choose which products to fuse, it
    would choose one way in one kernel and another way in the next, and they would differ by bits.
    """

    def code(context, builder, signature, arguments):
        converted = [
            context.cast(builder, value, kind, types.float64)
            for value, kind in zip(arguments, signature.args, strict=True)
        ]
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double, double, double])
        function = builder.module.declare_intrinsic("llvm.fmuladd", [double], kind)
        return builder.call(function, converted)

    return types.float64(a, b, c), code
