"""Path tolerance, goal tolerance and tracking limit of a trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import fields
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.gains import largest_inertia
from rbd_control.control.kernels import first_beyond
from rbd_control.control.motion_parameters import TrajectoryParameters
from rbd_control.control.waypoints import TrajectoryJointsError
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.wording import listed, quoted

Array = NDArray[np.float64]

LONGEST_GOAL_TIME: float = next(
    item.metadata["upper"] for item in fields(TrajectoryParameters) if item.name == "goal_time"
)
"""Longest time after the last point of a trajectory until the arm must reach its goal [s].

It is the upper bound of the parameter ``goal_time``.
"""

ERASED = -1.0
"""Value of a goal's tolerance that removes the limit of the parameters, as in control_msgs."""


class JointTolerance(NamedTuple):
    """Tolerances that a goal specifies for one joint, as in ``control_msgs/JointTolerance``.

    A goal is a request of the action. A value of 0 keeps the tolerance of the parameters, -1
    removes it. A path tolerance limits the difference to the desired motion, a goal tolerance the
    difference to the last point at rest.
    """

    name: str
    """Name of the joint."""
    position: float = 0.0
    """Largest difference of position [rad or m]."""
    velocity: float = 0.0
    """Largest difference of velocity [rad/s or m/s]."""


LIGHT, STIFF_LIMIT, SOFT_LIMIT = 0.1, 0.5, 1.5
"""Inertia below which a hand turns a joint easily [kg·m² or kg]; default of ``tracking_limit`` for
heavier and for lighter joints [rad or m]."""


class Tolerances:
    """Judges how well the arm keeps to its desired motion.

    It checks the path tolerance during a trajectory, the goal tolerance (position and speed) at its
    end, and the limit above which the tracking error is a fault.

    Args:
        model: the arm.
        parameters: ``path_tolerance``, ``goal_tolerance``, ``stopped_velocity_tolerance``,
            ``goal_time`` and ``tracking_limit``.

    Attributes:
        goal_time: time after the last point within which the goal must be reached [s].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters) -> None:
        n = model.nv
        self._names = model.joint_names
        self._path = _or_infinite(parameters.for_joints("path_tolerance", n))
        self._path_velocity: Array | None = None
        limit = parameters.for_joints("tracking_limit", n)
        usual = np.where(largest_inertia(model) < LIGHT, SOFT_LIMIT, STIFF_LIMIT)
        self._fault = np.where(limit > 0.0, limit, usual)
        self._goal = parameters.for_joints("goal_tolerance", n)
        self._stopped = np.full(n, parameters.stopped_velocity_tolerance)
        self.goal_time = parameters.goal_time

    def of_goal(
        self, path: Sequence[JointTolerance], goal: Sequence[JointTolerance], goal_time: float
    ) -> Tolerances:
        """Return a copy with the tolerances that a goal of the action specifies.

        Args:
            path: tolerances while the trajectory lasts.
            goal: tolerances at its end; their velocity replaces ``stopped_velocity_tolerance``.
            goal_time: as the attribute [s]; 0 keeps the value of the parameters. -1 and longer
                times are replaced by ``LONGEST_GOAL_TIME``: without any limit the arm would press
                against an obstacle for ever.

        Raises:
            TrajectoryJointsError: for a joint that the arm does not have.
            TrajectoryError: for a tolerance or time that is not finite, or negative and not -1.
        """
        own = copy(self)
        endless = np.full(len(self._names), inf)
        own._path = self._own("path_tolerance", "position", path, self._path, endless)
        own._path_velocity = self._own("path_tolerance", "velocity", path, None, endless)
        own._goal = self._own("goal_tolerance", "position", goal, self._goal, self._goal)
        own._stopped = self._own("goal_tolerance", "velocity", goal, self._stopped, self._stopped)
        if goal_time:
            _check("goal_time_tolerance", goal_time)
            is_erased = goal_time == ERASED
            own.goal_time = LONGEST_GOAL_TIME if is_erased else min(goal_time, LONGEST_GOAL_TIME)
        return own

    def strayed(self, q: Array, v: Array, q_d: Array, v_d: Array) -> str:
        """Return a message if a joint violates its path tolerance, otherwise an empty text.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d: desired positions and velocities, with the same shapes and units. Velocities
                are compared only if a goal specifies a tolerance for them.
        """
        far = self._beyond(q, q_d, self._path, "its path; its tolerance")
        if far or self._path_velocity is None:
            return far
        return self._beyond(v, v_d, self._path_velocity, "the velocity of its path; its tolerance")

    def lost(self, q: Array, q_d: Array) -> str:
        """Return a message if a tracking error exceeds ``tracking_limit``, otherwise an empty text.

        Args:
            q, q_d: measured and desired positions, (nv,) each [rad or m].
        """
        return self._beyond(q, q_d, self._fault, "its desired position; its tracking_limit")

    def reached(self, q: Array, v: Array, goal: Array) -> bool:
        """Return whether every joint is within its goal tolerance and almost at rest.

        Almost at rest is a speed of at most ``stopped_velocity_tolerance``, or of at most the
        velocity tolerance of the goal of the action if it specifies one.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            goal: (nv,) last point of the trajectory [rad or m].
        """
        near = (np.abs(q - goal) <= self._goal).all()
        return bool(near and (np.abs(v) <= self._stopped).all())

    def missed(self, q: Array, v: Array, goal: Array) -> str:
        """Return a message if :meth:`reached` is false, otherwise an empty text.

        The message names the first joint that is too far from the goal, or else too fast. The
        arguments are those of :meth:`reached`.
        """
        far = self._beyond(q, goal, self._goal, "its goal; its tolerance")
        return far or self._beyond(v, np.zeros_like(v), self._stopped, "rest; its tolerance")

    def _own(
        self,
        what: str,
        field: str,
        given: Sequence[JointTolerance],
        before: Array | None,
        default: Array,
    ) -> Array:
        """Return ``before``, or else ``default``, (n,), updated by the values that a goal gives."""
        limits = (default if before is None else before).copy()
        for tolerance in given:
            if tolerance.name not in self._names:
                raise TrajectoryJointsError(
                    f"{what} names joint {quoted(tolerance.name)}; joints are {listed(self._names)}"
                )
            value = float(getattr(tolerance, field))
            _check(f"{what}, joint {quoted(tolerance.name)}: {field}", value)
            if value:
                limits[self._names.index(tolerance.name)] = inf if value == ERASED else value
        return limits

    def _beyond(self, q: Array, q_d: Array, most: Array | None, what: str) -> str:
        j = -1 if most is None else first_beyond(q, q_d, most)
        if most is None or j < 0:
            return ""
        return f"{self._names[j]} is {abs(q[j] - q_d[j]):.4g} from {what} is {most[j]:g}"


def _check(what: str, value: float) -> None:
    if not (0.0 <= value < inf or value == ERASED):
        raise TrajectoryError(
            f"{what} is {value:g}; give a finite tolerance, 0 for the default or -1 for none"
        )


def _or_infinite(limits: Array) -> Array | None:
    """Return limits with zeros replaced by infinity, or None if all limits are zero."""
    return np.where(limits > 0.0, limits, np.inf) if limits.any() else None
