"""Text of the two exported files: the header with the documentation, and the source."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rbd_control import __version__
from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.export import helpers
from rbd_control.export.c_function import Arguments, c_function
from rbd_control.export.functions import Argument, ExportedFunction
from rbd_control.export.identifiers import identifier, literal
from rbd_control.export.number_format import NumberFormat
from rbd_control.export.statements import Output, statements
from rbd_control.export.tracing import Tracing
from rbd_control.export.tracing_scalar import node_of
from rbd_control.files.output_files import write_whole

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
