"""Preparation of trajectories from a snapshot of the controller, and their acceptance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.planner import (
    PlannedTrajectory,
    PlanningState,
    TrajectoryRequest,
    plan,
    require_hold,
)
from rbd_control.control.samples import SampleJudge
from rbd_control.control.stream import StreamPoint
from rbd_control.control.trajectory_goal import TrajectoryGoal
from rbd_control.control.waypoints import Points, check_size
from rbd_control.dynamics import Model
from rbd_control.errors import StalePlanError

Array = NDArray[np.float64]

SMALL_PLAN = 50
"""Largest number of points of an outdated plan that is repeated at once, in less than 1 ms."""

LEAD = 0.005
"""Shortest time from the start of planning to the start of the motion [s]."""

LEAD_PER_POINT = 2e-5
"""Time that each point adds to ``LEAD`` [s]."""


class Planning:
    """Prepares trajectories and passes them to the modes.

    :meth:`prepare` may run in another thread than all other calls: it reads the controller and
    changes nothing. :meth:`accept` takes microseconds.

    Args:
        model: the arm.
        samples, motion, modes: parts of the controller; ``modes`` follows accepted trajectories.
    """

    def __init__(self, model: Model, samples: SampleJudge, motion: Motion, modes: Modes) -> None:
        self._model = model
        self._samples, self._motion, self._modes = samples, motion, modes
        self._continuous: Sequence[int] = samples.continuous.tolist()
        self._stream: StreamPoint | None = None

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Apply new rules, limits or another payload from the next plan on."""
        self._model, self._law, self._limits = parts.model, parts.law, parts.limits
        self._soft, self._parameters = parts.soft, parts.parameters

    def forget_stream(self) -> None:
        """Treat the next single point as a goal, because the unwrapping may have changed."""
        self._stream = None

    def prepare(
        self,
        names: Sequence[str],
        points: Points,
        starts_in: float | None,
        lead: float | None,
        streams: bool = True,
    ) -> PlannedTrajectory:
        """Plan a trajectory that begins with the state of the motion ``lead`` from now.

        Args:
            names, points: see :meth:`Waypoints.of`.
            starts_in: when the points' time begins [s from now]; None for at once.
            lead: time for planning [s]; None for ``LEAD`` and ``LEAD_PER_POINT`` for each point.
            streams: whether a single point may belong to a stream, which passes it with speed.

        Raises:
            TrajectoryError: naming the point and the reason, or the mode that must end first.
        """
        check_size(self._model.joint_names, names, points)
        self._modes.require_free()
        if lead is None:
            lead = LEAD + LEAD_PER_POINT * len(points)
        place, samples = self._motion.place, self._samples
        splice = place.time + self._motion.pace * lead
        state = PlanningState(
            parameters=self._parameters,
            limits=self._limits,
            soft=self._soft.now(),
            weight=self._law.weight,
            base=place.trajectory,
            splice=splice,
            start=place.trajectory.sample(splice),
            lead=lead,
            stamp=samples.stamp,
            turned=samples.turned,
            stream=self._stream,
        )
        request = TrajectoryRequest(names, points, starts_in, samples.now, streams)
        return plan(self._model, self._continuous, request, state)

    def require_hold(self, end: Array) -> None:
        """Raise an error if the motors cannot hold the arm at ``end``, (nv,) [rad or m].

        Raises:
            TrajectoryError: naming the joint, its gravity torque and its limit.
        """
        self._law.take_estimates()
        require_hold(self._limits, self._law.weight, self._samples.q, end)

    def accept(self, planned: PlannedTrajectory, goal: TrajectoryGoal | None = None) -> None:
        """Follow a plan from its splice on; this takes microseconds.

        A plan is out of date if the parameters or the motion have changed since. A plan of up to
        ``SMALL_PLAN`` points is then repeated at once.

        Args:
            planned: the plan.
            goal: receives the outcome of the trajectory; None if no sender waits for it.

        Raises:
            TrajectoryError: if the mode does not permit a trajectory, or the repeated plan fails.
            StalePlanError: for a large plan that is out of date.
        """
        self._modes.require_free()
        if not self._fits(planned):
            request = planned.request
            if len(request.points) > SMALL_PLAN:
                raise StalePlanError(
                    "the motion that the trajectory was planned from has ended or gone on: plan "
                    "it again"
                )
            starts_in = request.starts_in
            if starts_in is not None:
                starts_in -= self._samples.now - request.asked
            planned = self.prepare(request.names, request.points, starts_in, 0.0, request.streams)
        self._modes.follow(planned.trajectory, planned.state.splice, goal)
        self._stream = planned.stream

    def _fits(self, planned: PlannedTrajectory) -> bool:
        """Return whether a plan continues the present motion."""
        state, place = planned.state, self._motion.place
        if state.parameters is not self._parameters or state.base is not place.trajectory:
            return False
        # From rest a motion may begin later than it was planned to.
        return place.time <= state.splice or state.splice >= place.trajectory.duration
