"""``rbd-control export``: the dynamics of one arm, with its parameters as constants, as C code."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from rbd_control.cli.command_files import arm_files
from rbd_control.cli.next_command import print_next
from rbd_control.errors import InputError
from rbd_control.export import CFiles, export_c
from rbd_control.export.statements import default_prefix
from rbd_control.files.output_files import NamedFile, prepare_output, refuse_clashes
from rbd_control.files.xacro_files import with_file
from rbd_control.reports.console import console_for_output
from rbd_control.reports.page import Row, Table
from rbd_control.robot.robot import Robot


def run_export(arguments: argparse.Namespace) -> int:
    """Write the chosen functions of an arm's dynamics as a C header and source; return 0.

    The number of operations of each function and the sizes of the files are printed.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

    Raises:
        RbdControlError: for bad input; the message names the file if the input is a file. Also if
            an output would replace an input.
        OSError: naming a file that cannot be written.
    """
    header: Path = arguments.out
    if header.suffix != ".h":
        raise InputError(f"--out is {header.name}; give a file that ends with .h")
    urdf = arguments.urdf
    outputs = [NamedFile("--out", path) for path in (header, header.with_suffix(".c"))]
    refuse_clashes(arm_files(urdf, None, ("URDF", "")), outputs)
    for output in outputs:
        prepare_output(output.path)
    held = _held(urdf, dict(arguments.lock), arguments.joints)
    robot = Robot.load(urdf, locked=held)
    # Only the file name, because exported files may be published.
    notes = [f"Made from: {with_file(urdf, lambda path: Path(path).name)}"]
    if held:
        positions = ", ".join(f"{name} at {position:g}" for name, position in held.items())
        notes.append(f"Joints fixed at these positions: {positions} (rad or m).")
    files = export_c(
        robot,
        prefix=arguments.prefix or default_prefix(header.stem),
        functions=arguments.functions or (),
        links=arguments.link,
        single=arguments.single,
        header_name=header.name,
        notes=notes,
    )
    source = files.write(header)
    console = console_for_output()
    _print(files, header, source, console)
    print_next(console, "compile it", "cc", "-std=c99", "-O2", "-c", source)
    return 0


def _held(urdf: str, locked: Mapping[str, float], joints: Sequence[str] | None) -> dict[str, float]:
    """Return the positions of the fixed joints by name [rad or m].

    These are the joints in ``locked``, and, if ``joints`` is given, at zero all joints that it does
    not name.

    Raises:
        InputError: for a name in ``joints`` that the robot lacks.
    """
    held = dict(locked)
    if joints:
        model = Robot.load(urdf, locked=locked).model
        for name in joints:
            model.joint_index(name)
        held |= {name: 0.0 for name in model.joint_names if name not in joints}
    return held


def _print(files: CFiles, header: Path, source: Path, console: Console) -> None:
    """Print the functions with their operations, and the size of the files."""
    rows = tuple(Row((name, str(count))) for name, count in files.operations.items())
    headings = ("function", "operations")
    console.print(Table("", headings, rows, left=headings[:1], no_wrap=headings[:1]).on_console())
    for path, text in ((header, files.header), (source, files.source)):
        console.print(f"{path}: {len(text) / 1e3:.0f} kB", markup=False)
