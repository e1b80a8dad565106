"""The files that the arguments of a command name: all inputs and all outputs.

Each command gives them to :func:`~rbd_control.files.output_files.refuse_clashes` before its work.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from rbd_control.cli.drive_gains import payload_paths
from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.files.input_files import about
from rbd_control.files.output_files import NamedFile
from rbd_control.files.xacro_files import file_of
from rbd_control.playback.bag import recorded_files
from rbd_control.playback.configuration import YAML, described_arm
from rbd_control.robot.robot import ARM7

RECORDING = "RECORDING"
"""Name of the argument with the recordings, as in the help."""


def input_files(arguments: argparse.Namespace, recordings: Iterable[Path]) -> list[NamedFile]:
    """Return the files that ``replay``, ``calibrate`` or ``check`` reads.

    They are the recordings, those of ``--payload-recording`` too, the files of ``--labels`` and
    ``--sheet``, and the files of the arm (:func:`arm_files`).

    Args:
        arguments: parsed arguments of the command; options that it does not have are left out.
        recordings: the recordings; rosbag2 folders count with all their files.
    """
    files = [
        NamedFile(option, file)
        for option, paths in (
            (RECORDING, recordings),
            ("--payload-recording", payload_paths(arguments)),
        )
        for path in paths
        for file in recorded_files(path)
    ]
    for name in ("labels", "sheet"):
        if path := getattr(arguments, name, None):
            files.append(NamedFile(f"--{name}", path))
    return [*files, *arm_files(arguments.urdf, getattr(arguments, "config", None))]


def refuse_repetition(recordings: Iterable[Path]) -> None:
    """Raise an error for a repeated recording.

    It would count its contacts and its time twice, and invalidate the cross-validation of a
    calibration.

    Raises:
        RecordingError: naming the recording.
    """
    seen: set[str] = set()
    for path in recordings:
        target = os.path.realpath(path)  # Path.resolve() fails where links form a loop
        with about(path):
            if target in seen:
                raise RecordingError("is given twice; give each recording once")
        seen.add(target)


def arm_files(
    urdf: str, config: Path | None, options: tuple[str, str] = ("--urdf", "--config")
) -> Iterator[NamedFile]:
    """Yield the robot description, the parameter file, and the description that it names.

    A parameter file that cannot be read is yielded without its description: the command names the
    problem when it reads the file.

    Args:
        urdf: path of the description, or of a parameter file that names it; may be empty.
        config: parameter file, or None.
        options: the options that name ``urdf`` and ``config``.
    """
    if urdf and urdf != ARM7:
        yield NamedFile(options[0], Path(file_of(urdf)), is_arm_file=urdf.endswith(YAML))
    if config is not None:
        yield NamedFile(options[1], config)
    if config is None and urdf.endswith(YAML):
        option, file = options[0], Path(urdf)
    elif config is not None and not urdf:
        option, file = options[1], config
    else:
        return
    if not os.path.isfile(file):
        return  # a pipe can be read only once
    with warnings.catch_warnings(), suppress(RbdControlError):
        warnings.simplefilter("ignore")  # shown when the command reads the file
        named = described_arm("", file).arm.urdf
        if named and named != ARM7:
            yield NamedFile(f"urdf in the file of {option}", Path(file_of(named)))


def result_files(arguments: argparse.Namespace, *in_report: str) -> list[NamedFile]:
    """Return the files of ``--json``, ``--html`` and ``--report``, as far as these are given.

    Args:
        arguments: parsed arguments of the command.
        in_report: names of all files that the command writes into the folder of ``--report``.
    """
    files = [
        NamedFile(f"--{name}", path)
        for name in ("json", "html")
        if (path := getattr(arguments, name))
    ]
    if arguments.report:
        files += [NamedFile("--report", arguments.report / name) for name in in_report]
    return files
