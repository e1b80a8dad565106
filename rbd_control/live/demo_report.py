"""The result of the demo: its contacts against the truth, table, picture and page."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console
from rich.markup import escape

from rbd_control.estimation import ContactEvent
from rbd_control.files.output_files import write_whole
from rbd_control.playback.truth import Score, contact_intervals, score
from rbd_control.reports.demo_page import demo_page, staged_table
from rbd_control.reports.html import HtmlOutput, analysed_now
from rbd_control.reports.page import count
from rbd_control.results import plain

Array = NDArray[np.float64]

ONSET_TOLERANCE = 0.03
"""Largest delay of the flag, and largest error of the onset, of a detected contact [s]."""

RMS_LIMIT = 0.02
"""Largest tracking error without contact, root mean square over joints and time [rad]."""

RECOVERY = 0.3
"""Time after a contact in which the tracking error does not count [s].

In this time the arm returns to its path.
"""

_TOUCH = 1e-6
"""True external torque above which there is contact [N·m]; without contact it is exactly zero."""


class Series:
    """A time series of samples of n values each.

    Args:
        n: number of values of a sample.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._times, self._values = array("d"), array("d")

    def add(self, time: float, values: Sequence[float]) -> None:
        """Append a sample at ``time`` [s]; ignore a sample that does not have n values."""
        if len(values) == self._n:
            self._times.append(time)
            self._values.extend(values)

    @property
    def times(self) -> Array:
        """Times of the samples, (k,) [s]."""
        return np.array(self._times)

    @property
    def values(self) -> Array:
        """Values of the samples, (k, n)."""
        return np.array(self._values).reshape(-1, self._n)

    @property
    def last(self) -> float | None:
        """Time of the last sample [s]; None before the first."""
        return self._times[-1] if self._times else None


class DemoLog:
    """The data recorded during the demo; all times are stamps of the simulated arm [s].

    Args:
        joints: names of the n joints, in the order of the model.
        thresholds: contact thresholds, (n,) [N·m].
        staged: descriptions of the contacts that the scenario provokes, in the order of time.

    Attributes:
        residual: series of the external joint torques that the detector estimates [N·m].
        true_torque: series of the external joint torques in the simulation [N·m].
        tracking_error: series of measured minus desired joint positions [rad].
        true_forces: time, link and force (3,) of each true contact force, world axes [N].
        events: the last event of each reported contact, by contact id.
        begin: time at which the trajectory was sent; NaN before.
        valid_fraction: share of the samples during the motion with a verdict, in [0, 1].
        fault: why the controller switched to the safe torque; an empty text if it did not.
    """

    def __init__(self, joints: Sequence[str], thresholds: ArrayLike, staged: Sequence[str]) -> None:
        n = len(joints)
        self.joints, self.staged = tuple(joints), tuple(staged)
        self.thresholds = np.array(thresholds, dtype=float)
        self.residual, self.true_torque, self.tracking_error = Series(n), Series(n), Series(n)
        self.true_forces: list[tuple[float, str, Array]] = []
        self.events: dict[int, ContactEvent] = {}
        self.begin = float("nan")
        self.valid_fraction = 0.0
        self.fault = ""


@dataclass(frozen=True)
class StagedContact:
    """One true contact of the simulation, with the event that detected it.

    ``what`` describes it, or is ``not staged`` if there are more contacts than the scenario
    provokes; ``start`` and ``end`` are its times [s]; ``link`` and ``force``, (3,) in world axes
    [N], belong to its largest force, and are empty and zero if no force was recorded; ``event`` is
    None if the contact was missed.
    """

    what: str
    start: float
    end: float
    link: str
    force: Array
    event: ContactEvent | None


