"""Trajectories whose sender waits for the outcome, as those of an action do.

A :class:`TrajectoryGoal` goes with the trajectory through planning and motion. It ends once, with
one :class:`GoalResult`: whatever ends the trajectory says so there, in any thread. :class:`Goals`
keeps those that have not been answered, and answers them; the node calls it from a timer, so that
the control loop has no part in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from math import inf
from typing import Literal, NamedTuple, Protocol

from rbd_control.control.goal import Tolerances
from rbd_control.control.motion import Place
from rbd_control.control.waypoints import (
    MOST_POINTS,
    PastTrajectoryError,
    TrajectoryJointsError,
)
from rbd_control.errors import TrajectoryError

FEEDBACK_PERIOD = 0.05
"""Period of the feedback to the sender of a goal [s]."""

NAMING_TIME = 0.03
"""Time for which a goal that a contact has ended waits for the name of the touched link [s].

The detector publishes its flag first and the force estimate, which has the name, right after it.
"""

MOST_AT_ONCE = 2 * MOST_POINTS
"""Number of points that goals may have in a row; taking 4,000 from the wire takes 1 ms."""

POINTS_PER_SECOND = float(MOST_POINTS)
"""Number of points that goals may have for long [1/s]."""

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
    """What became of a goal."""

    status: Status
    code: ResultCode
    text: str
    """The reason, in words."""
    yields: str = ""
    """After a contact: what the arm does; empty otherwise."""

    def touching(self, link: str) -> GoalResult:
        """Return the result with the touched link in its text; as it is without a contact."""
        if not self.yields:
            return self
        place = f" at {link}" if link else ""
        return self._replace(text=f"contact{place}; {self.yields}; goal aborted")


class TrajectoryGoal:
    """One trajectory whose sender waits for the outcome.

    Args:
        points: number of points of the trajectory.

    Attributes:
        tolerances: replace those of the parameters; None for those.
        result: the outcome; None while the goal is planned or followed. The first one stays.
    """

    def __init__(self, points: int) -> None:
        self._points = points
        self.tolerances: Tolerances | None = None
        self.result: GoalResult | None = None

    def end(self, code: ResultCode, text: str) -> None:
        """End the goal as succeeded or aborted, as the code says."""
        status: Status = "aborted" if code else "succeeded"
        self._finish(GoalResult(status, code, text))

    def refuse(self, error: TrajectoryError) -> None:
        """End the goal, as its trajectory cannot be followed."""
        code = ResultCode.INVALID_GOAL
        if isinstance(error, TrajectoryJointsError):
            code = ResultCode.INVALID_JOINTS
        elif isinstance(error, PastTrajectoryError):
            code = ResultCode.OLD_HEADER_TIMESTAMP
        self.end(code, str(error))

    def replace(self) -> None:
        """End the goal, as a newer trajectory is followed instead."""
        self.end(ResultCode.INVALID_GOAL, "replaced by a newer trajectory")

    def interrupt(self, why: str) -> None:
        """End the goal, as the arm was ordered to stop, or had to."""
        self.end(ResultCode.INVALID_GOAL, f"{why}; goal aborted")

    def touch(self, yields: str) -> None:
        """End the goal, as the arm reacts to a contact.

        Args:
            yields: what the arm does, in words.
        """
        result = GoalResult("aborted", ResultCode.INVALID_GOAL, "", yields)
        self._finish(result.touching(""))

    def cancel(self) -> None:
        """End the goal at the request of its sender."""
        self._finish(GoalResult("canceled", ResultCode.SUCCESSFUL, "cancelled by its sender"))

    def index(self, place: Place) -> int:
        """Return the index of the point that the trajectory leads to at a time on it."""
        knots = place.trajectory.knots
        segments = len(knots) - 1
        # Points that were due before the trajectory began have no segment.
        segment = min(bisect_right(knots, place.time) - 1, segments - 1)
        return max(self._points - segments + segment, 0)

    def _finish(self, result: GoalResult) -> None:
        if self.result is None:
            self.result = result


class PointBudget:
    """Limits how many points of goals are read in a time, as that delays the control loop.

    It is a bucket of ``MOST_AT_ONCE`` points, which fills with ``POINTS_PER_SECOND``.
    """

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._then = -inf

    def take(self, points: int, now: float) -> bool:
        """Return whether so many points may be read, and count them if so.

        Args:
            points: number of points of a goal.
            now: time on a steady clock [s].
        """
        filled = self._left + POINTS_PER_SECOND * (now - self._then)
        self._left, self._then = min(filled, float(MOST_AT_ONCE)), now
        if points > self._left:
            return False
        self._left -= points
        return True


class GoalMotion(NamedTuple):
    """What the senders of goals are told about the motion."""

    followed: TrajectoryGoal | None
    """The goal whose trajectory the arm follows; None for none, or for one without sender."""
    place: Place
    """The present motion and the time on it."""
    is_stopping: bool
    """Whether a stop is under way."""
    touched_link: str
    """The link that was touched just now; empty for none."""


class GoalSender(Protocol):
    """Sends what the sender of one goal is told."""

    def feedback(self, goal: TrajectoryGoal, place: Place) -> None:
        """Send where the arm is and should be."""

    def finish(self, result: GoalResult) -> None:
        """Send the result; called once, last."""


class _Open:
    """A goal that has not been answered."""

    def __init__(self, goal: TrajectoryGoal, sender: GoalSender, now: float) -> None:
        self.goal, self.sender = goal, sender
        self.fed_back = now
        self.ended: float | None = None


class Goals:
    """The goals that have not been answered, in the order in which they came.

    Times are those of a steady clock [s].
    """

    def __init__(self) -> None:
        self._open: list[_Open] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[TrajectoryGoal]:
        return (each.goal for each in self._open)

    def add(self, goal: TrajectoryGoal, sender: GoalSender, now: float) -> None:
        """Keep a goal until it is answered."""
        self._open.append(_Open(goal, sender, now))

    def interrupt(self, why: str) -> None:
        """End and answer all goals at once."""
        for each in self._open:
            each.goal.interrupt(why)
        self._answer([*self._open], "")

    def tick(self, motion: GoalMotion, now: float) -> None:
        """Answer the goals that have ended, and send feedback about the one that is followed.

        A canceled goal is answered when the arm has stopped. A goal that a contact has ended waits
        up to ``NAMING_TIME`` for the name of the touched link.
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
