"""Study over the results of a fleet: false alarms, delays, thresholds, friction and its drift."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from statistics import median
from typing import Any

import numpy as np

from rbd_control.fleet.jobs import FRICTION
from rbd_control.fleet.store import Record, Row
from rbd_control.playback.truth import Score, Summary, TrueContact, summarise
from rbd_control.results import figures

DAY = 86_400.0
"""Length of a day [s]."""

MONTH = 365.25 / 12.0
"""Mean length of a month [days]."""

FEWEST = 3
"""Minimum number of values for the standard error of a slope."""

CONFIDENCE = 0.95
"""Confidence level at which a drift counts as significant."""


@dataclass(frozen=True)
class Drift:
    """A straight line through the values of a quantity over time, fitted by least squares.

    Attributes:
        count: number of values.
        days: time from the first to the last value [days].
        mean: mean of the values [unit of the quantity].
        slope: change per month of :data:`MONTH` days [unit of the quantity per month].
        standard_error: standard error of ``slope``, in the same unit.
    """

    count: int
    days: float
    mean: float
    slope: float
    standard_error: float

    @property
    def is_significant(self) -> bool:
        """Whether the slope differs from zero at the level :data:`CONFIDENCE` (Student's t)."""
        from scipy.special import stdtrit

        limit = float(stdtrit(self.count - 2, 0.5 + 0.5 * CONFIDENCE))
        return abs(self.slope) > limit * self.standard_error


def fit_drift(times: Sequence[float], values: Sequence[float]) -> Drift | None:
    """Fit a line; return None with fewer than :data:`FEWEST` values, or if all times are equal.

    The slope is the change per month. Its standard error assumes independent values of equal
    variance. The time t is in months, and the deviations are the distances from the line::

        slope = S_ty / S_tt,    standard error = sqrt(sum of squared deviations / (n - 2) / S_tt)

    Args:
        times: times of the values, in any order, (n,) [s].
        values: the values, (n,), in any unit.
    """
    t = np.array(times, dtype=float) / DAY
    y = np.array(values, dtype=float)
    n = t.size
    if n < FEWEST or np.ptp(t) <= 0.0:
        return None
    months = (t - t.mean()) / MONTH
    spread = float(months @ months)
    slope = float(months @ (y - y.mean())) / spread
    left = y - y.mean() - slope * months
    error = math.sqrt(float(left @ left) / (n - 2) / spread)
    return Drift(n, float(np.ptp(t)), float(y.mean()), slope, error)


DRIFTING = (*FRICTION[:3], "threshold")
"""Quantities in the results of ``calibrate`` whose drift over time is fitted."""

_CALIBRATED = ("friction_coulomb", "friction_viscous", "friction_offset")


@dataclass(frozen=True)
class Study:
    """Summary of the results of a fleet, as rows of tables (column names and values).

    Attributes:
        arms: one row per arm: numbers of recordings, hours and events; if true contacts are known,
            also hours without contact, false alarms per hour with their confidence interval,
            contacts, misses and delays [s].
        days: one row per arm and day (UTC): the same, and the quantities of ``joints`` as
            ``quantity/joint``; recordings of unknown day have the day ``unknown``.
        joints: one row per arm and joint: medians over the recordings of the threshold in use, the
            calibrated threshold and the friction.
        drifts: one row per arm, joint and quantity of :data:`DRIFTING`: number of recordings, time
            span [days], mean, change per month, its standard error, and whether it is significant;
            see :class:`Drift`. Quantities that are always zero, or that
            :func:`fit_drift` cannot fit, have no row.
        bad: records of recordings without a result.
    """

    arms: list[Row]
    days: list[Row]
    joints: list[Row]
    drifts: list[Row]
    bad: list[Record]


def study(records: Sequence[Record]) -> Study:
    """Return the study over the records of ``replay`` and ``calibrate``.

    Recordings count for false alarms and delays if their true contacts are known: if they were
    declared free of contact, if labels were given, or if the recording contains its true contacts.
    docs/replay.md (Scores) defines false alarms and delays.
    """
    usable = [record for record in records if record.result]
    by_arm = _grouped(usable, lambda record: (record.arm,))
    by_day = _grouped(usable, lambda record: (record.arm, record.day or "unknown"))
    return Study(
        arms=[{"arm": arm, **_figures(group)} for (arm,), group in by_arm.items()],
        days=[
            {"arm": arm, "day": day, **_figures(group), **_wide(group)}
            for (arm, day), group in by_day.items()
        ],
        joints=[
            {"arm": arm, "joint": joint, **values}
            for (arm,), group in by_arm.items()
            for joint, values in _levels(group).items()
        ],
        drifts=[{"arm": arm, **row} for (arm,), group in by_arm.items() for row in _drifts(group)],
        bad=[record for record in records if not record.result],
    )


def _grouped(
    records: Iterable[Record], key: Callable[[Record], tuple[str, ...]]
) -> dict[tuple[str, ...], list[Record]]:
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return dict(sorted(groups.items()))


def _figures(records: Sequence[Record]) -> Row:
    """Return recordings, hours, rates and delays of a group of records."""
    replayed = [record.result for record in records if record.command == "replay"]
    row: Row = {
        "replayed": len(replayed),
        "calibrated": len(records) - len(replayed),
        "hours": sum(result["duration"] for result in replayed) / 3600.0,
        "events": sum(len(result["events"]) for result in replayed),
    }
    scored = [result["truth"] for result in replayed if result["truth"]]
    summary = summarise(
        [_score(truth) for truth in scored], sum(t["summary"]["free_time"] for t in scored)
    )
    return row | (_rates(summary) if scored else {})


RATES = ("false_alarms_per_hour", "false_alarms_per_hour_low", "false_alarms_per_hour_high")
"""Rate of false alarms of a group of recordings and the ends of its confidence interval [1/h]."""


def _rates(summary: Summary) -> Row:
    values = summary.to_json()
    return {
        "hours_without_contact": summary.free_time / 3600.0,
        **{name: values[name] for name in RATES},
        **{key: values[key] for _, key, _ in figures(Summary)},
    }


def _score(truth: Mapping[str, Any]) -> Score:
    """Return the score of a result in plain values."""
    contacts = tuple(TrueContact(**contact) for contact in truth["contacts"])
    others = [item.name for item in fields(Score) if item.name != "contacts"]
    return Score(contacts, **{name: truth[name] for name in others})


def _levels(records: Sequence[Record]) -> dict[str, Row]:
    """Return for each joint the medians of its friction, and of used and calibrated threshold."""
    values: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if record.command == "replay":
            for joint, threshold in record.result["threshold"].items():
                values.setdefault((joint, "threshold"), []).append(threshold)
        else:
            for joint, found in record.result["joints"].items():
                values.setdefault((joint, "calibrated_threshold"), []).append(found["threshold"])
                for quantity in _CALIBRATED:
                    values.setdefault((joint, quantity), []).append(found[quantity])
    levels: dict[str, Row] = {}
    for (joint, quantity), found in values.items():
        levels.setdefault(joint, {})[quantity] = median(found)
    return levels


def _wide(records: Sequence[Record]) -> Row:
    """Return the values of :func:`_levels` in one row, with columns ``quantity/joint``."""
    return {
        f"{quantity}/{joint}": value
        for joint, values in _levels(records).items()
        for quantity, value in values.items()
    }


def _drifts(records: Sequence[Record]) -> Iterable[Row]:
    """Yield the drift of the calibrated quantities of each joint, over recordings of known day."""
    dated = [
        record for record in records if record.command == "calibrate" and record.day is not None
    ]
    joints = list(dict.fromkeys(joint for record in dated for joint in record.result["joints"]))
    for joint in joints:
        measured = [record for record in dated if joint in record.result["joints"]]
        times = [time for record in measured if (time := _time(record)) is not None]
        for quantity in DRIFTING:
            drift = fit_drift(
                times, [record.result["joints"][joint][quantity] for record in measured]
            )
            if drift is not None and (drift.mean or drift.slope):
                yield {
                    "joint": joint,
                    "quantity": quantity,
                    "recordings": drift.count,
                    "days": drift.days,
                    "mean": drift.mean,
                    "slope_per_month": drift.slope,
                    "standard_error": drift.standard_error,
                    "significant": drift.is_significant,
                }


def _time(record: Record) -> float | None:
    """Return the stamp of a recording's first sample [s], or noon (UTC) of its day.

    Noon is used if the stamp is unknown or not on this day; the time of an unknown day is None.
    """
    if record.day is None:
        return None
    noon = datetime.fromisoformat(record.day).replace(hour=12, tzinfo=timezone.utc).timestamp()
    start = record.outcome.start
    return start if start is not None and abs(start - noon) <= DAY / 2.0 else noon
