"""From the points of a message to a motion, by the rules that the parameters choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.stream import Stream
from rbd_control.control.time_scaling import stretched
from rbd_control.control.trajectory import DesiredState, Trajectory, TrajectoryPoint
from rbd_control.dynamics import Model
from rbd_control.dynamics.model import REVOLUTE


class Planner:
    """Makes the trajectories of one arm; :meth:`set_parameters` comes first.

    It remembers the last single point, to know a stream of them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        revolute = model.arrays.joint_type[: model.nv] == REVOLUTE
        self._turning: list[int] = np.flatnonzero(revolute & np.isinf(model.lower_limit)).tolist()
        self._stream = Stream()

    def set_parameters(self, parameters: ControllerParameters, soft: SoftLimits) -> None:
        """Use these from now on.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        share = parameters.for_joints("torque_share", self._model.nv)
        self._largest = share * self._model.effort_limit
        self._parameters, self._soft = parameters, soft

    def plan(
        self,
        names: Sequence[str],
        points: Sequence[TrajectoryPoint],
        *,
        start: DesiredState,
        delay: float,
        stamp: float,
    ) -> Trajectory:
        """The motion through the points, or past the point of a stream.

        Args:
            names, points, start, delay: see :meth:`Trajectory.from_points`.
            stamp: time of the last joint state [s].

        Raises:
            TrajectoryError: saying which point and why.
        """
        p, soft, model = self._parameters, self._soft, self._model

        def build(slower: float, limits: SoftLimits | None = None) -> Trajectory:
            return Trajectory.from_points(
                model.joint_names,
                names,
                points,
                start=start,
                limits=limits,
                delay=delay,
                partial=p.allow_partial_joints_goal,
                turning=self._turning if p.angle_wraparound else (),
                slower=slower,
            )

        if len(points) == 1 and points[0].time_from_start + delay <= p.stream_horizon:
            past = self._stream.follow(build(1.0), start, stamp, p.stream_horizon, soft)
            if past is not None:
                return past
        if not p.stretch_to_limits:
            return build(1.0, soft)
        trajectory = stretched(build, model, self._largest)
        trajectory.check(soft, start)
        return trajectory
