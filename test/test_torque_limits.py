"""Torque limits: weight, then damping joint by joint, then the rest; and the missing limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, started
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import random_tree_urdf

from rbd_control.control import (
    AdaptiveSlotineLiController,
    ControllerParameters,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.limits import ArmLimits
from rbd_control.control.torque_path import TorqueLimits
from rbd_control.dynamics import Model, gravity_torque, mass_matrix
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.robot.payload import PayloadParameters
from rbd_control.simulation import arm7_urdf

PARAMETERS = ControllerParameters(damping_rate=30.0, damping=(2.0,))


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def cut(
    model: Model, parameters: ControllerParameters, q: np.ndarray, s: np.ndarray, rest: np.ndarray
) -> np.ndarray:
    """Return the cut torque less the weight, for the law's damping of s and some rest."""
    K_D = np.diag(parameters.for_joints("damping", model.nv))
    K_D = K_D + parameters.damping_rate * mass_matrix(model, q)
    weight = gravity_torque(model, q)
    limits = TorqueLimits(model, parameters)
    torque = weight - K_D @ s + rest
    less = limits.cut(torque, model.packed, q, s, s, 0.001)
    least, most = limits.bounds(q)
    assert (np.abs(less) <= most * (1.0 + 1e-12)).all()
    return less - np.clip(weight, least, most)


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), speed=st.floats(0.01, 30.0), share=st.floats(0.05, 1.0))
def test_limited_torque_keeps_its_direction_and_brakes(
    model: Model, seed: int, speed: float, share: float
) -> None:
    """The torque beyond the fitting share dissipates energy along s and v at every joint."""
    random = np.random.default_rng(seed)
    q, s = HOME + random.uniform(-1.0, 1.0, 7), speed * random.uniform(-1.0, 1.0, 7)
    parameters = replace(PARAMETERS, torque_share=(share,))
    K_D = np.diag(parameters.for_joints("damping", 7)) + 30.0 * mass_matrix(model, q)
    weight, largest = gravity_torque(model, q), share * model.effort_limit
    for size in (0.0, 1.0, 1e3):
        rest = size * random.normal(size=7)
        left, wanted = cut(model, parameters, q, s, rest), rest - K_D @ s
        if (np.abs(weight + wanted) <= largest).all():
            continue
        held = np.clip(weight, -largest, largest)
        room = np.where(wanted > 0.0, largest - held, largest + held)
        kept = min(1.0, float((room / np.abs(wanted)).min()))
        brake = left - kept * wanted
        # Torques of 1e3 times speeds of up to 30, rounded.
        assert (brake * s <= 1e-9).all()
        if size == 0.0:
            assert s @ left <= -kept * s @ K_D @ s + 1e-9


def test_a_joint_at_its_limit_leaves_the_others_damped(model: Model) -> None:
    """Joint 2 bears all it can with the weight alone; joint 1, 3 and 5 are braked."""
    weight = gravity_torque(model, HOME)
    largest = np.array(model.effort_limit)
    largest[1] = abs(weight[1])
    parameters = replace(PARAMETERS, effort_limit=tuple(largest))
    s = np.array([1.0, np.sign(weight[1]) * -1.0, -1.0, 0.0, 2.0, 0.0, 0.0])
    left = cut(model, parameters, HOME, s, np.zeros(7))
    assert left[1] == pytest.approx(0.0, abs=1e-9)  # a brake would point along the weight
    for joint in (0, 2, 4):
        assert left[joint] * s[joint] < -0.05
    # As much as the joints have inertia, up to what is stable at 1 kHz.
    assert -left[0] * s[0] > 5.0 * mass_matrix(model, HOME)[0, 0]


@pytest.mark.parametrize("mode", ["hold", "float", "safe"])
def test_an_arm_with_one_weak_joint_stays_damped(model: Model, mode: str) -> None:
    """This holds in every mode; in a former version all joints were undamped."""
    weight = gravity_torque(model, HOME)
    largest = np.array(model.effort_limit)
    largest[1] = 0.9 * abs(weight[1])
    # After the start, which requires enough torque for the weight.
    controller = started(model, NO_RATE)
    controller.set_parameters(replace(NO_RATE, effort_limit=tuple(largest)))
    for k in range(1, 200):
        controller.update(0.001 * k, HOME, STILL)
    if mode == "float":
        controller.modes.order("float")
    elif mode == "safe":
        controller.modes.fault("test")
    v = np.array([1.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0])
    command = controller.update(0.2, HOME, v)
    assert command.mode == mode
    beyond = command.torque - weight
    assert np.abs(command.torque[1]) == pytest.approx(largest[1])
    for joint in (0, 4):
        assert beyond[joint] * v[joint] < -0.05 or mode == "float"


