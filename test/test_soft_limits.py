"""Position limits: the storage function holds, and the arm stops before them in every mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, STILL, Loop, started

from rbd_control.control import ControllerParameters, SlotineLiController, SoftLimits
from rbd_control.dynamics import Model, dynamics_terms, forward_dynamics, frame_jacobian
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf

PARAMETERS = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))
LOWER = -2.2
"""Of joint 4 [rad]; its soft limit is 0.05 before."""


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
    """A push that swings the forearm in, hard enough for the limit when nothing keeps it off."""
    lowest = {}
    bent = HOME - [0.0, 0.0, 0.0, 0.6, 0.0, 0.0, 0.0]
    for share, margin in ((0.5, 0.05), (0.0, 0.0)):
        loop = Loop(model, bent, limit_margin=(margin,), limit_torque_share=(share,))
        if mode == "float":
            loop.controller.float_()
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
