"""Fleets of recordings: ``replay --fleet``, ``calibrate --fleet`` and ``fleet-report``."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    TaskProgressColumn,
    TimeRemainingColumn,
)

from rbd_control.cli.arm_file import existing_sections
from rbd_control.cli.calibrate import output_files, run_calibrate
from rbd_control.cli.command_files import arm_files, input_files
from rbd_control.cli.drive_gains import effort_options, gain_evidence
from rbd_control.cli.exit_codes import NO_RESULT, complain, progress_bar
from rbd_control.cli.next_command import print_next
from rbd_control.errors import InputError
from rbd_control.files.output_files import NamedFile, prepare_output, refuse_clashes
from rbd_control.files.xacro_files import file_of, with_file
from rbd_control.fleet.jobs import CalibrateJob, ReplayJob, Source
from rbd_control.fleet.run import Entry, FleetRun, run_fleet
from rbd_control.fleet.sheet import SheetRow, find_recordings, read_sheet, row_of
from rbd_control.fleet.store import (
    CSV,
    REPORT_TABLES,
    TABLES,
    Record,
    Row,
    Store,
    is_table,
    record_row,
    refuse_format,
    write_table,
)
from rbd_control.fleet.study import Study, study
from rbd_control.fleet.workers import DaskWorkers, LocalWorkers, Workers
from rbd_control.playback.bag import recorded_files
from rbd_control.playback.report import unknown_rate
from rbd_control.playback.truth import Label, Summary, read_labels
from rbd_control.reports.console import ConsoleTable, console_for_output
from rbd_control.reports.html import HtmlOutput
from rbd_control.reports.page import Row as TableRow
from rbd_control.reports.page import Table, count, of_units
from rbd_control.results import figures
from rbd_control.startup.warmup import usable_cores
from rbd_control.wording import listed

_MOST_NAMED = 20
"""Maximum number of recordings without a result, and of warnings, that the console names."""


def run_replay_fleet(arguments: argparse.Namespace) -> int:
    """Replay each recording of a fleet in parallel, and write one result each and one table.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines, with
            ``--fleet``.

    Returns:
        The exit code: 0, or 1 if a recording cannot be used, or has no verdict (whether there is
        contact) at any time.

    Raises:
        RbdControlError: for bad input; the message names the file. Also for ``--report``,
            ``--json`` and ``--html``, which are for single recordings.
        OSError: naming a result that cannot be written.
    """
    _refuse(arguments, ("report", "json", "html"))
    paths = _recordings(arguments, arguments.labels)
    labels = read_labels(arguments.labels, paths) if arguments.labels else None

    def entry(index: int, source: Source, row: SheetRow) -> Entry:
        free = arguments.free if row.free is None else row.free
        truth: tuple[Label, ...] | None = () if free else None
        if labels is not None and not free:
            truth = tuple(labels[index])
        return _entry(ReplayJob(source, truth, arguments.curve), row, free)

    entries = _entries(arguments, paths, entry)
    refuse_clashes(_input_files(arguments, entries), _output_files(arguments, "replay", entries))
    return _run(arguments, "replay", entries)[1]


def run_calibrate_fleet(arguments: argparse.Namespace) -> int:
    """Calibrate each recording of a fleet, and with ``--out`` also all usable ones together.

    One result for each recording and one table are written, and with ``--out`` the parameter file
    from all usable recordings.

    Args:
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines, with
            ``--fleet``.

    Returns:
        The exit code: 0, or 1 if a recording cannot be used.

    Raises:
        RbdControlError: for bad input; the message names the file. Also for
            ``--payload-recording``; for ``--report``, ``--json`` and ``--html`` without ``--out``;
            and for ``--out`` if the recordings have several descriptions.
        OSError: naming a result that cannot be written.
    """
    if not arguments.out:
        _refuse(arguments, ("report", "json", "html"))
    _refuse(arguments, ("payload_recordings",))
    paths = _recordings(arguments)
    effort = effort_options(arguments)
    evidence = gain_evidence(arguments, lambda _path: [])

    def entry(_index: int, source: Source, row: SheetRow) -> Entry:
        job = CalibrateJob(
            source=source,
            false_alarms=arguments.false_alarms,
            effort=effort,
            observer=arguments.observer,
            gain=arguments.gain,
            known_gains=tuple(evidence.known.items()),
            drive_gain_error=evidence.accepted_error,
            mass_error=evidence.mass_error,
        )
        return _entry(job, row, True)

    entries = _entries(arguments, paths, entry)
    written = _output_files(arguments, "calibrate", entries)
    if arguments.out:
        written += output_files(arguments)
    refuse_clashes(_input_files(arguments, entries), written)
    if arguments.out:
        prepare_output(arguments.out)
        HtmlOutput.of_command(arguments, "calibration.html", "calibration.png")
        existing_sections(arguments.out)  # refuses a file that is not to be overwritten
    described = {os.path.realpath(each.job.source.urdf): each.job.source.urdf for each in entries}
    if arguments.out and len(described) > 1:
        raise InputError(
            "--out is for one arm, and the sheet names several descriptions: "
            f"{listed(sorted(described.values()))}"
        )
    run, code = _run(arguments, "calibrate", entries)
    usable = [Path(record.recording) for record in run.records if record.result]
    if arguments.out and usable:
        (urdf,) = described.values()
        is_given = urdf == _absolute(arguments.urdf)
        changed = {"recordings": usable, "urdf": arguments.urdf if is_given else urdf}
        return max(code, run_calibrate(argparse.Namespace(**{**vars(arguments), **changed})))
    return code


def _recordings(arguments: argparse.Namespace, labels: Path | None = None) -> list[Path]:
    """Return the recordings of a fleet, without its sheet, its labels and its own tables."""
    tables = [arguments.fleet / f"{name}.{CSV}" for name in TABLES]
    others = [path for path in (arguments.sheet, labels) if path]
    return find_recordings(arguments.recordings, [*others, *filter(is_table, tables)])


def _input_files(arguments: argparse.Namespace, entries: Sequence[Entry]) -> list[NamedFile]:
    """Return all files that a fleet reads: those of the arguments, and those in the sheet."""
    files = input_files(arguments, [entry.job.recording for entry in entries])
    given = _absolute(arguments.urdf)
    arms = {(entry.job.source.urdf, entry.job.source.config) for entry in entries}
    for urdf, config in arms:
        options = (
            "--urdf" if urdf == given else "column urdf of --sheet",
            "column config of --sheet",
        )
        files += arm_files(urdf, config, options)
    return files


def _output_files(
    arguments: argparse.Namespace, command: str, entries: Sequence[Entry]
) -> list[NamedFile]:
    """Return the table of a fleet, and the file with the result of each recording."""
    store = Store(arguments.fleet, command)
    table = arguments.fleet / f"{command}.{arguments.format or CSV}"
    results = [store.path(str(entry.job.recording)) for entry in entries]
    return [NamedFile("--fleet", path) for path in (table, *results)]


def _refuse(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    """Raise an error for options that do not apply to a fleet.

    Raises:
        InputError: naming the option.
    """
    for name in options:
        if getattr(arguments, name, None):
            option = name.replace("_", "-").removesuffix("s")
            raise InputError(f"--{option} is for single recordings; leave it out beside --fleet")


def _entries(
    arguments: argparse.Namespace,
    paths: Sequence[Path],
    entry: Callable[[int, Source, SheetRow], Entry],
) -> list[Entry]:
    """Return the entry of each recording from the arguments and the sheet of recordings.

    Values in the sheet take precedence over the arguments. ``entry`` receives the index of the
    recording, its source and its row of the sheet.
    """
    sheet = read_sheet(arguments.sheet) if arguments.sheet else []
    entries = []
    for index, path in enumerate(paths):
        row = row_of(path, sheet)
        # calibrate has no option --config: the arm is described by --urdf alone.
        config = row.config or arguments.config if "config" in arguments else None
        source = Source(
            recording=path,
            urdf=_absolute(row.urdf or arguments.urdf),
            config=config and config.absolute(),
            topic=arguments.topic,
            locked=tuple(arguments.lock),
            joints=tuple(arguments.joints) if arguments.joints else None,
            trusted=arguments.trust_effort_kind,
        )
        entries.append(entry(index, source, row))
    return entries


def _absolute(urdf: str) -> str:
    """Return the absolute path of an existing file, for workers elsewhere; else the same text."""
    return with_file(urdf, os.path.abspath) if urdf and Path(file_of(urdf)).exists() else urdf


def _entry(job: ReplayJob | CalibrateJob, row: SheetRow, free: bool) -> Entry:
    return Entry(job, row.arm or job.recording.parent.name, row.day, free)


def _run(
    arguments: argparse.Namespace, command: str, entries: Sequence[Entry]
) -> tuple[FleetRun, int]:
    """Process the fleet, write the table, and print a summary; return the run and exit code."""
    kind = arguments.format or CSV
    refuse_format(kind)
    store = Store(arguments.fleet, command)
    console = console_for_output()
    begin = time.monotonic()
    with _progress(command, len(entries)) as told:
        run = run_fleet(entries, store, _workers(arguments), told)
    table = write_table([record_row(r) for r in store.records()], arguments.fleet, command, kind)
    _print(run, time.monotonic() - begin, console)
    console.print(f"table in {table}", markup=False)
    for record in run.unusable[:_MOST_NAMED]:
        complain(record.outcome.reason, record.recording)
    if len(run.unusable) > _MOST_NAMED:
        complain(f"{len(run.unusable) - _MOST_NAMED} more have no result; see {table}", "")
    warned = Counter(text for record in run.records for text in record.outcome.warnings)
    for text, number in warned.most_common(_MOST_NAMED):
        complain(f"warning, in {count(number, 'recording')}: {text}", "")
    if len(run.unusable) < len(run.records):
        print_next(
            console, "rates, thresholds and friction by arm and day", "fleet-report", store.folder
        )
    return run, NO_RESULT if run.unusable else 0


def _workers(arguments: argparse.Namespace) -> Workers:
    if arguments.scheduler:
        if arguments.workers:
            raise InputError("--workers is for this machine; leave it out beside --scheduler")
        return DaskWorkers(arguments.scheduler)
    return LocalWorkers(arguments.workers or usable_cores())


def _print(run: FleetRun, seconds: float, console: Console) -> None:
    """Print the numbers of recordings by outcome, the hours of data, and the time of the run."""
    counts = Counter(record.outcome.status for record in run.records)
    hours = sum(record.result.get("duration", 0.0) for record in run.records) / 3600.0
    text = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    console.print(
        f"{len(run.records)} recordings, {hours:.2f} h of joint states: {text}; {run.kept} were "
        f"done before; {seconds:.1f} s",
        markup=False,
    )


@contextmanager
def _progress(command: str, total: int) -> Iterator[Callable[[Record, bool], None]]:
    """Show one progress bar on stderr, if it is a terminal.

    Yields:
        A function to call with each record when it is known, and whether it is new.
    """
    unusable = 0
    columns = (MofNCompleteColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with progress_bar(command, total, *columns) as update:

        def told(record: Record, _is_new: bool) -> None:
            nonlocal unusable
            unusable += bool(record.outcome.reason)
            said = f"{command}, {unusable} without result" if unusable else command
            update(advance=1, description=said)

        yield told


_ROWS = 60
"""Maximum number of printed rows of a table."""

_ARM = {
    "arm": "arm",
    "replayed": "recordings",
    "hours": "hours",
    "events": "events",
    "hours_without_contact": "hours without contact",
    "false_alarms_per_hour": "false alarms per hour",
    "false_alarms_per_hour_low": "from",
    "false_alarms_per_hour_high": "to",
    **{key: meta["heading"] for _, key, meta in figures(Summary)},
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
        arguments: the arguments that :mod:`rbd_control.cli.commands` defines.

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
    folder = arguments.report or arguments.folder
    refuse_clashes(
        _report_inputs(arguments.folder, records),
        [NamedFile("--report", folder / f"{name}.{kind}") for name in REPORT_TABLES],
    )
    prepare_output(folder / f"arms.{kind}")
    found = study(records)
    console = console_for_output()
    units = [u for record in records for u in record.result.get("units", {}).values()]
    _print_study(found, units, console)
    for name, rows in vars(found).items():
        if name != "bad" and rows:
            console.print(f"table in {write_table(rows, folder, name, kind)}", markup=False)
    if len(found.bad) == len(records):
        complain("no recording has a result", str(arguments.folder))
        return NO_RESULT
    return 0


def _report_inputs(folder: Path, records: Sequence[Record]) -> Iterator[NamedFile]:
    """Yield the results of a fleet, and the recordings that they describe."""
    for record in records:
        yield NamedFile("DIR", Store(folder, record.command).path(record.recording))
        for file in recorded_files(Path(record.recording)):
            yield NamedFile("a recording of the fleet in DIR", file)


def _print_study(found: Study, units: Sequence[str], console: Console) -> None:
    """Print the tables, and the number of recordings without a result."""
    if any(row["replayed"] for row in found.arms):
        title = "arms (from, to: 95 % confidence interval of the rate)"
        console.print(_table(title, _ARM, _known_rates(found.arms)))
        console.print(_table("days", _DAY, _known_rates(found.days)))
    if found.joints:
        console.print(_table(of_units("medians", units), _JOINT, found.joints))
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
        reasons = "the column reason of the table of replay or calibrate has the cause"
        console.print(f"{count(len(found.bad), 'recording')} without result: {reasons}")


def _known_rates(rows: Sequence[Row]) -> list[Row]:
    """Return rows with the reason instead of a rate that few false alarms do not tell."""
    key = "false_alarms_per_hour"
    return [row | {key: unknown_rate(row) or row[key]} if key in row else row for row in rows]


def _table(title: str, columns: Mapping[str, str], rows: Sequence[Row]) -> ConsoleTable:
    """Return a table of at most :data:`_ROWS` rows, without columns that no row has.

    Args:
        title: title of the table.
        columns: heading of each column, by its key in the rows.
        rows: the rows.
    """
    used = {name: text for name, text in columns.items() if any(name in row for row in rows)}
    cells = tuple(TableRow(tuple(_cell(row.get(name)) for name in used)) for row in rows)
    left = ("arm", "day", "joint", "quantity")
    keys = sum(name in left for name in used)
    table = Table(title, tuple(used.values()), cells, left=left, no_wrap=left, keys=keys)
    return table.shown(_ROWS, "the file").on_console()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
