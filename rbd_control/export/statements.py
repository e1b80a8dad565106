"""Expressions as ordered C statements, with identifiers and literals.

**Conversion of expressions to ordered C statements.**

A statement assigns one node. Nodes that no output needs are omitted (dead code). Most nodes with a
single use are written inline. A product and the sum that uses it are written as ``FMA``, a single
instruction on most processors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.expression_graph import (
    ADD,
    CALL,
    CONSTANT,
    INPUT,
    NEGATE,
    SUBTRACT,
    WHOLE,
    Graph,
    Plan,
)
from rbd_control.errors import InputError


def identifier(text: str) -> str:
    """Return ``text`` with every character that a C name cannot contain replaced by ``_``.

    A digit at the beginning remains, so use the result behind a prefix.
    """
    return re.sub(r"\W", "_", text, flags=re.ASCII)


def checked_prefix(prefix: str) -> str:
    """Return a prefix of C names unchanged, after checking it.

    Raises:
        InputError: if the prefix is not a C identifier that begins with a letter.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix, re.ASCII):
        raise InputError(
            f"prefix {prefix!r} is no C identifier; give letters, digits and underscores, a letter "
            f"first, with --prefix"
        )
    return prefix


def default_prefix(name: str) -> str:
    """Return a valid prefix of C names, in lower case, made from the name of a robot or file.

    If the name does not yield a prefix that begins with a letter, the prefix begins with ``robot``.
    """
    made = identifier(name).strip("_").lower()
    if not made or made[0].isdigit():
        made = f"robot_{made}".rstrip("_")
    return made


def checked_header_name(name: str) -> str:
    """Return the name of a header unchanged, after checking it for ``#include``.

    Raises:
        InputError: if the name is empty or has characters other than ASCII letters, digits, spaces
            and ``. _ + - /``.
    """
    if not re.fullmatch(r"[\w.+/ -]+", name, re.ASCII):
        raise InputError(
            f"header name {name!r} has characters that #include does not accept everywhere; use "
            "letters, digits and . _ + -"
        )
    return name


def in_comment(text: str) -> str:
    """Return ``text`` in a form that is safe in a C comment.

    Characters other than printable ASCII become ``?``. Marks of comments and pairs of question
    marks are separated by a space.
    """
    shown = "".join(c if " " <= c <= "~" else "?" for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def literal(text: str) -> str:
    """Return ``text`` as a C string literal in UTF-8, with quotes; special bytes are escaped."""
    escaped = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        # Three octal digits, because a hexadecimal escape would include digits that follow.
        escaped.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(escaped)}"'


@dataclass(frozen=True)
class NumberFormat:
    """The floating-point type of the exported code.

    Attributes:
        single: whether the type is ``float`` instead of ``double``.
    """

    single: bool = False

    @property
    def type_name(self) -> str:
        """Name of the C type, ``float`` or ``double``."""
        return "float" if self.single else "double"

    @property
    def suffix(self) -> str:
        """Suffix of constants and of functions of ``math.h``: ``f`` for float, else empty."""
        return "f" if self.single else ""

    def constant(self, value: float) -> str:
        """Return a C constant with the fewest digits that give ``value``, rounded to this type."""
        text = str(np.float32(value)) if self.single else repr(float(value))
        return text + self.suffix

    def call(self, function: str) -> str:
        """Return the name in ``math.h`` of a function for this type, such as ``cosf`` for cos."""
        return function + self.suffix


LONGEST = 60
"""Length up to which an expression is written inline in another [characters]."""

_SUM, _PRODUCT, _ATOM = 1, 2, 3
"""Precedence of the operators of an expression."""


class Output(NamedTuple):
    """One number of a result: the node of the graph ``node`` is written to ``target``."""

    target: str
    """Destination in C, such as ``tau[2]``."""
    node: int


class Statement(NamedTuple):
    """One line of C, with a :func:`placeholder` for the name of each node."""

    text: str
    """Text of the expression."""
    uses: tuple[int, ...]
    """Nodes that the expression reads."""
    node: int = -1
    """Node that the statement computes; -1 if it writes an output."""
    target: str = ""
    """Output that the statement writes; empty if it computes a node."""


class Angle(NamedTuple):
    """An angle whose cosine and sine are computed; ``text`` is its expression in C.

    ``uses`` are the nodes that the expression reads.
    """

    text: str
    uses: tuple[int, ...]
    cosine: int
    """Node of the cosine; -1 if the cosine is not used."""
    sine: int
    """Node of the sine; -1 if the sine is not used."""


@dataclass
class Body:
    """Statements of one function in order, before the nodes have names."""

    before: list[Statement] = field(default_factory=list)
    """Statements of the inputs and of the nodes that the angles depend on."""
    angles: list[Angle] = field(default_factory=list)
    """Angles whose cosines and sines are computed together."""
    after: list[Statement] = field(default_factory=list)
    """All other statements."""
    operations: int = 0
    """Number of additions, subtractions, multiplications and divisions; calls do not count."""


