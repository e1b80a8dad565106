"""Trajectories whose sender waits for the outcome, such as the goals of an action.

A :class:`TrajectoryGoal` accompanies its trajectory through planning and motion. It ends once, with
one :class:`GoalResult`, which any part of the controller may set in any thread. :class:`Goals`
stores the goals that have not been answered yet. The node calls :meth:`Goals.tick` from a timer,
which sends the results, so that the control loop is not delayed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Literal, NamedTuple, Protocol

from rbd_control.control.goal import Tolerances
from rbd_control.control.motion import Place
from rbd_control.control.waypoints import PastTrajectoryError, TrajectoryJointsError
from rbd_control.errors import TrajectoryError

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
            motion: state of the motion, see :attr:`PassivityController.goal_motion`.
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
