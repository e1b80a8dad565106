"""Arguments of ``replay`` and ``calibrate`` for a fleet, hundreds of recordings (docs/fleet.md)."""

from __future__ import annotations

import argparse
from pathlib import Path

from rbd_control.cli.arguments.kinds import count
from rbd_control.errors import InputError

_FORMATS = ("csv", "parquet")


def add_fleet(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the arguments for many recordings at once, and return their group of arguments.

    They are ``--fleet``, ``--format``, ``--workers``, ``--scheduler`` and ``--sheet``.

    Args:
        command: the parser of the sub-command.
    """
    group = command.add_argument_group(
        "a fleet of recordings",
        "With --fleet, RECORDING may also be a folder of recordings or a glob pattern. Recordings "
        "are processed in parallel. A recording that cannot be used is reported and skipped. A "
        "second run processes only recordings that are new or have changed.",
    )
    group.add_argument(
        "--fleet",
        type=Path,
        metavar="DIR",
        help="folder for the results: one JSON file per recording and one table",
    )
    add_format(group)
    group.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="number of worker processes (default: one for each core)",
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a Dask scheduler whose workers are used instead, such as tcp://host:8786",
    )
    group.add_argument(
        "--sheet",
        type=Path,
        metavar="CSV",
        help="properties of each recording; columns recording (path or pattern), and any of arm, "
        "day, urdf, config, free (default name of an arm: the folder of the recording)",
    )
    return group


def add_format(group: argparse._ActionsContainer) -> None:
    """Add the argument ``--format`` for the format of tables: ``csv`` or ``parquet``."""
    group.add_argument(
        "--format",
        choices=_FORMATS,
        default=None,
        help="format of the table (default: csv; parquet needs the extra 'fleet')",
    )


def refuse_fleet_options(arguments: argparse.Namespace) -> None:
    """Raise an error for options that apply only with ``--fleet``; call it if that is not given.

    Args:
        arguments: the parsed arguments of ``replay`` or ``calibrate``.

    Raises:
        InputError: naming the first of ``--workers``, ``--scheduler``, ``--sheet``, ``--format``
            and ``--free`` that is given.
    """
    for name in ("workers", "scheduler", "sheet", "format", "free"):
        if getattr(arguments, name, None):
            raise InputError(f"--{name} is for a fleet of recordings; give --fleet DIR as well")
