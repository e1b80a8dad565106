"""Arguments of ``rbd-control check``."""

from __future__ import annotations

import argparse

from rbd_control.cli.arguments.shared import (
    Commands,
    add_config,
    add_outputs,
    add_recording,
    add_robot,
)


def add_command(commands: Commands) -> None:
    """Add the sub-command ``check`` with its arguments to the parser of ``rbd-control``."""
    check = commands.add_parser(
        "check",
        help="report the quality of a recording and the weakest detectable push",
        description="Print one page about a recording: whether joints, rate and stamps are right, "
        "the kind of each joint's effort, whether payload, mounting and order of the joints are "
        "as described, and the weakest detectable push on each link. Record a free motion in "
        "which every joint moves back and forth.",
        epilog="exit code 1 if a line is red (WRONG), 0 if all are green (GOOD) or yellow (LOOK)",
    )
    add_recording(check, "recording")
    add_robot(check)
    add_config(
        check,
        ": declared kind of effort, and thresholds; without it, efforts count as torques and "
        "thresholds are estimated from the recording",
    )
    add_outputs(check, "check.json and check.html")
    check.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.check import run_check

    return run_check(arguments)
