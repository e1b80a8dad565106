"""Arguments of ``rbd-control fleet-report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.fleet import add_format
from rbd_control.cli.arguments.shared import Commands


def add_command(commands: Commands) -> None:
    """Add the sub-command ``fleet-report`` with its arguments to the parser of ``rbd-control``."""
    report = commands.add_parser(
        "fleet-report",
        help="compare the results of many recordings: by arm, by day, drift of friction",
        description="Summarise the results of replay and calibrate with --fleet: false alarms per "
        "hour, delays, thresholds and friction of each arm and day, and the drift of friction "
        "over time with its standard error.",
        epilog="exit code 1 if none of the recordings could be used",
    )
    report.add_argument("folder", type=Path, metavar="DIR", help="the folder of --fleet")
    report.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the tables (default: the same folder)"
    )
    add_format(report)
    report.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.fleet_report import run_fleet_report

    return run_fleet_report(arguments)
