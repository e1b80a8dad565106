"""Supervision of the guard's retreat: when it is stopped, where the arm is held, when it ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.contact_stop import StandstillMonitor, StopParameters, timed_retreat
from rbd_control.contact_stop.retreat_along_path import (
    HOLD_TIME,
    LONGEST_PAUSE,
    PEAK,
    RetreatSupervision,
)
from rbd_control.contact_stop.standstill_monitor import JOINT_STATE_TIMEOUT

FREE = 0.02
"""Period of a detector's verdicts [s]."""


class Supervised:
    """A supervised retreat of 0.1 rad in 1.875 s that was published at 0 s."""

    duration = PEAK

    def __init__(self) -> None:
        parameters = StopParameters(joints=("a",), retreat_distance=0.1, retreat_speed=0.1)
        self.supervision = RetreatSupervision(parameters)
        self.motion = StandstillMonitor(("a",))
        self.state(-1.0, 1.0)
        self.state(0.0, 1.0)
        self.supervision.plan(0.0, [1.0], timed_retreat([[1.0], [0.9]], 0.1))
        self.supervision.begin(0.0)

    def state(self, now: float, position: float, speed: float = 0.0) -> None:
        """Receive a joint state."""
        self.motion.add_joint_state(now, ["a"], [position], [speed], now, 0.02)

    def check(self, now: float, touched: bool = False, silence: str = "") -> str:
        """Return the reason to stop the retreat, or an empty text."""
        reason = self.supervision.check(now, self.motion, silence, touched)
        if reason:
            self.supervision.hold()
        return reason

    def run(self, begin: float, end: float, position: float, speed: float) -> str:
        """Check every 20 ms while joint states arrive; return the first reason."""
        for now in np.arange(begin, end, FREE).tolist():
            self.state(now, position, speed)
            reason = self.check(now)
            if reason:
                return reason
        return ""

    def has_ended(self, now: float) -> bool:
        return self.supervision.has_ended(now, self.motion)


def test_a_retreat_ends_at_rest_after_its_duration() -> None:
    s = Supervised()
    assert s.run(0.02, 1.0, 1.0, 0.0) == ""  # it has not begun to move
    assert not s.has_ended(1.0)
    assert s.supervision.obstacle() == "the retreat has not ended yet"
    assert s.run(1.0, s.duration + 1.0, 0.95, 0.05) == ""  # the controller is slow
    assert not s.has_ended(s.duration + 1.0)
    assert s.run(s.duration + 1.0, s.duration + 1.05, 0.9, 0.0) == ""
    assert not s.has_ended(s.duration + 1.05)  # not for standstill_time yet
    assert s.run(s.duration + 1.05, s.duration + 1.2, 0.9, 0.0) == ""
    assert s.has_ended(s.duration + 1.2)
    assert not s.has_ended(s.duration + 1.2)
    assert (s.supervision.phase, s.supervision.obstacle()) == ("none", "")


def test_a_contact_after_the_duration_stops_an_arm_that_still_moves() -> None:
    s = Supervised()
    late = s.duration + 1.0
    assert s.run(0.02, late, 0.95, 0.05) == ""
    assert s.check(late, touched=True) == "contact"
    # The arm is held once; it counts as moving until it is at rest.
    assert s.check(late + 0.02, touched=False) == ""
    assert s.check(late + 0.04, touched=True) == ""
    s.state(late + 0.02, 0.94, 0.0)
    assert not s.has_ended(late + 0.3)  # the hold was not published
    s.supervision.held(late + 0.04, 0.1)
    assert not s.has_ended(late + 0.23)
    assert s.supervision.obstacle()
    assert s.has_ended(late + 0.25)


def test_an_arm_that_moves_too_long_is_stopped() -> None:
    s = Supervised()
    reason = s.run(0.02, 20.0, 0.95, 0.05)
    assert reason == "the arm still moves after 6.6 s of a retreat of 1.9 s"


def test_an_arm_that_rests_before_the_end_is_held_there() -> None:
    """A paused controller would continue the retreat after ``~/resume``."""
    s = Supervised()
    assert (
        s.run(0.02, 5.0, 0.97, 0.0) == "the arm rests 0.07 rad or m before the end of the retreat"
    )


@pytest.mark.parametrize("flag", ["stays", "falls", "falls and rises"])
def test_the_flag_must_fall_and_stay_down(flag: str) -> None:
    s = Supervised()
    found = []
    # Of 0.1 rad in 1.875 s, 0.03 rad are planned for the first 0.75 s.
    for now in np.arange(0.02, 1.3, FREE).tolist():
        s.state(now, 1.0, 0.05)
        touched = flag == "stays" or now < 0.3 or (flag == "falls and rises" and now > 0.4)
        found.append(s.check(now, touched))
    expected = {
        "stays": "the contact flag has not fallen within 1.2 s",
        "falls": "",
        "falls and rises": "contact",
    }
    assert "".join(found) == expected[flag]


