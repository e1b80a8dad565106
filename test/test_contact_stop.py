"""Stop on contact: begin of the stop, standstill, resume, and retreat."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.contact_stop import (
    ContactStop,
    Retreat,
    StandstillMonitor,
    StopParameters,
    TravelledPath,
    timed_retreat,
)
from rbd_control.contact_stop.contact_stop import FLAG_HOLD
from rbd_control.contact_stop.retreat_along_path import LARGEST_STEP, LONGEST_GAP, PEAK, SPACING
from rbd_control.contact_stop.standstill_monitor import JOINT_STATE_TIMEOUT
from rbd_control.errors import InputError

FREE = 0.02
"""Period of a detector's verdicts [s]."""


def watching(**changes: Any) -> ContactStop:
    """Return a guard that was started at 0 s and has received the verdict "no contact" at once."""
    stop = ContactStop(StopParameters(**changes))
    stop.start(0.0)
    assert not stop.update_verdict(False, 0.0)
    return stop


def stopped(**changes: Any) -> ContactStop:
    """Return the same after a contact from 1.0 to 1.5 s, with the arm at rest from 1.2 s."""
    stop = watching(**changes)
    assert stop.update_verdict(True, 1.0)
    stop.sent(1.001)
    stop.update_verdict(False, 1.5)
    assert stop.confirm(True, 1.2, 1.5)
    return stop


def state(stop: ContactStop) -> str:
    """Return the state, which the type checker cannot see to change."""
    return stop.state


def test_contact_stops_once_and_stays_latched() -> None:
    stop = watching()
    assert not stop.check(0.1)
    assert (stop.state, stop.is_latched) == ("watching", False)
    assert stop.update_verdict(True, 1.0)
    assert (stop.state, stop.reason, stop.is_by_contact) == ("stopping", "contact", True)
    # One stop, however often the flag is repeated, and however it changes.
    assert not any(
        stop.update_verdict(flag, 1.0 + FREE * k) for k, flag in enumerate((True, False, True))
    )
    assert stop.stops == 1
    assert stop.is_latched


def test_it_counts_as_stopped_when_all_have_answered_and_the_arm_stands() -> None:
    stop = watching(standstill_time=0.1)
    stop.update_verdict(True, 1.0)
    stop.sent(1.002)
    assert not stop.confirm(False, inf, 1.01)
    assert not stop.confirm(True, inf, 1.05)
    assert state(stop) == "stopping"
    assert not stop.confirm(True, 1.3, 1.35)  # it stands, but not yet for long enough
    assert stop.confirm(True, 1.3, 1.41)
    assert state(stop) == "stopped"
    times = stop.times
    assert times is not None
    assert (times.begin, times.sent, times.answered, times.standstill) == (1.0, 1.002, 1.05, 1.3)
    # An arm that moves on, or a server that stops answering, is no stopped arm; told once.
    assert not stop.confirm(True, inf, 1.5)
    assert state(stop) == "stopping"
    assert not stop.confirm(True, 1.6, 2.0)
    assert state(stop) == "stopped"
    assert stop.times == times


def test_without_joint_states_the_answers_decide() -> None:
    stop = watching()
    stop.update_verdict(True, 1.0)
    assert not stop.confirm(False, None, 1.1)
    assert stop.confirm(True, None, 1.2)
    assert stop.times is not None
    assert isnan(stop.times.standstill)


def test_resume_is_refused_while_the_flag_is_up_the_detector_silent_or_the_arm_moving() -> None:
    stop = stopped()
    stop.update_verdict(True, 1.6)
    with pytest.raises(InputError, match="the contact flag is raised"):
        stop.resume(1.6 + 0.9 * FLAG_HOLD)
    # A second publisher that says the opposite does not hide it.
    stop.update_verdict(False, 1.61)
    with pytest.raises(InputError, match="the contact flag is raised"):
        stop.resume(1.62)
    with pytest.raises(InputError, match="no verdict about contact for 1.0 s"):
        stop.resume(2.61)
    stop.update_verdict(False, 3.0)
    stop.confirm(True, inf, 3.0)
    with pytest.raises(InputError, match="not confirmed"):
        stop.resume(3.0)
    stop.confirm(True, 1.2, 3.01)
    stop.resume(3.01)
    assert (stop.state, stop.reason) == ("watching", "")
    assert stop.update_verdict(True, 3.5)
    assert stop.stops == 2


# Parameters --------------------------------------------------------------------------------------


def long_touch(stop: ContactStop) -> Any:
    found = [
        stop.update_verdict(True, 1.0 + FREE * k) or stop.check(1.0 + FREE * k) for k in range(100)
    ]
    return found.index(True)


