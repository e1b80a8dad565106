"""Arguments of ``rbd-control warmup``."""

from __future__ import annotations

import argparse

from rbd_control.cli.arguments.shared import Commands


def add_command(commands: Commands) -> None:
    """Add the sub-command ``warmup``, without arguments, to the parser of ``rbd-control``."""
    warmup = commands.add_parser(
        "warmup",
        help="compile ahead of the first start",
        description="Compile everything that the nodes, replay, calibrate and demo use, once for "
        "each installation, and print the folder of the compiled code.",
    )
    warmup.set_defaults(run=_run)


def _run(_arguments: argparse.Namespace) -> int:
    from rbd_control.cli.warmup import run_warmup

    return run_warmup()
