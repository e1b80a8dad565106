"""Feedback and results that the senders of goals receive."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

import numpy as np
import pytest

from rbd_control.control.goals import (
    FEEDBACK_PERIOD,
    NAMING_TIME,
    GoalMotion,
    GoalResult,
    Goals,
    TrajectoryGoal,
)
from rbd_control.control.motion import Place
from rbd_control.control.trajectory import Trajectory

NAMES = ("shoulder", "elbow")
NOTHING = np.zeros(2)
REST = Place(Trajectory.stop(NAMES, NOTHING, NOTHING, 1.0), 0.0)


@dataclass
class Sender:
    """Records the answers that it receives."""

    fed_back: list[Place] = field(default_factory=list)
    results: list[GoalResult] = field(default_factory=list)

    def feedback(self, goal: TrajectoryGoal, place: Place) -> None:
        assert goal.result is None
        self.fed_back.append(place)

    def finish(self, result: GoalResult) -> None:
        self.results.append(result)


def motion(
    followed: TrajectoryGoal | None = None, is_stopping: bool = False, link: str = ""
) -> GoalMotion:
    return GoalMotion(followed, REST, is_stopping, link)


def test_feedback_comes_at_its_period_for_the_goal_that_is_followed() -> None:
    goals, senders = Goals(), (Sender(), Sender())
    waiting, followed = TrajectoryGoal(1), TrajectoryGoal(1)
    goals.add(waiting, senders[0], 0.0)
    goals.add(followed, senders[1], 0.0)
    for k in range(1, 101):
        goals.tick(motion(followed), 0.01 * k)
    assert not senders[0].fed_back
    # Ticks of 10 ms round a period up to the next one.
    assert 1.0 / (FEEDBACK_PERIOD + 0.01) - 1 <= len(senders[1].fed_back) <= 1.0 / FEEDBACK_PERIOD
    followed.replace()
    goals.tick(motion(), 1.01)
    assert [result.text for result in senders[1].results] == ["replaced by a newer trajectory"]
    assert [*goals] == [waiting]


def test_a_cancelled_goal_is_answered_when_the_arm_has_stopped() -> None:
    goals, goal, sender = Goals(), TrajectoryGoal(1), Sender()
    goals.add(goal, sender, 0.0)
    goal.cancel()
    goals.tick(motion(is_stopping=True), 0.1)
    assert not sender.results
    goals.tick(motion(), 0.2)
    assert [result.status for result in sender.results] == ["canceled"]
    assert not goals


@pytest.mark.parametrize("named", [True, False])
def test_a_contact_is_named_if_its_link_is_known_in_time(named: bool) -> None:
    goals, goal, sender = Goals(), TrajectoryGoal(1), Sender()
    goals.add(goal, sender, 0.0)
    goal.touch("the arm yields")
    goals.tick(motion(), 0.1)
    goals.tick(motion(), 0.1 + 0.9 * NAMING_TIME)
    assert not sender.results
    goals.tick(motion(link="link5" if named else ""), 0.1 + 1.1 * NAMING_TIME)
    (result,) = sender.results
    place = " at link5" if named else ""
    assert result.text == f"contact{place}; the arm yields; goal aborted"


def test_all_goals_are_answered_when_the_controller_ends() -> None:
    goals, senders = Goals(), [Sender() for _ in range(3)]
    for sender in senders:
        goals.add(TrajectoryGoal(1), sender, 0.0)
    next(iter(goals)).cancel()
    goals.interrupt("the controller was deactivated")
    assert not goals
    assert [sender.results[0].status for sender in senders] == ["canceled", "aborted", "aborted"]
    assert all(len(sender.results) == 1 for sender in senders)


def test_feedback_contains_the_desired_point_of_the_trajectory() -> None:
    knots = np.array([0.0, 1.0, 2.0])
    q, v = np.zeros((3, 2)), np.zeros((3, 2))
    trajectory = Trajectory.joining(NAMES, knots, q, v, np.full((3, 2), nan))
    # Of four points two were due before the trajectory began.
    indices = [TrajectoryGoal(4).index(Place(trajectory, t)) for t in (0.0, 0.5, 1.5, 2.5)]
    assert indices == [2, 2, 3, 3]
