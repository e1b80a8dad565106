"""Standstill by the positions of drivers without velocities, and after a pause of the guard."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from rbd_control.contact_stop import (
    ContactStop,
    Retreat,
    StandstillMonitor,
    StopParameters,
    timed_retreat,
)
from rbd_control.contact_stop.retreat_along_path import LONGEST_GAP, RetreatSupervision
from rbd_control.contact_stop.standstill_monitor import RECOVERY, SPEED_TIME

STEP = 0.01
"""Time between two joint states [s]."""


def feed(
    motion: StandstillMonitor, speed: float, begin: float, end: float, noise: float = 0.0
) -> None:
    """Receive joint states of a joint that moves at a speed, with velocities of zero."""
    rng = np.random.default_rng(0)
    for now in np.arange(begin, end, STEP).tolist():
        position = speed * (now - begin) + noise * rng.choice([-1.0, 1.0])
        motion.add_joint_state(now, ["a", "b"], [1.0, position], [0.0, 0.0], now, 0.02)


# A driver without velocities ----------------------------------------------------------------------


@pytest.mark.parametrize("speed", [-2.0, 0.03])
def test_velocities_that_are_always_zero_hide_no_motion(speed: float) -> None:
    motion = StandstillMonitor(("a", "b"))
    feed(motion, speed, 1.0, 1.3)
    assert motion.still_since(1.3) == inf
    name, fastest = motion.fastest()
    assert (name, fastest == pytest.approx(abs(speed), rel=0.15)) == ("b", True)
    stop = ContactStop(StopParameters())
    stop.start(1.0)
    stop.update_verdict(True, 1.1)
    assert not stop.confirm(True, motion.still_since(1.3), 1.3)
    # At rest from 1.3 s on, at the position that it has reached.
    for now in np.arange(1.3, 1.6, STEP).tolist():
        motion.add_joint_state(now, ["a", "b"], [1.0, 0.3 * speed], [0.0, 0.0], now, 0.02)
    since = motion.still_since(1.6)
    assert since is not None
    assert 1.3 <= since <= 1.3 + 2.0 * SPEED_TIME


def test_an_encoder_that_dithers_by_a_step_is_at_rest() -> None:
    """An encoder of 12 bits has steps of 1.5 mrad."""
    motion, rng = StandstillMonitor(), np.random.default_rng(1)
    for now in np.arange(1.0, 5.0, 0.002).tolist():
        motion.add_joint_state(now, ["a"], [0.0015 * rng.integers(2)], [0.0], now, 0.005)
    assert motion.still_since(5.0) != inf


# A pause of the guard -----------------------------------------------------------------------------


def test_after_a_pause_rest_counts_from_the_first_states_that_must_be_new() -> None:
    motion = StandstillMonitor(("a", "b"))
    for now in np.arange(1.0, 1.5, STEP).tolist():
        motion.beat(now)
        feed(motion, 0.0, now, now + 0.5 * STEP)
    assert motion.still_since(1.5) == 1.0
    for late in (1.9, 11.0):  # joint states at the end of the pause are recent, or too old
        motion.beat(late)
        assert motion.still_since(late) == late + RECOVERY
        assert not ContactStopAt(late).confirm(motion.still_since(late), late)
    end = 11.0 + RECOVERY
    for now in np.arange(11.0 + STEP, end + 0.2, STEP).tolist():
        motion.beat(now)
        feed(motion, 0.0, now, now + 0.5 * STEP)
    assert motion.still_since(end + 0.2) == end
    assert ContactStopAt(11.0).confirm(motion.still_since(end + 0.2), end + 0.2)
    # A joint that moves does so at once, and the missing joint states are known after the pause.
    motion.add_joint_state(0.0, ["a"], [0.0], [1.0], end, 0.02)
    motion.beat(end + 10.0)
    assert motion.still_since(end + 10.0) == inf
    motion.forget()
    assert motion.still_since(end + 10.0) is None


class ContactStopAt:
    """A stop whose requests are answered."""

    def __init__(self, begin: float) -> None:
        self._stop = ContactStop(StopParameters())
        self._stop.start(begin - 1.0)
        self._stop.update_verdict(True, begin - 0.3)

    def confirm(self, still_since: float | None, now: float) -> bool:
        """Return whether the stop is confirmed."""
        return self._stop.confirm(True, still_since, now)


@pytest.mark.parametrize("free_before", [True, False])
def test_a_flag_that_is_raised_after_a_pause_stops_the_retreat(free_before: bool) -> None:
    """In the pause it fell, and a person touched the arm: both flags are processed at once."""
    motion = StandstillMonitor(("a",))
    supervision = RetreatSupervision(StopParameters(joints=("a",), retreat_distance=0.1))
    motion.add_joint_state(0.0, ["a"], [1.0], [0.0], 0.0, 0.02)
    supervision.plan(0.0, [1.0], timed_retreat([[1.0], [0.9]], 0.1))
    supervision.begin(0.0)
    assert supervision.check(0.02, motion, "", not free_before) == ""
    motion.add_joint_state(0.35, ["a"], [1.0], [0.05], 0.35, 0.02)
    assert supervision.check(0.35, motion, "", True) == "contact"


def test_a_retreat_with_a_raised_flag_goes_on_without_a_pause() -> None:
    motion = StandstillMonitor(("a",))
    supervision = RetreatSupervision(StopParameters(joints=("a",), retreat_distance=0.1))
    supervision.plan(0.0, [1.0], timed_retreat([[1.0], [0.9]], 0.1))
    supervision.begin(0.0)
    for now in np.arange(STEP, 0.5, STEP).tolist():
        motion.add_joint_state(now, ["a"], [1.0], [0.05], now, 0.02)
        assert supervision.check(now, motion, "", True) == ""


def test_a_gap_in_the_stamps_ends_the_path() -> None:
    """Joint states from before and after a pause are received within a few milliseconds."""
    motion = StandstillMonitor(("a",))
    retreat = Retreat(StopParameters(joints=("a",), retreat_distance=0.3))
    for k in range(20):
        late = 2.0 * LONGEST_GAP if k >= 10 else 0.0
        stamp, position = STEP * k + late, STEP * k + 0.4 * late
        if motion.add_joint_state(stamp, ["a"], [position], [1.0], 1.0 + 0.001 * k, 0.02):
            retreat.take(motion.positions_since(), motion.positions(), False, motion.stamps_since())
    end = motion.positions()
    points = retreat.begin(end)
    # Only the positions after the gap.
    assert points[-1].position == [pytest.approx(end[0] - 0.09)]