def test_a_saturated_arm_is_braked(model: Model) -> None:
    """All joints far too fast for the limits: it comes to rest, and no joint is thrown about."""
    loop = Loop(model, torque_share=(0.4,), tracking_limit=(100.0,), overspeed_factor=4.9)
    loop.run(0.1)
    loop.arm._v = np.array([1.5, 0.5, -1.5, 1.0, 1.0, -1.0, 1.0])
    speeds = []
    loop.run(1.5, lambda command: speeds.append(np.abs(loop.arm.v)))
    assert np.max(speeds, axis=0).max() < 4.0
    assert np.abs(loop.arm.v).max() < 0.05


@pytest.mark.parametrize("compensated", [False, True])
def test_an_arm_that_is_too_heavy_for_its_motors_does_not_start(
    model: Model, compensated: bool
) -> None:
    """Its joints would get their full effort limits."""
    loaded = PayloadParameters(payload_mass=90.0).loaded(model)
    with pytest.raises(InputError, match="too heavy: joint_2 cannot hold"):
        started(loaded, ControllerParameters(gravity_compensated=compensated))


# --- Limits that are missing ---------------------------------------------------------------------


def without(model: Model, what: str, joints: list[int], value: float) -> Model:
    limits = np.array(getattr(model, what))
    limits[joints] = value
    return replace(model, **{what: limits})


def test_an_arm_that_has_become_too_heavy_stays_in_mode_safe(model: Model) -> None:
    """Its payload is announced while joint states are missing: the posture is unknown."""
    controller = started(model)
    assert controller.silence(10.0) is not None
    heavy = model.with_payload("tool", 60.0, np.zeros(3), np.eye(3))
    controller.set_parameters(NO_RATE, heavy)
    controller.update(10.1, HOME, STILL, 10.1)
    with pytest.raises(InputError, match="too heavy: joint_2"):
        controller.resume(10.1)
    assert controller.mode == "safe"
    controller.set_parameters(NO_RATE, model)
    assert controller.resume(10.1) == "holding here"


@pytest.mark.parametrize(
    "change", [{"effort_limit": (30.0,)}, {"torque_share": (0.1,)}, {"payload": 60.0}], ids=repr
)
def test_no_change_makes_an_arm_too_heavy(model: Model, change: dict[str, Any]) -> None:
    """joint_2 would sink; what is needed to come out of such a state is accepted."""
    controller = started(model)
    change = dict(change)
    mass = change.pop("payload", 0.0)
    heavy = model.with_payload("tool", mass, np.zeros(3), np.eye(3)) if mass else model
    weak = replace(NO_RATE, **change)
    with pytest.raises(InputError, match="too heavy: joint_2 cannot hold"):
        controller.refuse_heavier(weak, heavy)
    controller.set_parameters(weak, heavy)
    controller.refuse_heavier(replace(weak, damping_rate=20.0), heavy)
    controller.refuse_heavier(NO_RATE, model)


def test_a_payload_that_is_put_down_is_accepted_by_an_arm_that_is_still_too_heavy(
    model: Model,
) -> None:
    """Otherwise the controller would go on to compute with a payload that has gone."""
    limits = ArmLimits.of(model, replace(NO_RATE, effort_limit=(30.0,)))
    weights = [
        gravity_torque(model.with_payload("tool", mass, np.zeros(3), np.eye(3)), HOME)
        for mass in (8.0, 4.0, 0.0)
    ]
    for weight in weights[1:]:
        limits.refuse_heavier(weight, limits, weights[0])
        with pytest.raises(InputError, match="too heavy: joint_2 cannot hold"):
            limits.refuse_heavier(weights[0], limits, weight)


