"""The rule that a command never writes an output over one of its inputs or other outputs.

Standard output counts as an output: it takes the text of the command, and no file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rbd_control.errors import InputError

STANDARD_OUTPUT = Path("-")
"""The usual name of standard output; a file of this name can be given by its absolute path."""


@dataclass(frozen=True)
class NamedFile:
    """A file that a command reads or writes.

    Attributes:
        option: the option or argument that names it, as in the help: ``--json``, ``RECORDING``.
        path: its path; a relative path starts at the working directory.
        is_arm_file: whether it is an arm file; an output that is an arm file may replace the arm
            file of an input, because ``calibrate`` keeps its parameters.
    """

    option: str
    path: Path
    is_arm_file: bool = False


def refuse_clashes(inputs: Iterable[NamedFile], outputs: Iterable[NamedFile]) -> None:
    """Raise an error if an output is also an input or another output, or is named ``-``.

    Call it before the work.

    Files are compared by their real paths, so that links count as the files they lead to. Devices
    and pipes, such as ``/dev/null``, may occur several times. Inputs need not exist.

    Args:
        inputs: all files that the command reads.
        outputs: all files that the command writes.

    Raises:
        InputError: naming the file and both options.
    """
    readers: dict[str, list[NamedFile]] = {}
    for source in inputs:
        readers.setdefault(os.path.realpath(source.path), []).append(source)
    writers: dict[str, str] = {}
    for output in outputs:
        if output.path == STANDARD_OUTPUT:
            raise _refused(
                output.path,
                f"is no file: standard output takes the text of the command; give {output.option} "
                "the name of a file",
            )
        target = os.path.realpath(output.path)
        if os.path.exists(target) and not os.path.isfile(target):
            continue
        for reader in readers.get(target, ()):
            if not (reader.is_arm_file and output.is_arm_file):
                raise _refused(
                    output.path,
                    f"is an input ({reader.option}) and an output ({output.option}) of one "
                    "command; give another output",
                )
        if target in writers:
            raise _refused(
                output.path,
                f"is the output of both {writers[target]} and {output.option}; give each output a "
                "file of its own",
            )
        writers[target] = output.option


def _refused(path: Path, problem: str) -> InputError:
    error = InputError(problem)
    error.path = str(path)
    return error
