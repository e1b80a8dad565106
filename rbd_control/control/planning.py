"""Planning of trajectories from a snapshot of the controller, and their acceptance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion, Place
from rbd_control.control.planner import (
    PlannedTrajectory,
    PlanningState,
    TrajectoryRequest,
    plan,
    require_hold,
)
from rbd_control.control.samples import SampleJudge
from rbd_control.control.stream import StreamPoint
from rbd_control.control.trajectory import Trajectory
from rbd_control.control.trajectory_goal import TrajectoryGoal
from rbd_control.control.waypoints import Points, check_size
from rbd_control.dynamics import Model
from rbd_control.errors import StalePlanError, TrajectoryError

Array = NDArray[np.float64]

SMALL_PLAN = 50
"""Largest number of points of an outdated plan that :meth:`Planning.accept` plans again.

Planning of so many points takes less than 1 ms.
"""

LEAD = 0.005
"""Constant part of the default time from the start of planning to the start of the motion [s]."""

LEAD_PER_POINT = 2e-5
"""Time that each point adds to ``LEAD`` [s]."""


class Planning:
    """Plans trajectories, and passes accepted plans to the modes of the controller.

    :meth:`prepare` may run in another thread than all other calls: it reads the controller and
    changes nothing. :meth:`accept` takes microseconds. Call :meth:`set_parts` before all others.

    Args:
        model: the arm.
        samples: the measured state.
        motion: the desired motion.
        modes: the modes, which permit and follow trajectories.
    """

    def __init__(self, model: Model, samples: SampleJudge, motion: Motion, modes: Modes) -> None:
        self._model = model
        self._samples, self._motion, self._modes = samples, motion, modes
        self._continuous: Sequence[int] = samples.continuous.tolist()
        self._stream: StreamPoint | None = None
        self._streamed: Trajectory | None = None
        """The motion to the last point of the stream; another motion, such as a stop, ends it."""

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use the model, law, limits and parameters in ``parts`` from the next plan on."""
        self._model, self._law, self._limits = parts.model, parts.law, parts.limits
        self._soft, self._parameters = parts.soft, parts.parameters

    def forget_stream(self) -> None:
        """Forget the last point of a stream, so that the arm stops at the next single point.

        Call it when the unwrapping of continuous joints restarts: positions of the stream may then
        differ by whole turns.
        """
        self._stream = None

    def prepare(
        self,
        names: Sequence[str],
        points: Points,
        starts_in: float | None,
        lead: float | None,
        streams: bool = True,
    ) -> PlannedTrajectory:
        """Plan a trajectory that begins with the desired state at the time ``lead`` from now.

        Args:
            names, points: joint names and points, see :meth:`Waypoints.of`.
            starts_in: time from now to the points' time 0 [s]; None if their time 0 is the start of
                the motion.
            lead: time from now to the start of the motion, within which the plan should be accepted
                [s]; None for ``LEAD + LEAD_PER_POINT * len(points)``.
            streams: whether a single point may belong to a stream, whose points the arm passes
                without a stop.

        Returns:
            The plan, for :meth:`accept`.

        Raises:
            TrajectoryError: for points that are invalid or exceed limits, naming the point and the
                reason; for a posture on the way or at the end in which the motors cannot hold the
                arm; while the mode or a contact does not permit a trajectory, naming it.
        """
        check_size(self._model.joint_names, names, points)
        self._modes.require_free()
        if lead is None:
            lead = LEAD + LEAD_PER_POINT * len(points)
        # In this order: another thread may begin the waiting motion meanwhile.
        waiting = self._motion.waiting
        place, samples = self._motion.place, self._samples
        present = (place.trajectory, waiting.trajectory if waiting else None)
        is_streaming = any(each is self._streamed for each in present)
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
            stream=self._stream if is_streaming else None,
        )
        request = TrajectoryRequest(names, points, starts_in, samples.now, streams)
        return plan(self._model, self._continuous, request, state)

    def require_hold(self, place: Place) -> None:
        """Raise an error if the motors cannot hold the arm on the rest of a trajectory.

        :func:`~rbd_control.control.planner.require_hold` has the rule; the start is the measured
        position.

        Args:
            place: the trajectory, and the time on it from which it goes on.

        Raises:
            TrajectoryError: naming the joint, its gravity torque and its limit.
        """
        self._law.take_estimates()
        require_hold(self._limits, self._law.weight, self._samples.q, place.trajectory, place.time)

    def require_hold_ahead(self, limits: ArmLimits, weight: Callable[[Array], Array]) -> None:
        """Raise an error if the motors could not hold the arm on its present trajectories.

        These are the rest of the followed trajectory, and the trajectory that waits for its splice.
        Without a trajectory nothing is checked.

        Args:
            limits: limits of the arm; ``weight`` is used.
            weight: function that returns gravity torques, see :class:`PlanningState`.

        Raises:
            TrajectoryError: as :meth:`require_hold`.
        """
        for place in self._ahead():
            require_hold(limits, weight, self._samples.q, place.trajectory, place.time)

    def require_speed_ahead(self) -> None:
        """Raise an error if a present trajectory is faster than the present speed limits.

        The trajectories are those of :meth:`require_hold_ahead`.

        Raises:
            TrajectoryError: naming the segment, the joint and its limit.
        """
        limits = self._soft.now()
        for place in self._ahead():
            place.trajectory.check_speeds(limits, place.time)

    def _ahead(self) -> list[Place]:
        """Return the trajectory that is followed and the one that waits for its splice."""
        if self._modes.mode != "follow":
            return []
        waiting = self._motion.waiting
        followed = [self._motion.place]
        if waiting is not None:
            followed.append(Place(waiting.trajectory, 0.0))
        return followed

    def accept(self, planned: PlannedTrajectory, goal: TrajectoryGoal | None = None) -> None:
        """Follow a plan from its splice on.

        This takes microseconds, or about 1 ms if the plan must be repeated.

        A plan is out of date if parameters, model or motion have changed since, or if a motion
        in progress has passed the splice (``planned.state.splice``). A plan of up to ``SMALL_PLAN``
        points is then repeated at once.

        Args:
            planned: the plan.
            goal: receives the outcome of the trajectory; None if no sender waits for it.

        Raises:
            TrajectoryError: if the mode or a contact does not permit a trajectory, or the repeated
                plan fails.
            StalePlanError: for a large plan that is out of date.
        """
        self._modes.require_free()
        if not self._fits(planned):
            request = planned.request
            if len(request.points) > SMALL_PLAN:
                raise StalePlanError(
                    "the plan is out of date: motion, model or parameters have changed since, or "
                    "the motion has passed the start of the plan; plan it again"
                )
            starts_in = request.starts_in
            if starts_in is not None:
                starts_in -= self._samples.now - request.asked
            names, points = request.names, request.points
            try:
                planned = self.prepare(names, points, starts_in, 0.0, request.streams)
            except TrajectoryError:
                raise
            except Exception as error:  # from numbers that passed all checks of the input
                text = f"planning failed: {type(error).__name__}: {error}"
                raise TrajectoryError(text) from error
        self._modes.follow(planned.trajectory, planned.state.splice, goal)
        self._stream, self._streamed = planned.stream, planned.trajectory

    def _fits(self, planned: PlannedTrajectory) -> bool:
        """Return whether a plan continues the present motion."""
        state, place = planned.state, self._motion.place
        # New limits come with new parameters and with a new model, for example another payload. A
        # plan that was begun amid a change has either old parameters or old limits.
        if state.parameters is not self._parameters or state.limits is not self._limits:
            return False
        if state.base is not place.trajectory:
            return False
        # From rest a motion may begin later than it was planned to.
        return place.time <= state.splice or state.splice >= place.trajectory.duration
