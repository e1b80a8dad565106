"""Arguments that several sub-commands have, and the conversion of their values.

The functions of the first part are values of ``type`` for ``argparse``: each receives the text of
an argument, and an error names the expected kind of value.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import Any, TypeAlias

from rbd_control.errors import InputError

_ROS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
"""A relative name of ROS 2: tokens with slashes between them."""

LONGEST_NAME = 200
"""Longest name of a node or namespace [characters].

ROS 2 limits the full name of a topic to about 250 characters.
"""


def finite(text: str) -> float:
    """Return a text as a finite number.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def positive(text: str) -> float:
    """Return a text as a finite number above 0.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return _above_zero(text, "", "number")


def share(text: str) -> float:
    """Return a text as a number above 0 and at most 1.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    value = positive(text)
    if value > 1.0:
        raise argparse.ArgumentTypeError(f"{text}; give a share above 0 and at most 1")
    return value


def seconds(text: str) -> float:
    """Return a text as a finite duration above 0 [s].

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return _above_zero(text, " s", "duration")


def port(text: str) -> int:
    """Return a text as the number of a TCP port, from 0 to 65535.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}; give a number from 0 to 65535")
    return int(text)


def count(text: str) -> int:
    """Return a text as a whole number from 1 to 4096.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    if not text.isdecimal() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r}; give a whole number from 1 to 4096")
    return int(text)


def position(text: str) -> tuple[str, float]:
    """Return joint and position [rad or m] of ``JOINT=POSITION``; the position must be finite.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    joint, equals, where = text.rpartition("=")
    if not equals or not joint:
        raise argparse.ArgumentTypeError(f"{text!r}; give JOINT=POSITION")
    return joint, finite(where)


def numbers(text: str) -> tuple[float, ...]:
    """Return the finite numbers in a text with commas between them, such as ``0,0,0.1``.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    return tuple(finite(part) for part in text.split(","))


def names(text: str) -> list[str]:
    """Return the names in a text with commas between them, without spaces around the names."""
    return [name.strip() for name in text.split(",")]


def node_name(text: str) -> str:
    """Return the name of a ROS node, with its namespace, without slashes at its ends.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    name = namespace(text)
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r}; give the name of a node")
    return name


def namespace(text: str) -> str:
    """Return a ROS namespace without slashes at its ends; empty for no namespace.

    Raises:
        argparse.ArgumentTypeError: for any other text.
    """
    name = text.strip("/")
    if name and not _ROS_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a valid ROS name; use letters, digits and underscores, no digit "
            "first, and single slashes between names"
        )
    if len(name) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"the name has {len(name)} characters; give at most {LONGEST_NAME}"
        )
    return name


def _above_zero(text: str, unit: str, what: str) -> float:
    value = finite(text)
    if value <= 0.0:
        raise argparse.ArgumentTypeError(f"{text}{unit}; give a {what} above 0")
    return value


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What ``add_subparsers`` of ``argparse`` returns; its ``add_parser`` adds a sub-command."""

RECORDING = "rosbag2 folder, or file .db3, .mcap, .bag (ROS 1) or .csv"
"""Help text for a recording."""

URDF = (
    "URDF of the robot, a xacro file with its arguments NAME:=VALUE after it, 'arm7' for the arm "
    "that ships with the package, or a parameter file (.yaml) that names the arm in its section /**"
)
"""Help text for a robot description."""


def add_recording(command: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Add the positional argument ``RECORDING`` for one or several paths of recordings.

    Args:
        command: the parser of the sub-command.
        name: name of the attribute that the parsed arguments have for it.
        more: further arguments of ``add_argument``, such as ``nargs="+"`` for several recordings;
            ``help`` is :data:`RECORDING` by default.
    """
    command.add_argument(name, type=Path, metavar="RECORDING", **{"help": RECORDING, **more})


def add_robot(command: argparse.ArgumentParser) -> None:
    """Add the arguments for the robot, its joints, and the topic of its joint states.

    They are ``--urdf``, ``--topic``, ``--lock`` and ``--recorded-joints``.

    Args:
        command: the parser of the sub-command.
    """
    command.add_argument("--urdf", default="", metavar="FILE", help=URDF)
    command.add_argument(
        "--topic",
        default="/joint_states",
        help="topic of the joint states in the recording (default: /joint_states)",
    )
    add_lock(
        command,
        "fix a joint that is not in the recording at a position [rad or m]; may be repeated",
    )
    command.add_argument(
        "--recorded-joints",
        dest="joints",
        type=names,
        metavar="A,B,...",
        help="names of the model's joints in the recording, in the order of the model; needed "
        "only if they differ by more than a prefix",
    )


