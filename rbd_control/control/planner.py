"""Planning of motions: from the points of a message to a trajectory, and streams.

**Streams of single points, for example from teleoperation, which the arm passes without a stop.**

Each point arrives before the previous point is reached. If each point were a goal, the arm would
slow down at every point. Instead the arm passes a point with the speed from point to point, but at
most the average speed needed to reach it, and not in the opposite direction: a quintic with such
ends does not overshoot. If no more points arrive, the arm stops at the last point: it goes on with
decreasing speed and returns, which takes at least the duration of a stop. A point that is late by a
fraction of its period therefore does not make the arm brake. If the acceleration on the way to a
point is high, the arm passes the point later, see :func:`past_point`.

**Planning of a motion from the points of a trajectory message.**

The parameters ``allow_partial_joints_goal``, ``angle_wraparound``, ``stretch_to_limits`` and
``stream_horizon`` select the rules. A plan is a pure function of the request and of a snapshot of
the controller, so that another thread can compute it while the arm moves. The plan contains its
snapshot: before the arm follows the planned motion, the controller compares the snapshot with its
present state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.control.limits import ArmLimits, PositionLimits
from rbd_control.control.motion import DesiredMotion, Place
from rbd_control.control.samples import SampleJudge
from rbd_control.control.trajectory import (
    DesiredState,
    JointLimits,
    Trajectory,
    highest_speeds,
    largest_effort,
)
from rbd_control.control.waypoints import Points, Waypoints, check_size
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.errors import InputError, StalePlanError, TrajectoryError
from rbd_control.robot.payload import needed_share, require_weight

if TYPE_CHECKING:
    from rbd_control.control.configuration import Setup
    from rbd_control.control.modes import Modes

Array = NDArray[np.float64]

_STATES = 600
"""Approximate number of states of a short trajectory at which its torque is computed."""

_MOST_STATES = 10000
"""Approximate number of states of a long trajectory, which take about 10 ms."""

_INTERVALS = (4, 10, 48)
"""Numbers of intervals of a segment at whose ends speed and torque are computed.

The smallest number, the smallest number for up to 900 segments, and the largest number. They are
even, because a quintic from rest to rest is fastest in its middle. Its highest acceleration lies
beside the ends of intervals: it is higher than there by 3 % with 4 intervals, by 0.3 % with 10. No
segment may be left out: a motion that repeats itself would show the same states each time.
"""

_BATCH = 1000
"""Number of states whose torques are computed at once, too few for several threads.

