"""``rbd-control fleet-report``: tables over the results of many recordings (a fleet)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.cli.guard import NO_RESULT, complain
from rbd_control.cli.replay import console_for_output
from rbd_control.errors import InputError
from rbd_control.files.file_clashes import NamedFile, refuse_clashes
from rbd_control.files.output_files import prepare_output
from rbd_control.fleet.outcome import Record
from rbd_control.fleet.store import Store
from rbd_control.fleet.study import Study, study
from rbd_control.fleet.table import CSV, REPORT_TABLES, Row, refuse_format, write_table
from rbd_control.playback.bag import recorded_files
from rbd_control.wording import printable

_ROWS = 60
"""Maximum number of printed rows of a table."""

_ARM = {
    "arm": "arm",
    "replayed": "recordings",
    "hours": "hours",
    "events": "events",
    "hours_without_contact": "hours without contact",
    "false_alarms": "false alarms",
    "false_alarms_per_hour": "per hour",
    "false_alarms_per_hour_low": "from",
    "false_alarms_per_hour_high": "to",
    "contacts": "contacts",
    "misses": "missed",
    "delay_median": "delay: median [s]",
    "delay_p95": "95 % [s]",
}
_DAY = {"arm": "arm", "day": "day", **_ARM}
_JOINT = {
    "arm": "arm",
    "joint": "joint",
    "threshold": "threshold in use [N·m]",
    "calibrated_threshold": "as calibrated [N·m]",
    "friction_coulomb": "Coulomb [N·m]",
    "friction_viscous": "viscous [N·m·s/rad]",
    "friction_offset": "offset [N·m]",
}
_DRIFT = {
    "arm": "arm",
    "joint": "joint",
    "quantity": "quantity",
    "recordings": "recordings",
    "days": "days",
    "mean": "mean",
    "slope_per_month": "change per month",
    "standard_error": "standard error",
    "significant": "significant",
}


def run_fleet_report(arguments: argparse.Namespace) -> int:
    """Read the stored results of a fleet, print rates, friction and drifts, and write the tables.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.arguments.fleet_report` defines.

    Returns:
        The exit code: 0, or 1 if none of the recordings has a result.

    Raises:
        RbdControlError: if the folder has no results of ``replay`` or ``calibrate`` with
            ``--fleet``, or a damaged file, or if the format needs a package that is not installed.
        OSError: naming a table that cannot be written.
    """
    kind = arguments.format or CSV
    refuse_format(kind)
    records = [
        record
        for command in ("replay", "calibrate")
        for record in Store(arguments.folder, command).records()
    ]
    if not records:
        raise InputError(
            f"no results of a fleet in {arguments.folder}; run replay or calibrate with --fleet"
        )
    folder = arguments.out or arguments.folder
    refuse_clashes(
        _input_files(arguments.folder, records),
        [NamedFile("--out", folder / f"{name}.{kind}") for name in REPORT_TABLES],
    )
    prepare_output(folder / f"arms.{kind}")
    found = study(records)
    console = console_for_output()
    _print(found, console)
    for name, rows in vars(found).items():
        if name != "bad" and rows:
            console.print(f"table in {write_table(rows, folder, name, kind)}", markup=False)
    if len(found.bad) == len(records):
        complain("no recording has a result", str(arguments.folder))
        return NO_RESULT
    return 0


def _input_files(folder: Path, records: Sequence[Record]) -> Iterator[NamedFile]:
    """Yield the results of a fleet, and the recordings that they describe."""
    for record in records:
        yield NamedFile("DIR", Store(folder, record.command).path(record.recording))
        for file in recorded_files(Path(record.recording)):
            yield NamedFile("a recording of the fleet in DIR", file)


def _print(found: Study, console: Console) -> None:
    """Print the tables, and the number of recordings without a result."""
    if any(row["replayed"] for row in found.arms):
        console.print(
            _table("arms (from, to: 95 % confidence interval of the rate)", _ARM, found.arms)
        )
        console.print(_table("days", _DAY, found.days))
    if found.joints:
        console.print(_table("medians (prismatic joints: N and m)", _JOINT, found.joints))
    significant = [row for row in found.drifts if row["significant"]]
    if found.drifts:
        console.print(
            f"drift: {len(significant)} of {len(found.drifts)} quantities change with 95 % "
            f"confidence; about {0.05 * len(found.drifts):.0f} such changes are due to chance",
            markup=False,
        )
    if significant:
        console.print(_table("drift", _DRIFT, significant))
    if found.bad:
        console.print(f"{len(found.bad)} recordings have no result", markup=False)


def _table(title: str, columns: Mapping[str, str], rows: Sequence[Row]) -> Table:
    """Return a table of at most :data:`_ROWS` rows, without columns that no row has.

    Args:
        title: title of the table.
        columns: heading of each column, by its key in the rows.
        rows: the rows.
    """
    used = {name: text for name, text in columns.items() if any(name in row for row in rows)}
    table = Table(title=escape(title), title_justify="left")
    for name, text in used.items():
        is_text = name in ("arm", "day", "joint", "quantity")
        table.add_column(escape(text), justify="left" if is_text else "right")
    for row in rows[:_ROWS]:
        table.add_row(*(escape(_cell(row.get(name))) for name in used))
    if len(rows) > _ROWS:
        table.caption = f"… and {len(rows) - _ROWS} more; the file has all"
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))