def test_what_follows_of_a_trajectory_counts(model: Model) -> None:
    """The arm went on to where it could not be held, and fell past its goal."""
    light = np.array([0.0, 0.2, 0.0, -0.5, 0.0, 0.9, 0.0])
    heavy = np.array([0.0, 1.4, 0.0, -0.5, 0.0, 0.9, 0.0])
    loop = Loop(model, light)
    loop.follow(heavy, 3.0)
    loop.run(0.3)
    share = 0.8 * np.abs(gravity_torque(model, heavy))[1] / model.effort_limit[1]
    weak = replace(loop.controller.parameters, torque_share=(share,))
    with pytest.raises(InputError, match="could not go on, cancel it first: too heavy: joint_2"):
        loop.controller.refuse_heavier(weak, model)
    loop.controller.refuse_heavier(replace(weak, torque_share=(0.9,)), model)
    # A payload that the arm has gripped is not refused; the arm stops with it.
    loop.controller.set_parameters(weak)
    command = loop.run(1.0)
    assert command.mode == "hold"
    assert command.reason.startswith("the trajectory cannot go on: too heavy: joint_2")
    assert np.abs(loop.arm.q - light).max() < 0.5
    with pytest.raises(InputError, match="cannot resume the trajectory, cancel it"):
        loop.controller.resume()


def test_a_lower_speed_limit_stops_a_faster_trajectory(model: Model) -> None:
    """It went on at 1.2 times the new limit until the arm had lost it by ``tracking_limit``."""
    loop = Loop(model)
    loop.follow(HOME + 0.8 * (np.arange(7) == 0), 1.0)
    loop.run(0.4)
    given = loop.controller.parameters
    loop.controller.set_parameters(replace(given, velocity_limit=(1.3,)))
    assert loop.run(0.05).mode == "follow"
    loop.controller.set_parameters(replace(given, velocity_limit=(0.5,)))
    command = loop.run(0.3)
    assert command.mode == "hold"
    assert "cannot go on: joint 'joint_1' would reach a speed of 1.2 " in command.reason
    assert np.abs(loop.arm.v).max() < 0.05


def test_the_learned_weight_counts(model: Model) -> None:
    """With limits that suffice for the described arm only, a joint sank by 1.2 rad."""
    parameters = replace(NO_RATE, adaptive=True)
    controller = started(model, parameters)
    loaded = model.with_payload("tool", 0.5, np.zeros(3), 0.01 * np.eye(3))
    learner = AdaptiveSlotineLiController(loaded, parameters, parameters)
    between = 0.5 * np.abs(gravity_torque(model, HOME) + gravity_torque(loaded, HOME))
    weak = replace(parameters, effort_limit=tuple(np.maximum(between, 1.0)))
    controller.refuse_heavier(weak, model)
    controller.law.set_estimates(learner.estimates)
    with pytest.raises(InputError, match="too heavy: joint_"):
        controller.refuse_heavier(weak, model)


