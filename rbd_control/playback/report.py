"""Results of a replay as JSON, tables for the terminal and pictures; pictures of a calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.console import Console
from rich.markup import escape

from rbd_control.files.output_files import write_json, write_whole
from rbd_control.identification import Calibration
from rbd_control.playback.result import JointResidual, Overview, ReplayResult
from rbd_control.playback.truth import CONFIDENCE, Summary
from rbd_control.reports.page import Level, Row, Table, count, number, of_units, vector
from rbd_control.results import figures
from rbd_control.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = Mapping[str, Any]

BEFORE, AFTER = 0.3, 1.2
"""Time before and after an onset that plots show in full [s]."""


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
    write_json(result.to_json(), folder / "report.json")
    overview = result if isinstance(result, Overview) else Overview((result,))
    for k, each in enumerate(overview.results):
        draw_residuals(each, folder / _picture(each.recording, k + 1 if result is overview else 0))
    if overview.curve:
        draw_curve(overview.curve, folder / "curve.png")


def _picture(recording: str | Path, number: int) -> str:
    """Return the file name of a picture of residuals; ``number`` is 0 for a single recording."""
    return f"residual_{number}_{Path(recording).stem}.png" if number else "residual.png"


def print_result(
    result: ReplayResult, console: Console, parameters: str = "", *, alone: bool = True
) -> None:
    """Print a result: warnings, statistics, table of contacts, residuals, scores, and notes.

    A table has at most 100 contacts. Scores are printed if the true contacts are known.

    Args:
        result: the result.
        console: receives the text.
        parameters: path of the parameter file, or of the description for defaults.
        alone: whether it is the only result.
    """
    found = result.to_json()
    for warning in found["warnings"]:
        console.print(f"[bold red]warning:[/] {_safe(warning)}")
    samples, verdicts = statistics(found)
    console.print(f"{_safe(result.recording)}: {samples}\n{escape(verdicts)}")
    if parameters:
        is_file = parameters.endswith((".yaml", ".yml"))
        used = parameters if is_file else f"defaults, for the robot in {parameters}"
        console.print(f"parameters: {used}", markup=False)
    if found["events"]:
        console.print(
            event_table(found["events"], result.duration).shown(*_PRINTED).on_console(result.joints)
        )
    else:
        console.print("no contact found" if result.valid_fraction else "no verdict")
    console.print(residual_table(found).on_console(result.joints))
    if found["truth"]:
        if found["truth"]["contacts"]:
            table = truth_table(found["truth"], result.duration)
            console.print(table.shown(*_PRINTED).on_console())
        _print_summary(found["truth"]["summary"], console, alone)
    for note in found["notes"]:
        console.print(f"[yellow]note:[/] {_safe(note)}")


def print_overview(overview: Overview, console: Console) -> None:
    """Print a table with a row for each recording, and the scores of all recordings together."""
    found = overview.to_json()
    console.print(overview_table(found["recordings"]).on_console())
    if found["summary"]["truth"] is not None:
        _print_summary(found["summary"]["truth"], console)


def print_curve(overview: Overview, console: Console) -> None:
    """Print a table of the scores by the factor of the thresholds; nothing without a curve."""
    truth = overview.truth()
    if truth and truth["curve"]:
        console.print(curve_table(truth["curve"]).on_console())


_PRINTED = (100, "--json FILE")
"""Maximum number of printed rows of a table of events or contacts, and where all of them are."""


def statistics(found: Json) -> tuple[str, str]:
    """Return two texts: samples, rate and gaps of a recording; the share with a verdict."""
    reasons = ", ".join(f"{reason} {time:.2f} s" for reason, time in found["invalid"].items())
    gaps = f" ({found['gaps']} gaps)" if found["gaps"] else ""
    return (
        f"{found['samples']} samples in {found['duration']:.2f} s, "
        f"{number(found['rate'], 0, ' Hz')}, longest step {1e3 * found['largest_gap']:.1f} ms"
        f"{gaps}",
        f"valid verdict for {found['valid_fraction']:.1%} of the samples"
        f"{f'; none: {reasons}' if reasons else ''}",
    )


def event_table(events: Sequence[Json], end: float) -> Table:
    """Return the table of detected contacts.

    A row has the :func:`moment` of its event, so that a click on it shows the event in the plots,
    and the level "bad" for a collision, otherwise "doubtful".

    Args:
        events: events of the JSON (:meth:`~rbd_control.estimation.ContactEvent.to_json`), times [s]
            from the first sample; the rows number them from 1.
        end: end of the recording [s], for events that last to it.
    """
    headings = ("", "onset [s]", "detected [s]", "release [s]")
    texts = ("level", "joint", "link")
    rows = tuple(
        Row(
            (
                str(k + 1),
                number(event["onset"], 3),
                number(event["detected"], 3),
                "lasts" if event["release"] is None else number(event["release"], 3),
                event["level"],
                event["joint"],
                links(event),
                number(event["peak_torque"], 2),
                vector(event["force"]) + unsettled(event),
            ),
            level="bad" if event["level"] == "collision" else "doubtful",
            moment=moment(event["onset"], event["release"], end),
        )
        for k, event in enumerate(events)
    )
    every = (*headings, *texts, "peak [N·m]", "force x y z [N]")
    return Table("contacts found", every, rows, left=texts)


def unsettled(event: Json) -> str:
    """Return ", not settled" for an event whose force the observer has not followed, else ""."""
    return "" if event["force"] is None or event["force_settled"] else ", not settled"


def moment(begin: float, release: float | None, end: float) -> tuple[float, float]:
    """Return begin and end [s] of the time that the plots show when a contact is clicked.

    The interval extends from 0.3 s (:data:`BEFORE`) before the onset, but not before zero, to
    0.15 s after the end of the contact, but at least 0.3 s and at most 1.2 s (:data:`AFTER`) after
    the onset.

    Args:
        begin: onset of the contact [s].
        release: its end [s]; None if it lasts to the end of the recording.
        end: end of the recording [s].
    """
    last = (end if release is None else release) + 0.5 * BEFORE
    return max(begin - BEFORE, 0.0), max(min(last, begin + AFTER), begin + BEFORE)


def links(event: Json) -> str:
    """Return the touched link of an event; with several candidates, its probability and the others.

    Args:
        event: an event of the JSON (:meth:`~rbd_control.estimation.ContactEvent.to_json`).
    """
    if len(event["candidates"]) < 2:
        return str(event["link"])
    sure = number(event["confidence"], 0, "%", 100.0)
    return f"{event['link']} {sure}, or {', '.join(event['candidates'][1:])}"


def residual_table(found: Json) -> Table:
    """Return the table of the residuals, one row per joint."""
    columns, units = figures(JointResidual), found["units"].values()
    rows = tuple(
        Row(
            (
                joint,
                *(
                    number(found[key][joint], meta["digits"], meta["unit"], meta["scale"])
                    for _, key, meta in columns
                ),
                number(found["effort_over_gravity"].get(joint)),
            )
        )
        for joint in found["threshold"]
    )
    return Table(
        of_units("residual while there is a verdict, largest also in true contacts", units),
        ("joint", *(meta["heading"] for *_, meta in columns), "effort / gravity torque"),
        rows,
        left=("joint",),
    )


def truth_table(truth: Json, end: float) -> Table:
    """Return the table of the true contacts, with their links and forces if these are known.

    Args:
        truth: ``truth`` of the JSON of a recording.
        end: end of the recording [s].
    """
    summary = truth["summary"]
    headings = ["begin [s]", "end [s]", "found by", "delay [ms]", "onset error [ms]"]
    headings += ["link"] if summary["links"] else []
    headings += ["force error [N]"] if summary["forces"] else []
    rows = []
    for contact in truth["contacts"]:
        cells = [
            number(contact["start"], 3),
            "lasts" if contact["end"] is None else number(contact["end"], 3),
            _found_by(contact),
            number(contact["delay"], 1, scale=1e3),
            number(contact["onset_error"], 1, scale=1e3),
        ]
        if summary["links"]:
            cells.append(_LINK[contact["link_named"], contact["link_among_named"]])
        if summary["forces"]:
            cells.append(number(contact["force_error"], 1))
        level: Level | Literal[""] = "bad" if contact["event"] is None else ""
        level = "doubtful" if contact["masked"] else level
        rows.append(Row(tuple(cells), level, moment(contact["start"], contact["end"], end)))
    return Table("true contacts", tuple(headings), tuple(rows))


def _found_by(contact: Json) -> str:
    """Return the number of the event that found or masked a true contact, or "missed"."""
    if contact["event"] is None:
        return "missed"
    return f"{'masked by ' if contact['masked'] else ''}{contact['event'] + 1}"


_LINK = {(None, None): "-", (True, True): "right", (False, True): "among", (False, False): "wrong"}


def overview_table(results: Sequence[Json]) -> Table:
    """Return the table of several recordings."""
    rows = []
    for found in results:
        truth = found["truth"]
        score: tuple[str, ...] = ("-",) * 5
        if truth is not None:
            summary = truth["summary"]
            counts = [summary[name] for name in ("contacts", "masked", "misses", "false_alarms")]
            score = (*map(str, counts), _delays(summary))
        rows.append(
            Row(
                (
                    Path(found["recording"]).name,
                    number(found["duration"], 1),
                    f"{found['valid_fraction']:.1%}",
                    str(len(found["warnings"])),
                    str(len(found["events"])),
                    *score,
                ),
                level=level_of((found,)),
            )
        )
    headings = ("recording", "duration [s]", "valid", "warnings", "events")
    scores = ("true contacts", "masked", "missed", "false", "delay: median, 95 % [ms]")
    return Table("all recordings", (*headings, *scores), tuple(rows), left=("recording",))


def level_of(results: Sequence[Json]) -> Level:
    """Return the level of recordings: bad without any verdict, doubtful with warnings."""
    if not all(each["valid_fraction"] for each in results):
        return "bad"
    return "doubtful" if any(each["warnings"] for each in results) else "good"


def curve_table(curve: Sequence[Json]) -> Table:
    """Return the table of the scores with scaled thresholds."""
    rows = tuple(
        Row(
            (
                f"{point['factor']:g}",
                f"{point['misses']} of {point['contacts']}",
                _delays(point),
                str(point["false_alarms"]),
                _rate(point),
            )
        )
        for point in curve
    )
    headings = ("factor", "missed", "delay: median, 95 % [ms]", "false", "false per hour")
    return Table("scores with scaled thresholds", headings, rows)


FEW_ALARMS = 3
"""Number of false alarms below which their rate is unknown by a factor of ten or more."""


def scores(summary: Json, advises: bool = True) -> list[str]:
    """Return scores as at most three texts: counts, delays and errors, rate of false alarms.

    Args:
        summary: scores in the JSON.
        advises: whether to say how much to record if the rate of false alarms is unknown.
    """
    said = ["no true contact"]
    if summary["contacts"]:
        contacts = count(summary["contacts"], "true contact")
        said = [f"{contacts}: {found_and_masked(summary)}, {summary['misses']} missed"]
    said[0] += (
        f"; {count(summary['false_alarms'], 'false event')}, "
        f"{count(summary['repeated_events'], 'repeated event')}"
    )
    found = [
        _delay(summary),
        f"onset error {number(summary['onset_error_median'], 1, ' ms', 1e3)} (median)",
    ]
    if summary["links"]:
        found.append(
            f"link right in {summary['link_named']:.0%}, among those named in "
            f"{summary['link_among_named']:.0%} of {summary['links']}"
        )
    if summary["forces"]:
        error = number(summary["force_error_median"], 1)
        found.append(f"force error {error} N (median of {summary['forces']})")
    if summary["found"]:
        said.append(", ".join(found))
    free = number(summary["free_time"], 1, " s")
    raised = number(summary["raised_time"], 2, " s")
    alarms = summary["false_alarms"]
    if not unknown_rate(summary):
        rate = f"{_rate(summary)} false alarms per hour, from {free} without contact"
    elif alarms:
        high = number(summary["false_alarms_per_hour_high"], 0)
        rate = f"{count(alarms, 'false alarm')} in {free} without contact, too few for a rate"
        rate += f": at most {high} per hour ({CONFIDENCE:.0%})"
    else:
        hours = -log(0.5 * (1.0 - CONFIDENCE))  # the upper bound is then 1 per hour
        rate = f"no false alarm, but {free} without contact are too short to tell their rate"
        rate += f": record {hours:.1f} h to show less than one per hour" if advises else ""
    after = ", after contacts" if summary["raised_time"] and not alarms else ""
    return [*said, f"{rate}; the flag was raised for {raised} of this time{after}"]


def found_and_masked(summary: Json) -> str:
    """Return how many true contacts were found, and how many masked if there are any, as text."""
    if not summary["masked"]:
        return f"{summary['found']} found"
    return f"{summary['found']} found, {summary['masked']} masked by a flag that was up before"


def _print_summary(summary: Json, console: Console, advises: bool = True) -> None:
    for text in scores(summary, advises):
        console.print(text)


def _delays(summary: Json) -> str:
    # Without misses an unknown delay has no contact; with misses, it is infinite.
    unknown = "missed" if summary["misses"] else "-"
    pair = (summary["delay_median"], summary["delay_p95"])
    return ", ".join(unknown if delay is None else number(1e3 * delay, 1) for delay in pair)


def _delay(summary: Json) -> str:
    """Return the delays as text; missed contacts may leave them unknown."""
    if summary["delay_p95"] is not None:
        return f"delay {_delays(summary)} ms (median, 95th percentile)"
    unknown = f"unknown ({summary['misses']} missed)"
    if summary["delay_median"] is None:
        return f"delay {unknown}"
    return f"delay {1e3 * summary['delay_median']:.1f} ms (median), 95th percentile {unknown}"


def unknown_rate(summary: Json) -> str:
    """Return why scores tell no rate of false alarms; empty if they do."""
    if 0 < summary["false_alarms"] < FEW_ALARMS:
        return "too few for a rate"
    high = summary["false_alarms_per_hour_high"]
    is_short = not summary["false_alarms"] and (high is None or high > 1.0)
    return "too short to tell" if is_short else ""


def _rate(summary: Json) -> str:
    if unknown := unknown_rate(summary):
        return unknown
    low, high = summary["false_alarms_per_hour_low"], summary["false_alarms_per_hour_high"]
    to = "inf" if high is None else number(high, 1)
    rate = number(summary["false_alarms_per_hour"], 1)
    return f"{rate} ({CONFIDENCE:.0%}: {number(low, 1)} to {to})"


def _safe(text: str) -> str:
    """Return text for the console: without markup and without control characters."""
    return escape(printable(text))


_FOUND, _TRUE, _RESIDUAL, _NO_VERDICT = "tab:orange", "tab:green", "tab:blue", "0.6"


def draw_residuals(result: ReplayResult, path: Path) -> None:
    """Write a PNG with the contacts of a replay and the residual of each joint over time.

    The first plot shows true contacts, if they are known, detected contacts, and times without a
    verdict. Each joint has a plot of the residual, its threshold at rest, and the true external
    torque, if it is recorded.

    Args:
        result: result of the replay.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    # Imported here because the import takes longer than the replay of some seconds.
    from matplotlib.figure import Figure

    n = len(result.joints)
    figure = Figure(figsize=(11.0, 1.6 + 1.2 * n), layout="constrained")
    axes = figure.subplots(n + 1, 1, sharex=True, squeeze=False, height_ratios=[0.6, *[1.0] * n])[
        :, 0
    ]
    figure.suptitle(
        f"{Path(result.recording).name}: residual (external joint torque), {result.rate:.0f} Hz"
    )
    _draw_contacts(axes[0], result)
    for i, residual in enumerate(result.residuals):
        _draw_joint(axes[1 + i], result, i, residual)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=3, fontsize=8)
    axes[-1].set_xlabel("time since the first sample [s]")
    axes[-1].set_xlim(0.0, max(result.duration, 1e-3))
    figure.align_ylabels(axes[1:])
    _save(figure, path)


