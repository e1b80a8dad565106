"""Arguments of ``rbd-control export``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.kinds import names
from rbd_control.cli.arguments.shared import URDF, Commands, add_lock


def add_command(commands: Commands) -> None:
    """Add the sub-command ``export`` with its arguments to the parser of ``rbd-control``."""
    export = commands.add_parser(
        "export",
        help="write the dynamics of a robot as plain C",
        description="Write the dynamics of one robot as C99 without dependencies, a header and a "
        "source beside it, for real-time controllers and firmware. The code includes friction, "
        "corrections and payload of a parameter file.",
    )
    export.add_argument("urdf", metavar="URDF", help=URDF)
    export.add_argument(
        "--to", type=Path, required=True, metavar="FILE.h", help="header to write; beside it FILE.c"
    )
    export.add_argument(
        "--functions",
        type=names,
        metavar="A,B,...",
        help="functions to export, or 'all' (default: all but friction where there is none, and "
        "the Christoffel symbols of robots with many joints)",
    )
    export.add_argument(
        "--link",
        action="append",
        default=[],
        metavar="NAME",
        help="link whose placement and Jacobian are exported, or 'all'; may be repeated (default: "
        "the link that the last joint moves)",
    )
    export.add_argument(
        "--prefix", default="", help="beginning of all C names (default: the name of the header)"
    )
    export.add_argument(
        "--float",
        dest="single",
        action="store_true",
        help="compute in single precision (default: double)",
    )
    add_lock(export, "hold a joint at a position [rad or m]; may be repeated")
    export.add_argument(
        "--joints",
        type=names,
        metavar="A,B,...",
        help="joints that move; all others are held at zero (default: all)",
    )
    export.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rbd_control.cli.export import run_export

    return run_export(arguments)
