"""Graph of the expressions that tracing collects, with one node for each distinct operation.

A node is a tuple ``(operation, operand, ...)``; operands are indices of earlier nodes. Equal nodes
are stored once (hash-consing), so a common subexpression is one node even if a kernel computes it
several times. Operations with constants are simplified: ``x * 0``, ``x * 1`` and ``x + 0`` create
no node. Signs are moved outwards, so that ``a - b`` and ``b - a`` share a node.

``x * 0 = 0`` holds for finite ``x`` only; the functions made of a graph require finite inputs.

A :class:`Plan` has the nodes that some results need, and what the writers of C code and of machine
code compute together: products with sums, and cosines with sines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

INPUT, CONSTANT, CALL = "input", "constant", "call"
ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE = "+", "-", "*", "/", "neg"

WHOLE = -1
"""Position in the node of an input that is a single number, not an array."""

Node = tuple[str | int | float, ...]
"""One operation: ``(operation, operands...)`` with indices of nodes as operands,
``(INPUT, name, position)``, ``(CONSTANT, value)`` or ``(CALL, function, operand)``."""

CALLS = {
    "cos": math.cos,
    "sin": math.sin,
    "exp": math.exp,
    "tanh": math.tanh,
    "sqrt": math.sqrt,
}
"""Functions of one argument that a node may call, with their Python versions for constants."""


class TooLargeError(Exception):
    """Raised when a graph would get more nodes than it may have."""


class Graph:
    """Stores expressions as nodes and simplifies them while they are added.

    Arguments ``a`` and ``b`` and the results of the operations are indices of nodes. An operation
    adds a node only if there is no equal one.

    Args:
        largest: number of nodes from which :class:`TooLargeError` is raised.

    Attributes:
        nodes: all nodes; operands come before the nodes that use them.
    """

    def __init__(self, largest: float = math.inf) -> None:
        self._largest = largest
        self.nodes: list[Node] = []
        self._index: dict[Node, int] = {}
        self._values: list[float | None] = []
        self._operands_of: list[tuple[int, ...]] = []

    def value(self, node: int) -> float | None:
        """Return the value of the node with this index if it is a constant, otherwise None."""
        return self._values[node]

    def constant(self, value: float) -> int:
        """Return the node of a constant.

        Raises:
            ValueError: if the constant is not finite, as after an overflow.
        """
        if not math.isfinite(value):
            raise ValueError(f"a constant of the expressions is {value}")
        # Adding 0.0 turns -0.0 into 0.0, so that both zeros share a node.
        return self._node((CONSTANT, value + 0.0), value + 0.0)

    def input(self, name: str, position: int) -> int:
        """Return the node of one number of an argument.

        Args:
            name: name of the argument.
            position: index in the array; :data:`WHOLE` for a single number.
        """
        return self._node((INPUT, name, position))

    def add(self, a: int, b: int) -> int:
        """Return the node of a + b."""
        x, y = self._values[a], self._values[b]
        if x is not None and y is not None:
            return self.constant(x + y)
        if x == 0.0 or y == 0.0:
            return b if x == 0.0 else a
        k, u = self._scaled(a)
        m, w = self._scaled(b)
        return self.multiply(self.constant(k + m), u) if u == w else self._sum(a, b)

    def subtract(self, a: int, b: int) -> int:
        """Return the node of a - b."""
        return self.add(a, self.negate(b))

    def multiply(self, a: int, b: int) -> int:
        """Return the node of the product ``a * b``, simplified as the module describes."""
        x, y = self._values[a], self._values[b]
        if x is not None and y is not None:
            return self.constant(x * y)
        if y is not None:
            return self._times_constant(a, y)
        if x is not None:
            return self._times_constant(b, x)
        if self._is(a, NEGATE):
            return self.negate(self.multiply(self._operand(a), b))
        if self._is(b, NEGATE):
            return self.negate(self.multiply(a, self._operand(b)))
        return self._node((MULTIPLY, *sorted((a, b))))

    def divide(self, a: int, b: int) -> int:
        """Return the node of a / b; a constant b is replaced by its reciprocal as a factor.

        Raises:
            ZeroDivisionError: if b is an exact zero.
        """
        y = self._values[b]
        if y is not None:
            return self.multiply(a, self.constant(1.0 / y))
        if self._values[a] == 0.0:
            return a
        if self._is(a, NEGATE):
            return self.negate(self.divide(self._operand(a), b))
        if self._is(b, NEGATE):
            return self.negate(self.divide(a, self._operand(b)))
        return self._node((DIVIDE, a, b))

    def negate(self, a: int) -> int:
        """Return the node of -a."""
        x = self._values[a]
        if x is not None:
            return self.constant(-x)
        return self._operand(a) if self._is(a, NEGATE) else self._node((NEGATE, a))

    def call(self, function: str, a: int) -> int:
        """Return the node of ``function(a)``, a constant if node ``a`` is a constant.

        Args:
            function: name of the function, a key of :data:`CALLS`.
            a: index of the node of the argument.
        """
        x = self._values[a]
        if x is not None:
            return self.constant(CALLS[function](x))
        return self._node((CALL, function, a))

    def operands(self, node: int) -> tuple[int, ...]:
        """Return the nodes from which a node is computed; empty for an input or a constant."""
        return self._operands_of[node]

    def _sum(self, a: int, b: int) -> int:
        """Return a + b as a sum or a difference with at most one leading sign."""
        if self._is(a, NEGATE) and self._is(b, NEGATE):
            return self.negate(self._sum(self._operand(a), self._operand(b)))
        if self._is(a, NEGATE):
            a, b = b, a
        if not self._is(b, NEGATE):
            return self._node((ADD, *sorted((a, b))))
        b = self._operand(b)
        return self.negate(self._node((SUBTRACT, b, a))) if a > b else self._node((SUBTRACT, a, b))

    def _times_constant(self, a: int, k: float) -> int:
        """Return k a, with the sign of k moved outwards."""
        if k == 0.0:
            return self.constant(0.0)
        m, u = self._scaled(a)
        k *= m
        if k == 1.0:
            return u
        if k < 0.0:
            return self.negate(self._times_constant(u, -k))
        return self._node((MULTIPLY, self.constant(k), u))

    def _scaled(self, a: int) -> tuple[float, int]:
        """Return k and u with a = k u; k is 1 unless a is a negation or a product with a number."""
        operation, *operands = self.nodes[a]
        if operation == NEGATE:
            k, u = self._scaled(int(operands[0]))
            return -k, u
        if operation == MULTIPLY:
            k_or_none = self._values[int(operands[0])]
            if k_or_none is not None:
                return k_or_none, int(operands[1])
        return 1.0, a

    def _is(self, node: int, operation: str) -> bool:
        return self.nodes[node][0] == operation

    def _operand(self, node: int) -> int:
        return int(self.nodes[node][1])

    def _node(self, node: Node, value: float | None = None) -> int:
        index = self._index.get(node)
        if index is None:
            index = self._index[node] = len(self.nodes)
            if index >= self._largest:
                raise TooLargeError
            self.nodes.append(node)
            self._values.append(value)
            operation, *rest = node
            leaf = operation in (INPUT, CONSTANT)
            self._operands_of.append(() if leaf else tuple(x for x in rest if isinstance(x, int)))
        return index


def needed(graph: Graph, nodes: Iterable[int]) -> list[int]:
    """Return ``nodes`` and all nodes of the graph on which they depend, operands first."""
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph.operands(node)
    return sorted(seen)


class Plan:
    """What is to be computed for some results, without unused nodes (dead code).

    Args:
        graph: the graph of the expressions.
        results: nodes of all results; a node may occur several times.

    Attributes:
        order: the needed nodes, operands first.
        uses: number of uses of each needed node, as an operand or a result.
        fused: for each sum that takes a product which nothing else uses, this product. Both are one
            fused multiply-add.
        angles: ``[cosine, sine]`` by angle that depends on no cosine or sine; -1 if unused. All of
            them can be computed together.
        early: inputs, and nodes on which angles depend.
    """

    def __init__(self, graph: Graph, results: Sequence[int]) -> None:
        self.order = needed(graph, results)
        self.uses = dict.fromkeys(self.order, 0)
        for used in (*results, *(x for node in self.order for x in graph.operands(node))):
            self.uses[used] += 1
        self.fused: dict[int, int] = {}
        self.angles: dict[int, list[int]] = {}
        free: set[int] = set()
        for node in self.order:
            operation, name, *_ = graph.nodes[node]
            operands = graph.operands(node)
            if operation in (ADD, SUBTRACT):
                for x in reversed(operands):
                    if graph.nodes[x][0] == MULTIPLY and self.uses[x] == 1:
                        self.fused[node] = x
                        break
            if operation == CALL and name in ("cos", "sin"):
                if operands[0] in free:
                    self.angles.setdefault(operands[0], [-1, -1])[name == "sin"] = node
            elif all(x in free for x in operands):
                free.add(node)
        self.early = set(needed(graph, self.angles))
        self.early |= {node for node in self.order if graph.nodes[node][0] == INPUT}