Further threads could delay the control loop.
"""

_STRETCHES = 10
"""Maximum number of time factors that are tried."""


def stretched(
    build: Callable[[float], Trajectory], model: Model, limits: ArmLimits, start: DesiredState
) -> Trajectory:
    """Return ``build(slower)`` with about the smallest ``slower >= 1`` that keeps the limits.

    Multiplication of all times by ``slower`` divides speeds by ``slower`` and the torque beyond
    gravity by its square. For a trajectory that starts at rest this gives ``slower`` directly, up
    to 0.1 % too large. From a moving arm, whose initial speed is fixed, the factor is found
    iteratively. Limits are compared at sampled states; position limits are not checked. A joint
    that exceeds its limit of speed at the start may exceed it as much on the way, and with the
    factor 1 this holds for the torque of the start's acceleration as well.

    Args:
        build: function from the factor on all times to the trajectory; it checks no limits.
        model: the arm.
        limits: limits of the arm; ``velocity`` and ``torque`` are used.
        start: the state from which all trajectories begin.

    Raises:
        TrajectoryError: if a gravity torque on the path exceeds its limit; if ten factors in a row
            are too small; and errors of ``build``.
    """
    slower = 1.0
    for _ in range(_STRETCHES):
        trajectory = build(slower)
        excess = _excess(trajectory, model, limits, start)
        if excess <= 1.0:
            return trajectory
        slower *= 1.001 * excess
    raise TrajectoryError(
        f"the trajectory exceeds the limits of speed or effort even {slower:.3g} times slower"
    )


def _excess(trajectory: Trajectory, model: Model, limits: ArmLimits, start: DesiredState) -> float:
    """Return the factor by which the times must still grow; 1 or less if the limits are kept."""
    segments = len(trajectory.knots) - 1
    least, enough, most = _INTERVALS
    wanted = max(_STATES // segments, min(_MOST_STATES // segments - 1, enough))
    intervals = min(max(wanted // 2 * 2, least), most)
    states = [x.reshape(-1, model.nv) for x in trajectory.probe(intervals)]
    q, v, a = (x[0] for x in states)
    fastest = np.maximum(limits.velocity, np.abs(v))  # The initial speed cannot be changed.
    carried = np.zeros(model.nv)
    if np.allclose(a, start.a_d):  # The arm goes on with the acceleration that it has.
        carried = inverse_dynamics(model, q, v, a) - gravity_torque(model, q)
    excess = 0.0
    for begin in range(0, len(states[0]), _BATCH):
        q, v, a = (x[begin : begin + _BATCH] for x in states)
        torque, weight = inverse_dynamics(model, q, v, a), gravity_torque(model, q)
        i, j, effort = largest_effort(torque, weight, limits.torque, carried)
        if i >= 0:
            raise TrajectoryError(
                f"joint {model.joint_names[j]!r}: at {q[i, j]:.4g} the weight alone takes "
                f"{abs(weight[i, j]):.4g}; its limit is {limits.torque[j]:g}"
            )
        speed = (highest_speeds(v) / fastest).max()
        excess = max(excess, float(speed), effort**0.5)
    return excess


_ROUNDS = 20
"""Maximum number of attempts of a motion past a point, each slower than the previous one."""

_LEAST_TIME = 1e-3
"""Shortest time to a point that is tried, as a share of the longest time."""

_PROBES = 24
"""Number of intervals per segment at whose ends the speed is compared with the limits."""


@dataclass(frozen=True, eq=False)
class StreamPoint:
    """The last point that arrived alone.

    If another single point arrives within twice ``stream_horizon``, both belong to a stream.

    Attributes:
        target: (n,) position of the point, unwrapped [rad or m].
        stamp: stamp of the last joint state when the point arrived [s].
    """

    target: Array
    stamp: float


def past_point(
    point: Trajectory,
    start: DesiredState,
    last: StreamPoint,
    stamp: float,
    horizon: float,
    limits: JointLimits,
    stop_time: float,
    require_hold: Callable[[Trajectory], None],
) -> Trajectory:
    """Return the motion from ``start`` past a point of a stream.

    The motion passes the point with the speed of the stream, continues with decreasing speed,
    returns to the point and ends there at rest. If no such motion that reaches the point within
    ``2 horizon`` keeps the limits, or if the motors cannot hold the arm somewhere on it, the motion
    reaches the point at speed zero and stays there.

    Args:
        point: the motion that would stop at the point.
        start: the present desired state.
        last: the previous point of the stream.
        stamp: stamp of the last joint state when the point arrived [s].
        horizon: half of the longest time to the point [s].
        limits: position and speed limits to keep.
        stop_time: shortest time from the passage of the point to rest [s]. The time to the point is
            extended, up to ``2 horizon``, until no joint changes its speed by more than its speed
            limit within ``stop_time``. This absorbs the jitter of the arrivals. With ``2 horizon``
            the acceleration may exceed this bound.
        require_hold: raises a :class:`TrajectoryError` if the motors cannot hold the arm on the way
            or at the end of a motion.

    Raises:
        TrajectoryError: if the motion that reaches the point at speed zero exceeds a limit as well,
            or is too heavy.
    """
    longest, elapsed = 2.0 * horizon, stamp - last.stamp
    still = np.zeros_like(point.final)

    def speed_at(time: float) -> Array:
        mean = (point.final - start.q_d) / time
        pace = (point.final - last.target) / elapsed if elapsed > 0.0 else mean
        return np.where(pace * mean > 0.0, np.sign(mean), 0.0) * np.minimum(
            np.minimum(np.abs(pace), np.abs(mean)), limits.velocity_limit
        )

    # A point may be due in nanoseconds, from which the rounds would not lead far enough.
    time = max(point.duration, _LEAST_TIME * longest)
    for _ in range(_ROUNDS):
        excess = stop_time * _steepest(point, start, speed_at(time), time, limits)
        if excess <= 1.0 or time >= longest:
            break
        time = min(max(1.05, min(excess, 4.0) ** 0.5) * time, longest)
    else:
        time = longest
    motion = None
    for _ in range(_ROUNDS):
        motion = _past(point, start, speed_at(time), time, stop_time)
        fastest = float(
            (np.abs(motion.probe(_PROBES).v_d).max((0, 1)) / limits.velocity_limit).max()
        )
        if fastest <= 1.0:
            break
        time *= 1.02 * fastest
        if not time <= longest:
            motion = _past(point, start, still, longest, stop_time)
            break
    assert motion is not None
    try:
        motion.check(limits, start)
        require_hold(motion)
    except TrajectoryError:
        motion = _past(point, start, still, min(time, longest), stop_time)
        motion.check(limits, start)
        require_hold(motion)
    return motion


def _steepest(
    point: Trajectory, start: DesiredState, speed: Array, time: float, limits: JointLimits
) -> float:
    """Return a bound on the acceleration on the way to a point, in multiples of the speed limit.

    The result is the largest of all joints [1/s]. It bounds a quintic of duration T = ``time``
    without acceleration at its ends: ``5.8 x / T² + 1.5 |dv| / T``, with the difference dv of the
    two speeds, and the distance x by which a motion at their mean misses the point.
    """
    mean = (point.final - start.q_d) / time
    acceleration = 2.9 * np.abs(2.0 * mean - start.v_d - speed) + 1.5 * np.abs(speed - start.v_d)
    return float((acceleration / limits.velocity_limit).max()) / time


def _past(
    point: Trajectory, start: DesiredState, speed: Array, time: float, stop_time: float
) -> Trajectory:
    """Return a motion from ``start`` past the point with ``speed``, which then returns to it."""
    q = np.vstack((start.q_d, point.final, point.final))
    v = np.vstack((start.v_d, speed, np.zeros_like(speed)))
    a = np.vstack((start.a_d, np.zeros((2, len(speed)))))
    return Trajectory.joining(
        point.joint_names, np.array((0.0, time, time + max(time, stop_time))), q, v, a
    )


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
            a stop, see :class:`StreamPoint`.
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
    changes nothing. :meth:`accept` takes microseconds.

    Args:
        model: the arm.
        samples: the measured state.
        motion: the desired motion.
        modes: the modes, which permit and follow trajectories.
    """

    def __init__(
        self, setup: Setup, samples: SampleJudge, motion: DesiredMotion, modes: Modes
    ) -> None:
        self._setup = setup
        self._samples, self._motion, self._modes = samples, motion, modes
        self._continuous: Sequence[int] = samples.continuous.tolist()
        self._stream: StreamPoint | None = None
        self._streamed: Trajectory | None = None
        """The motion to the last point of the stream; another motion, such as a stop, ends it."""

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
        now = self._setup.now
        check_size(now.model.joint_names, names, points)
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
            parameters=now.parameters,
            limits=now.limits,
            soft=now.soft.now(),
            weight=now.law.weight,
            base=place.trajectory,
            splice=splice,
            start=place.trajectory.sample(splice),
            lead=lead,
            stamp=samples.stamp,
            turned=samples.turned,
            stream=self._stream if is_streaming else None,
        )
        request = TrajectoryRequest(names, points, starts_in, samples.now, streams)
        return plan(now.model, self._continuous, request, state)

    def require_hold_ahead(self, limits: ArmLimits, weight: Callable[[Array], Array]) -> None:
        """Raise an error if the motors could not hold the arm on its present trajectories.

        These are the rest of the followed trajectory, and the trajectory that waits for its splice.
        Without a trajectory nothing is checked.

        Args:
            limits: limits of the arm; ``weight`` is used.
            weight: function that returns gravity torques, see :class:`PlanningState`.

        Raises:
            TrajectoryError: as :meth:`Modes.require_hold`.
        """
        for place in self._ahead():
            require_hold(limits, weight, self._samples.q, place.trajectory, place.time)

    def require_speed_ahead(self) -> None:
        """Raise an error if a present trajectory is faster than the present speed limits.

        The trajectories are those of :meth:`require_hold_ahead`.

        Raises:
            TrajectoryError: naming the segment, the joint and its limit.
        """
        limits = self._setup.now.soft.now()
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
        state, place, now = planned.state, self._motion.place, self._setup.now
        # New limits come with new parameters and with a new model, for example another payload. A
        # plan that was begun amid a change has either old parameters or old limits.
        if state.parameters is not now.parameters or state.limits is not now.limits:
            return False
        if state.base is not place.trajectory:
            return False
        # From rest a motion may begin later than it was planned to.
        return place.time <= state.splice or state.splice >= place.trajectory.duration
