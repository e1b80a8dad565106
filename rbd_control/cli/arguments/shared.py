"""Arguments that several sub-commands have: recordings, robot, parameter file, outputs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeAlias

from rbd_control.cli.arguments.kinds import names, position, seconds

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What sub-commands are added to."""

RECORDING = "rosbag2 folder, or file .db3, .mcap or .csv"
"""Help on a recording."""

URDF = (
    "URDF of the robot, 'arm7' for the arm that ships with the package, or a parameter file "
    "(.yaml) that names the arm in its section /**"
)
"""Help on the description of a robot."""


def add_recording(command: argparse.ArgumentParser, name: str, **more: Any) -> None:
    """Add the positional argument for one recording or several.

    Args:
        command: the parser of the sub-command.
        name: name of the argument.
        more: further arguments of ``add_argument``; ``help`` is :data:`RECORDING` by default.
    """
    command.add_argument(name, type=Path, metavar="RECORDING", **{"help": RECORDING, **more})


def add_robot(command: argparse.ArgumentParser) -> None:
    """Add the arguments that tell which robot moved, and where in the recording."""
    command.add_argument("--urdf", default="", metavar="FILE", help=URDF)
    command.add_argument(
        "--topic",
        default="/joint_states",
        help="topic of the joint states in the recording (default: /joint_states)",
    )
    add_lock(
        command,
        "hold a joint that the recording does not hold, at a position [rad or m]; may be repeated",
    )
    command.add_argument(
        "--recorded-joints",
        dest="joints",
        type=names,
        metavar="A,B,...",
        help="names of the model's joints in the recording, in the order of the model; needed "
        "only if they differ by more than a prefix",
    )
    # The old name, which means something else as a parameter of the nodes.
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
        what: what is taken from the file, and what holds without it.
    """
    command.add_argument(
        "--config",
        type=Path,
        metavar="YAML",
        help=f"parameter file of the detector node{what}",
    )


def add_trust(command: argparse.ArgumentParser) -> None:
    """Add the argument that overrules the judgement of the effort kind."""
    command.add_argument(
        "--trust-effort-kind",
        action="store_true",
        help="go on where the recorded efforts refute the declared effort kind, as the parameter "
        "check_effort_kind: false of the node does",
    )


def add_outputs(command: argparse.ArgumentParser, report: str) -> None:
    """Add the arguments for the folder of the report, and for the results as JSON and HTML.

    Args:
        command: the parser of the sub-command.
        report: what is written into the folder of the report.
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
    """Add the argument for how long a command runs."""
    command.add_argument("--duration", type=seconds, metavar="S", help=meaning)


def add_debug(command: argparse.ArgumentParser, default: object) -> None:
    """Add the argument that prints the traceback of an error."""
    command.add_argument(
        "--debug",
        action="store_true",
        default=default,
        help="print the traceback of an error as well",
    )
