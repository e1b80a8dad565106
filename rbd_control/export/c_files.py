"""Text of one C function, divided into several functions if it has many statements."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rbd_control import __version__
from rbd_control.dynamics import Model
from rbd_control.dynamics.tracing import Tracing, node_of
from rbd_control.errors import InputError
from rbd_control.export import helpers
from rbd_control.export.functions import Argument, ExportedFunction
from rbd_control.export.statements import (
    Body,
    NumberFormat,
    Output,
    Statement,
    identifier,
    literal,
    statements,
)
from rbd_control.files.output_files import write_whole

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


_WIDTH = 96


@dataclass(frozen=True)
class CFiles:
    """Exported C code: the texts of the header and of the source.

    Attributes:
        header: text of the header.
        source: text of the source, which includes the header.
        operations: number of additions, subtractions, multiplications and divisions of each
            function, by its C name.
    """

    header: str
    source: str
    operations: dict[str, int]

    def write(self, header: Path) -> Path:
        """Write the header, then the source; existing files are replaced.

        If the source cannot be written, the new header remains.

        Args:
            header: path of the header; the source is written beside it with the suffix ``.c``.

        Returns:
            The path of the source.

        Raises:
            InputError: when the source includes a header of another name.
            OSError: naming the path, when a file cannot be written.
        """
        included = re.findall('^#include "(.*)"$', self.source, re.MULTILINE)[0]
        if header.name != included.rsplit("/", 1)[-1]:
            raise InputError(
                f"the source includes {included}, not {header.name}; write to a file of that name "
                f"or export with header_name={header.name!r}"
            )
        source = header.with_suffix(".c")
        write_whole(header, self.header.encode("ascii"))
        write_whole(source, self.source.encode("ascii"))
        return source


@dataclass(frozen=True)
class Job:
    """Everything that the exported files depend on, checked.

    Attributes:
        model: the robot.
        functions: functions to export, in their order in the files.
        prefix: prefix of all C names.
        form: floating-point type of the C code.
        header_name: name of the header in the ``#include`` of the source.
        notes: lines about the robot for the comment at the top of the header.
    """

    model: Model
    functions: Sequence[ExportedFunction]
    prefix: str
    form: NumberFormat
    header_name: str
    notes: Sequence[str]


def c_files(job: Job) -> CFiles:
    """Return the header and the source of the functions of an export job.

    Raises:
        TracingError: if a kernel does something that straight-line C code cannot express, such as
            a branch on a value that depends on its inputs.
    """
    definitions, operations = [], {}
    for function in job.functions:
        definition, count = _definition(job, function)
        definitions.append(definition)
        operations[_c_name(job, function)] = count
    return CFiles(_header(job), _source(job, definitions), operations)


def _definition(job: Job, function: ExportedFunction) -> tuple[str, int]:
    """Return the text of one function and its number of floating-point operations."""
    tracing = Tracing(job.model)
    given = [tracing.inputs(x.name, x.shape) for x in function.inputs]
    results = function.trace(tracing, *given)
    outputs = [
        Output(f"{argument.name}[{i}]", node_of(tracing.graph, x))
        for argument, result in zip(function.outputs, results, strict=True)
        for i, x in enumerate(result.flat)
    ]
    body = statements(tracing.graph, outputs, job.form, f"{job.prefix.upper()}_FMA")
    text = c_function(_c_name(job, function), _arguments(job, function), body, job.form, job.prefix)
    return text, body.operations


def _c_name(job: Job, function: ExportedFunction) -> str:
    return f"{job.prefix}_{identifier(function.name)}"


def _arguments(job: Job, function: ExportedFunction) -> Arguments:
    kind = job.form.type_name

    def declared(x: Argument, constant: str) -> str:
        return f"{constant}{kind} {x.name}[{x.size}]" if x.shape else f"{kind} {x.name}"

    return Arguments(
        {x.name: declared(x, "const ") for x in function.inputs},
        {x.name: declared(x, "") for x in function.outputs},
    )


def _header(job: Job) -> str:
    guard = f"{job.prefix.upper()}_H_INCLUDED"
    n = job.model.nv
    lines = [
        helpers.comment(_about(job)),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        f"#define {job.prefix.upper()}_NQ {job.model.nq} /* numbers of q */",
        f"#define {job.prefix.upper()}_NV {n} /* degrees of freedom */",
        f"#define {job.prefix.upper()}_JOINTS {len(job.model.joint_names)}",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        "/** Names of the joints, in the order of all joint vectors. */",
        f"extern const char *const {job.prefix}_joint_names[{len(job.model.joint_names)}];",
        "",
    ]
    for function in job.functions:
        lines += [_documentation(function), _declaration(job, function) + ";", ""]
    if _has_observer(job):
        lines += [helpers.observer_declaration(job.prefix, job.form, job.model.nq, n), ""]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _about(job: Job) -> list[str]:
    """Return the comment at the top of the header."""
    joints = job.model.joint_names
    first = job.model.nv - len(joints)
    lines = [
        f"Dynamics of the robot '{job.model.name}', made by rbd-control export "
        f"(rbd_control {__version__}). Do not edit.",
        "",
        *job.notes,
        "",
        f"Numbers are {job.form.type_name}; matrices are stored row by row. Functions neither "
        "allocate nor keep memory, have no errors and may be called from several threads. Inputs "
        "must be finite. A result may be written over an input. Compile as C99 and link with the "
        "mathematical library (-lm).",
        "",
        f"nq = {job.model.nq}, nv = {job.model.nv}. Joints, in the order of all joint vectors:",
    ]
    if first:
        lines.append(
            "  Floating base: q begins with position [m] and quaternion x y z w of the base, v and "
            "torques with its angular, then its linear part, in the axes of the base."
        )
    for i, name in enumerate(joints):
        lines.append(f"  {first + i}: {name}, moves {job.model.joint_links[i]}")
    return lines


def _documentation(function: ExportedFunction) -> str:
    lines = [function.meaning, ""]
    for what, arguments in (("in", function.inputs), ("out", function.outputs)):
        for x in arguments:
            shape = " x ".join(map(str, x.shape))
            lines.append(f"@param[{what}] {x.name} {f'({shape}) ' if shape else ''}{x.meaning}")
    return helpers.comment(lines, opening="/**")


def _declaration(job: Job, function: ExportedFunction) -> str:
    # textwrap must break lines between parameters only, so other spaces become null bytes.
    parameters = _arguments(job, function).declared.replace(" ", "\0").replace(",\0", ", ")
    text = f"void {_c_name(job, function)}({parameters})"
    return "\n".join(textwrap.wrap(text, _WIDTH, subsequent_indent="    ")).replace("\0", " ")


def _has_observer(job: Job) -> bool:
    """Return whether the observer with its state is exported."""
    return any(function.name == "momentum_observer" for function in job.functions)


def _source(job: Job, definitions: Sequence[str]) -> str:
    joints, n = job.model.joint_names, job.model.nv
    names = ",\n".join(f"    {literal(name)}" for name in joints)
    text = "\n".join(definitions)
    parts = [
        helpers.comment([f"See {job.header_name}. Made by rbd-control export; do not edit."]),
        f'#include "{job.header_name}"',
        "",
        helpers.includes(job.prefix, job.form, with_observer=_has_observer(job)),
        f"const char *const {job.prefix}_joint_names[{len(joints)}] = {{\n{names}\n}};\n",
    ]
    if f"{job.prefix}_cos_sin(" in text:
        parts.append(helpers.cos_sin(job.prefix, job.form))
    parts.append(text)
    if _has_observer(job):
        parts.append(helpers.observer(job.prefix, job.form, job.model.nq, n))
    return "\n".join(parts)