def test_collisions_alone_stop_and_contacts_that_last() -> None:
    stop = watching(stop_at="collision", longest_contact=0.5)
    assert not stop.update_verdict(True, 1.0)
    assert stop.update_collision(1.01)
    assert stop.reason == "collision"
    # A press that became a collision after its onset is told of by no event.
    stop = watching(stop_at="collision", longest_contact=0.5)
    assert long_touch(stop) == 26  # 0.52 s
    assert stop.reason == "contact for 0.52 s"
    # Two contacts are not one long one.
    stop = watching(stop_at="collision", longest_contact=0.5)
    for begin in (1.0, 1.6, 2.2):
        for k in range(20):
            assert not stop.update_verdict(True, begin + FREE * k)
            assert not stop.check(begin + FREE * k)
        assert not stop.update_verdict(False, begin + FREE * 20)


def test_a_contact_that_falls_silent_counts_as_one_that_lasts() -> None:
    stop = watching(stop_at="collision", longest_contact=2.0)
    stop.update_verdict(True, 1.0)
    assert not stop.check(2.9)
    assert stop.check(3.1)
    # A flag that is repeated slowly is no free arm in between.
    stop = stopped()
    stop.update_verdict(True, 2.0)
    assert stop.obstacle(2.4) == "the contact flag is raised"


def test_a_detector_without_messages_counts_as_silent_after_a_time() -> None:
    stop = ContactStop(StopParameters(stop_on_silence=True, silence_timeout=0.5))
    stop.start(100.0)
    assert not stop.check(100.4)
    assert stop.check(100.6)
    assert stop.reason == "no contact detector has published yet"
    assert not stop.is_by_contact


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("tfcrxk"), st.floats(0.0, 0.6)), max_size=40))
def test_a_stop_ends_by_resume_alone(steps: list[tuple[str, float]]) -> None:
    """For any sequence of input each raised flag stops the arm, and only ``resume`` resumes."""
    stop, now, latched = watching(), 0.0, False
    for what, wait in steps:
        now += wait
        if what in "tf":
            stop.update_verdict(what == "t", now)
            latched |= what == "t"
        elif what == "c":
            stop.confirm(True, now - 0.2, now)
        elif what == "k":
            stop.check(now)
        elif what == "x":
            stop.confirm(False, inf, now)
        elif stop.is_latched:
            obstacle = stop.obstacle(now)
            try:
                stop.resume(now)
                assert not obstacle
                latched = False
            except InputError:
                assert obstacle
        assert stop.is_latched == latched


# Standstill --------------------------------------------------------------------------------------


@pytest.mark.parametrize("joints", [(), ("elbow", "finger")], ids=["all", "named"])
def test_a_joint_without_recent_states_hides_no_joint_that_moves(joints: tuple[str, ...]) -> None:
    """The finger's driver ends after one state, or never starts, while the elbow moves."""
    stop, motion = watching(), StandstillMonitor(joints)
    if not joints:
        motion.add_joint_state(0.0, ["finger"], [0.0], [0.0], 0.0, 0.02)
    stop.update_verdict(True, 1.0)
    stop.update_verdict(False, 1.02)
    for k in range(200):
        now = 1.0 + 0.01 * k
        motion.add_joint_state(now, ["elbow"], [now], [1.0], now, 0.02)
        assert motion.still_since(now) == inf
        assert not stop.confirm(True, motion.still_since(now), now)
        stop.update_verdict(False, now)
    with pytest.raises(InputError, match="not confirmed"):
        stop.resume(now)
    assert motion.missing(now) == ["finger"]
    # With the elbow at rest nothing contradicts standstill, but the finger is unknown.
    motion.add_joint_state(now, ["elbow"], [now], [0.0], now, 0.02)
    assert motion.still_since(now) is None
    # A state of the finger makes it known.
    motion.add_joint_state(now, ["finger"], [0.0], [0.0], now + 0.1, 0.02)
    assert motion.still_since(now + 0.1) == now + 0.1


def test_a_joint_that_moved_in_its_last_state_is_not_at_rest() -> None:
    motion = StandstillMonitor()
    motion.add_joint_state(0.0, ["elbow"], [0.0], [1.0], 1.0, 0.02)
    late = 1.0 + 100.0 * JOINT_STATE_TIMEOUT
    assert motion.still_since(late) == inf
    assert motion.missing(late) == ["elbow"]
    assert motion.age("elbow", late) == late - 1.0
    motion.add_joint_state(0.0, ["elbow"], [0.0], [0.0], late, 0.02)
    assert motion.still_since(late) == late


def test_rest_begins_anew_after_a_gap() -> None:
    motion = StandstillMonitor(["elbow"])
    assert motion.add_joint_state(0.0, ["elbow"], [0.0], [0.0], 1.0, 0.02)
    late = 1.0 + 2.0 * JOINT_STATE_TIMEOUT
    assert motion.still_since(late) is None
    motion.add_joint_state(0.0, ["elbow"], [0.0], [0.0], late, 0.02)
    assert motion.still_since(late) == late


