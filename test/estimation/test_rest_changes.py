"""Changes of the residual at rest: what is reported, what is learned away, and what never is."""

from dataclasses import replace

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.estimation import BlockDetection, ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import DRIFT_TIME, LEFT, LONGEST_HOLD, REST_TIME

URDF = """<robot name="one"><link name="base"/>
  <link name="link"><inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1"
    ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="joint" type="revolute"><parent link="base"/><child link="link"/><axis xyz="0 0 1"/>
    <limit lower="-3" upper="3" effort="87" velocity="3"/></joint></robot>"""
RATE = 200.0
PARAMETERS = DetectorParameters(contact_threshold=(5.0,), rest_threshold=(1.0,))
RELEASE = PARAMETERS.release_debounce
LAG = 0.1
"""Five time constants of the observer [s]."""


def samples(external: np.ndarray, v: np.ndarray | float = 0.0) -> tuple[np.ndarray, ...]:
    """Return the samples of a joint that its motor holds against an external torque."""
    count = external.size
    # Samples that repeat exactly give no verdict.
    noise = np.random.default_rng(1).normal(0.0, 1e-3, count)
    t = np.arange(1, count + 1) / RATE
    speed = np.broadcast_to(v, count) + 1e-3 * noise
    q = np.cumsum(speed) / RATE
    return t, q[:, None], speed[:, None], (noise - external)[:, None]


def judged(
    external: np.ndarray,
    parameters: DetectorParameters = PARAMETERS,
    v: np.ndarray | float = 0.0,
) -> BlockDetection:
    detector = ContactDetector(Model.from_urdf(URDF), parameters)
    return detector.update_block(*samples(external, v))


def time(seconds: float) -> np.ndarray:
    return np.arange(round(seconds * RATE)) / RATE


def flagged(block: BlockDetection) -> np.ndarray:
    """Return when there is contact [s]."""
    return np.flatnonzero(block.contact) / RATE


def test_a_weak_push_is_found_at_rest_only() -> None:
    t = time(3.0)
    push = np.where((t >= 1.0) & (t < 1.5), 2.0, 0.0)
    found = flagged(judged(push))
    # The residual reaches half of the push after 0.7 time constants.
    assert found[0] == pytest.approx(1.0, abs=0.03)
    assert found[-1] == pytest.approx(1.5 + RELEASE, abs=LAG)
    assert not judged(push, replace(PARAMETERS, rest_threshold=(50.0,))).contact.any()
    assert not judged(push, v=0.1).contact.any()  # the joint moves
    # Half of the contact threshold, 2.5 N·m, is the default.
    assert not judged(push, replace(PARAMETERS, rest_threshold=(0.0,))).contact.any()


def test_a_slow_push_is_learned_up_to_the_contact_threshold() -> None:
    """The guarantee: a growth of ``rest_threshold`` in half of ``DRIFT_TIME`` is still reported."""
    t = time(70.0)
    slow = 0.08 * t
    found = flagged(judged(slow))
    assert found[0] == pytest.approx(5.0 / 0.08, abs=1.0)
    fast = np.clip((t - 2.0) * 2.0 / DRIFT_TIME, 0.0, 4.0)
    assert 2.0 < flagged(judged(fast))[0] < 2.0 + 1.5 * DRIFT_TIME
    # Sensors drift.
    assert not judged(0.01 * t).contact.any()


def test_a_hand_that_is_there_first_is_reported_when_it_leaves() -> None:
    t = time(20.0)
    hand = np.where(t < 3.0, 3.0, 0.0)
    found = flagged(judged(hand))
    assert found[0] == pytest.approx(3.0, abs=0.05)
    assert found[-1] == pytest.approx(3.0 + LONGEST_HOLD + RELEASE, abs=2.0 * LAG)
    # The contact threshold knows no rest.
    strong = flagged(judged(np.where(t < 3.0, 6.0, 0.0)))
    assert strong[0] < 0.5


def test_a_push_that_is_held_is_reported_for_ten_seconds_or_for_ever() -> None:
    t = time(30.0)
    for push, last in ((2.0, 2.0 + LONGEST_HOLD + RELEASE), (6.0, 29.9)):
        found = flagged(judged(np.where(t >= 2.0, push, 0.0)))
        assert found[0] == pytest.approx(2.0, abs=0.05)
        assert found[-1] == pytest.approx(last, abs=2.0 * LAG)
        assert (np.diff(found) < 1.5 / RATE).all()


def test_friction_that_is_left_is_no_contact() -> None:
    """The next weak push counts from there."""
    t = time(4.0)
    left = 0.8 * LEFT * 15.0
    push = np.where((t >= 1.0) & (t < 1.5), 15.0, np.where(t >= 1.5, left, 0.0))
    push[(t >= 3.0) & (t < 3.4)] += 2.0
    events = [event for _, event in judged(push).events]
    assert [event.phase for event in events] == ["onset", "release"] * 2
    assert events[1].release == pytest.approx(1.5 + RELEASE, abs=LAG)
    assert events[2].detected == pytest.approx(3.0, abs=0.05)


def test_the_end_of_a_motion_and_a_restart_begin_anew() -> None:
    t = time(6.0)
    friction = np.where(t < 2.0, 3.0, 0.0)
    v = np.where(t < 2.0, 0.3, 0.0)
    assert not judged(friction, v=v).contact.any()
    # The joint stands still before the residual has settled.
    assert not judged(np.where(t < 2.0 + 0.5 * REST_TIME, 3.0, 0.0), v=v).contact.any()
    detector = ContactDetector(Model.from_urdf(URDF), PARAMETERS)
    parts = [
        detector.update_block(*(x[a:b] for x in samples(np.where(t < 3.0, 3.0, 0.0))))
        for a, b in ((0, 500), (700, 1200))
    ]
    assert not any(part.contact.any() for part in parts)  # the force went in a gap of a second


def test_a_tare_and_new_parameters_are_no_change() -> None:
    t = time(8.0)
    force = np.full(t.size, 2.0)
    force[(t >= 5.0) & (t < 5.4)] += 2.0
    columns = samples(force)
    detector = ContactDetector(Model.from_urdf(URDF), PARAMETERS)
    blocks = []
    for a, b in ((0, 400), (400, 800), (800, 1600)):
        blocks.append(detector.update_block(*(x[a:b] for x in columns)))
        if a == 0:
            detector.tare()
        else:
            detector.set_parameters(replace(PARAMETERS, observer_gain=(40.0,)))
    contact = np.concatenate([block.contact for block in blocks])
    found = np.flatnonzero(contact) / RATE
    assert found[0] == pytest.approx(5.0, abs=0.05)
    assert found[-1] == pytest.approx(5.4 + RELEASE, abs=LAG)
