"""The report of ``rbd-control replay``: events, residuals over time, scores."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.playback.replay import Watch
from rbd_control.playback.report import (
    curve_table,
    event_table,
    found_and_masked,
    level_of,
    overview_table,
    residual_table,
    scores,
    statistics,
    truth_table,
)
from rbd_control.reports.curves import BUDGET, Curves, ResidualCurves
from rbd_control.reports.html import HtmlOutput, analysed_now
from rbd_control.reports.page import (
    Analysed,
    Curve,
    Page,
    Panel,
    Part,
    Row,
    Section,
    Span,
    SpanKind,
    Table,
    Text,
    TimePlots,
    changed,
    count,
)

Json = Mapping[str, Any]

MOST_PLOTTED = 12
"""Maximum number of recordings whose residuals are plotted; these are the first ones."""


def replay_page(
    found: Json,
    curves: Sequence[Curves],
    analysed: Analysed,
    parameters: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return the report of a replay.

    Args:
        found: the JSON of the replay, of one recording
            (:meth:`~rbd_control.playback.result.ReplayResult.to_json`) or of several
            (:meth:`~rbd_control.playback.result.Overview.to_json`).
        curves: residuals divided by their thresholds, one object for each of the first recordings,
            in order; recordings without curves have no plots.
        analysed: the input of the analysis.
        parameters: names and values of the detector's parameters that are not defaults.
    """
    results: Sequence[Json] = found.get("recordings", (found,))
    several = len(results) > 1
    warnings = [(each, text) for each in results for text in each["warnings"]]
    notes = [(each, text) for each in results for text in each["notes"]]
    sections = (
        [] if not several else [Section("All recordings", (overview_table(results).shown(),))]
    )
    for k, each in enumerate(results):
        title = f"{k + 1}: {_name(each)}" if several else "Contacts"
        sections.append(Section(title, _parts(each, curves[k] if k < len(curves) else None)))
    if parameters:
        rows = tuple(Row(pair) for pair in parameters)
        table = Table("set in the parameter file", ("parameter", "value"), rows, is_text=True)
        sections.append(Section("Parameters", (table,)))
    what = f"{len(results)} recordings" if several else _name(results[0])
    return Page(
        title=f"Contacts in {what}",
        level=level_of(results),
        verdict=_verdict(results, found["summary"]["truth"] if several else results[0]["truth"]),
        warnings=_labelled(warnings, several),
        notes=_labelled(notes, several),
        facts=(*analysed.facts(), *_facts(results)),
        sections=tuple(sections),
    )


def event_spans(events: Sequence[Json], end: float) -> list[Span]:
    """Return the intervals to shade: for each event the time from its detection to its release.

    Args:
        events, end: as for :func:`~rbd_control.playback.report.event_table`.
    """
    return [
        Span(event["detected"], _or(event["release"], end), _kind(event["level"]))
        for event in events
    ]


