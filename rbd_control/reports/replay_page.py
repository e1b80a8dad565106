"""The report of ``rbd-control replay``: events, residuals over time, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rbd_control.reports.analysed import Analysed
from rbd_control.reports.curves import AFTER, BEFORE, Curves
from rbd_control.reports.page import (
    Level,
    Page,
    Part,
    Row,
    Section,
    Table,
    Text,
    bounded,
    count,
    number,
    vector,
)
from rbd_control.reports.plots import Curve, Panel, Span, SpanKind, TimePlots

Json = Mapping[str, Any]

MOST_PLOTTED = 12
"""Maximum number of recordings whose residuals are plotted; these are the first ones."""

_EVENT_HEADINGS = (
    "event",
    "onset [s]",
    "detected [s]",
    "release [s]",
    "level",
    "joint",
    "link",
    "peak torque [N·m]",
    "force x y z [N]",
)


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
    sections = [] if not several else [Section("All recordings", (_overview(results),))]
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
        level=_level(results),
        verdict=_verdict(results, found["summary"]["truth"] if several else results[0]["truth"]),
        warnings=_labelled(warnings, several),
        notes=_labelled(notes, several),
        facts=(*analysed.facts(), *_facts(results)),
        sections=tuple(sections),
    )


def event_rows(events: Sequence[Json], end: float) -> list[Row]:
    """Return one table row for each detected contact, with the columns of ``_EVENT_HEADINGS``.

    Each row has the :func:`moment` of its event, so that a click on it shows the event in the
    plots, and the level "bad" for a collision, otherwise "doubtful".

    Args:
        events: events of the JSON (:meth:`~rbd_control.estimation.ContactEvent.to_json`), times [s]
            from the first sample; the rows number them from 1.
        end: end of the recording [s], for events that last to it.
    """
    return [
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
                vector(event["force"]),
            ),
            level="bad" if event["level"] == "collision" else "doubtful",
            moment=moment(event["onset"], event["release"], end),
        )
        for k, event in enumerate(events)
    ]


def event_table(events: Sequence[Json], end: float, where: str = "the JSON") -> Table:
    """Return the table of detected contacts, with at most 500 rows (``MOST_ROWS``).

    Args:
        events, end: as for :func:`event_rows`.
        where: name of the output with all events, for the note below a table without all of them.
    """
    rows, note = bounded(event_rows(events, end), where)
    return Table("contacts found", _EVENT_HEADINGS, rows, note)


def event_spans(events: Sequence[Json], end: float) -> list[Span]:
    """Return the intervals to shade: for each event the time from its detection to its release.

    Args:
        events, end: as for :func:`event_rows`.
    """
    return [
        Span(event["detected"], _or(event["release"], end), _kind(event["level"]))
        for event in events
    ]


def moment(begin: float, release: float | None, end: float) -> tuple[float, float]:
    """Return begin and end [s] of the time that the plots show when a contact is clicked.

    The interval extends from 0.3 s (``BEFORE``) before the onset, but not before zero, to 0.15 s
    after the end of the contact, but at least 0.3 s and at most 1.2 s (``AFTER``) after the onset.

    Args:
        begin: onset of the contact [s].
        release: its end [s]; None if it lasts to the end of the recording.
        end: end of the recording [s].
    """
    last = _or(release, end) + 0.5 * BEFORE
    return max(begin - BEFORE, 0.0), max(min(last, begin + AFTER), begin + BEFORE)


def links(event: Json) -> str:
    """Return the touched link of an event as text, or all links that may have been touched.

    If there are several, the text has the most probable link with its probability, then the others.

    Args:
        event: an event of the JSON (:meth:`~rbd_control.estimation.ContactEvent.to_json`).
    """
    if len(event["candidates"]) < 2:
        return str(event["link"])
    sure = number(event["confidence"], 0, " %", 100.0)
    return f"{event['link']} {sure}, or {' '.join(event['candidates'][1:])}"


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
    parts: list[Part] = [Text(_said(found))]
    if events:
        parts.append(event_table(events, end))
    if curves is not None:
        parts.append(_residual_plots(found, curves))
    else:
        parts.append(Text(f"Plots are made of the first {MOST_PLOTTED} recordings only."))
    if found["truth"]:
        parts.append(_truth(found["truth"], end))
        if found["truth"]["curve"]:
            parts.append(_scaled(found["truth"]["curve"]))
    parts.append(_residuals(found))
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


def _residuals(found: Json) -> Table:
    rows = tuple(
        Row(
            (
                joint,
                number(found["residual_rms"][joint], 3),
                number(found["residual_max"][joint], 3),
                number(threshold, 3),
                number(found["residual_over_threshold"][joint], 1, " %", 100.0),
                number(found["effort_over_gravity"].get(joint)),
            )
        )
        for joint, threshold in found["threshold"].items()
    )
    return Table(
        "residual of the samples with a verdict (prismatic joints: N); true contacts count "
        "only for the largest value",
        (
            "joint",
            "RMS [N·m]",
            "largest [N·m]",
            "threshold at rest [N·m]",
            "time above threshold",
            "effort / gravity torque",
        ),
        rows,
    )


def _truth(truth: Json, end: float) -> Table:
    rows, note = bounded(
        (
            Row(
                (
                    str(k + 1),
                    number(contact["start"], 3),
                    "lasts" if contact["end"] is None else number(contact["end"], 3),
                    "missed" if contact["event"] is None else f"event {contact['event'] + 1}",
                    number(contact["delay"], 1, scale=1e3),
                    number(contact["onset_error"], 1, scale=1e3),
                    _link_said(contact),
                    number(contact["force_error"], 1),
                ),
                level="bad" if contact["event"] is None else "",
                moment=moment(contact["start"], contact["end"], end),
            )
            for k, contact in enumerate(truth["contacts"])
        ),
        "the JSON",
    )
    headings = (
        "contact",
        "begin [s]",
        "end [s]",
        "found by",
        "delay [ms]",
        "onset error [ms]",
        "link",
        "force error [N]",
    )
    return Table("true contacts", headings, rows, f"{_scores(truth['summary'])} {note}".strip())


def _scaled(curve: Sequence[Json]) -> Table:
    """Return the scores with scaled thresholds."""
    rows = tuple(
        Row(
            (
                f"{point['factor']:g}",
                f"{point['misses']} of {point['contacts']}",
                number(point["delay_median"], 1, scale=1e3),
                number(point["delay_p95"], 1, scale=1e3),
                str(point["false_alarms"]),
                number(point["false_alarms_per_hour"], 1),
            )
        )
        for point in curve
    )
    delays = ("delay, median [ms]", "95 % [ms]")
    headings = ("factor", "missed", *delays, "false events", "false events per hour")
    return Table("scores with thresholds multiplied by a factor", headings, rows)


def _link_said(contact: Json) -> str:
    if contact["link_named"] is None:
        return "-"
    return "right" if contact["link_named"] else "among" if contact["link_among_named"] else "wrong"


def _scores(summary: Json) -> str:
    low, high = summary["false_alarms_per_hour_low"], summary["false_alarms_per_hour_high"]
    return (
        f"Delay {number(summary['delay_median'], 1, ' ms', 1e3)} (median), "
        f"{number(summary['delay_p95'], 1, ' ms', 1e3)} (95th percentile); "
        f"{number(summary['false_alarms_per_hour'], 1)} false alarms per hour "
        f"(95 % confidence: {number(low, 1)} to {number(high, 1)}), from "
        f"{number(summary['free_time'], 1, ' s')} without contact."
    )


def _overview(results: Sequence[Json]) -> Table:
    rows, note = bounded(
        (
            Row(
                (
                    f"{k + 1}: {_name(each)}",
                    number(each["duration"], 1),
                    number(each["valid_fraction"], 1, " %", 100.0),
                    str(len(each["warnings"])),
                    str(len(each["events"])),
                    *_scored(each["truth"]),
                ),
                level=_level((each,)),
            )
            for k, each in enumerate(results)
        ),
        "the JSON",
    )
    headings = ("recording", "duration [s]", "valid", "warnings", "events")
    return Table("recordings", (*headings, "true contacts", "missed", "false events"), rows, note)


def _scored(truth: Json | None) -> tuple[str, str, str]:
    if truth is None:
        return "-", "-", "-"
    return str(len(truth["contacts"])), str(truth["misses"]), str(truth["false_events"])


def _said(found: Json) -> str:
    reasons = ", ".join(f"{reason} {time:.2f} s" for reason, time in found["invalid"].items())
    rate = number(found["rate"], 0, " Hz")
    return (
        f"{found['samples']} samples in {found['duration']:.2f} s, {rate}, "
        f"longest step {1e3 * found['largest_gap']:.1f} ms; verdict for "
        f"{found['valid_fraction']:.1%} of the samples{f'; none: {reasons}' if reasons else ''}."
    )


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
            f"; {score['contacts'] - score['misses']} of {count(score['contacts'], 'true contact')}"
            f" found, {count(score['false_alarms'], 'false event')}"
        )
    if len(valid) < len(results):
        said += f"; no verdict at any time in {count(len(results) - len(valid), 'recording')}"
    if any(each["warnings"] for each in results):
        said += "; read the warnings before you rely on it"
    return said + "."


def _level(results: Sequence[Json]) -> Level:
    if not all(each["valid_fraction"] for each in results):
        return "bad"
    return "doubtful" if any(each["warnings"] for each in results) else "good"


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
