"""The result of a replay as JSON, pictures, and tables for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.estimation import ContactEvent
from rbd_control.files.output_files import write_whole
from rbd_control.playback.picture import draw_curve, draw_residuals
from rbd_control.playback.result import Overview, ReplayResult
from rbd_control.playback.summary import CONFIDENCE, Summary
from rbd_control.wording import printable

_ROWS = 100
"""Maximum number of printed rows of a table of events or contacts."""


def report_files(recordings: Sequence[str | Path]) -> list[str]:
    """Return the names of all files that :func:`write_report` may write.

    Args:
        recordings: the recordings; the result of more than one is an :class:`Overview`.
    """
    several = len(recordings) > 1
    pictures = [_picture(path, k + 1 if several else 0) for k, path in enumerate(recordings)]
    return ["report.json", *pictures, "curve.png"]


def write_report(result: ReplayResult | Overview, folder: str | Path) -> None:
    """Write the result into ``folder``, which is created if it does not exist.

    The files are ``report.json``, ``residual.png``, and ``curve.png`` if there is a curve of delay
    against false alarms (``replay`` with ``factors``). For an :class:`Overview` of recordings the
    pictures of the residuals are numbered: ``residual_1_NAME.png`` and so on. Existing files are
    replaced.

    Raises:
        OSError: naming the file that cannot be written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(result, folder / "report.json")
    overview = result if isinstance(result, Overview) else Overview((result,))
    for k, each in enumerate(overview.results):
        draw_residuals(each, folder / _picture(each.recording, k + 1 if result is overview else 0))
    if overview.curve:
        draw_curve(overview.curve, folder / "curve.png")


def _picture(recording: str | Path, number: int) -> str:
    """Return the file name of a picture of residuals; ``number`` is 0 for a single recording."""
    return f"residual_{number}_{Path(recording).stem}.png" if number else "residual.png"


def write_json(result: ReplayResult | Overview, path: str | Path) -> None:
    """Write ``result.to_json()`` to ``path``, whose folder is created if it does not exist.

    Raises:
        OSError: naming the file that cannot be written.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode("utf-8", errors="backslashreplace"))


def print_result(result: ReplayResult, console: Console) -> None:
    """Print a result: warnings, notes, statistics, table of contacts, residuals, and scores.

    A table has at most 100 contacts. Scores are printed if the true contacts are known.
    """
    for warning in result.warnings:
        console.print(f"[bold red]warning:[/] {_safe(warning)}")
    for note in result.notes:
        console.print(f"[yellow]note:[/] {_safe(note)}")
    console.print(
        f"{_safe(result.recording)}: {result.samples} samples in {result.duration:.2f} s, "
        f"{_number(result.rate, ' Hz', 0)}, longest step {1e3 * result.largest_gap:.1f} ms"
        f"{f' ({result.gaps} gaps)' if result.gaps else ''}"
    )
    reasons = ", ".join(f"{reason} {time:.2f} s" for reason, time in result.invalid.items())
    console.print(
        f"valid verdict for {result.valid_fraction:.1%} of the samples"
        f"{f'; none: {escape(reasons)}' if reasons else ''}"
    )
    if result.events:
        console.print(_events(result))
    else:
        console.print("no contact found" if result.valid_fraction else "no verdict")
    console.print(_residuals(result))
    if result.score is not None:
        _print_score(result, console)


def _events(result: ReplayResult) -> Table:
    table = Table(title="contacts found", title_justify="left")
    for heading in ("", "onset [s]", "detected [s]", "release [s]"):
        table.add_column(escape(heading), justify="right")
    for heading in ("level", "joint", "link"):
        table.add_column(heading)
    table.add_column("peak [N·m]", justify="right")
    table.add_column("force x y z [N]", justify="right")
    for i, event in enumerate(result.events[:_ROWS]):
        table.add_row(
            str(i + 1),
            f"{event.onset:.3f}",
            f"{event.detected:.3f}",
            "lasts" if event.release is None else f"{event.release:.3f}",
            event.level,
            _safe(event.joint),
            _safe(_links(event)),
            f"{event.peak_torque:.2f}",
            "not observable" if event.force is None else _vector(event.force),
        )
    table.caption = _left_out(len(result.events))
    return table


def _left_out(count: int) -> str | None:
    """Return the note below a table with omitted rows; None if all rows are shown."""
    return f"… and {count - _ROWS} more; --json FILE has all" if count > _ROWS else None


def _safe(text: str) -> str:
    """Return text for the console: without markup and without control characters."""
    return escape(printable(text))


def _links(event: ContactEvent) -> str:
    """Return the event's link; with several candidates, its probability and the other links."""
    if len(event.candidates) > 1:
        return f"{event.link} {event.confidence:.0%}, or " + " ".join(event.candidates[1:])
    return event.link


