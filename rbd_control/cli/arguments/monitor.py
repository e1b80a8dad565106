"""Arguments of ``rbd-control monitor``."""

from __future__ import annotations

import argparse

from rbd_control.cli.arguments.kinds import node_name
from rbd_control.cli.arguments.shared import Commands, add_duration
from rbd_control.startup.standard_streams import ros_needed


def add_command(commands: Commands) -> None:
    """Add the sub-command ``monitor`` with its arguments to the parser of ``rbd-control``."""
    monitor = commands.add_parser(
        "monitor",
        help="show residuals and contacts of a running detector",
        description="Show the output of a running contact detector: residuals beside their "
        "thresholds, the verdict, link and force, and events. If the output is not a terminal, "
        "events are printed when they are received, and one table at the end.",
        epilog="exit code 1 if nothing was received from the detector",
    )
    monitor.add_argument(
        "--detector",
        type=node_name,
        default="contact_detector",
        metavar="NODE",
        help="name of the detector's node, with its namespace (default: contact_detector)",
    )
    add_duration(monitor)
    monitor.add_argument("--once", action="store_true", help="print one table and end")
    monitor.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    with ros_needed("the monitor"):
        from rbd_control.live.monitor import run_monitor
    code: int = run_monitor(arguments.detector, arguments.duration, arguments.once)
    return code
