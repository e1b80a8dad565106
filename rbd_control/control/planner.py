"""Planning of a motion from the points of a message, by the rules that the parameters select.

A plan is a pure function of the request and of a snapshot of the controller, so that another thread
can compute it while the arm moves. The plan contains its snapshot: before the motion is followed,
the controller compares the snapshot with its present state.
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


@dataclass(frozen=True, eq=False)
class TrajectoryRequest:
    """A requested trajectory.

    Attributes:
        names, points: see :meth:`Waypoints.of`.
        starts_in: when the points' time begins [s from ``asked``]; None for at once.
        asked: when the request came, on the controller's steady clock [s].
        streams: whether a single point may belong to a stream, and be passed without a stop.
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
        parameters, limits, soft: rules and limits.
        weight: returns the largest gravity torque of each joint at positions (nv,), (nv,)
            [N·m or N].
        base: the motion that the new motion replaces.
        splice: the time on ``base`` at which it is replaced [s].
        start: the desired state at the splice.
        lead: time from the snapshot to the splice [s].
        stamp: time of the last joint state [s].
        turned: offset that unwrapping added to the reported positions [rad]; None means zero.
        stream: the last single point, if any.
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
    """A planned motion with its request and its snapshot."""

    request: TrajectoryRequest
    state: PlanningState
    trajectory: Trajectory
    stream: StreamPoint | None
    """The single point at its end, which identifies a stream when the next point arrives."""


def plan(
    model: Model, continuous: Sequence[int], request: TrajectoryRequest, state: PlanningState
) -> PlannedTrajectory:
    """Return the motion through the points of a request, or past the point of a stream.

    Args:
        model: the arm.
        continuous: indices of its continuous joints.
        request: the requested trajectory.
        state: the snapshot of the controller.

    Raises:
        TrajectoryError: naming the point and the reason.
    """
    p = state.parameters
    waypoints = Waypoints.of(
        model.joint_names, request.names, request.points, p.allow_partial_joints_goal
    )
    delay = 0.0 if request.starts_in is None else request.starts_in - state.lead

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

    last = arrived = state.stream if request.streams else None
    is_single = request.streams and len(waypoints.times) == 1
    if is_single and waypoints.times[0] + delay <= p.stream_horizon:
        point = build(1.0)
        arrived = StreamPoint(point.final, state.stamp)
        if last is not None and 0.0 <= state.stamp - last.stamp <= 2.0 * p.stream_horizon:
            past = past_point(
                point, state.start, last, state.stamp, p.stream_horizon, state.soft, p.stop_time
            )
            require_hold(state.limits, state.weight, state.start.q_d, past.final)
            return PlannedTrajectory(request, state, past, arrived)
    if p.stretch_to_limits:
        trajectory = stretched(build, model, state.limits)
        trajectory.check(state.soft, state.start)
    else:
        trajectory = build(1.0, state.soft)
    require_hold(state.limits, state.weight, state.start.q_d, trajectory.final)
    return PlannedTrajectory(request, state, trajectory, arrived)


def require_hold(
    limits: ArmLimits, weight: Callable[[Array], Array], start: Array, end: Array
) -> None:
    """Raise an error if the motors cannot hold the arm at the end of a motion.

    If they cannot hold it at the start either, an end that is no heavier is accepted.

    Args:
        limits: limits of the arm.
        weight: see :class:`PlanningState`.
        start, end: positions at the start and at the end, (nv,) each [rad or m].

    Raises:
        TrajectoryError: naming the joint, its gravity torque and its limit.
    """
    limit = limits.weight
    accepted = needed_share(weight(start), limit)
    try:
        require_weight(limits.joint_names, weight(end), limit, accepted, "at the last point")
    except InputError as error:
        raise TrajectoryError(str(error)) from error
