"""Defects that the state machines found, each in the fewest steps that show it."""

from __future__ import annotations

import numpy as np

from rbd_control.control import ControllerParameters, PassivityController
from rbd_control.dynamics import gravity_torque
from stateful.arms import make_arm


def test_no_fault_without_a_cause_on_an_arm_that_rests_with_a_speed_of_rounding() -> None:
    # A simulated arm without noise ends where q + v dt == q, with v of this size, for ever.
    arm = make_arm("pendulum")
    q, v = arm.home, np.array([0.0, 6e-17])
    effort = gravity_torque(arm.model, q)
    controller = PassivityController(arm.model, ControllerParameters())
    controller.start(0.0, q, v)
    for k in range(1, 60):
        command = controller.update(0.001 * k, q, v, 0.001 * k, effort)
    assert command.mode == "hold", command.reason
