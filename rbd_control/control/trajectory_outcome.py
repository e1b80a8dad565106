"""The outcome of the present trajectory, and the goal whose sender waits for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Goal
from rbd_control.control.goal import Tolerances
from rbd_control.control.motion import Motion
from rbd_control.control.trajectory_goal import ResultCode, TrajectoryGoal

Array = NDArray[np.float64]


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

    def set_tolerances(self, tolerances: Tolerances) -> None:
        """Use new tolerances for trajectories without tolerances of their own."""
        self._tolerances = tolerances

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

    def judge(self, motion: Motion, q: Array, v: Array) -> End | None:
        """Return how the trajectory ends with a sample; None while it continues.

        While it moves, it is aborted if the arm violates its path tolerance. After the last point
        it is reached when position and speed are within the goal tolerance, and missed if they are
        not after ``goal_time``. The tolerances are those of the goal, or else of the parameters.

        Args:
            motion: the desired motion.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
        """
        tolerances, final = self._tolerances, motion.trajectory.final
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
