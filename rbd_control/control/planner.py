"""Planning of a motion from the points of a trajectory message.

The parameters ``allow_partial_joints_goal``, ``angle_wraparound``, ``stretch_to_limits`` and
``stream_horizon`` select the rules. A plan is a pure function of the request and of a snapshot of
the controller, so that another thread can compute it while the arm moves. The plan contains its
snapshot: before the arm follows the planned motion, the controller compares the snapshot with its
present state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.soft_limits import PositionLimits
from rbd_control.control.stream import StreamPoint, past_point
from rbd_control.control.time_scaling import stretched
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.control.waypoints import Points, Waypoints
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError
from rbd_control.robot.weight import needed_share, require_weight

Array = NDArray[np.float64]

_STEP = 0.04
"""Travel between two positions at which the gravity torque is computed [rad or m].

It is the sum of all joints. A peak between two positions is higher by about 0.1 % at the peak speed
of a quintic from rest to rest, and by at most 0.5 % where a joint moves as unevenly as it can.
"""

_POSITIONS = 2000
"""Approximate number of these positions beside two for each segment, at most.

It bounds the time of the check, which ``~/resume`` and changes of parameters make in the control
loop: about 2 ms for 2000 points. The joints of a longer way (80 rad in total) travel further than
:data:`_STEP` between two positions.
"""

_BATCH = 1000
"""Number of positions whose gravity torques are computed at once, too few for several threads.