def ratio_panels(joints: Sequence[str], curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Return one panel per joint for ratios of residual to threshold, with [-1, 1] shaded.

    Args:
        joints: names of the joints.
        curves: the curves of all joints over time [s]: all curves of the first joint, then those of
            the next, equally many for each.
    """
    each = len(curves) // max(len(joints), 1)
    return tuple(
        Panel(
            title=joint,
            curves=tuple(curves[i * each : (i + 1) * each]),
            x_label="time [s]",
            band=(-1.0, 1.0),
        )
        for i, joint in enumerate(joints)
    )


def _parts(found: Json, curves: Curves | None) -> tuple[Part, ...]:
    events, end = found["events"], found["duration"]
    parts: list[Part] = [Text("; ".join(statistics(found)))]
    if events:
        parts.append(event_table(events, end).shown())
    if curves is not None:
        parts.append(_residual_plots(found, curves))
    else:
        parts.append(Text(f"Plots are made of the first {MOST_PLOTTED} recordings only."))
    if found["truth"]:
        parts.append(truth_table(found["truth"], end).shown())
        parts.extend(map(Text, scores(found["truth"]["summary"])))
        if found["truth"]["curve"]:
            parts.append(curve_table(found["truth"]["curve"]))
    parts.append(residual_table(found))
    return tuple(parts)


def _residual_plots(found: Json, curves: Curves) -> TimePlots:
    events, end = found["events"], found["duration"]
    times, ratios = curves.series()
    lines = [Curve("residual / threshold", times, ratio) for ratio in ratios.T]
    spans = event_spans(events, end)
    if found["truth"]:
        spans += [Span(c["start"], _or(c["end"], end), "true") for c in found["truth"]["contacts"]]
    note = (
        "Residual (estimated external torque) of each joint, divided by its threshold at that "
        "time. Lines are interrupted where there is no verdict."
    )
    shown = sum(curves.shows_all_of(event["onset"]) for event in events)
    if shown < len(events):
        note += (
            f" Every sample is shown around {shown} of {len(events)} contacts; elsewhere, the "
            "lowest and highest value of short intervals."
        )
    return TimePlots(ratio_panels(tuple(found["threshold"]), lines), end, tuple(spans), note)


def _verdict(results: Sequence[Json], truth: Json | None) -> str:
    """Return the outcome in one sentence."""
    duration = sum(each["duration"] for each in results)
    valid = [each for each in results if each["valid_fraction"]]
    if not valid:
        return "The detector has no verdict at any time."
    events = [event for each in results for event in each["events"]]
    hits = sum(event["level"] == "collision" for event in events)
    said = f"{count(len(events), 'contact')} found" if events else "No contact found"
    said += f", {hits} of them {'a collision' if hits == 1 else 'collisions'}," if hits else ""
    said += f" in {duration:.1f} s"
    if truth is not None:
        score = truth.get("summary", truth)
        said += (
            f"; of {count(score['contacts'], 'true contact')} {found_and_masked(score)}, "
            f"{count(score['false_alarms'], 'false event')}"
        )
    if len(valid) < len(results):
        said += f"; no verdict at any time in {count(len(results) - len(valid), 'recording')}"
    if any(each["warnings"] for each in results):
        said += "; read the warnings before you rely on it"
    return said + "."


def _facts(results: Sequence[Json]) -> tuple[tuple[str, str], ...]:
    samples = sum(each["samples"] for each in results)
    duration = sum(each["duration"] for each in results)
    return (("samples", f"{samples} in {duration:.1f} s"),)


def _labelled(said: Sequence[tuple[Json, str]], several: bool) -> tuple[str, ...]:
    """Return warnings or notes, with the names of the recordings if there are several."""
    return tuple(f"{_name(each)}: {text}" if several else text for each, text in said)


def _name(found: Json) -> str:
    return Path(found["recording"]).name


def _kind(level: str) -> SpanKind:
    return "collision" if level == "collision" else "contact"


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


class ReplayReport:
    """Collects the residuals of the first recordings while they are replayed; writes the report.

    The residuals are reduced to curves of limited size. At most twelve recordings
    (``MOST_PLOTTED``) have curves.

    Args:
        html: output of the report; nothing is collected if no report is requested.
        model: the robot.
        parameters: parameters of the detector; the report lists those that are not defaults.
        recordings: number of recordings.
    """

    def __init__(
        self, html: HtmlOutput, model: Model, parameters: DetectorParameters, recordings: int
    ) -> None:
        self._html, self._parameters = html, parameters
        plotted = min(recordings, MOST_PLOTTED) if html.is_wanted else 0
        self._curves = [ResidualCurves(model.nv, BUDGET // plotted) for _ in range(plotted)]

    def watch(self, k: int) -> Watch | None:
        """Return the function that collects the residuals of recording ``k``, counted from 0.

        Pass it as ``watch`` to :func:`~rbd_control.playback.replay.replay`. A recording without
        plots has no such function: the result is None.
        """
        return self._curves[k].watch if k < len(self._curves) else None

    def write(
        self, found: Mapping[str, Any], arguments: argparse.Namespace, console: Console
    ) -> None:
        """Write the report if it is requested.

        Args:
            found: the JSON of the replay, see
                :func:`replay_page`.
            arguments: parsed arguments of the command, with ``recordings``, ``urdf`` and
                ``config``.
            console: prints the names of the files.

        Raises:
            OSError: naming a file that cannot be written.
        """
        if self._html.is_wanted:
            analysed = analysed_now(arguments.recordings, arguments.urdf, arguments.config)
            page = replay_page(found, self._curves, analysed, changed(self._parameters))
            self._html.write(page, console)
