"""The check of the first seconds, in slices."""

import time
from dataclasses import replace

import numpy as np
import pytest
from free_motion import Act, lively_motion

from rbd_control.check.live import StartCheck
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.thresholds import with_default_thresholds
from rbd_control.identification import MotionWatch, RecordedMotion
from rbd_control.identification.findings import Line
from rbd_control.simulation import SimulatedArm


def motion(
    model: Model, seconds: float = 11.0, rate: float = 250.0, payload: float = 0.0
) -> RecordedMotion:
    """Sines in every joint with friction, a little noise and a payload [kg]."""
    if payload:
        model = model.with_payload("link_7", payload, (0.0, 0.0, 0.05), np.zeros((3, 3)))
    t = np.arange(0.0, seconds, 1.0 / rate)
    w = 2.0 * np.pi / np.array([5.0, 4.0, 6.0, 3.5, 3.0, 2.5, 2.2])
    rest = np.array([0.0, 0.4, 0.0, -1.4, 0.3, 0.8, 0.0])
    q, v = rest + 0.5 * np.sin(t[:, None] * w), 0.5 * w * np.cos(t[:, None] * w)
    tau = inverse_dynamics(model, q, v, -0.5 * w**2 * np.sin(t[:, None] * w))
    noise = 0.02 * np.random.default_rng(3).normal(size=v.shape)
    return RecordedMotion("sines", t, q, v, tau + 0.3 * np.tanh(v / 0.01) + noise)


def checked(
    model: Model, motion: RecordedMotion, *, flags: bool = False, **changes: str
) -> dict[str, Line]:
    """Return the lines of a check by topic, the worst of each.

    Args:
        model: the arm.
        motion: the samples.
        flags: whether a detector judges the samples, as in the node.
        changes: parameters of the detector.
    """
    parameters = with_default_thresholds(DetectorParameters(**changes), model)  # type: ignore[arg-type]
    detector = ContactDetector(model, parameters)
    check = StartCheck(model, parameters, 10.0)
    for t, q, v, tau in zip(motion.t, motion.q, motion.v, motion.tau, strict=True):
        check.add(t, q, v, tau, flags and detector.update(float(t), q, v, tau).contact)
    assert check.is_full
    finished = bool(check.lines)
    assert not finished
    for _ in check.in_slices():
        pass
    lines: dict[str, Line] = {}
    for line in check.lines:
        if line.topic not in lines or line.level == "bad":
            lines[line.topic] = line
    return lines


def test_nothing_is_wrong_with_a_good_arm(model: Model) -> None:
    lines = checked(model, motion(model))
    assert {line.level for line in lines.values()} == {"good"}, lines
    assert lines["rate"].text == "250 Hz"
    assert "as declared, on all joints" in lines["effort"].text
    assert lines["weakest push"].text.startswith("detected from ")


def test_each_fault_is_named(model: Model) -> None:
    good = motion(model)
    free = replace(good, tau=good.tau - gravity_torque(model, good.q))
    line = checked(model, free)["effort"]
    assert line.level == "bad"
    assert "set effort_kind to torque_without_gravity" in line.text
    assert checked(model, free, effort_kind="torque_without_gravity")["effort"].level == "good"
    line = checked(model, motion(model, payload=2.0))["payload"]
    assert line.level == "bad"
    assert line.values["mass"] == pytest.approx(2.0, abs=0.2)
    zeros = replace(good, tau=0.0 * good.tau)
    assert "not measured on any joint" in checked(model, zeros)["effort"].text


def pushed(force: float, *times: tuple[float, float]) -> Act:
    """Return an act that pushes link 5 sideways with a force [N] in each of the times [s]."""

    def act(arm: SimulatedArm, t: float) -> None:
        applied = force if any(begin <= t < end for begin, end in times) else 0.0
        arm.push("link_5", np.array([0.0, applied, 0.0]))

    return act


