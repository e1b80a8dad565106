"""Lanes: several floats in one vector register, each belonging to a different state of a batch.

Kernels are written for scalars. With values of type ``Lanes`` the same source computes ``WIDTH``
states at a time, because every addition or product becomes one vector instruction. The operations
and their order are the same as for a single state, so each lane contains the result of its state to
the last bit.

A kernel must not branch on lanes. Where it cannot avoid this, as for large angles, it tests all
lanes together and treats them one by one with :func:`get_lane` and :func:`with_lane`, which also
take plain floats.
"""

from __future__ import annotations

import operator
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic


def _width() -> int:
    """Return how many floats fit into a vector register: 8 with AVX-512, otherwise 4.

    With 8 on AVX2, whose 16 registers hold 4 each, most values would go through memory.
    """
    try:
        return 8 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 4
    except RuntimeError:  # a processor whose features LLVM cannot tell
        return 4


WIDTH = _width()
"""Number of states that a kernel in lanes computes together: 8 with AVX-512, otherwise 4."""

DOUBLE = ir.DoubleType()
VECTOR = ir.VectorType(DOUBLE, WIDTH)


class Lanes(types.Type):
    """numba's type of ``WIDTH`` floats in one vector register, which are computed together."""

    def __init__(self) -> None:
        super().__init__(name=f"Lanes({WIDTH})")

    def unify(self, _context: Any, other: Any) -> Lanes | None:
        """Return the type of a variable that is sometimes lanes, sometimes of the type ``other``.

        The result is lanes if ``other`` is a numeric type, otherwise None: no common type.
        """
        return self if isinstance(other, types.Number) else None

    def can_convert_from(self, _context: Any, other: Any) -> Any:
        """Return ``Conversion.safe`` for a numeric type, None for any other type.

        A number becomes lanes that all have its value.
        """
        return Conversion.safe if isinstance(other, types.Number) else None


lanes = Lanes()


@register_default(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, VECTOR)


def on_lanes(kinds: tuple[Any, ...]) -> bool:
    """Return whether an operation on arguments of these numba types has lanes as its result.

    At least one of the types must be lanes, and all others numbers or lanes.
    """
    return any(isinstance(kind, Lanes) for kind in kinds) and all(
        isinstance(kind, (Lanes, types.Number)) for kind in kinds
    )


def call_llvm(builder: Any, name: str, *arguments: Any) -> Any:
    """Emit a call of LLVM's intrinsic ``name``, such as ``llvm.floor``, and return its result.

    Args:
        builder: LLVM's builder of the function that is being compiled.
        name: name of the intrinsic without the suffix of a type.
        arguments: LLVM values, all of the type ``DOUBLE`` or ``VECTOR``, as is the result.
    """
    kind = arguments[0].type
    name = f"{name}.{f'v{WIDTH}f64' if kind == VECTOR else 'f64'}"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(kind, [kind] * len(arguments)), name
    )
    return builder.call(function, arguments)


def _all_equal(builder: Any, value: Any) -> Any:
    index = ir.IntType(32)
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, index(0))
    choice = ir.Constant(ir.VectorType(index, WIDTH), [index(0)] * WIDTH)
    return builder.shuffle_vector(first, undefined, choice)


@lower_cast(types.Number, Lanes)
def _cast(context: Any, builder: Any, kind: Any, _lanes: Any, value: Any) -> Any:
    return _all_equal(builder, context.cast(builder, value, kind, types.float64))


class _OnLanes(AbstractTemplate):
    """The type of an operator's result where an operand is lanes."""

    def generic(self, args: tuple[Any, ...], _kws: Any) -> Any:
        return signature(lanes, *[lanes] * len(args)) if on_lanes(args) else None


def _define(function: Any, operands: int, method: str) -> None:
    def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return getattr(builder, method)(*args)

    infer_global(function)(type(f"_{method}", (_OnLanes,), {}))
    lower_builtin(function, *[Lanes] * operands)(code)


for _functions, _method in (
    ((operator.add, operator.iadd), "fadd"),
    ((operator.sub, operator.isub), "fsub"),
    ((operator.mul, operator.imul), "fmul"),
    ((operator.truediv, operator.itruediv), "fdiv"),
):
    for _function in _functions:
        _define(_function, 2, _method)
_define(operator.neg, 1, "fneg")


@intrinsic
def any_beyond(_context, x, _limit):
    """Return whether |x|, in any lane of x, exceeds a limit (a float); for compiled code only."""
    kind = lanes if isinstance(x, Lanes) else types.float64

    def code(_, builder, __, args):
        value, bound = args
        if kind is lanes:
            bound = _all_equal(builder, bound)
        above = builder.fcmp_ordered(">", call_llvm(builder, "llvm.fabs", value), bound)
        if kind is not lanes:
            return above
        bits = ir.IntType(WIDTH)
        return builder.icmp_unsigned("!=", builder.bitcast(above, bits), bits(0))

    return types.boolean(kind, types.float64), code


@intrinsic
def lane_count(_context, x):
    """Return the number of lanes of ``x``, which is one for a float; for compiled code only."""
    count = WIDTH if isinstance(x, Lanes) else 1

    def code(context, *_):
        return context.get_constant(types.intp, count)

    return types.intp(x), code


@intrinsic
def get_lane(_context, x, _lane):
    """Return one lane of ``x``, or ``x`` itself if it is a float; for compiled code only.

    Call ``get_lane(x, lane)`` with a lane from 0 to ``lane_count(x) - 1``, which is not checked;
    numba supplies ``_context``.
    """

    def code(_, builder, sig, args):
        return builder.extract_element(*args) if isinstance(sig.args[0], Lanes) else args[0]

    return types.float64(x, types.intp), code


@intrinsic
def with_lane(_context, x, _lane, _value):
    """Return ``x`` with one lane replaced; for a float, the new value; for compiled code only."""

    def code(_, builder, sig, args):
        vector, index, changed = args
        if isinstance(sig.args[0], Lanes):
            return builder.insert_element(vector, changed, index)
        return changed

    return x(x, types.intp, types.float64), code
