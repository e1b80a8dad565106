"""Scalar type that records the operations on it.

Kernels compute with scalars, so they also run on objects of this type; their results then are
expressions. A result that does not depend on an input is an ordinary float.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from rbd_control.errors import RbdControlError
from rbd_control.export.expression_graph import CALLS, WHOLE, Graph


class TracingError(RbdControlError, TypeError):
    """Raised when a kernel does something that straight-line C code cannot express."""


class Scalar:
    """A number in a kernel that stands for one expression: node ``node`` of ``graph``.

    Sums, differences, products, quotients, negation and squares give expressions. Comparisons,
    conversions, branches, ``abs``, ``round`` and other powers raise a :class:`TracingError`.
    """

    __slots__ = ("graph", "node")
    # Otherwise the product of a numpy float with an object of this class would be an array.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph = graph
        self.node = node

    def __repr__(self) -> str:
        return f"<Scalar {self.graph.nodes[self.node]}>"

    def __add__(self, other: object) -> Number:
        return self._binary(self.graph.add, self, other)

    def __radd__(self, other: object) -> Number:
        return self._binary(self.graph.add, other, self)

    def __sub__(self, other: object) -> Number:
        return self._binary(self.graph.subtract, self, other)

    def __rsub__(self, other: object) -> Number:
        return self._binary(self.graph.subtract, other, self)

    def __mul__(self, other: object) -> Number:
        return self._binary(self.graph.multiply, self, other)

    def __rmul__(self, other: object) -> Number:
        return self._binary(self.graph.multiply, other, self)

    def __truediv__(self, other: object) -> Number:
        return self._binary(self.graph.divide, self, other)

    def __rtruediv__(self, other: object) -> Number:
        return self._binary(self.graph.divide, other, self)

    def __neg__(self) -> Number:
        return _number(self.graph, self.graph.negate(self.node))

    def __pos__(self) -> Number:
        return self

    def __pow__(self, exponent: object) -> Number:
        if exponent != 2:
            raise TracingError(f"a kernel takes the power {exponent}; only squares are exported")
        return self * self

    def _binary(self, operation: Any, a: object, b: object) -> Any:
        x, y = _node(self.graph, a), _node(self.graph, b)
        if x is None or y is None:
            return NotImplemented
        return _number(self.graph, operation(x, y))

    def _refuse(self, *_: object) -> NoReturn:
        raise TracingError(
            "a kernel compares, converts or branches on a value that depends on its inputs; "
            "exported code has no branches, so such a kernel cannot be exported"
        )

    __bool__ = __float__ = __int__ = __index__ = __abs__ = __round__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]


Number: TypeAlias = Scalar | float


def _node(graph: Graph, x: object) -> int | None:
    """Return the node of a number; None for any other object."""
    if isinstance(x, Scalar):
        return x.node
    if isinstance(x, (float, int, np.integer, np.floating)):
        return graph.constant(float(x))
    return None


def _number(graph: Graph, node: int) -> Number:
    value = graph.value(node)
    return Scalar(graph, node) if value is None else value


def node_of(graph: Graph, x: Number) -> int:
    """Return the index of the node of a traced number, or of the constant node of a float."""
    return x.node if isinstance(x, Scalar) else graph.constant(float(x))


def inputs(graph: Graph, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of scalars: a new input of the graph for each number of an argument.

    ``name`` and ``shape`` are those of the argument in C. With the shape () it is a single number.
    """
    array = np.empty(shape, dtype=object)
    positions = range(array.size) if shape else [WHOLE]
    array.flat[:] = [Scalar(graph, graph.input(name, i)) for i in positions]
    return array


def _traced(name: str) -> Any:
    def function(x: Number) -> Number:
        if isinstance(x, Scalar):
            return _number(x.graph, x.graph.call(name, x.node))
        return CALLS[name](x)

    return function


def _finite(x: Number) -> bool:
    return x.__bool__() if isinstance(x, Scalar) else math.isfinite(x)


MATH = SimpleNamespace(**{name: _traced(name) for name in CALLS}, isfinite=_finite)
"""Replacement of the module ``math`` in traced kernels."""