def draw_calibration(calibration: Calibration, path: Path) -> None:
    """Write a PNG with the residuals of all joints in all motions, and the calibrated thresholds.

    The plot also shows, in grey, the residuals of the description without friction.

    Args:
        calibration: result of the calibration.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    from matplotlib.figure import Figure

    n = len(calibration.joints)
    figure = Figure(figsize=(11.0, 1.2 + 1.3 * n), layout="constrained")
    axes = figure.subplots(n, 1, sharex=True, squeeze=False)[:, 0]
    figure.suptitle(
        "residual without contact: URDF without friction (grey), identified model (blue),\n"
        "and thresholds for a false-alarm rate of "
        f"{calibration.false_alarms_per_hour:g} per hour (dashed)",
        fontsize=10,
    )
    start = 0.0
    for name, t, before, residual, threshold in calibration.residuals:
        axes[0].text(start, 1.02, name, transform=axes[0].get_xaxis_transform(), fontsize=8)
        shown = start + t - t[0]
        for i in range(n):
            axes[i].plot(shown, before[:, i], color="0.65", linewidth=0.6)
            axes[i].plot(shown, residual[:, i], color=_RESIDUAL, linewidth=0.6)
            for sign in (1.0, -1.0):
                axes[i].plot(shown, sign * threshold[:, i], "--", color="0.3", linewidth=0.7)
            axes[i].axvline(start, color="0.8", linewidth=0.8)
        start += float(t[-1] - t[0])
    for i, joint in enumerate(calibration.joints):
        axes[i].set_ylabel(f"{joint.joint}\n[{joint.unit}]", fontsize=8)
        axes[i].tick_params(labelsize=8)
        axes[i].set_xlim(0.0, start)
    axes[-1].set_xlabel("time [s], recordings in sequence")
    figure.align_ylabels()
    _save(figure, path)


def draw_curve(curve: Sequence[tuple[float, Summary]], path: Path) -> None:
    """Write a PNG: delay against false alarms, and both against the factor of the thresholds.

    Args:
        curve: pairs of a factor and the scores with all thresholds multiplied by it, at least one.
        path: the PNG file, which is replaced.

    Raises:
        OSError: if the file cannot be written.
    """
    from matplotlib.figure import Figure

    factor = np.array([factor for factor, _ in curve])
    rate = np.array([summary.false_alarms_per_hour for _, summary in curve])
    interval = np.array([summary.false_alarms_interval for _, summary in curve]).T
    delays = {
        # matplotlib leaves NaN out, while an infinite delay would change the axis.
        label: np.array([_drawable(getattr(summary, what)) for _, summary in curve])
        for label, what in (("median", "delay_median"), ("95th percentile", "delay_p95"))
    }
    figure = Figure(figsize=(11.0, 5.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col", width_ratios=[1.4, 1.0])
    against_alarms = figure.add_subplot(panels[0, 0].get_gridspec()[:, 0])
    for axes in panels[:, 0]:
        axes.remove()
    against_factor, alarms = panels[:, 1]
    for (label, delay), colour in zip(delays.items(), (_RESIDUAL, _FOUND), strict=True):
        against_alarms.plot(rate, delay, "o-", color=colour, label=label)
        against_factor.plot(factor, delay, "o-", color=colour, label=label)
        for each, x, y in zip(factor, rate, delay, strict=True):
            if np.isfinite(x) and np.isfinite(y):
                against_alarms.annotate(
                    f"x {each:g}", (x, y), (7, -3), textcoords="offset points", fontsize=7
                )
    alarms.fill_between(factor, *interval, color=_RESIDUAL, alpha=0.2, linewidth=0)
    alarms.plot(factor, rate, "o-", color=_RESIDUAL)
    # Rates are zero or decades apart, so the axis is linear up to a single false alarm.
    one = 3600.0 / max(curve[0][1].free_time, 1.0)
    against_alarms.set_xscale("symlog", linthresh=one)
    alarms.set_yscale("symlog", linthresh=one)
    for axes in (against_alarms, against_factor):
        axes.set_yscale("log")
        axes.set_ylabel("delay [ms]")
    against_alarms.set_xlabel("false alarms an hour")
    against_alarms.set_title("thresholds multiplied by the numbers at the points", fontsize=10)
    against_alarms.legend(fontsize=8)
    alarms.set_ylabel(f"false alarms an hour\n({CONFIDENCE:.0%} interval)")
    alarms.set_xlabel("factor of the thresholds")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG, completely or not at all."""
    content = BytesIO()
    figure.savefig(content, dpi=110, format="png")
    write_whole(path, content.getvalue())


