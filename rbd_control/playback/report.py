"""What a replay found: as a file of JSON and a picture, and as tables for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rbd_control.playback.picture import draw_residuals
from rbd_control.playback.result import ReplayResult


def write_report(result: ReplayResult, folder: str | Path) -> None:
    """Write ``report.json`` and ``residual.png`` into ``folder``, which is made if need be.

    Raises:
        OSError: when that is not possible.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(result, folder / "report.json")
    draw_residuals(result, folder / "residual.png")


def write_json(result: ReplayResult, path: str | Path) -> None:
    """Write :meth:`ReplayResult.to_json` to ``path``, whose folder is made if need be.

    Raises:
        OSError: when that is not possible.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result.to_json(), indent=2, allow_nan=False, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def print_result(result: ReplayResult, console: Console) -> None:
    """Print warnings first, then what was found."""
    for warning in result.warnings:
        console.print(f"[bold red]warning:[/] {escape(warning)}")
    for note in result.notes:
        console.print(f"[yellow]note:[/] {escape(note)}")
    console.print(
        f"{escape(result.recording)}: {result.samples} samples in {result.duration:.2f} s, "
        f"{result.rate:.0f} Hz, longest step {1e3 * result.largest_gap:.1f} ms"
        f"{f' ({result.gaps} gaps)' if result.gaps else ''}"
    )
    reasons = ", ".join(f"{reason} {time:.2f} s" for reason, time in result.invalid.items())
    console.print(
        f"verdict valid for {result.valid_fraction:.1%} of the samples"
        f"{f'; not valid: {escape(reasons)}' if reasons else ''}"
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
    for i, event in enumerate(result.events):
        table.add_row(
            str(i),
            f"{event.onset:.3f}",
            f"{event.detected:.3f}",
            "lasts" if event.release is None else f"{event.release:.3f}",
            event.level,
            escape(event.joint),
            escape(event.link),
            f"{event.peak_torque:.2f}",
            "not observable" if event.force is None else _vector(event.force),
        )
    return table


def _residuals(result: ReplayResult) -> Table:
    table = Table(title="residual, valid samples [N·m]", title_justify="left")
    table.add_column("joint")
    headings = ("RMS", "mean", "largest", "threshold", "above it", "effort / gravity torque")
    for heading in headings:
        table.add_column(escape(heading), justify="right")
    ratios = {fit.joint: fit.ratio for fit in result.efforts}
    for r in result.residuals:
        table.add_row(
            escape(r.joint),
            *(_number(value) for value in (r.rms, r.mean, r.largest, r.threshold)),
            _number(100.0 * r.over_fraction, " %", 1),
            _number(ratios.get(r.joint, float("nan"))),
        )
    return table


def _print_score(result: ReplayResult, console: Console) -> None:
    assert result.score is not None
    table = Table(title="against the truth in the recording", title_justify="left")
    for heading in ("contact [s]", "until [s]", "found by", "delay [ms]", "onset error [ms]"):
        table.add_column(escape(heading), justify="right")
    for contact in result.score.contacts:
        table.add_row(
            f"{contact.start:.3f}",
            "end" if contact.end is None else f"{contact.end:.3f}",
            "missed" if contact.event is None else str(contact.event),
            _number(_milli(contact.delay), digits=1),
            _number(_milli(contact.onset_error), digits=1),
        )
    if result.score.contacts:
        console.print(table)
    console.print(
        f"truth: {len(result.score.contacts)} contacts, {result.score.misses} missed, "
        f"{result.score.false_events} false events, "
        f"{result.score.repeated_events} repeated ones"
    )


def _milli(value: float | None) -> float:
    return float("nan") if value is None else 1e3 * value


def _number(value: float, unit: str = "", digits: int = 2) -> str:
    return "-" if value != value else f"{value:.{digits}f}{unit}"


def _vector(values: Iterable[float]) -> str:
    return " ".join(f"{value:.1f}" for value in values)