Further threads could delay the control loop. The arrays of one batch remain in the cache.
"""

_ROUNDING = 1e-9
"""Relative error of gravity torques that are equal, for example after a turn about the vertical."""


@dataclass(frozen=True, eq=False)
class TrajectoryRequest:
    """A requested trajectory.

    Attributes:
        names, points: joint names and points, see :meth:`Waypoints.of`.
        starts_in: time from ``asked`` to the points' time 0 [s]; None if their time 0 is the start
            of the planned motion.
        asked: arrival of the last valid joint state before the request, on the steady clock [s].
        streams: whether a single point may belong to a stream, whose points the arm passes without
            a stop, see :mod:`~rbd_control.control.stream`.
    """

    names: Sequence[str]
    points: Points
    starts_in: float | None
    asked: float
    streams: bool = True


@dataclass(frozen=True, eq=False)
class PlanningState:
    """A snapshot of the controller with everything that a plan depends on.

    Attributes:
        parameters: parameters of the controller, which select the rules of planning.
        limits: limits of torque and speed.
        soft: soft position limits at the time of the snapshot.
        weight: function from positions, (..., nv) [rad or m], to the largest gravity torque of each
            joint, (..., nv) [N·m or N].
        base: the motion that the new motion replaces.
        splice: the time on ``base`` at which the new motion replaces it [s].
        start: the state of ``base`` at the splice, at full speed.
        lead: real time from the snapshot to the splice [s].
        stamp: stamp of the last valid joint state [s].
        turned: (nv,) offset that unwrapping added to the reported positions [rad]; None means zero.
        stream: the point of the previous request, if that was a single point which may belong to a
            stream, and the arm still moves to it or rests there; otherwise None.
    """

    parameters: ControllerParameters
    limits: ArmLimits
    soft: PositionLimits
    weight: Callable[[Array], Array]
    base: Trajectory
    splice: float
    start: DesiredState
    lead: float
    stamp: float
    turned: Array | None
    stream: StreamPoint | None


@dataclass(frozen=True, eq=False)
class PlannedTrajectory:
    """A planned motion with its request and its snapshot.

    Attributes:
        request: the requested trajectory.
        state: the snapshot of the controller from which the motion was planned.
        trajectory: the planned motion; it begins at ``state.splice`` on ``state.base``.
    """

    request: TrajectoryRequest
    state: PlanningState
    trajectory: Trajectory
    stream: StreamPoint | None
    """The point of this request, with which the next request is compared to find a stream.

    It is None unless the request is a single point due within ``stream_horizon`` and its
    ``streams`` is true.
    """


def plan(
    model: Model, continuous: Sequence[int], request: TrajectoryRequest, state: PlanningState
) -> PlannedTrajectory:
    """Plan the motion through the points of a request, or past the point of a stream.

    A single point that is due within ``stream_horizon`` is passed without a stop if another such
    point arrived at most ``2 stream_horizon`` earlier.

    Args:
        model: the arm.
        continuous: indices of the continuous joints. With ``angle_wraparound`` their positions are
            shifted by the whole turns that bring the first point nearest to the start.
        request: the requested trajectory.
        state: the snapshot of the controller.

    Raises:
        TrajectoryError: for points that are invalid or exceed limits, and for a posture on the way
            or at the end in which the motors cannot hold the arm; naming the point or the joint,
            and the reason.
    """
    p = state.parameters
    waypoints = Waypoints.of(
        model.joint_names, request.names, request.points, p.allow_partial_joints_goal
    )
    delay = _delay(waypoints, request.starts_in, state.lead)

    def build(slower: float, limits: PositionLimits | None = None) -> Trajectory:
        return Trajectory.through(
            waypoints,
            start=state.start,
            limits=limits,
            delay=delay,
            turning=continuous if p.angle_wraparound else (),
            slower=slower,
            turned=state.turned,
        )

    def hold(trajectory: Trajectory) -> None:
        require_hold(state.limits, state.weight, state.start.q_d, trajectory)

    arrived, last = None, state.stream
    may_stream = request.streams and len(waypoints.times) == 1 and p.stream_horizon > 0.0
    if may_stream and waypoints.times[0] + delay <= p.stream_horizon:
        point = build(1.0)
        arrived = StreamPoint(point.final, state.stamp)
        if last is not None and 0.0 <= state.stamp - last.stamp <= 2.0 * p.stream_horizon:
            past = past_point(
                point,
                state.start,
                last,
                state.stamp,
                p.stream_horizon,
                state.soft,
                p.stop_time,
                hold,
            )
            return PlannedTrajectory(request, state, past, arrived)
    if p.stretch_to_limits:
        trajectory = stretched(build, model, state.limits, state.start)
        trajectory.check(state.soft, state.start)
    else:
        trajectory = build(1.0, state.soft)
    hold(trajectory)
    return PlannedTrajectory(request, state, trajectory, arrived)


def _delay(waypoints: Waypoints, starts_in: float | None, lead: float) -> float:
    """Return the time from the splice to the points' time 0 [s]; negative for a time before it.

    A last point that is due between the snapshot and the splice is due at the splice.

    Args:
        waypoints: the points.
        starts_in: time from the snapshot to the points' time 0 [s]; None for the splice.
        lead: time from the snapshot to the splice [s].
    """
    if starts_in is None:
        return 0.0
    last = float(waypoints.times[-1])
    return max(starts_in - lead, -last) if starts_in + last >= 0.0 else starts_in - lead


def require_hold(
    limits: ArmLimits,
    weight: Callable[[Array], Array],
    start: Array,
    trajectory: Trajectory,
    since: float = 0.0,
) -> None:
    """Raise an error if the motors cannot hold the arm on the way or at the end of a trajectory.

    They cannot if the gravity torque of a joint exceeds ``limits.weight``. For a joint that exceeds
    it at the start already, postures are accepted in which the torque is no larger than at the
    start. The way is sampled in steps of :data:`_STEP`, and at each knot.

    Args:
        limits: limits of the arm; ``weight`` is used.
        weight: function that returns gravity torques, see :class:`PlanningState`.
        start: positions at the start, (nv,) [rad or m].
        trajectory: the trajectory.
        since: time on the trajectory from which the way is checked [s]; with the duration of the
            trajectory only its end is.

    Raises:
        TrajectoryError: naming the joint, its gravity torque, its limit, and the time on the way.
    """
    names, limit = limits.joint_names, limits.weight
    accepted = np.maximum(needed_share(weight(start), limit) * (1.0 + _ROUNDING), 1.0)
    try:
        require_weight(names, weight(trajectory.final), limit, accepted, "at the last point")
        if since >= trajectory.duration:
            return
        times, positions = trajectory.path(_STEP, _POSITIONS, since)
        for begin in range(0, len(positions), _BATCH):
            weights = weight(positions[begin : begin + _BATCH])
            heavy = np.flatnonzero((needed_share(weights, limit) > accepted).any(axis=-1))
            for i in heavy[:1]:
                place = f"on the way to the last point, after {times[begin + i]:.3g} s"
                require_weight(names, weights[i], limit, accepted, place)
    except InputError as error:
        raise TrajectoryError(str(error)) from error
