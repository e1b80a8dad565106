"""Arguments of ``rbd-control view``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from rbd_control.cli.arguments.kinds import namespace, port
from rbd_control.cli.arguments.shared import (
    RECORDING,
    Commands,
    add_config,
    add_duration,
    add_recording,
    add_robot,
)
from rbd_control.startup.standard_streams import ros_needed


def add_command(commands: Commands) -> None:
    """Add the sub-command ``view`` with its arguments to the parser of ``rbd-control``."""
    view = commands.add_parser(
        "view",
        help="show the arm, its residuals and contacts in the browser",
        description="Show an arm in 3D in the browser, with the force and the link of each "
        "contact, the residuals in units of their thresholds, and the events: live from the topics "
        "of the running nodes, or from a recording, which is run through the detector first. The "
        "page cannot command the arm.",
        epilog="exit code 1 if nothing was received from live arms",
    )
    add_recording(view, "recording", nargs="?", help=f"{RECORDING} (default: live)")
    add_robot(view)
    add_config(
        view,
        ", for a recording; without it, thresholds are defaults and friction is not modelled; for "
        "live arms it gives the robot that is drawn",
    )
    view.add_argument(
        "--namespace",
        type=namespace,
        nargs="+",
        default=[],
        metavar="NS",
        help="namespaces of the live arms, shown side by side (default: one arm without namespace)",
    )
    view.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, which other machines cannot reach)",
    )
    view.add_argument(
        "--port", type=port, default=8080, help="port to listen on, 0 for any (default: 8080)"
    )
    add_duration(view)
    view.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.view import run_view

    with nullcontext() if arguments.recording else ros_needed("a live view"):
        return run_view(arguments)
