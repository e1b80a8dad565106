"""Goals of trajectories: tolerances, outcome, and the result for the sender.

A :class:`TrajectoryGoal` accompanies its trajectory through planning and motion. It ends once, with
one :class:`GoalResult`, which any part of the controller may set in any thread. :class:`Goals`
stores the goals that have not been answered yet. The node calls :meth:`Goals.tick` from a timer,
which sends the results, so that the control loop is not delayed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import fields
from enum import IntEnum
from math import inf
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Goal
from rbd_control.control.controller_parameters import ControllerParameters, TrajectoryParameters
from rbd_control.control.gains import largest_inertia
from rbd_control.control.kernels import first_beyond
from rbd_control.control.motion import DesiredMotion, Place
from rbd_control.control.waypoints import (
    PastTrajectoryError,
    TrajectoryJointsError,
)
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


FEEDBACK_PERIOD = 0.05
"""Period of the feedback to the sender of a goal [s]."""

NAMING_TIME = 0.2
"""Longest delay of a result after a contact, until the touched link is known [s].

The detector publishes the flag first, and then the force estimate, which names the link and may
be late on a busy machine. The arm does not wait for it.
"""

ABORTED = "; goal aborted"
"""End of the text for the sender of a goal that an order, a fault or a contact has aborted."""

Status = Literal["succeeded", "aborted", "canceled"]


class ResultCode(IntEnum):
    """Codes of ``control_msgs/action/FollowJointTrajectory``."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


class GoalResult(NamedTuple):
    """The outcome of a goal, as the action FollowJointTrajectory reports it.

    Attributes:
        status: final status of the goal in the action protocol.
        code: error code of the result.
    """

    status: Status
    code: ResultCode
    text: str
    """The reason as text."""
    yields: str = ""
    """The reaction of the arm to a contact as text; an empty text if no contact ended the goal."""

    def touching(self, link: str) -> GoalResult:
        """Return this result with the touched link in its text.

        Args:
            link: the touched link; empty if it is unknown.

        Returns:
            The changed result, or ``self`` if no contact ended the goal.
        """
        if not self.yields:
            return self
        place = f" at {link}" if link else ""
        return self._replace(text=f"contact{place}; {self.yields}{ABORTED}")


