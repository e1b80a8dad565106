"""Torque that swings to and fro because the loop is not stable."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, IDEAL, RIGID, SCRIPTED, Loop, rigid, started
from lone_check import LoneWatch
from robots import urdf_path

from rbd_control.control import (
    AdaptiveSlotineLiController,
    Command,
    ControllerParameters,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.gains import Loop as ClosedLoop
from rbd_control.control.limits import ArmLimits
from rbd_control.control.safe_torque import LEAST_BRAKE
from rbd_control.control.watches import SWINGS, WITHIN, Chatter
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.simulation import SimulatedArm, arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def told(
    torques: np.ndarray,
    rate: float = 1000.0,
    demanded: np.ndarray | None = None,
    **parameters: Any,
) -> tuple[float, str]:
    """Return the time and the text of the first message about torques of the last joint.

    Args:
        torques: torque of the last joint in each sample, as a share of its limit, (n,).
        rate: rate of the samples [Hz].
        demanded: what the desired acceleration demands of it, (n,), likewise; zero by default.
        parameters: parameters of the controller.
    """
    model = Model.from_urdf(arm7_urdf())
    limits = ArmLimits.of(model, ControllerParameters(**parameters))
    watch = LoneWatch(Chatter, model, torque=limits.torque, torque_rate=limits.torque_rate)
    for k, size in enumerate(torques):
        torque, reference = np.zeros((2, model.nv))
        torque[-1] = size * limits.torque[-1]
        if demanded is not None:
            reference[-1] = demanded[k] * limits.torque[-1]
        said = watch.take(now=k / rate, acting=torque, demanded=reference)
        if said:
            return k / rate, said
    return np.inf, ""


def sine(frequency: float, size: float, rate: float = 1000.0) -> np.ndarray:
    """Return 2 s of a sine with the amplitude ``size``."""
    t = np.arange(2.0 * rate) / rate
    return np.asarray(size * np.sin(2.0 * np.pi * frequency * t + 1.0), dtype=np.float64)


def triangle(frequency: float, slope: float) -> np.ndarray:
    """Return 2 s of a triangle, at 1 kHz, that is cut at -1 and 1; ``slope`` is per second."""
    phase = np.arange(2000) / 1000.0 * frequency % 1.0
    return np.clip(0.25 * slope / frequency * (4.0 * np.abs(phase - 0.5) - 1.0), -1.0, 1.0)


def test_who_shakes_the_arm_in_mode_safe_does_not_take_its_brake_away(model: Model) -> None:
    weak = (2.0, *6 * (0.0,))  # little of the brake is enough for a quarter of this limit
    given = {**SCRIPTED, "safe_torque": "damping", "effort_limit": weak}
    controller = started(model, ControllerParameters(**given))
    controller.modes.fault("by request")
    shares = set()
    for k in range(1, 15000):
        t, rate = k / 1000.0, 2.0 * np.pi * 4.0
        away = np.where(np.arange(7) == 0, 1.0, 0.0)
        q, v = HOME + 0.2 * np.sin(rate * t) * away, 0.2 * rate * np.cos(rate * t) * away
        command = controller.update(t, q, v)
        shares.add(controller.path.brake_share)
    assert command.mode == "safe"
    assert shares == {1.0, 0.5, 0.25, 0.125, LEAST_BRAKE}
    # It still brakes: the torque less the weight is opposite to the motion.
    assert (command.torque - gravity_torque(model, q))[0] * v[0] < 0.0


def test_joint_states_that_cannot_be_used_do_not_weaken_the_brake(model: Model) -> None:
    """Each takes the gravity torque away for a moment, which looked like two swings."""
    loop = Loop(model, np.array([0.0, 1.0, 0.0, -0.5, 0.0, 0.9, 0.0]), safe_torque="damping")
    loop.run(0.1)
    loop.controller.modes.fault("by request")
    zero = 0
    for k in range(2000):
        sample = loop.arm.reading()
        assert sample is not None
        v = sample.v if k % 20 else None
        command = loop.controller.update(sample.stamp, sample.q, v, effort=sample.tau)
        loop.arm.step(command.torque)
        zero += not command.torque.any()
    assert zero == 100
    assert loop.controller.path.brake_share == 1.0


def test_fast_and_large_swings_are_a_fault() -> None:
    assert "the torque of joint_7 swung" in told(sine(30.0, 0.6))[1]
    assert told(sine(100.0, 0.9, rate=200.0), rate=200.0)[1]
    assert not told(sine(30.0, 0.45))[1]  # not by the limit, from peak to peak
    slowest = 0.5 * SWINGS / WITHIN
    assert not told(sine(0.95 * slowest, 1.0))[1]
    assert told(sine(1.05 * slowest, 1.0))[1]


@pytest.mark.parametrize("limit", [12.0, 87.0])  # of the last and the first joint of a Panda
@pytest.mark.parametrize("rate", [300.0, 900.0, 3000.0, 20000.0])
def test_swings_as_large_as_the_rate_limit_permits_are_a_fault(rate: float, limit: float) -> None:
    """No oscillation can be larger with this ``torque_rate``; it may be far below the limit."""
    parameters: dict[str, Any] = {"torque_rate": (rate,), "effort_limit": (limit,)}
    for frequency in (6.0, 7.0, 9.0, 13.0, 20.0, 33.0, 50.0):
        time, said = told(triangle(frequency, rate / limit), **parameters)
        assert said, frequency
        assert time < 1.0
        part = triangle(frequency, 0.7 * rate / limit)
        # A swing beyond the limit counts at any rate.
        assert bool(told(part, **parameters)[1]) == (np.ptp(part) > 1.0), frequency


@pytest.mark.parametrize("rate", [300.0, 900.0, 20000.0])
def test_noise_is_no_fault(rate: float) -> None:
    """Noise of the velocity, times K_D: the torque changes at the rate limit in each sample."""
    rng = np.random.default_rng(1)
    # Up to 20 % of the limit from peak to peak, ten times the noise of ordinary encoders.
    limit, torque = 12.0, [0.0]
    for wanted in rng.uniform(-0.1, 0.1, 5000):
        step = rate / limit / 1000.0
        torque.append(torque[-1] + float(np.clip(wanted - torque[-1], -step, step)))
    noisy = np.array(torque)
    parameters: dict[str, Any] = {"torque_rate": (rate,), "effort_limit": (limit,)}
    assert not told(noisy, **parameters)[1]
    # It does not hide the swings of a loop that is not stable either.
    assert told(noisy[:2000] + sine(9.0, 0.8), torque_rate=(20000.0,), effort_limit=(limit,))[1]


def test_swings_that_the_desired_motion_demands_are_no_fault() -> None:
    swings = sine(9.0, 0.9)
    assert told(swings)[1]
    assert not told(swings, demanded=swings)[1]
    assert not told(swings, demanded=np.roll(swings, -25))[1]  # the torque is late
    # The demand of an ordinary trajectory is slow.
    assert told(swings, demanded=sine(1.0, 0.2))[1]


def oscillating(
    model: Model,
    parameters: ControllerParameters,
    rate: float,
    delay: int,
    force: float,
) -> tuple[float, Command]:
    """Push an arm with a late loop; return how long it shook until the fault, and the last command.

    It shakes from the first torque above 0.7 times its limit on. The run lasts 3 s at most.

    Args:
        model: the arm; without gravity for one that carries its own weight.
        parameters: parameters of the controller.
        rate: rate of the joint states [Hz].
        delay: delay of the torque, in samples.
        force: force of the push on the last link [N].
    """
    posture = (0.0, -1.2, 1.6, -1.9, -1.57, 0.0) if model.nv == 6 else tuple(HOME)
    simulation = replace(
        IDEAL,
        initial_position=posture,
        rate=rate,
        substeps=2 if rate >= 1000.0 else 4,
        coulomb=(0.3,),
        viscous=(0.3,),
        command_delay=delay,
        command_timeout=10.0,
    )
    arm, controller = SimulatedArm(model, simulation), PassivityController(model, parameters)
    first = arm.reading()
    assert first is not None
    controller.start(first.stamp, first.q, first.v)
    arm.push(model.joint_links[-1], (force, 0.0, -force), (0.0, 0.0, 0.0), 0.05)
    shaking = 0
    for _ in range(round(3.0 * rate)):
        sample = arm.reading()
        assert sample is not None
        command = controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
        arm.step(command.torque)
        if command.mode == "safe":
            break
        shaking += bool(shaking or (np.abs(command.torque) > 0.7 * model.effort_limit).any())
    return shaking / rate, command


@pytest.mark.parametrize("delay", [9, 11, 12, 13])
def test_a_late_loop_of_a_ur5_is_a_fault(delay: int) -> None:
    """Stiff gains are stable with 18 ms of delay; from 22 ms on they shake at 7 to 9 Hz."""
    path = Path(__file__).resolve().parent.parent / "config" / "universal_robots.yaml"
    file = read_parameter_file(path, "passivity_controller")
    stiff = {**RIGID, "damping_rate": 40.0, "bandwidth": (20.0,)}
    parameters = replace(law_parameters(ControllerParameters, {**file, "joints": []}), **stiff)
    model = Model.from_urdf(str(urdf_path("ur5")), gravity=(0.0, 0.0, 0.0))
    time, command = oscillating(model, parameters, 500.0, delay, 10.0)
    if delay == 9:
        assert command.mode == "hold", command.reason
        assert time == 0.0
    else:
        assert "swung" in command.reason
        assert time < 1.0


def test_a_late_loop_with_stiff_gains_is_a_fault(model: Model) -> None:
    """12 ms of delay are twice what these gains tolerate: it shakes at some 15 Hz."""
    time, command = oscillating(model, rigid(), 1000.0, 12, 30.0)
    assert "swung" in command.reason
    assert time < 1.0


def test_a_loop_that_is_not_stable_ends_in_mode_safe_and_at_rest(model: Model) -> None:
    """A constant damping that the small inertia of the wrist does not bear."""
    loop = Loop(model, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0))
    loop.arm.push("link_7", (0.0, 0.0, 0.0), (0.0, 0.0, 3.0), 0.05)
    modes: list[str] = []
    loop.run(0.5, lambda command: modes.append(command.mode))
    command = loop.run(1.0)
    assert command.mode == "safe"
    assert "the torque of joint_7 swung" in command.reason
    assert modes.index("safe") < 300
    assert np.abs(loop.arm.v).max() < 0.05


def test_samples_that_cannot_be_used_hide_no_swings(model: Model) -> None:
    """A joint that shakes may be the reason why some samples are implausible."""
    loop = Loop(model, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0))
    loop.arm.push("link_7", (0.0, 0.0, 0.0), (0.0, 0.0, 3.0), 0.05)
    for k in range(700):
        sample = loop.arm.reading()
        assert sample is not None
        v = None if k % 50 == 49 else sample.v
        command = loop.controller.update(sample.stamp, sample.q, v, effort=sample.tau)
        loop.arm.step(command.torque)
    assert "the torque of joint_7 swung" in command.reason


def test_what_was_given_is_kept(model: Model) -> None:
    """Estimates of a file hold a payload that is there; only what came later may be wrong."""
    heavy = AdaptiveSlotineLiController(
        model.with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3)),
        ControllerParameters(),
        ControllerParameters(adaptive=True),
    )
    loop = Loop(model, adaptive=True)
    law = loop.controller.law
    law.set_estimates(heavy.estimates)
    assert law.adaptive is not None
    given = law.adaptive.payload
    assert given == pytest.approx(1.0)
    loop.follow(HOME + 0.5, 2.0)  # it learns from moving joints only
    loop.run(0.5)
    assert law.adaptive.payload != given
    loop.controller.set_parameters(loop.controller.parameters)
    law = loop.controller.law
    law.discard_estimates()
    assert law.adaptive is not None
    assert law.adaptive.payload == pytest.approx(given)


def test_given_estimates_beyond_new_bounds_do_not_prevent_the_safe_torque(model: Model) -> None:
    heavy = model.with_payload("tool", 1.0, np.zeros(3), 0.01 * np.eye(3))
    parameters = ControllerParameters(adaptive=True)
    loop = Loop(model, adaptive=True)
    law = loop.controller.law
    given = AdaptiveSlotineLiController(heavy, parameters, parameters).estimates
    law.set_estimates(given)
    assert law.adaptive is not None
    # Learned away since, so that lower bounds are possible.
    law.adaptive.set_estimates(AdaptiveSlotineLiController(model, parameters, parameters).estimates)
    loop.controller.set_parameters(replace(loop.controller.parameters, largest_payload_mass=0.1))
    law = loop.controller.law
    law.discard_estimates()
    assert law.adaptive is not None
    assert law.adaptive.payload == 0.0


def test_what_was_learned_is_discarded(model: Model) -> None:
    """It may be why the loop is not stable."""
    loop = Loop(model, adaptive=True)
    loop.follow(HOME + 0.5, 2.0)  # it learns from moving joints only
    loop.run(0.5)
    unstable = replace(loop.controller.parameters, damping=(0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 20.0))
    loop.controller.set_parameters(unstable)
    adaptive = loop.controller.law.adaptive
    assert adaptive is not None
    assert adaptive.learned_energy > 0.0
    loop.arm.push("link_7", (0.0, 0.0, -20.0), (0.0, 0.0, 3.0), 0.05)
    command = loop.run(0.5)
    assert "swung" in command.reason
    assert command.reason.endswith("the estimates of the adaptive law are discarded")
    assert adaptive.learned_energy == 0.0


@pytest.mark.parametrize("rate", [30.0, 50.0, 70.0, 100.0])
def test_gains_that_are_refused_are_unstable(model: Model, rate: float) -> None:
    """On an arm without friction, with four times the largest gains, and stable with half of them.

    The simulated arm applies the torque at once, so that its gain margin is larger than assumed.
    """
    largest = ClosedLoop(1.0 / rate, 0.0, 0.0).largest_rate()
    for share, is_stable in ((0.5, True), (4.0, False)):
        gains: dict[str, Any] = {
            "damping_rate": share * largest,
            "bandwidth": (0.5 * share * largest,),
        }
        loop = Loop(
            model,
            simulated={"rate": rate, "coulomb": (0.0,), "viscous": (0.0,)},
            **{**gains, "damping": (1e-9,), "timeout": 0.1},
        )
        with nullcontext() if is_stable else pytest.raises(InputError, match="gain margin"):
            loop.controller.parameters.require_stable(1.0 / rate)
        loop.arm.push("link_7", (10.0, 0.0, -10.0), duration=0.05)
        command = loop.run(2.0)
        assert (command.mode == "hold") == is_stable, command.reason


def test_an_arm_that_is_shaken_by_hand_is_no_fault(model: Model) -> None:
    loop = Loop(model)
    for _ in range(15):  # 10 Hz
        for force in (60.0, -60.0):
            loop.arm.push("link_7", (0.0, force, 0.0), duration=0.05)
            command = loop.run(0.05)
    assert command.mode == "hold", command.reason


@pytest.mark.parametrize("direction", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], ids=str)
def test_an_arm_that_is_shaken_with_all_strength_is_no_fault(
    model: Model, direction: tuple[float, float, float]
) -> None:
    """People shake at less than 5 Hz; with 150 N the swings exceed the torque limit."""
    loop = Loop(model)
    torques: list[np.ndarray] = []
    for k in range(200):
        force = 150.0 * np.sin(2.0 * np.pi * 5.0 * 0.01 * k) * np.array(direction)
        loop.arm.push("link_7", tuple(force), duration=0.01)
        command = loop.run(0.01, lambda command: torques.append(command.torque))
    assert command.mode == "hold", command.reason
    assert (np.ptp(torques, axis=0) > model.effort_limit).any()


@pytest.mark.parametrize("frequency", [2.0, 5.0, 10.0])
def test_an_arm_that_is_guided_and_shaken_in_float_is_no_fault(
    model: Model, frequency: float
) -> None:
    """People guide the arm in this mode; shaken harder it is too fast."""
    loop = Loop(model)
    loop.controller.modes.order("float")
    speeds: list[float] = []
    for k in range(200):
        force = 40.0 * np.sin(2.0 * np.pi * frequency * 0.01 * k)
        loop.arm.push("link_7", (0.0, force, 0.0), duration=0.01)
        command = loop.run(0.01)
        speeds.append(np.abs(loop.arm.v).max())
    assert command.mode == "float", command.reason
    assert max(speeds) > 0.3


@pytest.mark.parametrize(("way", "time"), [(0.1, 0.15), (0.02, 0.06), (0.005, 0.03)])
def test_a_trajectory_to_and_fro_is_no_fault(model: Model, way: float, time: float) -> None:
    """Its desired acceleration demands swings that exceed the torque limit, at up to 16 Hz."""
    loop = Loop(model)
    joints = np.eye(model.nv)[1]
    points = [
        TrajectoryPoint(HOME + (-1) ** k * way * joints, time_from_start=time * (k + 1))
        for k in range(round(1.2 / time))
    ]
    loop.controller.set_trajectory(model.joint_names, points)
    torques: list[np.ndarray] = []
    command = loop.run(1.2, lambda command: torques.append(command.torque))
    assert command.mode in ("follow", "hold")
    assert not command.reason
    assert np.ptp(np.array(torques)[:, 1]) > model.effort_limit[1]
