"""Arguments that several sub-commands have: recordings, robot, parameter file, outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from rbd_control.cli.arguments.kinds import names, position, seconds

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What ``add_subparsers`` of ``argparse`` returns; its ``add_parser`` adds a sub-command."""

RECORDING = "rosbag2 folder, or file .db3, .mcap, .bag (ROS 1) or .csv"
"""Help text for a recording."""

URDF = (
    "URDF of the robot, 'arm7' for the arm that ships with the package, or a parameter file "
    "(.yaml) that names the arm in its section /**"
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

    They are ``--urdf``, ``--topic``, ``--lock`` and ``--recorded-joints`` (hidden also as
    ``--joints``).

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
    # The former name, which is also the name of a different parameter of the nodes.
    command.add_argument("--joints", type=names, help=argparse.SUPPRESS)


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
