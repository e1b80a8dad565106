"""Position limits: the storage function holds, and the arm stops before them in every mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, STILL, Loop, started

from rbd_control.control import (
    ControllerParameters,
    PassivityController,
    SlotineLiController,
    SoftLimits,
    TrajectoryPoint,
)
from rbd_control.dynamics import (
    Model,
    dynamics_terms,
    forward_dynamics,
    frame_jacobian,
    gravity_torque,
    mass_matrix,
)
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf

PARAMETERS = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))
LOWER = -2.2
"""Limit of joint 4 [rad]; its soft limit is 0.05 rad before it."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def test_storage_with_springs_and_bounds_obeys_its_balance(model: Model) -> None:
    """V_dot <= -sᵀ K_D s for V = ½ sᵀ M s + U, anywhere about the limits."""
    soft = SoftLimits(model, PARAMETERS)
    law = SlotineLiController(model, PARAMETERS, soft)
    random = np.random.default_rng(0)
    bounded = stretched = 0
    for _ in range(300):
        side = np.where(random.random(7) < 0.5, model.lower_limit, model.upper_limit)
        q = side + random.uniform(-0.2, 0.2, 7)
        v, q_d, v_d, a_d = random.uniform(-1.0, 1.0, (4, 7))
        v_r, a_r, s = law.reference(q, v, q_d, v_d, a_d)
        # The bounds are exact: v_r moves as a_r says. Two-sided differences miss at a corner only.
        h = 1e-7
        ahead, behind = (
            law.reference(q + k * v, v + k * a_d, q_d + k * v_d, v_d + k * a_d, a_d).v_r
            for k in (h, -h)
        )
        rate = (ahead - behind) / (2.0 * h)
        expected = law.reference(q, v, q_d, v_d, a_d).a_r
        # a_r takes a_d - Lambda (v - v_d) for the rate of v_d - Lambda (q - q_d), as here.
        assert np.isclose(rate, expected, atol=1e-5 * 20).mean() > 0.99
        a = forward_dynamics(model, q, v, law.torque(q, v, q_d, v_d, a_d))
        M, C, *_ = dynamics_terms(model, q, v)
        K_D = 2.0 * np.eye(7) + 30.0 * M
        spring = soft.torque(q)
        V_dot = s @ M @ (a - a_r) + 0.5 * s @ (C + C.T) @ s - v @ spring
        # Torques of up to 1e4 N·m, rounded to 1e-13 of that, times speeds of 20 rad/s.
        assert V_dot <= -s @ K_D @ s + 1e-7
        bounded += int(np.abs(v_r - (v_d - 20.0 * (q - q_d))).max() > 0.0)
        stretched += int(spring.any())
    assert bounded > 100
    assert stretched > 100


def test_springs_take_their_share_at_the_limit(model: Model) -> None:
    parameters = replace(PARAMETERS, limit_margin=(0.03,), limit_torque_share=(0.4,))
    soft = SoftLimits(model, parameters)
    assert np.allclose(soft.torque(model.upper_limit), -0.4 * model.effort_limit)
    assert np.allclose(soft.torque(model.lower_limit), 0.4 * model.effort_limit)
    assert not soft.torque(model.lower_limit + 0.0301).any()
    none = SoftLimits(model, replace(parameters, limit_margin=(0.0,)))
    assert not none.torque(model.upper_limit + 0.1).any()


def test_follow_does_not_pass_a_soft_limit(model: Model) -> None:
    loop = Loop(model)
    lowest = []
    goal = HOME + [0.0, 0.0, 0.0, LOWER + 0.051 - HOME[3], 0.0, 0.0, 0.0]
    loop.follow(goal, 0.65)
    loop.run(1.5, lambda command: lowest.append(loop.arm.q[3]))
    assert min(lowest) > LOWER + 0.04
    with pytest.raises(TrajectoryError, match=r"position -2\.18 is outside its limits -2\.15"):
        loop.follow(HOME + [0.0, 0.0, 0.0, -2.18 - HOME[3], 0.0, 0.0, 0.0], 2.0)


@pytest.mark.parametrize("mode", ["hold", "float"])
def test_a_hand_does_not_get_the_arm_to_its_limit(model: Model, mode: str) -> None:
    """The push would swing the forearm to its limit without the soft limit."""
    lowest = {}
    bent = HOME - [0.0, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0]
    for share, margin in ((0.5, 0.05), (0.0, 0.0)):
        loop = Loop(model, bent, limit_margin=(margin,), limit_torque_share=(share,))
        if mode == "float":
            loop.controller.modes.order("float")
        loop.run(0.1)
        reached = []
        inward = -frame_jacobian(model, bent, "link_6")[3:, 3]
        loop.arm.push("link_6", tuple(50.0 * inward / np.linalg.norm(inward)), duration=0.8)
        loop.run(1.2, lambda command, reached=reached, loop=loop: reached.append(loop.arm.q[3]))
        lowest[share] = min(reached)
    assert lowest[0.5] > LOWER
    if mode == "float":
        assert lowest[0.0] < LOWER + 0.01


def test_an_arm_parked_at_its_limits_stays_there(model: Model) -> None:
    parked = HOME.copy()
    parked[3] = LOWER + 0.01
    controller = started(model, ControllerParameters(torque_rate=(1e9,)), parked)
    command = controller.update(0.001, parked, STILL)
    free = started(model, ControllerParameters(torque_rate=(1e9,), limit_margin=(0.0,)), parked)
    assert np.allclose(command.torque, free.update(0.001, parked, STILL).torque)