def test_no_motion_ends_where_the_arm_is_too_heavy(model: Model) -> None:
    """Upright its limits suffice, stretched they do not: it sank to 6 rad/s."""
    upright = np.zeros(model.nv)
    stretched = np.array([0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    parameters = replace(NO_RATE, torque_share=(0.25,))
    controller = started(model, parameters, upright)
    names = model.joint_names
    with pytest.raises(TrajectoryError, match="too heavy: joint_2 cannot .* at the last point"):
        controller.set_trajectory(names, [TrajectoryPoint(stretched, time_from_start=9.0)])
    controller.set_trajectory(names, [TrajectoryPoint(0.1 * stretched, time_from_start=9.0)])
    controller.modes.order("float")
    for k in range(1, 400):
        controller.update(0.01 * k, min(0.01 * k, 1.0) * stretched, STILL)
    with pytest.raises(InputError, match="too heavy: joint_2 cannot hold the arm here"):
        controller.resume()
    assert controller.mode == "float"


FOLDED = np.array([0.0, 1.2, 0.0, -1.4, 0.0, 0.9, 0.0])
"""Joint 2 bears 46 N·m here, 57 N·m with the elbow straight and 35 N·m with it bent back."""
BENT_BACK = FOLDED + np.array([0.0, 0.0, 0.0, 2.8, 0.0, 0.0, 0.0])
STRAIGHT_IS_TOO_HEAVY = replace(
    NO_RATE, effort_limit=(0.0, 50.0, *np.zeros(5)), torque_share=(1.0,)
)


@pytest.mark.parametrize("via", [0, 1, 30])
def test_no_motion_leads_through_a_posture_that_is_too_heavy(model: Model, via: int) -> None:
    """Both ends can be held. The motor saturated on the way, and the arm sank."""
    controller = started(model, STRAIGHT_IS_TOO_HEAVY, FOLDED)
    points = [
        TrajectoryPoint(FOLDED + share * (BENT_BACK - FOLDED), time_from_start=9.0 * share)
        for share in np.linspace(0.0, 1.0, via + 2)[1:]
    ]
    names = model.joint_names
    with pytest.raises(TrajectoryError, match="joint_2 cannot hold the arm on the way .*, after"):
        controller.set_trajectory(names, points)
    # Over the upright posture, which weighs nothing.
    around = [TrajectoryPoint(np.zeros(7), time_from_start=5.0)]
    controller.set_trajectory(names, [*around, TrajectoryPoint(BENT_BACK, time_from_start=9.0)])


@pytest.mark.parametrize(("count", "cycle"), [(2000, 20), (1500, 15), (100, 2)])
def test_no_cycle_of_a_long_motion_leads_through_a_posture_that_is_too_heavy(
    model: Model, count: int, cycle: int
) -> None:
    """Each k-th segment was checked: always the same posture of a cycle of k segments."""
    controller = started(model, STRAIGHT_IS_TOO_HEAVY, FOLDED)
    step = np.arange(1, count + 1)
    share = 0.5 - 0.5 * np.cos(2.0 * np.pi * step / cycle)
    q = FOLDED + share[:, None] * (BENT_BACK - FOLDED)
    points = [
        TrajectoryPoint(x, time_from_start=t) for x, t in zip(q, 10.0 / cycle * step, strict=True)
    ]
    with pytest.raises(TrajectoryError, match="joint_2 cannot hold the arm on the way .*, after"):
        controller.set_trajectory(model.joint_names, points)


def test_an_overloaded_joint_may_move_to_where_it_bears_less(model: Model) -> None:
    """On the way from a posture that is too heavy it must not bear more than there."""
    straight = FOLDED * (np.arange(7) != 3)
    controller = started(model, NO_RATE, straight)
    controller.set_parameters(replace(NO_RATE, effort_limit=STRAIGHT_IS_TOO_HEAVY.effort_limit))
    turned = straight + np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for target in (turned, straight, BENT_BACK):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(target, time_from_start=9.0)])
    lower = straight + np.array([0.0, 0.7, 0.0, -1.0, 0.0, 0.0, 0.0])
    over = [TrajectoryPoint(lower, time_from_start=5.0)]
    weights = np.abs(gravity_torque(model, np.array([straight, lower])))[:, 1]
    assert weights[1] < weights[0]
    out = [TrajectoryPoint(straight + [0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0], time_from_start=2.0)]
    with pytest.raises(TrajectoryError, match="joint_2 cannot hold the arm on the way"):
        controller.set_trajectory(model.joint_names, [*out, *over])


def test_only_the_rest_of_a_trajectory_must_be_light_enough(model: Model) -> None:
    """The limits were lowered while it was interrupted, before and after its middle."""
    for share, refused in ((0.2, True), (0.8, False)):
        controller = started(model, NO_RATE, FOLDED)
        points = [TrajectoryPoint(BENT_BACK, time_from_start=9.0)]
        controller.set_trajectory(model.joint_names, points)
        trajectory = controller.motion.trajectory
        stamps = np.arange(0.01, 9.0 * share, 0.01)
        for stamp in (*stamps, *(stamps[-1] + np.arange(1, 40) * 0.01)):
            controller.update(stamp, trajectory.sample(min(stamp, stamps[-1])).q_d, STILL)
            if stamp == stamps[-1]:
                controller.modes.order("hold")
        controller.set_parameters(STRAIGHT_IS_TOO_HEAVY)
        if refused:
            with pytest.raises(InputError, match="cannot resume .*joint_2 cannot .* on the way"):
                controller.resume()
        else:
            assert controller.resume() == "following the trajectory again"


def test_no_stream_leads_where_the_arm_is_too_heavy(model: Model) -> None:
    """Its single points were not compared with the limits."""
    names, parameters = model.joint_names, replace(NO_RATE, torque_share=(0.25,))
    q = np.zeros(model.nv)
    controller = started(model, parameters, q)

    def stream() -> None:
        nonlocal q
        for k in range(1, 400):
            q = 0.004 * k * (np.arange(model.nv) == 1)
            controller.set_trajectory(names, [TrajectoryPoint(q, time_from_start=0.1)])
            controller.update(0.02 * k, q, STILL)

    with pytest.raises(TrajectoryError, match="too heavy: joint_2 cannot .* at the last point"):
        stream()
    assert abs(gravity_torque(model, q)[1]) > 0.25 * model.effort_limit[1]


