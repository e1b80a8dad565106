"""Text of one C function, divided into several functions if it has many statements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rbd_control.export.number_format import NumberFormat
from rbd_control.export.statements import Body, Statement

LARGEST_PART = 3000
"""Largest number of statements of a C function; longer functions are divided into parts.

The time of a C compiler grows faster than the number of statements.
"""

_PLACEHOLDER = re.compile("\0(\\d+)\0")
_INDENT = "    "


@dataclass(frozen=True)
class Arguments:
    """Arguments of a C function as they are declared.

    Attributes:
        inputs: declaration of each input by name, such as ``const double q[7]``.
        outputs: declaration of each output by name, such as ``double tau[7]``.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    @property
    def declared(self) -> str:
        """Parameter list of the C function: inputs, then outputs, separated by commas."""
        return ", ".join([*self.inputs.values(), *self.outputs.values()])


def c_function(name: str, arguments: Arguments, body: Body, form: NumberFormat, prefix: str) -> str:
    """Return the text of the C definition of a function, preceded by the parts that it calls.

    It is divided into parts if it has more than :data:`LARGEST_PART` statements.

    Args:
        name: C name of the function.
        arguments: arguments of the function.
        body: statements of the function.
        form: floating-point type.
        prefix: prefix of the helper functions of the file, such as ``<prefix>_cos_sin``.
    """
    if len(body.after) <= LARGEST_PART:
        return _whole(name, arguments, body, form, prefix)
    return _InParts(name, arguments, body, form, prefix).text()


def _whole(name: str, arguments: Arguments, body: Body, form: NumberFormat, prefix: str) -> str:
    """Return a function in one piece."""
    names: dict[int, str] = {}
    lines = [_line(each, names, form) for each in body.before]
    lines += _angles(body, names, form, prefix)
    lines += [_line(each, names, form) for each in body.after]
    return _defined(f"void {name}({arguments.declared})", _unused(arguments, body) + lines)


def _angles(body: Body, names: dict[int, str], form: NumberFormat, prefix: str) -> list[str]:
    """Return the lines that compute cosines and sines, and add their names to ``names``."""
    count = len(body.angles)
    if not count:
        return []
    values = ", ".join(_named(angle.text, names) for angle in body.angles)
    for i, angle in enumerate(body.angles):
        names[angle.cosine], names[angle.sine] = f"cosine[{i}]", f"sine[{i}]"
    kind = form.type_name
    return [
        f"const {kind} angle[{count}] = {{{values}}};",
        f"{kind} cosine[{count}], sine[{count}];",
        f"{prefix}_cos_sin({count}, angle, cosine, sine);",
    ]


def _line(statement: Statement, names: dict[int, str], form: NumberFormat) -> str:
    """Return the C line of a statement; if it computes a node, add the node's name to ``names``."""
    text = _named(statement.text, names)
    if statement.target:
        return f"{statement.target} = {text};"
    names[statement.node] = f"t{len(names)}"
    return f"const {form.type_name} {names[statement.node]} = {text};"


def _named(text: str, names: Mapping[int, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: names[int(found[1])], text)


def _unused(arguments: Arguments, body: Body) -> list[str]:
    """Return the lines that suppress compiler warnings about unused inputs."""
    used = {re.split(r"\W", each.text)[0] for each in body.before}
    return [f"(void){name};" for name in arguments.inputs if name not in used]


def _defined(head: str, lines: Sequence[str]) -> str:
    inner = "".join(f"{_INDENT}{line}\n" for line in lines)
    return f"{head}\n{{\n{inner}}}\n"


class _InParts:
    """Writes a function in several parts, which pass intermediate results in a work array.

    The array is on the stack of the function, so the function may be called from several threads.
    """

    def __init__(
        self, name: str, arguments: Arguments, body: Body, form: NumberFormat, prefix: str
    ) -> None:
        self._name, self._arguments, self._body = name, arguments, body
        self._form, self._prefix = form, prefix
        after = body.after
        self._parts = [after[i : i + LARGEST_PART] for i in range(0, len(after), LARGEST_PART)]
        self._last = self._last_uses()
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        self._size = 2 * len(body.angles)

    def text(self) -> str:
        """Return the text of the parts and of the function that calls them."""
        main = self._main()
        helpers = [self._part(i, part) for i, part in enumerate(self._parts)]
        calls = [f"{self._part_name(i)}({self._passed(i)});" for i in range(len(self._parts))]
        kind = self._form.type_name
        lines = [f"{kind} w[{self._size}];", *main, *calls]
        whole = _defined(f"void {self._name}({self._arguments.declared})", lines)
        return "\n".join([*helpers, whole])

    def _last_uses(self) -> dict[int, int]:
        """Return for each node the index of the last part that uses it."""
        return {
            node: i
            for i, part in enumerate(self._parts)
            for statement in part
            for node in statement.uses
        }

    def _main(self) -> list[str]:
        """Return the lines of the function before it calls the first part."""
        names: dict[int, str] = {}
        lines = _unused(self._arguments, self._body)
        for statement in self._body.before:
            lines.append(_line(statement, names, self._form))
            if statement.node in self._last:
                lines.append(f"w[{self._slot(statement.node)}] = {names[statement.node]};")
        count = len(self._body.angles)
        if count:
            values = ", ".join(_named(angle.text, names) for angle in self._body.angles)
            lines.append(f"const {self._form.type_name} angle[{count}] = {{{values}}};")
            lines.append(f"{self._prefix}_cos_sin({count}, angle, w, w + {count});")
        for i, angle in enumerate(self._body.angles):
            self._slots[angle.cosine], self._slots[angle.sine] = i, count + i
            for node in (angle.cosine, angle.sine):
                # The places of cosines and sines are never reused.
                self._last[node] = len(self._parts)
        return lines

    def _part(self, i: int, part: Sequence[Statement]) -> str:
        names = {node: f"w[{slot}]" for node, slot in self._slots.items()}
        lines = []
        for statement in part:
            lines.append(_line(statement, names, self._form))
            node = statement.node
            if self._last.get(node, -1) > i:
                lines.append(f"w[{self._slot(node)}] = {names[node]};")
        for node in [node for node in self._slots if self._last[node] <= i]:
            self._free.append(self._slots.pop(node))
        if not any("w[" in line for line in lines):
            lines.append("(void)w;")
        head = f"static void {self._part_name(i)}({self._declared(i)})"
        return _defined(head, lines)

    def _slot(self, node: int) -> int:
        """Reserve a place in the work array for a node, and return its index."""
        if self._free:
            self._slots[node] = self._free.pop()
        else:
            self._slots[node], self._size = self._size, self._size + 1
        return self._slots[node]

    def _part_name(self, i: int) -> str:
        return f"{self._name}_part{i + 1}"

    def _targets(self, i: int) -> list[str]:
        """Return the outputs that a part writes."""
        written = {s.target.partition("[")[0] for s in self._parts[i] if s.target}
        return [name for name in self._arguments.outputs if name in written]

    def _passed(self, i: int) -> str:
        return ", ".join(["w", *self._targets(i)])

    def _declared(self, i: int) -> str:
        outputs = [self._arguments.outputs[name] for name in self._targets(i)]
        return ", ".join([f"{self._form.type_name} *w", *outputs])