def test_an_arm_held_off_its_path_does_not_rush_back(model: Model) -> None:
    """The reference is bounded by the speed limits, so the arm is, too."""
    controller = started(model)
    away = HOME + [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    law = SlotineLiController(model, controller.parameters, SoftLimits(model, PARAMETERS))
    v_r = law.reference(away, STILL, HOME, STILL, STILL).v_r
    assert v_r[0] == pytest.approx(-1.2 * model.velocity_limit[0])


# --- Limits that are open ------------------------------------------------------------------------


def led(controller: PassivityController, q: np.ndarray, way: np.ndarray, stamp: float) -> float:
    """Return a hand leads joint 4 along ``way``; the time afterwards."""
    last = way[0]
    for position in way:
        stamp += 0.001
        q[3] = position
        v = np.array([0, 0, 0, (position - last) / 0.001, 0, 0, 0]) + 1e-6 * stamp
        last = position
        controller.update(stamp, q, v)
    return stamp


@pytest.mark.parametrize("mode", ["hold", "float"])
def test_a_limit_closes_behind_the_arm_as_it_comes_back(model: Model, mode: str) -> None:
    """It was open until the next start once."""
    parked = HOME.copy()
    parked[3] = LOWER + 0.01
    controller = started(model, NO_RATE, parked)
    soft = controller.setup.now.soft
    assert soft.lower_limit[3] == pytest.approx(LOWER + 0.01)
    if mode == "float":
        controller.modes.order("float")
    q = parked.copy()
    stamp = led(controller, q, np.arange(LOWER + 0.01, LOWER + 0.03, 1e-4), 0.0)
    # As far as the arm has come back, but for a millimetre.
    assert soft.lower_limit[3] == pytest.approx(LOWER + 0.03 - 1e-3, abs=2e-4)
    assert controller.setup.now.soft.now().lower_limit[3] == soft.lower_limit[3]
    stamp = led(controller, q, np.arange(LOWER + 0.03, LOWER + 0.015, -1e-4), stamp)
    # Beyond where it closed the spring pushes: out of where it stood at first, too.
    assert soft.torque(q)[3] > 0.01 * 0.5 * model.effort_limit[3] / 0.05
    led(controller, q, np.arange(LOWER + 0.015, LOWER + 0.06, 1e-4), stamp)
    assert soft.lower_limit[3] == pytest.approx(LOWER + 0.05)
    assert not controller.setup.now.soft._is_open


def test_noise_does_not_creep_an_open_limit_in(model: Model) -> None:
    """An arm that floats beyond its limit stays there, for an hour of encoder noise."""
    parked = HOME.copy()
    parked[3] = LOWER + 0.01
    soft = SoftLimits(model, ControllerParameters(), parked)
    random = np.random.default_rng(0)
    for _ in range(10_000):
        soft.close_behind(parked + 2e-4 * random.standard_normal(7))
    assert soft.lower_limit[3] <= LOWER + 0.01
    assert not soft.torque(parked).any()


def test_new_parameters_neither_push_nor_release_an_arm_beyond_its_limits(model: Model) -> None:
    parked = HOME.copy()
    parked[3] = LOWER + 0.03
    controller = started(model, NO_RATE, parked)
    controller.update(0.001, parked, STILL)
    controller.set_parameters(replace(NO_RATE, limit_margin=(0.1,)))
    assert not controller.setup.now.soft.torque(parked).any()
    # Pushed into the spring from inside, it is not let out by a change of parameters.
    pushed = started(model)
    q = HOME.copy()
    stamp = led(pushed, q, np.arange(HOME[3], LOWER + 0.03, -2e-3), 0.0)
    before = pushed.setup.now.soft.torque(q)[3]
    assert before > 0.0
    pushed.set_parameters(replace(NO_RATE, goal_time=2.0))
    assert pushed.setup.now.soft.torque(q)[3] == pytest.approx(before)
    # After a fault the arm is held where it is found, as after a start.
    pushed.modes.fault("test")
    pushed.update(stamp + 0.001, q, STILL)
    pushed.resume()
    assert not pushed.setup.now.soft.torque(q).any()


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("mode", ["hold", "follow", "float"])
def test_no_torque_leads_further_out_but_a_brake(model: Model, mode: str, side: str) -> None:
    """Beyond a soft limit, whatever the rest of the arm does; also where the limit is open."""
    random = np.random.default_rng(1)
    out = -1.0 if side == "lower" else 1.0
    for trial in range(40):
        q = HOME + random.uniform(-0.3, 0.3, 7)
        limit = model.lower_limit[3] if side == "lower" else model.upper_limit[3]
        q[3] = limit - out * random.uniform(-0.01, 0.04)
        inside = q.copy()
        inside[3] -= out * 0.1
        controller = started(model, NO_RATE, q if trial % 2 else inside)
        if mode == "float":
            controller.modes.order("float")
        elif mode == "follow":
            controller.set_trajectory(
                model.joint_names, [TrajectoryPoint(inside, time_from_start=0.5)]
            )
        for k in range(1, 20):
            v = random.uniform(-1.5, 1.5, 7)
            command = controller.update(0.03 + 0.002 * k, q, v)
            if command.mode != mode:
                assert k > 5, command.reason  # random joint states end in a fault
                break
            beyond = out * (command.torque - gravity_torque(model, q))[3]
            if v[3] * out >= 0.0:
                assert beyond <= 1e-9
            else:
                brake = (80.0 * mass_matrix(model, q)[3, 3] + 0.3) * abs(v[3])
                assert beyond <= brake + 1e-9
