"""Arguments of ``rbd-control demo``."""

from __future__ import annotations

import argparse

from rbd_control.cli.arguments.shared import Commands, add_duration, add_outputs
from rbd_control.startup.standard_streams import ros_needed


def add_command(commands: Commands) -> None:
    """Add the sub-command ``demo`` with its arguments to the parser of ``rbd-control``."""
    demo = commands.add_parser(
        "demo",
        help="run a simulated arm, its controller and the detector over ROS 2",
        description="Run a simulated arm, its controller and the contact detector as ROS 2 nodes: "
        "a trajectory, pushes and a collision. Each contact is scored against the truth.",
    )
    add_duration(demo, "length of the motion [s] (default: 20)")
    add_outputs(demo, "demo.json, demo.html and picture")
    demo.add_argument(
        "--view", action="store_true", help="show the demo in the browser (see rbd-control view)"
    )
    demo.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.command_files import result_files
    from rbd_control.files.file_clashes import refuse_clashes

    refuse_clashes((), result_files(arguments, "demo.json", "demo.html", "demo.png"))
    with ros_needed("the demo"):
        from rbd_control.live.demo import run_demo
    code: int = run_demo(
        arguments.duration, arguments.report, arguments.json, arguments.view, arguments.html
    )
    return code
