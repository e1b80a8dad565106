"""The study over a fleet: rates, delays, and the drift of friction with its standard error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbd_control.fleet.store import BAD, DONE, Outcome, Record
from rbd_control.fleet.study import DAY, study

START = 1_767_600_000.0
"""2026-01-05 08:00 UTC [s]."""


def replayed(arm: str, days: float, false_events: int, delays: tuple[float, ...] = ()) -> Record:
    """An hour of replay without contact, but for some that were found after these delays."""
    contacts = [
        {"start": 1.0, "end": 2.0, "event": k, "delay": delay} for k, delay in enumerate(delays)
    ]
    truth: dict[str, Any] = {
        "contacts": contacts,
        "misses": 0,
        "false_events": false_events,
        "repeated_events": 0,
        "raised_time": 1.5,
        "summary": {"free_time": 3600.0},
        "curve": None,
    }
    result = {
        "duration": 3600.0,
        "events": [None] * (false_events + len(delays)),
        "threshold": {"elbow": 2.0},
        "truth": truth,
    }
    return record("replay", arm, days, result)


def record(command: str, arm: str, days: float, result: dict[str, Any]) -> Record:
    day = str(np.datetime64("2026-01-05") + int(days))
    outcome = Outcome(DONE, start=START + days * DAY, result=result)
    return Record(f"/{arm}/{command}_{days}", command, arm, day, True, "key", outcome)


def test_rates_and_delays_are_of_each_arm_and_day() -> None:
    records = [
        replayed("a", 0, 2),
        replayed("a", 1, 0, (0.02, 0.04, 0.06)),
        replayed("b", 0, 0),
        Record("/bad", "replay", "b", None, False, "key", Outcome(BAD, "damaged")),
    ]
    found = study(records)
    assert [row["arm"] for row in found.arms] == ["a", "b"]
    assert found.arms[0]["false_alarms_per_hour"] == 1.0
    # Two events in two hours: the exact 95 % interval of a Poisson count, 0.242 to 7.22 (Garwood).
    assert found.arms[0]["false_alarms_per_hour_low"] == pytest.approx(0.121, abs=1e-3)
    assert found.arms[0]["false_alarms_per_hour_high"] == pytest.approx(3.612, abs=1e-3)
    assert found.arms[0]["delay_median"] == 0.04
    assert [(row["arm"], row["day"]) for row in found.days] == [
        ("a", "2026-01-05"),
        ("a", "2026-01-06"),
        ("b", "2026-01-05"),
    ]
    assert found.days[0]["false_alarms"] == 2
    assert found.arms[0]["raised_time"] == 3.0
    assert (found.arms[0]["found"], found.arms[0]["masked"]) == (3, 0)
    assert found.days[0]["threshold/elbow"] == 2.0
    assert [record.recording for record in found.bad] == ["/bad"]
