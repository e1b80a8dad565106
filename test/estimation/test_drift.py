"""Friction that changes: followed in motion, recovered after a step; a push is never learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drifting_arm import DriftingArm, panda, run, ur10
from free_motion import recording

from rbd_control.estimation import BlockDetection, ContactDetector, ContactEvent
from rbd_control.estimation.drift import BOUND, OFFSET_SHARE, SHARE, WIDTH
from rbd_control.identification import RecordedMotion
from rbd_control.playback.replay import replay
from rbd_control.robot.friction import (
    CoulombViscousFriction,
    NoFriction,
    SigmoidFriction,
    StribeckFriction,
)

RAMP = 600.0
"""Time in which the friction changes by 30 % [s]."""
FORCE = 20.0
PUSHES = 24
"""Force [N] and number of the pushes in a ramp."""


@pytest.fixture(scope="module", params=[panda, ur10])
def arm(request: pytest.FixtureRequest) -> DriftingArm:
    found: DriftingArm = request.param()
    return found


@pytest.fixture(scope="module")
def small() -> DriftingArm:
    return panda()


def events_of(blocks: list[BlockDetection]) -> list[ContactEvent]:
    return [event for block in blocks for _, event in block.events]


def raised(blocks: list[BlockDetection]) -> np.ndarray:
    return np.concatenate([block.contact for block in blocks])


def constant(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: np.full(t.shape, factor)


def ramp_to(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: 1.0 + (factor - 1.0) * t / RAMP


def step_to(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda t: np.where(t > 45.0, factor, 1.0)


def push_starts() -> np.ndarray:
    return np.linspace(60.0, RAMP - 5.0, PUSHES)


def pushes(arm: DriftingArm) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """Return pushes of 0.4 s in random directions on the last two links."""
    rng = np.random.default_rng(3)
    directions = rng.standard_normal((PUSHES, 3))
    directions *= FORCE / np.linalg.norm(directions, axis=1)[:, None]

    def external(t: np.ndarray, q: np.ndarray, _v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(q)
        for k, start in enumerate(push_starts()):
            now = (t >= start) & (t < start + 0.4)
            link = arm.model.joint_links[-1 - k % 2]
            out[now] = arm.torque(q[now], link, directions[k])
        return out

    return external


def delays_and_false(events: list[ContactEvent]) -> tuple[list[float], int]:
    onsets = [event.detected for event in events if event.is_onset and event.detected >= 60.0]
    starts = push_starts()
    first = [[t - s for t in onsets if s <= t <= s + 1.0] for s in starts]
    false = sum(not ((t >= starts) & (t <= starts + 1.0)).any() for t in onsets)
    return [times[0] for times in first if times], false


def test_a_ramp_is_followed(arm: DriftingArm) -> None:
    """Friction 30 % up or down in ten minutes: no false contact after the first minute."""
    nominal, _ = delays_and_false(
        events_of(run(arm.detector(), arm.samples(RAMP, external=pushes(arm))))
    )
    for to in (0.7, 1.3):
        detector = arm.detector()
        samples = arm.samples(RAMP, ramp_to(to), pushes(arm))
        delays, false = delays_and_false(events_of(run(detector, samples)))
        assert false == 0
        assert len(delays) >= PUSHES - 1
        assert np.median(delays) <= 1.3 * np.median(nominal)
        # Nothing is learned in the seconds after a push, and the ramp goes on.
        np.testing.assert_allclose([each.share for each in detector.drift], to - 1.0, atol=0.05)
        for each in detector.drift:
            assert each.text.startswith(f"friction of {each.joint} is ")
            assert each.text.endswith("above the file" if to > 1.0 else "below the file")


def test_friction_that_is_not_followed_raises_the_flag(arm: DriftingArm) -> None:
    """Without the estimate, 10 % of the friction are a contact that lasts."""
    fixed = ContactDetector(arm.model, replace(arm.parameters, follow_friction=False))
    assert raised(run(fixed, arm.samples(10.0, constant(1.1)))).mean() > 0.9
    assert fixed.drift == ()


def test_a_cold_arm_is_learned_after_the_start(arm: DriftingArm) -> None:
    """Friction that is 30 % off at the start raises no flag, and is learned within a minute."""
    for factor in (0.7, 1.3):
        detector = arm.detector()
        assert not raised(run(detector, arm.samples(60.0, constant(factor)))).any()
        np.testing.assert_allclose([each.share for each in detector.drift], factor - 1.0, atol=0.05)


def test_a_step_is_recovered(arm: DriftingArm) -> None:
    """A step of 10 % raises the flag, and ends it within 60 s of motion, however blocks are cut."""
    for to in (0.9, 1.1):
        samples = arm.samples(105.0, step_to(to))
        detector = arm.detector()
        flag = raised(run(detector, samples))
        assert not flag[samples[0] <= 45.0].any()
        assert flag[(samples[0] > 46.0) & (samples[0] < 50.0)].all()
        assert not flag[samples[0] > 104.0].any()
        assert detector.recoveries == 1
        np.testing.assert_allclose([each.share for each in detector.drift], to - 1.0, atol=0.03)
    again = arm.detector()
    np.testing.assert_array_equal(raised(run(again, samples, size=777)), flag)
    assert again.drift == detector.drift


def test_samples_one_by_one_give_the_same_estimate(small: DriftingArm) -> None:
    samples = small.samples(4.0, constant(1.1))
    block, single = small.detector(), small.detector()
    block.update_block(*samples)
    for sample in zip(*samples, strict=True):
        single.judge(*sample)
    assert block.drift == single.drift
    assert any(each.share for each in block.drift)


def test_thresholds_are_wide_at_first_and_tight_once_learned(small: DriftingArm) -> None:
    fixed = ContactDetector(small.model, replace(small.parameters, follow_friction=False))
    threshold, usual = (
        np.concatenate([block.threshold for block in run(detector, small.samples(30.0))])
        for detector in (small.detector(), fixed)
    )
    contact = np.array(small.parameters.contact_threshold)
    moving = SHARE * small.coulomb
    # The speeds at 0.3 s, when the verdict begins, differ from joint to joint.
    assert (threshold[75:150].max(axis=0) > np.hypot(contact, 0.5 * WIDTH * moving)).all()
    # The Coulomb friction is ten times the threshold, of which 1 % remains uncertain.
    assert (threshold[-2500:].mean(axis=0) < 1.2 * usual[-2500:].mean(axis=0)).all()
    assert (threshold >= usual).all()


def test_friction_beyond_the_bound_is_reported(small: DriftingArm) -> None:
    """The estimate ends at three standard deviations of the prior, 45 % of the friction."""
    detector = small.detector()
    samples = small.samples(430.0, lambda t: 1.0 + 0.6 * t / 400.0)
    flag = raised(run(detector, samples))
    assert not flag[samples[0] < 200.0].any()  # up to 30 %
    assert flag[samples[0] > 420.0].any()
    shares = np.array([each.share for each in detector.drift])
    assert ((shares > 0.35) & (shares <= BOUND * SHARE + 1e-9)).all()


# The guarantee of the slow push ---------------------------------------------------------------


def ramped(joint: int, torque: float, rise: float) -> Callable[..., np.ndarray]:
    """Return an external torque on one joint that grows to ``torque`` within ``rise`` [s]."""

    def external(t: np.ndarray, q: np.ndarray, _v: np.ndarray) -> np.ndarray:
        out = np.zeros_like(q)
        out[:, joint] = torque * np.minimum(t / rise, 1.0)
        return out

    return external


def test_a_slow_push_at_rest_is_reported_for_as_long_as_it_lasts(small: DriftingArm) -> None:
    detector, joint = small.detector(), 1
    bound = detector.drift[joint].bound_at_rest
    limit = small.parameters.contact_threshold[joint]
    assert bound == pytest.approx(limit * (math.hypot(1.0, WIDTH * OFFSET_SHARE) + 0.3))
    samples = small.samples(330.0, external=ramped(joint, 1.05 * bound, 300.0), moving=False)
    flag = raised(run(detector, samples))
    assert flag[samples[0] > 300.0].all()
    assert detector.recoveries == 0


def test_the_bound_in_motion_is_possible_before_the_first_motion(small: DriftingArm) -> None:
    """A joint without viscous friction has no speed at which it equals Coulomb friction."""
    zero = (0.0,) * small.model.nv
    parameters = replace(small.parameters, friction_viscous=zero, threshold_speed=(0.1,))
    drift = ContactDetector(small.model, parameters).drift
    for each, coulomb in zip(drift, small.coulomb, strict=True):
        # Twice the largest change of Coulomb friction, and the growth of the threshold.
        assert each.bound_in_motion < each.bound_at_rest + 2.0 * BOUND * SHARE * coulomb + 0.1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_slow_push_in_lasting_motion_is_reported(sign: float) -> None:
    """In motion in one direction a push hides behind friction up to the stated bound."""
    arm, speed = ur10(), 0.5
    detector = arm.detector()
    # The bound is that at the usual speed, the mean of the last 10 s of motion.
    run(detector, arm.samples(50.0, moving=False, turning=speed))
    bound = sign * detector.drift[0].bound_in_motion
    samples = arm.samples(
        330.0, external=ramped(0, 1.05 * bound, 350.0), moving=False, turning=speed, start=50.0
    )
    flag = raised(run(detector, samples))
    assert flag[samples[0] > 352.0].all()
    assert detector.recoveries == 0


@pytest.mark.parametrize("size", [2.0, 5.0])
def test_a_push_that_keeps_its_sign_is_never_taken_for_friction(
    arm: DriftingArm, size: float
) -> None:
    """A minute of a sudden push: the flag stays, although the joint reverses many times."""
    limit = arm.parameters.contact_threshold[1]
    detector = arm.detector()
    run(detector, arm.samples(30.0))
    samples = arm.samples(60.0, external=ramped(1, size * limit, 1e-3), start=30.0)
    flag = raised(run(detector, samples))
    assert flag[samples[0] > 35.0].mean() > 0.99
    assert detector.recoveries == 0


def test_a_slow_push_that_keeps_its_sign_returns_with_each_cycle(arm: DriftingArm) -> None:
    """It is reported in the direction of motion in which friction does not hide it."""
    detector, limit = arm.detector(), arm.parameters.contact_threshold[1]
    # In motion the threshold is wider than at rest by what is uncertain of the friction.
    samples = arm.samples(400.0, external=ramped(1, 2.2 * limit, 340.0))
    flag, t = raised(run(detector, samples)), samples[0]
    for begin in np.arange(340.0, 400.0, 10.0):  # 10 s are longer than a cycle of the motion
        assert flag[(t > begin) & (t <= begin + 10.0)].any()
    assert detector.recoveries == 0


def test_what_was_learned_shortly_before_a_contact_is_undone(small: DriftingArm) -> None:
    """A push does not change the estimate, although it grows for a moment before its flag."""
    before, after = small.detector(), small.detector()
    samples = small.samples(60.0)
    run(before, samples)
    run(after, samples)
    push = small.samples(3.0, external=ramped(1, 5.0, 3.0), start=60.0)
    run(after, push)
    change = np.array([b.share - a.share for a, b in zip(before.drift, after.drift, strict=True)])
    errors = np.array([each.share_uncertainty for each in before.drift])
    assert (np.abs(change) < errors).all()


# What is kept and what is forgotten -----------------------------------------------------------


@pytest.fixture
def learned(small: DriftingArm) -> ContactDetector:
    """Return a detector that has learned 20 % more friction."""
    detector = small.detector()
    run(detector, small.samples(40.0, constant(1.2)))
    return detector


def test_a_reset_keeps_friction_unless_tares_are_cleared(
    small: DriftingArm, learned: ContactDetector
) -> None:
    shares = [each.share for each in learned.drift]
    learned.reset()
    assert [each.share for each in learned.drift] == shares
    # The stamps may begin anew, as after a jump of the clock.
    assert not raised(run(learned, small.samples(10.0, constant(1.2), seed=7))).any()
    learned.reset(clear_tare=True)
    assert not any(each.share for each in learned.drift)


def test_a_pause_makes_the_friction_uncertain_again(
    small: DriftingArm, learned: ContactDetector
) -> None:
    run(learned, small.samples(1.0, constant(1.2), start=3600.0))
    for each, known in zip(learned.drift, small.detector().drift, strict=True):
        assert each.share_uncertainty == pytest.approx(known.share_uncertainty, rel=0.2)
        assert abs(each.share) < 0.1


def test_friction_of_the_day_can_be_taken_over(
    small: DriftingArm, learned: ContactDetector
) -> None:
    """The parameters with the learned friction leave the residual as it is."""
    friction = learned.friction_of_the_day
    name, values = friction.named()
    changed: dict[str, Any] = {key: tuple(column.tolist()) for key, column in values.items()}
    taken = replace(small.parameters, friction_model=name, **changed)
    np.testing.assert_allclose(values["friction_coulomb"], 1.2 * small.coulomb, rtol=0.06)
    learned.set_parameters(taken)
    assert max(abs(each.share) for each in learned.drift) < 1e-9
    blocks = run(learned, small.samples(10.0, constant(1.2), start=40.0))
    assert not raised(blocks).any()


def test_other_changes_keep_the_friction(small: DriftingArm, learned: ContactDetector) -> None:
    shares = [each.share for each in learned.drift]
    learned.set_model(small.model)
    learned.set_parameters(replace(small.parameters, release_debounce=0.2))
    assert [each.share for each in learned.drift] == shares
    learned.set_parameters(replace(small.parameters, follow_friction=False))
    assert not learned.drift
    learned.set_parameters(small.parameters)
    assert not any(each.share for each in learned.drift)


def test_without_friction_there_is_nothing_to_follow(small: DriftingArm) -> None:
    detector = ContactDetector(small.model, replace(small.parameters, friction_model="none"))
    assert detector.drift == ()
    assert isinstance(detector.friction_of_the_day, NoFriction)


def test_every_friction_model_takes_a_change() -> None:
    one, change = np.ones(2), (np.full(2, 0.1), np.full(2, 0.2), np.full(2, 0.3))
    v = np.array([-0.5, 0.5])
    for friction in (
        CoulombViscousFriction(one, one, 0.0 * one, 0.01 * one),
        StribeckFriction(one, one, 0.0 * one, 0.01 * one, 0.2 * one, 0.1 * one),
    ):
        more = friction.with_change(*change).torque(v) - friction.torque(v)
        np.testing.assert_allclose(more, 0.1 * np.sign(v) + 0.2 * v + 0.3, atol=1e-12)
    sigmoid = SigmoidFriction(one, 50.0 * one, 0.0 * one)
    coulomb, viscous, scale = sigmoid.followed(2)
    np.testing.assert_allclose(coulomb * np.tanh(v / scale) + viscous * v, sigmoid.torque(v))
    more = sigmoid.with_change(*change).torque(v) - sigmoid.torque(v)
    np.testing.assert_allclose(more, 0.1 * np.sign(v), atol=1e-9)


def test_replay_tells_changes_of_friction_and_what_is_always_reported(small: DriftingArm) -> None:
    t, q, v, tau = small.samples(40.0, constant(1.2))
    made = recording(RecordedMotion("warm", t, q, v, tau), small.model.joint_names)
    result = replay(made, small.model, small.parameters)
    assert result.events == ()
    detector = small.detector()
    detector.update_block(1000.0 + t, q, v, tau)
    texts = [each.text for each in detector.drift]
    assert all(texts)
    assert result.friction == "; ".join(texts)
    rest, motion = detector.least_lasting_push
    assert 0.0 < rest < motion < 100.0
    assert any(f"from {rest:.3g} N at rest" in note for note in result.notes)
    fixed = replay(made, small.model, replace(small.parameters, follow_friction=False))
    assert not fixed.friction
    assert not any("friction is followed" in note for note in fixed.notes)
