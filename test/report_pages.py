"""A minute of residuals with contacts, as ``replay`` hands it to its report."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbd_control.playback.report import AFTER, BEFORE
from rbd_control.reports.curves import Curves
from rbd_control.reports.page import Analysed, Page
from rbd_control.reports.replay_page import replay_page

EVIL = "<script>alert(1)</script>"
"""A name that would run if it were not escaped."""

FORMULA = "$$\\frac{1}{2}$$"
"""A name that the plotting library would take for a formula, and load a typesetter for."""

DURATION, RATE = 60.0, 1000.0
JOINTS = (EVIL, FORMULA, *(f"joint_{i}" for i in range(3, 8)))
ONSETS = tuple(4.0 + 5.5 * k for k in range(10))
PEAK = 5.0

ANALYSED = Analysed(
    (f"/data/{EVIL}",), "arm.urdf", "", datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
)


def residuals() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times (k,) and ratios (k, 7): noise, each contact 0.5 s of :data:`PEAK`."""
    times = np.arange(round(DURATION * RATE)) / RATE
    ratios = 0.3 * np.random.default_rng(0).normal(size=(times.size, len(JOINTS)))
    for onset in ONSETS:
        ratios[(times >= onset) & (times < onset + 0.5), 1] = PEAK
    return times, ratios


def event(number: int, onset: float) -> dict[str, Any]:
    return {
        "id": number,
        "onset": onset,
        "onset_uncertainty": None,
        "detected": onset + 0.008,
        "release": onset + 0.5,
        "duration": 0.5,
        "level": "collision" if number == 2 else "contact",
        "joint": EVIL,
        "link": "link_5",
        "candidates": ["link_5", EVIL],
        "confidence": 0.7,
        "peak_torque": 12.34,
        "force": [1.0, -2.5, 3.0] if number != 3 else None,
        "force_settled": number > 3,
        "point": None,
    }


def found(**changes: Any) -> dict[str, Any]:
    """Return the JSON of a replay."""
    values = {
        "recording": f"/data/{EVIL}",
        "samples": round(DURATION * RATE),
        "duration": DURATION,
        "valid_fraction": 1.0,
        "warnings": [f"payload of {EVIL} is not as described"],
        "notes": ["no joint friction is set"],
        "events": [event(k + 1, onset) for k, onset in enumerate(ONSETS)],
        "residual_max": dict.fromkeys(JOINTS, 4.321),
        "residual_mean": dict.fromkeys(JOINTS, -0.25),
        "residual_rms": dict.fromkeys(JOINTS, 0.125),
        "residual_over_threshold": dict.fromkeys(JOINTS, 0.034),
        "threshold": dict.fromkeys(JOINTS, 1.5),
        "units": dict.fromkeys(JOINTS, "N·m"),
        "effort_over_gravity": {EVIL: 1.02},
        "rate": RATE,
        "gaps": 0,
        "largest_gap": 0.001,
        "counts": {},
        "invalid": {"settling": 0.1},
        "dropped": {},
        "clock_jumps": [],
        "truth": None,
    }
    return {**values, **changes}


def curves() -> Curves:
    """Return the residuals as ``replay`` adds them, block by block."""
    reduced = Curves(len(JOINTS))
    times, ratios = residuals()
    for first in range(0, times.size, 4000):
        block = slice(first, first + 4000)
        begin, end = times[block][[0, -1]]
        windows = [(t - BEFORE, t + AFTER) for t in ONSETS if begin <= t + 0.008 <= end]
        reduced.add(times[block], ratios[block], windows)
    return reduced


def page() -> Page:
    return replay_page(found(), [curves()], ANALYSED, (("observer_gain", EVIL),))