def _drawable(delay: float) -> float:
    return 1e3 * delay if np.isfinite(delay) else np.nan


def _draw_contacts(axes: Axes, result: ReplayResult) -> None:
    rows = [("no verdict", _NO_VERDICT, _no_verdict(result))]
    events = [
        (event.detected, result.duration if event.release is None else event.release)
        for event in result.events
    ]
    rows.insert(0, ("detected", _FOUND, events))
    if result.score is not None:
        contacts = [
            (contact.start, result.duration if contact.end is None else contact.end)
            for contact in result.score.contacts
        ]
        rows.insert(0, ("true contact", _TRUE, contacts))
    for row, (_, colour, spans) in enumerate(rows):
        axes.broken_barh(
            [(start, end - start) for start, end in spans], (row - 0.35, 0.7), color=colour
        )
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axes.tick_params(axis="y", length=0)


def _draw_joint(axes: Axes, result: ReplayResult, i: int, residual: JointResidual) -> None:
    for event in result.events:
        end = result.duration if event.release is None else event.release
        axes.axvspan(event.detected, end, color=_FOUND, alpha=0.15, linewidth=0)
    axes.axhspan(-residual.threshold, residual.threshold, color="0.93", zorder=0, label="threshold")
    for limit in (-residual.threshold, residual.threshold):
        axes.axhline(limit, color="0.6", linewidth=0.8, linestyle="--")
    if result.true_torque_series is not None:
        times, lower, upper = result.true_torque_series.series()
        axes.plot(times, (lower + upper)[:, i] / 2, color=_TRUE, linewidth=1.0, label="true")
    times, lower, upper = result.residual_series.series()
    axes.fill_between(times, lower[:, i], upper[:, i], color=_RESIDUAL, alpha=0.4, linewidth=0)
    axes.plot(times, (lower + upper)[:, i] / 2, color=_RESIDUAL, linewidth=0.8, label="residual")
    axes.set_ylabel(f"{residual.joint}\n[{residual.unit}]", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.margins(y=0.1)


def _no_verdict(result: ReplayResult) -> list[tuple[float, float]]:
    """Return start and end [s] of each series of bins in which no sample had a verdict."""
    times, lower, _ = result.residual_series.series()
    without = np.isnan(lower).any(1)
    edges = np.diff(np.concatenate(([0], without.astype(int), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    times = np.append(times, result.duration)
    return [(float(times[b]), float(times[e])) for b, e in zip(begins, ends, strict=True)]
