"""Path tolerance, goal tolerance and tracking limit of a trajectory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import first_beyond

Array = NDArray[np.float64]


class Tolerances:
    """Compares the arm with its desired motion.

    Args:
        joint_names: names of the joints.
        parameters: tolerances, and limits of the tracking error.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, joint_names: tuple[str, ...], parameters: ControllerParameters) -> None:
        self._names = joint_names
        self._path = _or_infinite(parameters.for_joints("path_tolerance", len(joint_names)))
        self._fault = _or_infinite(parameters.for_joints("tracking_limit", len(joint_names)))
        self._goal = parameters.for_joints("goal_tolerance", len(joint_names))
        self._stopped = parameters.stopped_velocity_tolerance

    def strayed(self, q: Array, q_d: Array) -> str:
        """Return a message if a joint is outside its path tolerance; else an empty text."""
        return self._beyond(q, q_d, self._path, "its path; its tolerance")

    def lost(self, q: Array, q_d: Array) -> str:
        """Return a message if a tracking error is a fault; else an empty text."""
        return self._beyond(q, q_d, self._fault, "its desired position; its tracking_limit")

    def reached(self, q: Array, v: Array, goal: Array) -> bool:
        """Return whether every joint is within its goal tolerance and almost at rest."""
        near = (np.abs(q - goal) <= self._goal).all()
        return bool(near and np.abs(v).max() <= self._stopped)

    def _beyond(self, q: Array, q_d: Array, most: Array | None, what: str) -> str:
        j = -1 if most is None else first_beyond(q, q_d, most)
        if most is None or j < 0:
            return ""
        return f"{self._names[j]} is {abs(q[j] - q_d[j]):.4g} from {what} is {most[j]:g}"


def _or_infinite(limits: Array) -> Array | None:
    """Return limits with infinity for zero, or None without any."""
    return np.where(limits > 0.0, limits, np.inf) if limits.any() else None