def add_lock(command: argparse.ArgumentParser, meaning: str) -> None:
    """Add the argument ``--lock``, which fixes a joint at a position [rad or m]; repeatable.

    Args:
        command: the parser of the sub-command.
        meaning: help text.
    """
    command.add_argument(
        "--lock",
        type=position,
        action="append",
        default=[],
        metavar="JOINT=POSITION",
        help=meaning,
    )


def add_config(command: argparse.ArgumentParser, what: str) -> None:
    """Add the argument ``--config`` for a parameter file of the contact detector.

    Args:
        command: the parser of the sub-command.
        what: end of the help text: the use of the file, and the default without it.
    """
    command.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help=f"parameter file of the detector node{what}",
    )


def add_trust(command: argparse.ArgumentParser) -> None:
    """Add ``--trust-effort-kind``: keep the declared effort kind even if the efforts refute it.

    The effort kind says whether efforts are torques, currents, or torques without gravity.

    Args:
        command: the parser of the sub-command.
    """
    command.add_argument(
        "--trust-effort-kind",
        action="store_true",
        help="continue if the recorded efforts refute the declared effort kind, like the node with "
        "the parameter check_effort_kind: false",
    )


def add_outputs(command: argparse.ArgumentParser, report: str) -> None:
    """Add the arguments ``--report`` (folder), ``--json`` and ``--html`` (files) for the results.

    Args:
        command: the parser of the sub-command.
        report: names of the files that the command writes into the folder, for the help text.
    """
    command.add_argument("--report", type=Path, metavar="DIR", help=f"folder for {report}")
    command.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    command.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a report with interactive plots as one HTML file; needs the extra 'report'",
    )


def add_duration(
    command: argparse.ArgumentParser, meaning: str = "end after this time [s]"
) -> None:
    """Add the argument ``--duration`` [s], whose value is None if the option is not given.

    Args:
        command: the parser of the sub-command.
        meaning: help text.
    """
    command.add_argument("--duration", type=seconds, metavar="S", help=meaning)


def add_debug(command: argparse.ArgumentParser, default: object) -> None:
    """Add the argument ``--debug``, which prints the traceback of an error.

    Args:
        command: the main parser, or the parser of a sub-command.
        default: value without the option; ``argparse.SUPPRESS`` in a sub-command keeps the value of
            the main parser.
    """
    command.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="print the traceback of an error as well",
    )


_FORMATS = ("csv", "parquet")


def add_fleet(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the arguments for many recordings at once, and return their group of arguments.

    They are ``--fleet``, ``--format``, ``--workers``, ``--scheduler`` and ``--sheet``.

    Args:
        command: the parser of the sub-command.
    """
    group = command.add_argument_group(
        "a fleet of recordings",
        "With --fleet, RECORDING may also be a folder of recordings or a glob pattern. Recordings "
        "are processed in parallel. A recording that cannot be used is reported and skipped. A "
        "second run processes only recordings that are new or have changed.",
    )
    group.add_argument(
        "--fleet",
        type=Path,
        metavar="DIR",
        help="folder for the results: one JSON file per recording and one table",
    )
    add_format(group)
    group.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="number of worker processes (default: one for each core)",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler whose workers are used instead, such as tcp://host:8786",
    )
    group.add_argument(
        "--sheet",
        type=Path,
        metavar="CSV",
        help="properties of each recording; columns recording (path or pattern), and any of arm, "
        "day, urdf, config, free (default name of an arm: the folder of the recording)",
    )
    return group


def add_format(group: argparse._ActionsContainer) -> None:
    """Add the argument ``--format`` for the format of tables: ``csv`` or ``parquet``."""
    group.add_argument(
        "--format",
        choices=_FORMATS,
        default=None,
        help="format of the table (default: csv; parquet needs the extra 'fleet')",
    )


def refuse_fleet_options(arguments: argparse.Namespace) -> None:
    """Raise an error for options that apply only with ``--fleet``; call it if that is not given.

    Args:
        arguments: the parsed arguments of ``replay`` or ``calibrate``.

    Raises:
        InputError: naming the first of ``--workers``, ``--scheduler``, ``--sheet``, ``--format``
            and ``--free`` that is given.
    """
    for name in ("workers", "scheduler", "sheet", "format", "free"):
        if getattr(arguments, name, None):
            raise InputError(f"--{name} is for a fleet of recordings; give --fleet DIR as well")