class _Text(NamedTuple):
    text: str
    strength: int
    uses: tuple[int, ...] = ()

    def at_least(self, strength: int) -> str:
        """Return the text, in parentheses if its precedence is lower than ``strength``."""
        return self.text if self.strength >= strength else f"({self.text})"


def placeholder(node: int) -> str:
    """Return the text that stands for the name of a node in a statement until names are given."""
    return f"\0{node}\0"


def statements(
    graph: Graph, outputs: Sequence[Output], form: NumberFormat, fma: str = "FMA"
) -> Body:
    """Return the C statements that compute the outputs, in order.

    Args:
        graph: graph of the expressions.
        outputs: all numbers that the C function writes.
        form: floating-point type.
        fma: name of the C macro for fused multiply-add.
    """
    return _Writer(graph, outputs, form, fma).body


class _Writer:
    """Writes the statements of one function, node by node."""

    def __init__(
        self, graph: Graph, outputs: Sequence[Output], form: NumberFormat, fma: str
    ) -> None:
        self._graph, self._form, self._fma = graph, form, fma
        self._plan = plan = Plan(graph, [output.node for output in outputs])
        self._targets: dict[int, list[str]] = {}
        for output in outputs:
            self._targets.setdefault(output.node, []).append(output.target)
        self._products = set(plan.fused.values())
        self._together = {node for pair in plan.angles.values() for node in pair}
        self._texts: dict[int, _Text] = {}
        self.body = Body()
        self._write([node for node in plan.order if node in plan.early], self.body.before)
        for node, (cosine, sine) in plan.angles.items():
            text = self._texts[node]
            self.body.angles.append(Angle(text.text, text.uses, cosine, sine))
        self._write([node for node in plan.order if node not in plan.early], self.body.after)

    def _write(self, nodes: Sequence[int], lines: list[Statement]) -> None:
        """Append the statements of ``nodes`` to ``lines``, and store texts of inline nodes."""
        for node in nodes:
            operation = self._graph.nodes[node][0]
            if node in self._products:
                self.body.operations += 1
                continue
            if node in self._together:
                text = _Text(placeholder(node), _ATOM, (node,))
            else:
                text = self._text(node)
                short = self._plan.uses[node] == 1 and len(text.text) <= LONGEST
                if operation == INPUT or not (short or operation in (CONSTANT, NEGATE)):
                    lines.append(Statement(text.text, text.uses, node))
                    text = _Text(placeholder(node), _ATOM, (node,))
            self._texts[node] = text
            # After all inputs are loaded, because a result may be written over an input.
            for target in self._targets.get(node, ()):
                self.body.after.append(Statement(text.text, text.uses, target=target))

    def _text(self, node: int) -> _Text:
        operation, *rest = self._graph.nodes[node]
        if operation == CONSTANT:
            text = self._form.constant(float(rest[0]))
            return _Text(text, _SUM if text.startswith("-") else _ATOM)
        if operation == INPUT:
            return _Text(f"{rest[0]}" if rest[1] == WHOLE else f"{rest[0]}[{rest[1]}]", _ATOM)
        operands = [int(x) for x in rest if isinstance(x, int)]
        if operation == CALL:
            x = self._texts[operands[0]]
            return _Text(f"{self._form.call(str(rest[0]))}({x.text})", _ATOM, x.uses)
        self.body.operations += operation != NEGATE
        if operation == NEGATE:
            x = self._texts[operands[0]]
            return _Text(f"-{x.at_least(_ATOM)}", _SUM, x.uses)
        if node in self._plan.fused:
            return self._fused_text(operation, operands, self._plan.fused[node])
        x, y = (self._texts[operand] for operand in operands)
        strength = _SUM if operation in (ADD, SUBTRACT) else _PRODUCT
        text = f"{x.at_least(strength)} {operation} {y.at_least(strength + 1)}"
        return _Text(text, strength, x.uses + y.uses)

    def _fused_text(self, operation: object, operands: Sequence[int], product: int) -> _Text:
        """Return the text of a fused multiply-add: a + b x, a - b x or b x - a."""
        factors = [self._texts[int(x)] for x in self._graph.nodes[product][1:]]
        (rest,) = [x for x in operands if x != product]
        addend = self._texts[rest]
        left, right, last = factors[0].text, factors[1].text, addend.text
        if operation == SUBTRACT and product == operands[1]:
            left = f"-{factors[0].at_least(_ATOM)}"
        elif operation == SUBTRACT:
            last = f"-{addend.at_least(_ATOM)}"
        uses = factors[0].uses + factors[1].uses + addend.uses
        return _Text(f"{self._fma}({left}, {right}, {last})", _ATOM, uses)
