"""Arguments of ``rbd-control check``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.shared import (
    Commands,
    add_config,
    add_outputs,
    add_recording,
    add_robot,
)
from rbd_control.errors import InputError
from rbd_control.startup.standard_streams import ros_needed


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
    add_recording(check, "recording", nargs="?")
    add_robot(check)
    add_config(
        check,
        ": declared kind of effort, and thresholds; without it, efforts count as torques and "
        "thresholds are estimated from the recording",
    )
    add_outputs(check, "check.json and check.html")
    loop = check.add_argument_group(
        "control loop",
        "Instead of a recording, let a running controller measure its loop with small torques, "
        "while it holds the arm (mode hold): the delay, missing inertia of motors, resonance, and "
        "the largest stable gains. Exit code 1 if the delay is not determined.",
    )
    loop.add_argument("--loop", action="store_true", help="measure the loop of a controller")
    loop.add_argument(
        "--node",
        metavar="NAME",
        help="name of the controller (default: /passivity_controller)",
    )
    loop.add_argument(
        "--write",
        type=Path,
        metavar="YAML",
        help="write the result into this parameter file, in the section passivity_controller",
    )
    check.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.loop:
        return _measure(arguments)
    if arguments.recording is None:
        raise InputError("give a recording, or --loop to measure the loop of a running controller")
    for name in ("node", "write"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} belongs to --loop; add --loop, or leave it out")
    from rbd_control.cli.check import run_check

    return run_check(arguments)


def _measure(arguments: argparse.Namespace) -> int:
    if arguments.recording is not None:
        raise InputError("--loop needs a running controller and no recording; give one of them")
    with ros_needed("check --loop"):
        from rbd_control.live.requests import run_loop_check
    code: int = run_loop_check(arguments.node or "/passivity_controller", arguments.write)
    return code