@dataclass(frozen=True)
class DemoResult:
    """The scores of the demo. All times except ``first`` and those in ``log`` count from ``first``.

    Attributes:
        log: the recorded data.
        first: stamp of the first residual [s].
        samples: number of residuals.
        duration: time from the first to the last residual [s].
        events: the last event of each reported contact.
        contacts: the true contacts, each with the event that detected it.
        score: scores of the events against the true contacts.
        tracking_rms: root mean square of the tracking error over all joints from the beginning of
            the motion, except during contacts and :data:`RECOVERY` after each [rad]; NaN without
            such samples.
        residual_max: largest magnitude of the residual of each joint, (n,) [N·m].
        failures: one text for each requirement that is not met; empty if the demo has passed.
    """

    log: DemoLog
    first: float
    samples: int
    duration: float
    events: tuple[ContactEvent, ...]
    contacts: tuple[StagedContact, ...]
    score: Score
    tracking_rms: float
    residual_max: Array
    failures: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values that ``json`` can write."""
        truth = plain(self.score)
        for each, contact in zip(truth["contacts"], self.contacts, strict=True):
            each.update(what=contact.what, link=contact.link, force=contact.force.tolist())
        return {
            "samples": self.samples,
            "duration": self.duration,
            "valid_fraction": self.log.valid_fraction,
            "events": [event.to_json() for event in self.events],
            "residual_max": dict(zip(self.log.joints, self.residual_max.tolist(), strict=True)),
            "truth": truth,
            "tracking_rms": None if isnan(self.tracking_rms) else self.tracking_rms,
            "passed": not self.failures,
            "failures": list(self.failures),
        }


def judge(log: DemoLog) -> DemoResult:
    """Score a run: delay of each staged contact, other events, tracking error and faults.

    A run passes if no fault occurred, exactly the staged contacts happened, their events have a
    delay and an onset error within :data:`ONSET_TOLERANCE`, no other event was reported, and the
    tracking error is below :data:`RMS_LIMIT`.

    Raises:
        ValueError: if the log contains no samples.
    """
    if log.residual.last is None or log.true_torque.last is None:
        raise ValueError("the demo recorded no samples")
    times = log.residual.times
    first = float(times[0])
    duration = float(times[-1]) - first
    events = tuple(event.since(first) for event in log.events.values())
    intervals = _contacts(log, first)
    scored = score(intervals, events, duration)
    contacts = _staged(log, intervals, events, scored, first, duration)
    rms = _tracking_rms(log, intervals, first)
    return DemoResult(
        log=log,
        first=first,
        samples=len(times),
        duration=duration,
        events=events,
        contacts=contacts,
        score=scored,
        tracking_rms=rms,
        residual_max=np.abs(log.residual.values).max(0),
        failures=tuple(_failures(log, contacts, scored, rms)),
    )


def _contacts(log: DemoLog, first: float) -> list[tuple[float, float | None]]:
    times = log.true_torque.times - first
    touched = np.abs(log.true_torque.values).max(1) > _TOUCH
    changes = np.flatnonzero(np.diff(touched, prepend=False))
    # A torque acts in the period before its stamp.
    period = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    return contact_intervals((float(times[k]) - period, bool(touched[k])) for k in changes)


def _staged(
    log: DemoLog,
    intervals: Sequence[tuple[float, float | None]],
    events: Sequence[ContactEvent],
    scored: Score,
    first: float,
    duration: float,
) -> tuple[StagedContact, ...]:
    contacts = []
    for i, (start, end) in enumerate(intervals):
        end = duration if end is None else end
        inside = [f for f in log.true_forces if start <= f[0] - first <= end + 1e-3]
        _, link, force = max(
            inside, key=lambda f: float(np.linalg.norm(f[2])), default=(0.0, "", np.zeros(3))
        )
        found = scored.contacts[i].event
        what = log.staged[i] if i < len(log.staged) else "not staged"
        event = None if found is None else events[found]
        contacts.append(StagedContact(what, start, end, link, force, event))
    return tuple(contacts)


def _tracking_rms(
    log: DemoLog, intervals: Sequence[tuple[float, float | None]], first: float
) -> float:
    times = log.tracking_error.times - first
    free = times >= log.begin - first
    for start, end in intervals:
        free &= (times < start) | (times > (np.inf if end is None else end + RECOVERY))
    errors = log.tracking_error.values[free]
    return float(np.sqrt(np.mean(errors**2))) if errors.size else float("nan")


def _failures(
    log: DemoLog, contacts: Sequence[StagedContact], scored: Score, rms: float
) -> list[str]:
    said = [f"controller: {log.fault}"] if log.fault else []
    for what in log.staged[len(contacts) :]:
        said.append(f"{what}: did not happen")
    for contact, found in zip(contacts, scored.contacts, strict=True):
        if contact.what == "not staged":
            said.append(f"contact at {contact.start:.3f} s: was not staged")
        elif found.delay is None or found.onset_error is None:
            said.append(f"{contact.what}: missed")
        elif max(found.delay, abs(found.onset_error)) > ONSET_TOLERANCE:
            said.append(
                f"{contact.what}: found after {1e3 * found.delay:.0f} ms with an onset off by "
                f"{1e3 * found.onset_error:.0f} ms; both must be within "
                f"{1e3 * ONSET_TOLERANCE:.0f} ms"
            )
    others = scored.false_events + scored.repeated_events
    if others:
        said.append(count(others, "other event"))
    if isnan(rms):
        said.append("the arm was in contact all the time, so the tracking error is unknown")
    elif not rms < RMS_LIMIT:
        said.append(f"tracking error is {rms:.4f} rad without contact; limit {RMS_LIMIT} rad")
    return said


if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from rbd_control.estimation import ContactEvent

_TRUE, _FOUND = "tab:green", "tab:orange"


def print_demo(result: DemoResult, console: Console) -> None:
    """Print a table of detected and true contacts, the tracking error, and the failures."""
    found = result.to_json()
    table = staged_table(found["truth"]["contacts"], found["events"], found["duration"])
    console.print(table.on_console(result.log.joints))
    rms = result.tracking_rms
    error = "unknown" if isnan(rms) else f"{1e3 * rms:.1f} mrad RMS over all joints"
    console.print(f"tracking error without contact: {error} (limit {1e3 * RMS_LIMIT:.0f} mrad)")
    console.print(
        f"{result.samples} samples in {result.duration:.1f} s of simulated time, verdict valid "
        f"for {result.log.valid_fraction:.1%}; {len(result.events)} contacts reported, "
        f"{result.score.false_events + result.score.repeated_events} of them wrongly"
    )
    for failure in result.failures:
        console.print(f"[bold red]failed:[/] {escape(failure)}")
    if not result.failures:
        console.print("[bold green]passed[/]")


def draw_demo(result: DemoResult, path: Path) -> None:
    """Write a PNG with tracking error, residual over threshold, and true and detected contacts."""
    # Imported here because this import takes longer than all others together.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.5), layout="constrained")
    tracking, residual, contacts = figure.subplots(3, 1, sharex=True, height_ratios=(2, 3, 1))
    figure.suptitle("simulated arm: tracking error, and contacts detected from joint torques alone")
    log = result.log
    lines = _draw_lines(
        tracking, log.tracking_error.times - result.first, 1e3 * log.tracking_error.values
    )
    tracking.set_ylabel("tracking error\n[mrad]")
    scaled = log.residual.values / log.thresholds
    _draw_lines(residual, log.residual.times - result.first, scaled)
    # Linear near the thresholds, logarithmic for the collision.
    residual.set_yscale("symlog", linthresh=2.0)
    residual.yaxis.set_major_formatter("{x:g}")
    residual.set_ylabel("estimated external torque\n/ contact threshold")
    residual.axhspan(-1.0, 1.0, color="0.93", zorder=0)
    for limit in (-1.0, 1.0):
        residual.axhline(limit, color="0.4", linewidth=0.9, linestyle="--")
    for axes in (tracking, residual):
        axes.margins(y=0.1)
        axes.grid(alpha=0.25)
        for contact in result.contacts:
            axes.axvspan(contact.start, contact.end, color=_TRUE, alpha=0.15, linewidth=0)
    _draw_contacts(contacts, result)
    figure.legend(lines, log.joints, loc="outside right upper", fontsize=8)
    contacts.set_xlabel("simulated time [s]")
    contacts.set_xlim(0.0, max(result.duration, 1e-3))
    figure.align_ylabels((tracking, residual))
    content = BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_whole(path, content.getvalue())


def _draw_lines(
    axes: Axes, times: NDArray[np.float64], values: NDArray[np.float64]
) -> list[Line2D]:
    lines = axes.plot(times, values, linewidth=0.8)
    for line, colour in zip(lines, _colours(len(lines)), strict=True):
        line.set_color(colour)
    return lines


def _draw_contacts(axes: Axes, result: DemoResult) -> None:
    def tell(start: float, end: float, row: float, colour: str, text: str) -> None:
        axes.broken_barh([(start, end - start)], (row - 0.35, 0.7), color=colour)
        late = start > 0.8 * result.duration
        axes.annotate(
            text,
            (end if late else start, row + (0.45 if row else -0.45)),
            fontsize=8,
            horizontalalignment="right" if late else "left",
            verticalalignment="top" if row else "bottom",
        )

    for contact in result.contacts:
        text = f"{contact.what}\n{_size(contact.force)} N"
        tell(contact.start, contact.end, 0, _TRUE, text)
    for event in result.events:
        end = result.duration if event.release is None else event.release
        text = f"{event.level} at {_links(event)}\n{_size(event.force)} N"
        tell(event.detected, end, 1, _FOUND, text)
    axes.set_ylim(2.3, -1.3)
    axes.set_yticks((0, 1), ("true", "detected"))
    axes.tick_params(axis="y", length=0)


def _colours(n: int) -> list[str]:
    palette = ("tab:blue", "tab:red", "tab:purple", "tab:brown", "tab:pink", "0.5", "tab:cyan")
    return [palette[i % len(palette)] for i in range(n)]


def _links(event: ContactEvent) -> str:
    return " or ".join(event.candidates)


def _size(force: NDArray[np.float64] | None) -> str:
    return "?" if force is None else f"{float(np.linalg.norm(force)):.1f}"


def demo_html(file: str | Path | None, folder: str | Path | None) -> HtmlOutput:
    """Return the HTML files that the demo is to write; call it before the demo runs.

    The function checks that ``file`` can be written, and creates its folder. It neither checks nor
    creates ``folder``.

    Args:
        file: file of the option ``--html``; None without this option.
        folder: folder of the option ``--report``, which gets ``demo.html``; None without it.

    Raises:
        RbdControlError: if ``file`` is given and the extra ``report`` (Bokeh) is not installed.
        OSError: naming ``file``, if it cannot be written.
    """
    return HtmlOutput.of(
        None if file is None else Path(file), None if folder is None else Path(folder), "demo.html"
    )


def write_demo_html(result: DemoResult, html: HtmlOutput, console: Console) -> None:
    """Write the report of a run; do nothing if no file is requested.

    Args:
        result: the scored run.
        html: the requested files, see :func:`demo_html`.
        console: prints the paths of the files.

    Raises:
        OSError: naming the file that cannot be written.
    """
    if not html.is_wanted:
        return
    log = result.log
    page = demo_page(
        result.to_json(),
        (log.residual.times - result.first, log.residual.values / log.thresholds),
        (log.tracking_error.times - result.first, log.tracking_error.values),
        RMS_LIMIT,
        analysed_now([], "arm7", Path("config/demo.yaml")),
    )
    html.write(page, console)