@pytest.mark.parametrize("share", [0.8, 3.0])
def test_a_constant_bias_is_found(model: Model, share: float) -> None:
    """Below the contact threshold and above it, where the flag is raised all the time; pushed too.

    Args:
        model: the arm.
        share: the bias of joint 4 as a share of its contact threshold.
    """
    motion = lively_motion(model, 11.0, act=pushed(60.0, (3.0, 3.8), (6.5, 7.3)))
    threshold = with_default_thresholds(DetectorParameters(), model).contact_threshold[3]
    offset = np.zeros(model.nv)
    offset[3] = share * threshold
    lines = checked(model, replace(motion, tau=motion.tau + offset), flags=True)
    bias = lines["bias over poses"]
    assert bias.level == ("bad" if share > 1.0 else "doubtful"), bias.text
    low, high = bias.values["bias"]["joint_4"]
    # The model is 1 % wrong in every mass.
    np.testing.assert_allclose((low, high), -offset[3], atol=0.3)
    if share > 1.0:
        assert lines["contact"].level == "doubtful"
        assert lines["contact"].values["flagged"] > 0.9


def test_a_hand_that_leads_the_arm_is_no_error_of_the_model(model: Model) -> None:
    """A push of 3 to 5 of the 10 s was a bias in red, and another unit of the effort."""
    motion = lively_motion(model, 11.0, act=pushed(40.0, (3.0, 8.0)))
    lines = checked(model, motion, flags=True)
    assert {line.topic for line in lines.values() if line.level != "good"} == {"contact"}, lines
    assert lines["contact"].level == "doubtful"
    # Likewise for the comparison that a node logs.
    detector = ContactDetector(model, with_default_thresholds(DetectorParameters(), model))
    is_led = (motion.t > 3.0) & (motion.t < 8.0)
    tau = np.where(is_led[:, None], -motion.tau, motion.tau)
    for flags in (np.zeros_like(is_led), is_led):
        watch = MotionWatch(10.0)
        for t, q, v, effort, flag in zip(motion.t, motion.q, motion.v, tau, flags, strict=True):
            watch.add(t, q, v, effort, flag)
        assert bool(watch.remarks(detector)) != flags.any()


@pytest.mark.parametrize("at_rest", [True, False])
def test_a_hand_for_most_of_the_time_is_no_certain_error_of_the_model(
    model: Model, at_rest: bool
) -> None:
    """On an arm at rest all the time, or on a moving one for 70 %: it was a tilted base in red."""
    if at_rest:
        good = motion(model)
        q = np.tile(good.q[0], (good.t.size, 1))
        noise = 1e-3 * np.random.default_rng(2).normal(size=q.shape)
        hand = np.array([0.0, 6.0, 3.0, -5.0, 0.0, 2.0, 0.0])
        led = RecordedMotion("rest", good.t, q, noise, gravity_torque(model, q) + hand + noise)
    else:
        led = lively_motion(model, 11.0, act=pushed(60.0, (1.0, 4.5), (6.0, 9.5)))
    lines = checked(model, led, flags=True)
    assert lines["contact"].values["flagged"] > 0.6
    assert {line.level for line in lines.values()} == {"good", "doubtful"}, lines
    assert any(line.text.startswith("if nothing touches the arm") for line in lines.values())


def test_a_recording_that_starts_again_is_no_wrong_velocity(model: Model) -> None:
    """The position jumps, as where a player repeats it."""
    check = StartCheck(model, with_default_thresholds(DetectorParameters(), model), 10.0)
    good = motion(model, seconds=16.0)
    for t, q, v, tau in zip(
        good.t, good.q + 0.5 * (good.t[:, None] > 4.0), good.v, good.tau, strict=True
    ):
        check.add(t, q, v, tau)
    assert check.is_full
    assert check._samples[0][0] > 4.0


def test_samples_are_bounded_and_start_again_when_the_clock_goes_back(model: Model) -> None:
    check = StartCheck(model, with_default_thresholds(DetectorParameters(), model), 10.0)
    fast = motion(model, seconds=5.0, rate=2000.0)
    for _ in range(2):
        for sample in zip(fast.t, fast.q, fast.v, fast.tau, strict=True):
            check.add(*sample)
    assert not check.is_full, "the two halves are no ten seconds"
    assert len(check._samples) <= 5.0 / 0.016 + 1
    # Slices exist so that a sample need not wait for the whole computation.
    check.is_full = True
    taken = []
    begun = time.perf_counter()
    for _ in check.in_slices():
        taken.append(time.perf_counter() - begun)
        begun = time.perf_counter()
    assert len(taken) > 500
    print(f"slices: {len(taken)}, sum {1e3 * sum(taken):.1f} ms, longest {1e3 * max(taken):.1f} ms")
