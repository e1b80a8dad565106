"""Thresholds multiplied by factors, for the curve of delay against false alarms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rbd_control.estimation import DetectorParameters
from rbd_control.playback.truth import Score

FACTORS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
"""Factors by which thresholds are multiplied for the curve."""

_THRESHOLDS = (
    "contact_threshold",
    "collision_threshold",
    "contact_force_threshold",
    "collision_force_threshold",
    "threshold_speed",
    "threshold_acceleration",
    "statistic_threshold",
    "statistic_speed",
)


@dataclass(frozen=True)
class CurvePoint:
    """Score of a replay whose thresholds were all multiplied by a factor.

    Attributes:
        factor: the factor.
        score: match of the events with the true contacts.
        free_time: time with a verdict and without true contact [s].
    """

    factor: float
    score: Score
    free_time: float


def scaled(parameters: DetectorParameters, factor: float) -> DetectorParameters:
    """Return ``parameters`` with all thresholds multiplied by ``factor``.

    This includes their increase with speed and acceleration. A threshold of zero, which selects a
    default, remains zero; fill in the defaults first.
    """
    values: dict[str, Any] = {name: getattr(parameters, name) for name in _THRESHOLDS}
    for name, value in values.items():
        several = isinstance(value, tuple)
        values[name] = tuple(factor * x for x in value) if several else factor * value
    return replace(parameters, **values)