def test_silence_missing_joint_states_and_a_pause_stop_the_retreat() -> None:
    s = Supervised()
    assert s.check(0.1, silence="no verdict about contact for 0.6 s").startswith("no verdict")
    s = Supervised()
    assert s.check(0.4) == ""
    assert s.check(JOINT_STATE_TIMEOUT + 0.01) == "no joint states of a"
    # Standstill is unknown then, which counts as at rest as it does for the stop itself.
    s.supervision.held(0.6, 0.1)
    assert not s.has_ended(0.75)
    assert s.has_ended(0.85)
    s = Supervised()
    s.state(2.0, 0.9)
    assert s.check(2.0) == "the guard did not run for 2.0 s"


def test_the_hold_is_at_the_present_position_or_the_planned_one() -> None:
    s = Supervised()
    assert s.run(0.02, 0.9, 0.98, 0.05) == ""  # slowed down: the plan is at 0.95
    target = s.supervision.target(0.9, s.motion)
    assert target == (0.1, [0.98])
    # The last state is old: the planned position, no faster than the retreat.
    target = s.supervision.target(PEAK / 2.0 + 0.2, s.motion)
    planned = 1.0 - 0.1 * float(np.polyval([6, -15, 10, 0, 0, 0], 0.5 + 0.3 / PEAK))
    assert target.position == [pytest.approx(planned, abs=1e-3)]
    assert target.time == pytest.approx((0.98 - target.position[0]) / 0.1)
    # Clamped to the end of the retreat.
    assert s.supervision.target(100.0, s.motion).position == [0.9]


def test_an_arm_held_at_a_planned_position_is_held_again_where_it_is() -> None:
    """On a slowed controller the planned position lies ahead, and the way there may meet a contact.

    The guard was paused for 0.3 s, so that the joint states after it may be from before.
    """
    s = Supervised()
    assert s.run(0.02, 0.6, 0.99, 0.05) == ""
    s.state(0.9, 0.98, 0.05)
    assert s.check(0.9, touched=True) == "contact"
    target = s.supervision.target(0.9, s.motion)
    assert target.position[0] < 0.96
    s.supervision.held(0.9, target.time)
    again = []
    for now in np.arange(0.92, 1.6, FREE).tolist():
        s.state(now, 0.975, 0.05)
        assert s.check(now) == ""
        if s.supervision.must_hold_again(now, s.motion):
            again.append((now, s.supervision.target(now, s.motion)))
            s.supervision.held(now, HOLD_TIME)
    ((when, target),) = again
    assert when == pytest.approx(0.9 + LONGEST_PAUSE, abs=1.5 * FREE)
    assert target == (HOLD_TIME, [0.975])


def test_a_retreat_that_waits_is_dropped_for_the_same_reasons() -> None:
    def waiting() -> Supervised:
        s = Supervised()
        s.supervision.plan(0.0, [1.0], timed_retreat([[1.0], [0.9]], 0.1))
        assert s.supervision.phase == "waiting"
        assert s.supervision.obstacle() == ""  # no motion has begun
        assert s.check(0.01) == ""
        return s

    assert waiting().check(0.02, touched=True) == "contact"
    assert waiting().check(0.02, silence="no verdict") == "no verdict"
    s = waiting()
    s.state(0.02, 1.0, 0.5)
    assert s.check(0.02) == "the arm is not at rest"
    assert waiting().run(0.02, 3.0, 1.0, 0.0) == "the middleware has refused it for 1 s"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.booleans(), st.booleans(), st.sampled_from([0.0, 0.05, None]), st.floats(0.01, 0.4)
        ),
        max_size=40,
    )
)
def test_only_an_arm_at_rest_ends_a_retreat(
    steps: list[tuple[bool, bool, float | None, float]],
) -> None:
    """For any sequence of input; a joint that moves, or moved last, is never an ended retreat."""
    s, now, moves = Supervised(), 0.0, False
    for touched, silent, speed, wait in steps:
        now += wait
        if speed is not None:
            s.state(now, 0.9, speed)
            moves = speed > 0.0
        if s.check(now, touched, "silent" if silent else ""):
            s.supervision.held(now, 0.1)
        if s.has_ended(now):
            assert not moves
            return
        assert s.supervision.obstacle()


def test_a_position_received_after_a_pause_is_not_the_present_one() -> None:
    """Messages of the time before the pause are processed first."""
    s = Supervised()
    late = PEAK + 0.5
    s.state(late, 1.0)
    target = s.supervision.target(late, s.motion)
    assert target.time == pytest.approx(1.0)
    assert target.position == [0.9]
