"""Delay against false alarms: the same recordings with thresholds higher and lower."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rbd_control.estimation import DetectorParameters
from rbd_control.playback.truth import Score

FACTORS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0)
"""What thresholds are multiplied by for the curve."""

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
    """What comes of thresholds that are ``factor`` times those set."""

    factor: float
    score: Score
    free_time: float
    """Time with a verdict and, in truth, without contact [s]."""


def scaled(parameters: DetectorParameters, factor: float) -> DetectorParameters:
    """The same with all thresholds ``factor`` times as high."""
    values: dict[str, Any] = {name: getattr(parameters, name) for name in _THRESHOLDS}
    for name, value in values.items():
        together = isinstance(value, tuple)
        values[name] = tuple(factor * x for x in value) if together else factor * value
    return replace(parameters, **values)