def test_joint_states_that_no_arm_sends_change_nothing() -> None:
    motion = StandstillMonitor()
    motion.add_joint_state(0.0, ["a"], [0.5], [0.0], 1.0, 0.02)
    for position, velocity in (([], []), ([0.5, 0.1], [0.0]), ([0.5], [0.0, 1.0])):
        motion.add_joint_state(0.1, ["a"], position, velocity, 1.1, 0.02)
    assert motion.ignored == 3
    for unusable in (nan, inf, -1e30):
        motion.add_joint_state(0.1, ["a"], [unusable], [9.0], 1.1, 0.02)
    motion.add_joint_state(
        0.1, [f"{k}" for k in range(2000)], [0.0] * 2000, [9.0] * 2000, 1.1, 0.02
    )
    assert motion.still_since(1.1) == 1.0
    motion.forget()
    assert motion.still_since(1.1) is None


# The way back ------------------------------------------------------------------------------------


def test_the_way_back_is_the_travelled_one() -> None:
    path = TravelledPath()
    for x in np.linspace(0.0, 1.0, 501).tolist():
        path.add(x, [0.3 * x, 0.2 * x * x])
    way = np.array(path.back([0.3, 0.2], 0.1))
    steps = np.abs(np.diff(way, axis=0)).max(axis=1)
    assert steps.sum() == pytest.approx(0.1)
    # On the parabola, to the sagitta of a chord as long as the spacing.
    np.testing.assert_allclose(way[:, 1], 0.2 * (way[:, 0] / 0.3) ** 2, atol=SPACING**2)
    assert len(path.back([0.3, 0.2], 10.0)) > 100
    path.forget_before(2.0)
    assert path.back([0.3, 0.2], 0.1) == [[0.3, 0.2]]


@pytest.mark.parametrize("jump", ["wrapped", "gap"])
def test_a_joint_that_wraps_and_a_gap_end_the_path(jump: str) -> None:
    path = TravelledPath()
    for k in range(50):
        path.add(0.01 * k, [0.01 * k])
    late = 0.49 + (2.0 * LONGEST_GAP if jump == "gap" else 0.01)
    end = 0.49 - (2.0 * LARGEST_STEP if jump == "wrapped" else 0.01)
    path.add(late, [end])
    assert path.back([end], 0.5) == [[end]]


def test_the_retreat_is_slow_and_from_rest_to_rest() -> None:
    way = [[0.0, 0.0], [-0.02, 0.0], [-0.02, 0.03], [-0.06, 0.03]]
    motion = timed_retreat(way, 0.1)
    times = np.array([0.0, *(point.time for point in motion)])
    q = np.array([way[0], *(point.position for point in motion)])
    speed = np.abs(np.diff(q, axis=0)).max(axis=1) / np.diff(times)
    assert speed.max() <= 0.1
    assert speed.max() > 0.09
    assert max(speed[0], speed[-1]) < 0.01
    assert times[-1] == pytest.approx(PEAK * 0.09 / 0.1)
    assert q[-1].tolist() == pytest.approx(way[-1])
    assert timed_retreat([[0.0, 0.0]], 0.1) == []
    assert timed_retreat([[0.0], [0.0]], 0.1) == []


def test_one_retreat_for_each_stop() -> None:
    retreat = Retreat(StopParameters(joints=("a",), retreat_distance=0.1, retreat_time=0.2))
    for k in range(100):
        retreat.take(0.01 * k, [0.01 * k], False)
    for k in range(100, 120):
        retreat.take(0.01 * k, [0.01 * k], True)
    motion = retreat.begin([1.19])
    assert motion[-1].position == [pytest.approx(1.09)]
    assert retreat.begin([1.19]) == []
    retreat.reset()
    assert retreat.begin([1.0]) == []  # no path


# Supervision of the retreat -----------------------------------------------------------------------


def test_other_joints_hide_no_gap_in_the_path() -> None:
    """While the states of the arm were missing, those of a gripper kept the path alive."""
    motion, retreat = (
        StandstillMonitor(("a", "b")),
        Retreat(StopParameters(retreat_distance=0.3, joints=("a", "b"))),
    )

    def see(now: float, names: list[str], position: list[float]) -> None:
        if motion.add_joint_state(now, names, position, [0.1] * len(names), now, 0.02):
            retreat.take(motion.positions_since(), motion.positions(), False)

    for k in range(11):
        see(0.01 * k, ["a", "b"], [0.01 * k, 0.0])
    for k in range(45):
        see(0.1 + 0.01 * k, ["finger"], [0.0])
    see(0.55, ["a", "b"], [0.15, 0.1])
    assert retreat.begin([0.15, 0.1]) == []
