"""The report of ``rbd-control demo``: staged and detected contacts, residuals, tracking error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.playback.report import AFTER, BEFORE, event_table, links, moment
from rbd_control.reports.curves import Curves
from rbd_control.reports.page import (
    PALETTE,
    Analysed,
    Curve,
    Page,
    Panel,
    Row,
    Section,
    Span,
    Table,
    TimePlots,
    count,
    number,
)
from rbd_control.reports.replay_page import event_spans, ratio_panels

Array = NDArray[np.float64]
Json = Mapping[str, Any]
Series = tuple[Array, Array]
"""Times (k,) from the first sample [s] and values (k, nv); negative times are not shown."""


def demo_page(
    found: Json,
    residual: Series,
    tracking_error: Series,
    limit: float,
    analysed: Analysed,
) -> Page:
    """Return the report of a run of the demo.

    Args:
        found: the JSON of the demo (``DemoResult.to_json`` in ``rbd_control.live.demo_report``).
        residual: residuals (estimated external torques) divided by their thresholds.
        tracking_error: position errors [rad].
        limit: RMS tracking error below which the demo passes, shown in the report [rad].
        analysed: the input of the analysis.
    """
    contacts, events = found["truth"]["contacts"], found["events"]
    tracked = number(found["tracking_rms"], 1, " mrad", 1e3)
    hits = sum(contact["event"] is not None for contact in contacts)
    verdict = (
        f"{hits} of {count(len(contacts), 'staged contact')} found, "
        f"{count(len(events), 'contact')} reported, tracking error {tracked} RMS without contact "
        f"(limit {1e3 * limit:.0f} mrad): {'passed' if found['passed'] else 'failed'}."
    )
    end = found["duration"]
    return Page(
        title="Demo: simulated arm, passive controller and contact detector",
        level="good" if found["passed"] else "bad",
        verdict=verdict,
        warnings=tuple(found["failures"]),
        notes=(),
        facts=(
            *analysed.facts(),
            ("samples", f"{found['samples']} in {end:.1f} s of simulated time"),
            ("valid verdict", f"{found['valid_fraction']:.1%} of the samples"),
        ),
        sections=(
            Section(
                "Contacts",
                (
                    staged_table(contacts, events, end),
                    event_table(events, end).shown(),
                    _plots(found, residual, tracking_error),
                ),
            ),
        ),
    )


def staged_table(contacts: Sequence[Json], events: Sequence[Json], end: float) -> Table:
    """Return the table of the staged contacts beside the detected ones.

    Args:
        contacts, events: ``truth.contacts`` and ``events`` of the JSON of the demo.
        end: end of the recording [s].
    """
    rows = []
    for contact in contacts:
        event = None if contact["event"] is None else events[contact["event"]]
        rows.append(
            Row(
                (
                    contact["what"],
                    number(contact["start"], 3),
                    "-" if event is None else number(event["onset"], 3),
                    "missed" if event is None else number(contact["delay"], 0, scale=1e3),
                    contact["link"],
                    "-" if event is None else links(event),
                    _size(contact["force"]),
                    "-" if event is None else _size(event["force"]),
                ),
                level="bad" if event is None else "good",
                moment=moment(contact["start"], contact["end"], end),
            )
        )
    headings = ("staged", "begin [s]", "estimated [s]", "flag after [ms]")
    more = ("link", "estimated link", "force [N]", "estimated force [N]")
    return Table("staged contacts: the truth, and what was found", (*headings, *more), tuple(rows))


def _plots(found: Json, residual: Series, tracking_error: Series) -> TimePlots:
    events, contacts, end = found["events"], found["truth"]["contacts"], found["duration"]
    joints = tuple(found["residual_max"])
    windows = [(c["start"] - BEFORE, c["start"] + AFTER) for c in contacts]
    times, ratios = _reduced(residual, windows)
    lines = [Curve("residual / threshold", times, ratio) for ratio in ratios.T]
    at, errors = _reduced((tracking_error[0], 1e3 * tracking_error[1]), windows)
    tracking = Panel(
        "tracking error of all joints [mrad]",
        tuple(Curve("", at, e, PALETTE[i % len(PALETTE)]) for i, e in enumerate(errors.T)),
    )
    truth = [Span(c["start"], end if c["end"] is None else c["end"], "true") for c in contacts]
    return TimePlots(
        (tracking, *ratio_panels(joints, lines)),
        end,
        (*truth, *event_spans(events, end)),
        "Below the tracking error: residual (estimated external torque) of each joint, divided by "
        "its threshold.",
    )


def _reduced(series: Series, windows: Sequence[tuple[float, float]]) -> Series:
    times, values = series
    inside = times >= 0.0
    curves = Curves(values.shape[1])
    curves.add(times[inside], values[inside], windows)
    return curves.series()


def _size(force: Sequence[float] | None) -> str:
    return "-" if force is None else f"{float(np.linalg.norm(force)):.1f}"
