"""A contact detector beside a Panda arm that is held at rest.

At rest the momentum is zero, so that the observer takes a difference between the measured torque
and the gravity torque for an external torque: tests prescribe the residual.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import (
    Model,
    gravity_torque,
)
from rbd_control.estimation import ContactDetector, ContactEvent, Detection, DetectorParameters

DT = 0.001


Q = np.array([0.1, -0.4, 0.2, -1.8, 0.3, 1.7, 0.6])


PARAMETERS = DetectorParameters(
    contact_threshold=(1.0,),
    collision_threshold=(10.0,),
    observer_gain=(100.0,),
    # Changes at rest have tests of their own.
    rest_threshold=(1e3,),
)


class Bench:
    """A detector and the time of its next sample."""

    def __init__(self, model: Model, parameters: DetectorParameters = PARAMETERS) -> None:
        self.detector = ContactDetector(model, parameters)
        self.g = gravity_torque(model, Q)
        self.q, self.v = Q, np.zeros(model.nv)
        self.t = 10.0
        self.jitter = 0.0
        self.events: list[ContactEvent] = []

    def run(
        self, duration: float, external: float | np.ndarray = 0.0, dt: float = DT
    ) -> list[Detection]:
        """Feed ``duration`` seconds under an external torque; the detections."""
        detections = []
        for _ in range(round(duration / dt)):
            self.t += dt
            self.jitter = -self.jitter  # so that moving samples do not look frozen
            q, tau = self.q + 1e-9 * np.sign(self.jitter), self.g - external + self.jitter
            detection = self.detector.update(self.t, q, self.v, tau)
            if detection.event:
                self.events.append(detection.event)
            detections.append(detection)
        return detections


def on_joint(index: int, torque: float) -> np.ndarray:
    external = np.zeros(7)
    external[index] = torque
    return external