def test_no_stream_leads_through_a_posture_that_is_too_heavy(model: Model) -> None:
    """Only its points were compared with the limits; with a long horizon they lie apart."""
    names = model.joint_names
    parameters = replace(STRAIGHT_IS_TOO_HEAVY, stream_horizon=2.0)
    controller = started(model, parameters, FOLDED)
    beyond = FOLDED + 0.85 * (BENT_BACK - FOLDED)
    controller.set_trajectory(names, [TrajectoryPoint(FOLDED, time_from_start=1.9)])
    controller.update(0.001, FOLDED, STILL)
    with pytest.raises(TrajectoryError, match="joint_2 cannot hold the arm on the way .*, after"):
        controller.set_trajectory(names, [TrajectoryPoint(beyond, time_from_start=1.98)])
    near = FOLDED + 0.05 * (BENT_BACK - FOLDED)
    controller.set_trajectory(names, [TrajectoryPoint(near, time_from_start=1.98)])
    assert controller.planning._stream is not None


def test_a_stream_does_not_swing_past_its_point_where_the_arm_is_too_heavy(model: Model) -> None:
    """The point can be held; past it, where the arm would go on, it is too heavy."""
    names = model.joint_names
    parameters = replace(STRAIGHT_IS_TOO_HEAVY, stream_horizon=1.0)
    controller = started(model, parameters, FOLDED)
    elbow = np.arange(model.nv) == 3
    loads = np.abs(gravity_torque(model, FOLDED + np.linspace(0.0, 0.4, 401)[:, None] * elbow))
    last = FOLDED + 1e-3 * np.flatnonzero(loads[:, 1] < 50.0)[-1] * elbow
    q = FOLDED
    for k in range(1, 12):
        q = FOLDED + 0.1 * k * (last - FOLDED)
        controller.set_trajectory(names, [TrajectoryPoint(np.minimum(q, last), (), (), 0.5)])
        trajectory = controller.planning._streamed
        assert trajectory is not None
        _, way = trajectory.path(0.005, 1000)
        assert np.abs(gravity_torque(model, way))[:, 1].max() < 50.0 * 1.001
        for i in range(1, 51):
            controller.update(0.05 * (k - 1) + 1e-3 * i, controller.motion.desired().q_d, STILL)


