"""Arguments that several sub-commands have: recordings, robot, parameter file, outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from rbd_control.cli.arguments.kinds import names, position, seconds

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The parser that sub-commands are added to."""

RECORDING = "rosbag2 folder, or file .db3, .mcap or .csv"
"""Help text for a recording."""

URDF = (
    "URDF of the robot, 'arm7' for the arm that ships with the package, or a parameter file "
    "(.yaml) that names the arm in its section /**"
)
"""Help text for a robot description."""


def add_recording(command: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Add the positional argument for one recording or several.

    Args:
        command: the parser of the sub-command.
        name: name of the argument.
        more: further arguments of ``add_argument``; ``help`` is :data:`RECORDING` by default.
    """
    command.add_argument(name, type=Path, metavar="RECORDING", **{"help": RECORDING, **more})


def add_robot(command: argparse.ArgumentParser) -> None:
    """Add the arguments for the robot, its joints, and the topic of its joint states."""
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
    """Add the argument that holds joints at a position."""
    command.add_argument(
        "--lock",
        type=position,
        action="append",
        default=[],
        metavar="JOINT=POSITION",
        help=meaning,
    )


def add_config(command: argparse.ArgumentParser, what: str) -> None:
    """Add the argument for a parameter file of the detector.

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
    """Add the argument that overrules a refuted effort kind."""
    command.add_argument(
        "--trust-effort-kind",
        action="store_true",
        help="continue if the recorded efforts refute the declared effort kind, like the node with "
        "the parameter check_effort_kind: false",
    )


def add_outputs(command: argparse.ArgumentParser, report: str) -> None:
    """Add the arguments for the folder of the report, and for the results as JSON and HTML.

    Args:
        command: the parser of the sub-command.
        report: description of the files in the folder of the report.
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
    """Add the argument for the duration of a command."""
    command.add_argument("--duration", type=seconds, metavar="S", help=meaning)


def add_debug(command: argparse.ArgumentParser, default: object) -> None:
    """Add the argument that prints the traceback of an error."""
    command.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="print the traceback of an error as well",
    )