def _residuals(result: ReplayResult) -> Table:
    table = Table(
        title="residual of the samples with a verdict (prismatic joints: N); true contacts count "
        "only for the largest value",
        title_justify="left",
    )
    table.add_column("joint")
    headings = (
        "RMS [N·m]",
        "mean [N·m]",
        "largest [N·m]",
        "threshold at rest [N·m]",
        "time above threshold",
        "effort / gravity torque",
    )
    for heading in headings:
        table.add_column(escape(heading), justify="right")
    ratios = {fit.joint: fit.ratio for fit in result.efforts}
    for r in result.residuals:
        table.add_row(
            _safe(r.joint),
            *(_number(value) for value in (r.rms, r.mean, r.largest, r.threshold)),
            _number(100.0 * r.over_fraction, " %", 1),
            _number(ratios.get(r.joint, float("nan"))),
        )
    return table


def _print_score(result: ReplayResult, console: Console) -> None:
    assert result.score is not None
    assert result.summary is not None
    summary = result.summary
    table = Table(title="true contacts", title_justify="left")
    headings = ["begin [s]", "end [s]", "found by", "delay [ms]", "onset error [ms]"]
    headings += ["link"] if summary.links else []
    headings += ["force error [N]"] if summary.forces else []
    for heading in headings:
        table.add_column(escape(heading), justify="right")
    for contact in result.score.contacts[:_ROWS]:
        row = [
            f"{contact.start:.3f}",
            "lasts" if contact.end is None else f"{contact.end:.3f}",
            "missed" if contact.event is None else str(contact.event + 1),
            _number(_milli(contact.delay), digits=1),
            _number(_milli(contact.onset_error), digits=1),
        ]
        if summary.links:
            row.append(_LINK[contact.link_named, contact.link_among_named])
        if summary.forces:
            row.append("-" if contact.force_error is None else f"{contact.force_error:.1f}")
        table.add_row(*row)
    table.caption = _left_out(len(result.score.contacts))
    if result.score.contacts:
        console.print(table)
    print_summary(summary, console)


_LINK = {(None, None): "-", (True, True): "right", (False, True): "among", (False, False): "wrong"}


def print_summary(summary: Summary, console: Console) -> None:
    """Print scores in at most three lines: counts, delays and errors, rate of false alarms."""
    console.print(
        f"{_several(summary.contacts, 'true contact')}: {summary.misses} missed; "
        f"{_several(summary.false_alarms, 'false event')}, "
        f"{_several(summary.repeated_events, 'repeated event')}"
    )
    said = [
        f"delay {_delays(summary)} ms (median, 95th percentile)",
        f"onset error {_number(_milli(summary.onset_error_median), ' ms', 1)} (median)",
    ]
    if summary.links:
        said.append(
            f"link right in {summary.link_named:.0%}, among those named in "
            f"{summary.link_among_named:.0%} of {summary.links}"
        )
    if summary.forces:
        said.append(f"force error {summary.force_error_median:.1f} N (median of {summary.forces})")
    if summary.contacts > summary.misses:
        console.print(", ".join(said))
    console.print(
        f"{_rate(summary)} false alarms per hour, from {summary.free_time:.1f} s without contact"
    )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_overview(overview: Overview, console: Console) -> None:
    """Print a table with a row for each recording, and the scores of all recordings together."""
    table = Table(title="all recordings", title_justify="left")
    table.add_column("recording")
    headings = ("duration [s]", "valid", "warnings", "events", "true contacts", "missed", "false")
    for heading in (*headings, "delay: median, 95 % [ms]"):
        table.add_column(escape(heading), justify="right")
    for result in overview.results:
        row = [Path(result.recording).name, f"{result.duration:.1f}"]
        row += [f"{result.valid_fraction:.1%}", str(len(result.warnings)), str(len(result.events))]
        summary = result.summary
        if summary is None:
            row += ["-"] * 4
        else:
            row += [str(n) for n in (summary.contacts, summary.misses, summary.false_alarms)]
            row.append(_delays(summary))
        table.add_row(*map(_safe, row))
    console.print(table)
    if overview.summary is not None:
        print_summary(overview.summary, console)


def print_curve(overview: Overview, console: Console) -> None:
    """Print a table of the scores by the factor of the thresholds; nothing without a curve."""
    if not overview.curve:
        return
    table = Table(title="scores with scaled thresholds", title_justify="left")
    for heading in ("factor", "missed", "delay: median, 95 % [ms]", "false", "false per hour"):
        table.add_column(escape(heading), justify="right")
    for factor, summary in overview.curve:
        table.add_row(
            f"{factor:g}",
            f"{summary.misses} of {summary.contacts}",
            _delays(summary),
            str(summary.false_alarms),
            _rate(summary),
        )
    console.print(table)


def _delays(summary: Summary) -> str:
    pair = (summary.delay_median, summary.delay_p95)
    return ", ".join("missed" if delay == inf else _number(1e3 * delay, "", 1) for delay in pair)


def _rate(summary: Summary) -> str:
    low, high = summary.false_alarms_interval
    rate = _number(summary.false_alarms_per_hour, digits=1)
    return f"{rate} ({CONFIDENCE:.0%} confidence: {low:.1f} to {high:.1f})"


def _milli(value: float | None) -> float:
    return float("nan") if value is None else 1e3 * value


def _number(value: float, unit: str = "", digits: int = 2) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}{unit}"


def _vector(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)