def test_no_trajectory_goes_on_to_where_the_arm_is_too_heavy(model: Model) -> None:
    """The torque limits were lowered while it was interrupted."""
    names, upright = model.joint_names, np.zeros(model.nv)
    stretched = np.array([0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    controller = started(model, NO_RATE, upright)
    controller.set_trajectory(names, [TrajectoryPoint(stretched, time_from_start=9.0)])
    controller.update(0.01, upright, STILL)
    controller.modes.order("hold")
    for k in range(2, 100):
        controller.update(0.01 * k, upright, STILL)
    controller.set_parameters(replace(NO_RATE, torque_share=(0.25,)))
    with pytest.raises(InputError, match="trajectory, cancel it: too heavy: joint_2 cannot"):
        controller.resume()
    assert controller.mode == "hold"
    controller.modes.cancel()
    assert controller.resume() == "holding here"


def test_a_low_velocity_limit_does_not_make_motions_implausible(model: Model) -> None:
    """Knocked or slowed down live, the arm lost its torque instead of being braked."""
    parameters = replace(NO_RATE, velocity_limit=(0.1,))
    limits = ArmLimits.of(model, parameters)
    assert (limits.plausible_speed == ArmLimits.of(model, NO_RATE).plausible_speed).all()
    assert (limits.overspeed == 0.2).all()
    controller = started(model, parameters)
    q = HOME.copy()
    for k in range(1, 60):
        q = q + 0.0015
        command = controller.update(0.001 * k, q, np.full(7, 1.5))
    assert command.mode == "safe"
    assert "too fast" in command.reason
    assert command.torque.any()


def test_effort_limits_of_an_arm_in_motion_cannot_be_removed(model: Model) -> None:
    """The description has none: without those of the parameters torque had no limit at all."""
    arm = without(model, "effort_limit", list(range(7)), 0.0)
    given = ControllerParameters(effort_limit=tuple(model.effort_limit))
    controller = started(arm, given)
    for change in (controller.set_parameters, lambda new: controller.check_parameters(new, arm)):
        with pytest.raises(InputError, match="no effort limit for joint_1"):
            change(ControllerParameters())
    assert controller.parameters is given


@pytest.mark.parametrize("mode", ["hold", "float"])
def test_an_arm_that_carries_itself_is_not_pushed_down(model: Model, mode: str) -> None:
    """Its weight is beyond the torque that may be commanded; the arm carries it without command."""
    weight = gravity_torque(model, HOME)
    share = 0.5 * abs(weight[1]) / model.effort_limit[1]
    controller = started(
        model, replace(NO_RATE, gravity_compensated=True, torque_share=(share,)), HOME
    )
    if mode == "float":
        controller.modes.order("float")
    for k in range(1, 20):
        command = controller.update(0.001 * k, HOME, STILL)
        assert np.allclose(command.torque, 0.0, atol=1e-9)
    assert command.mode == mode


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_no_start_without_an_effort_limit(model: Model, value: float) -> None:
    """The joints are named, and the parameter that helps."""
    arm = without(model, "effort_limit", [1, 4], value)
    controller = PassivityController(arm)
    message = "no effort limit for joint_2, joint_5: .* set parameter effort_limit"
    with pytest.raises(InputError, match=message):
        controller.start(0.0, HOME, STILL)
    assert controller.update(0.001, HOME, STILL).mode == "safe"
    given = tuple(100.0 if i in (1, 4) else 0.0 for i in range(7))
    controller.set_parameters(ControllerParameters(effort_limit=given))
    controller.start(0.0, HOME, STILL)
    for k in range(1, 100):
        command = controller.update(0.001 * k, HOME, np.sin(np.arange(7) + k))
        limits = np.array(model.effort_limit)
        limits[[1, 4]] = 100.0
        assert (np.abs(command.torque) <= limits).all()


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_without_a_speed_limit_there_is_none_to_planning(model: Model, value: float) -> None:
    arm = without(model, "velocity_limit", [0], value)
    loop = Loop(arm)
    loop.follow(HOME + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.6)
    fastest = []
    command = loop.run(1.5, lambda command: fastest.append(command.v_d[0]))
    assert command.goal == "reached"
    assert max(fastest) > model.velocity_limit[0] + 1.0
    bounded = Loop(arm, velocity_limit=(1.0,))
    with pytest.raises(ValueError, match="its limit is 1"):
        bounded.follow(HOME + [1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.6)


def test_a_stream_without_speed_limits_does_not_hang(model: Model) -> None:
    for value in (0.0, np.inf):
        controller = started(without(model, "velocity_limit", list(range(7)), value))
        for k in range(1, 20):
            controller.set_trajectory(
                model.joint_names, [TrajectoryPoint(HOME + 0.01 * k, time_from_start=0.1)]
            )
            command = controller.update(0.01 * k, HOME, STILL)
            assert command.mode == "follow"
            assert np.isfinite(command.q_d).all()


def test_plausible_speeds_are_finite_for_every_arm() -> None:
    arm = Model.from_urdf(random_tree_urdf(3, 9, continuous=0.3))
    endless = np.full(arm.nv, np.inf)
    limits = ArmLimits.of(replace(arm, velocity_limit=endless), ControllerParameters())
    linear = arm.arrays.joint_type[: arm.nv] == 1
    assert linear.any()
    assert (limits.assumed_velocity[linear] == 2.0).all()
    assert (limits.assumed_velocity[~linear] == 10.0).all()
    assert (limits.plausible_speed == 5.0 * limits.assumed_velocity).all()
    assert np.isinf(limits.velocity).all()


@pytest.mark.parametrize(
    ("change", "reach"),
    [
        (lambda q, v: (q + 1.0, v), "jumped by 1"),
        (lambda q, v: (q, v + 51.0), "at a speed of 51 is implausible"),
    ],
)
def test_without_a_speed_limit_absurd_velocities_are_detected(
    model: Model, change: Callable[..., Any], reach: str
) -> None:
    arm = without(model, "velocity_limit", list(range(7)), 0.0)
    controller = started(arm)
    controller.update(0.001, HOME, STILL)
    command = controller.update(0.002, *change(HOME, STILL))
    assert reach in command.reason
