"""Continuous joints: encoders that wrap and encoders that do not give the same motion."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from control_loop import HOME, STILL, rigid, started

from rbd_control.control import ControllerParameters, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf

CONTINUOUS = [0, 6]


@pytest.fixture(scope="module")
def model() -> Model:
    arm = Model.from_urdf(arm7_urdf())
    lower, upper = np.array(arm.lower_limit), np.array(arm.upper_limit)
    lower[CONTINUOUS], upper[CONTINUOUS] = -np.inf, np.inf
    velocity = np.array(arm.velocity_limit)
    velocity[CONTINUOUS] = 0.0  # a limit that the description lacks
    return replace(arm, lower_limit=lower, upper_limit=upper, velocity_limit=velocity)


def test_a_wrap_is_never_implausible(model: Model) -> None:
    """This holds for plausible speeds and rates in both directions; other jumps are implausible."""
    for rate in (1000.0, 100.0, 30.0):
        for speed in (2.0, -2.0, 8.0, -8.0):
            controller = started(
                model,
                rigid(tracking_limit=(100.0,), overspeed_factor=4.9, repeated_time=60.0),
                np.array([3.0, *HOME[1:]]),
            )
            v = np.array([speed, 0, 0, 0, 0, 0, 0])
            for k in range(1, 200):
                q = np.array([(3.0 + speed * k / rate + pi) % (2.0 * pi) - pi, *HOME[1:]])
                command = controller.update(k / rate, q, v)
                assert command.mode == "hold", command.reason
                assert command.reason == ""
    q[0] += 2.5
    assert "joint_1 jumped by 2.5" in controller.update(200 / rate, q, v).reason


def test_joint_states_that_freeze_beyond_half_a_turn_stay_frozen(model: Model) -> None:
    """That unwrapping begins anew after the fault is no change of the joint states."""
    controller = started(model, rigid(tracking_limit=(100.0,)), np.array([3.0, *HOME[1:]]))
    v = np.array([2.0, 0, 0, 0, 0, 0, 0])
    for k in range(1, 200):
        q = np.array([(3.0 + 0.002 * k + pi) % (2.0 * pi) - pi, *HOME[1:]])
        assert controller.update(0.001 * k, q, v).mode == "hold"
    assert q[0] < 0.0, "joint 1 is beyond half a turn"
    frozen = [controller.update(0.001 * k, q, v) for k in range(200, 300)]
    faulted = [command.mode for command in frozen].index("safe")
    assert 0 < faulted < 20
    assert "repeated to the last digit" in frozen[faulted].reason
    assert not np.any([command.torque for command in frozen[faulted:]])


def test_joints_with_limits_are_not_unwrapped(model: Model) -> None:
    controller = started(model, ControllerParameters(bad_samples=1))
    q = HOME.copy()
    q[1] += 2.0 * pi
    assert "joint_2 jumped by 6.28" in controller.update(0.001, q, STILL).reason
    with pytest.raises(TrajectoryError, match="stays in safe"):
        controller.set_trajectory(model.joint_names, [TrajectoryPoint(HOME)])