class TrajectoryGoal:
    """One trajectory whose sender waits for the outcome; only the first outcome counts.

    Args:
        points: number of points of the trajectory.

    Attributes:
        tolerances: tolerances of this goal; None for the tolerances of the parameters.
        result: the first outcome; None while the goal is planned or followed.
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self.tolerances: Tolerances | None = None
        self.result: GoalResult | None = None

    def end(self, code: ResultCode, text: str) -> None:
        """End the goal: succeeded with code 0, aborted with any other code."""
        status: Status = "aborted" if code else "succeeded"
        self._finish(GoalResult(status, code, text))

    def refuse(self, error: TrajectoryError) -> None:
        """Abort the goal because its trajectory cannot be followed.

        The class of ``error`` gives the code: INVALID_JOINTS, OLD_HEADER_TIMESTAMP or INVALID_GOAL.
        """
        code = ResultCode.INVALID_GOAL
        if isinstance(error, TrajectoryJointsError):
            code = ResultCode.INVALID_JOINTS
        elif isinstance(error, PastTrajectoryError):
            code = ResultCode.OLD_HEADER_TIMESTAMP
        self.end(code, str(error))

    def replace(self) -> None:
        """Abort the goal because a newer trajectory replaces its trajectory."""
        self.end(ResultCode.INVALID_GOAL, "replaced by a newer trajectory")

    def interrupt(self, why: str) -> None:
        """Abort the goal because of an order or a fault that stops the arm.

        Args:
            why: the order or the fault as text.
        """
        self.end(ResultCode.INVALID_GOAL, f"{why}{ABORTED}")

    def touch(self, yields: str) -> None:
        """Abort the goal because the arm reacts to a contact.

        Args:
            yields: the reaction of the arm as text.
        """
        result = GoalResult("aborted", ResultCode.INVALID_GOAL, "", yields)
        self._finish(result.touching(""))

    def cancel(self) -> None:
        """End the goal at the request of its sender."""
        self._finish(GoalResult("canceled", ResultCode.SUCCESSFUL, "cancelled by its sender"))

    def index(self, place: Place) -> int:
        """Return the index of the next point of the trajectory, counted from 0.

        Args:
            place: the trajectory of this goal, and the time on it.
        """
        knots = place.trajectory.knots
        segments = len(knots) - 1
        # Points that were due before the trajectory began have no segment.
        segment = min(bisect_right(knots, place.time) - 1, segments - 1)
        return max(self._points - segments + segment, 0)

    def _finish(self, result: GoalResult) -> None:
        if self.result is None:
            self.result = result


class GoalMotion(NamedTuple):
    """State of the motion for the feedback and results of goals."""

    followed: TrajectoryGoal | None
    """The goal whose trajectory the arm follows; None without one, or while a trajectory waits."""
    place: Place
    """The present motion and the time on it."""
    is_stopping: bool
    """Whether the desired motion of an arm in mode hold has not ended: a stop or a retreat."""
    touched_link: str
    """The link of the last contact force, if it is recent; otherwise an empty text."""


class GoalSender(Protocol):
    """Interface that sends feedback and result of one goal to its sender."""

    def feedback(self, goal: TrajectoryGoal, place: Place) -> None:
        """Send the measured and the desired state of the arm.

        Args:
            goal: the goal.
            place: the motion that the arm follows, and the time on it.
        """

    def finish(self, result: GoalResult) -> None:
        """Send the result; this is the last call for a goal."""


class _Open:
    """A goal without answer."""

    def __init__(self, goal: TrajectoryGoal, sender: GoalSender, now: float) -> None:
        self.goal, self.sender = goal, sender
        self.fed_back = now
        self.ended: float | None = None


class Goals:
    """Stores goals in the order of their arrival until their results are sent.

    Its length is the number of stored goals, and iteration yields them. All times are of a steady
    clock [s].
    """

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[TrajectoryGoal]:
        return (each.goal for each in self._open)

    def add(self, goal: TrajectoryGoal, sender: GoalSender, now: float) -> None:
        """Store a goal, which arrived at ``now``, until its result is sent to ``sender``."""
        self._open.append(_Open(goal, sender, now))

    def interrupt(self, why: str) -> None:
        """Abort all goals for the reason ``why``, and send their results at once."""
        for each in self._open:
            each.goal.interrupt(why)
        self._answer([*self._open], "")

    def tick(self, motion: GoalMotion, now: float) -> None:
        """Send the results of ended goals, and feedback to the sender of the followed goal.

        Feedback is sent every ``FEEDBACK_PERIOD``. The result of a canceled goal is sent after the
        arm has stopped. The result of a goal that a contact has ended is sent when the touched link
        is known, at most ``NAMING_TIME`` after the first call that finds it ended.

        Args:
            motion: state of the motion, see :attr:`Modes.goal_motion`.
            now: the time.
        """
        link = motion.touched_link
        for each in self._open:
            is_due = now - each.fed_back >= FEEDBACK_PERIOD
            if each.goal is motion.followed and each.goal.result is None and is_due:
                each.fed_back = now
                each.sender.feedback(each.goal, motion.place)
        self._answer([each for each in self._open if self._is_ready(each, motion, now)], link)

    def _is_ready(self, each: _Open, motion: GoalMotion, now: float) -> bool:
        result = each.goal.result
        if result is None:
            return False
        if each.ended is None:
            each.ended = now
        if result.status == "canceled":
            return not motion.is_stopping
        if result.yields:
            return bool(motion.touched_link) or now - each.ended >= NAMING_TIME
        return True

    def _answer(self, ended: list[_Open], link: str) -> None:
        for each in ended:
            self._open.remove(each)
            assert each.goal.result is not None
            each.sender.finish(each.goal.result.touching(link))


class End(NamedTuple):
    """The end of a trajectory that was followed.

    Attributes:
        goal: the outcome: reached, missed or aborted.
        code: code of the outcome for the sender of the goal.
        text: the reason, with the joint, its error and its tolerance unless the goal is reached.
    """

    goal: Goal
    code: ResultCode
    text: str


class TrajectoryOutcome:
    """Compares the arm with its trajectory, and reports the outcome to the sender of a goal.

    Attributes:
        goal: outcome of the last trajectory; ``moving`` or ``paused`` before its end, ``none``
            before the first trajectory.
        sent: the goal of the present trajectory; None if no sender waits for its outcome.
    """

    def __init__(self) -> None:
        self.goal: Goal = "none"
        self.sent: TrajectoryGoal | None = None

    def reset(self) -> None:
        """Forget the outcome of the last trajectory."""
        self.goal = "none"

    def begin(self, sent: TrajectoryGoal | None) -> None:
        """Begin a trajectory; a goal of the previous trajectory is aborted as replaced.

        Args:
            sent: the goal of the trajectory; None if nobody waits for its outcome.
        """
        if self.sent is not None:
            self.sent.replace()
        self.sent, self.goal = sent, "moving"

    def pause(self) -> None:
        """Note that the trajectory is paused."""
        self.goal = "paused"

    def cancel(self, reason: str) -> None:
        """Cancel the present trajectory, if any, and tell the sender of its goal the reason."""
        sent, self.sent = self.sent, None
        if self.goal in ("moving", "paused"):
            self.goal = "cancelled"
        if sent is not None:
            sent.interrupt(reason)

    def touch(self, ends: str) -> None:
        """Abort the goal of the present trajectory if the reaction to a contact ends it.

        Args:
            ends: see :attr:`~rbd_control.control.reactions.Reaction.ends`; empty: the reaction does
                not end it.
        """
        if self.sent is not None and ends:
            self.sent.touch(ends)

    def end(self, end: End) -> None:
        """End the trajectory with a result of :meth:`judge`, and report it to the goal's sender."""
        sent, self.sent, self.goal = self.sent, None, end.goal
        if sent is not None:
            sent.end(end.code, end.text)

    def judge(
        self, motion: DesiredMotion, q: Array, v: Array, tolerances: Tolerances
    ) -> End | None:
        """Return how the trajectory ends with a sample; None while it continues.

        While it moves, it is aborted if the arm violates its path tolerance. After the last point
        it is reached when position and speed are within the goal tolerance, and missed if they are
        not after ``goal_time``.

        Args:
            motion: the desired motion.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            tolerances: tolerances of a trajectory without tolerances of its own.
        """
        final = motion.trajectory.final
        if self.sent is not None and self.sent.tolerances is not None:
            tolerances = self.sent.tolerances
        if motion.moving:
            desired = motion.desired()
            strayed = tolerances.strayed(q, v, desired.q_d, desired.v_d)
            if not strayed:
                return None
            return End("aborted", ResultCode.PATH_TOLERANCE_VIOLATED, strayed)
        if tolerances.reached(q, v, final):
            return End("reached", ResultCode.SUCCESSFUL, "goal reached")
        if motion.overtime <= tolerances.goal_time:
            return None
        late = f"{motion.overtime:.3g} s after the last point"
        missed = f"{late}: {tolerances.missed(q, v, final)}"
        return End("missed", ResultCode.GOAL_TOLERANCE_VIOLATED, missed)
