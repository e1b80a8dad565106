"""Arguments of ``rbd-control replay``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.fleet import add_fleet, refuse_fleet_options
from rbd_control.cli.arguments.shared import (
    Commands,
    add_config,
    add_outputs,
    add_recording,
    add_robot,
    add_trust,
)


def add_command(commands: Commands) -> None:
    """Add the sub-command ``replay`` with its arguments to the parser of ``rbd-control``."""
    replay = commands.add_parser(
        "replay",
        help="run recordings through the contact detector",
        description="Run the joint states of recordings through the detector that the node runs, "
        "and print the detected contacts. If the true contacts are known, the detector is scored "
        "against them.",
        epilog="exit code 1 if the detector has no verdict at any time in one of the recordings, "
        "or a recording of a fleet cannot be used",
    )
    add_recording(replay, "recordings", nargs="+")
    add_robot(replay)
    add_config(
        replay,
        " (section contact_detector); without it, thresholds are defaults and friction is not "
        "modelled",
    )
    replay.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="true contacts for the score, which replace true contacts in the recording; columns "
        "recording, begin [s], end [s], link, force [N]",
    )
    replay.add_argument(
        "--curve",
        action="store_true",
        help="also score with higher and lower thresholds: delay against false alarms",
    )
    add_outputs(replay, "report.json, report.html and pictures")
    add_trust(replay)
    group = add_fleet(replay)
    group.add_argument(
        "--free",
        action="store_true",
        help="declare all recordings free of contact, so that each event is a false alarm",
    )
    replay.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.fleet:
        from rbd_control.cli.fleet import run_replay_fleet

        return run_replay_fleet(arguments)
    refuse_fleet_options(arguments)
    from rbd_control.cli.replay import run_replay

    return run_replay(arguments)
