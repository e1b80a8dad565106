"""Short runs through all compiled code that a node needs, so that none is left to compile later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rbd_control.dynamics import Model, frame_placement

if TYPE_CHECKING:
    from rbd_control.control import PassivityController
    from rbd_control.estimation import DetectorParameters
    from rbd_control.simulation import SimulatedArm


def rehearse_intake() -> None:
    """Judge a joint-state message."""
    from rbd_control.joint_states import JointStateIntake

    JointStateIntake(("joint",)).accept(1.0, 1.0, ("joint",), [0.0], [0.0], [0.0])


def rehearse_detector(model: Model, parameters: DetectorParameters) -> None:
    """Let a detector of these parameters go through a contact, and place the link it names."""
    from rbd_control.estimation import ContactDetector

    step = min(0.005, parameters.maximum_gap)
    # In a hurry, so that it takes a few samples; an onset is looked for in those before it.
    hasty = replace(
        parameters, settling_time=0.0, onset_debounce=10.0 * step, observer_gain=(100.0,)
    )
    detector = ContactDetector(model, hasty)
    rest, zero = np.zeros(model.nq), np.zeros(model.nv)
    strong = 10.0 * detector.contact_threshold + 1000.0
    for k in range(1000):
        if detector.update(k * step, rest, zero, strong).contact:
            break
    frame_placement(model, rest, model.joint_links[-1])


def rehearse_controller(controller: PassivityController) -> None:
    """Let a controller, which is not to be used further, hold an arm for one period."""
    rest, zero = np.zeros(controller.model.nq), np.zeros(controller.model.nv)
    controller.start(0.0, rest, zero)
    controller.update(0.001, rest, zero)


def rehearse_arm(arm: SimulatedArm) -> None:
    """Push a simulated arm, which is not to be used further, for one period."""
    arm.push(arm.model.joint_links[-1], (1.0, 0.0, 0.0))
    arm.step()
    assert arm.contacts
