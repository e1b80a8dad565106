"""Results of goals with their codes, and the limit on the rate of their points."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from control_loop import HOME, ended, started

from rbd_control.control import TrajectoryPoint
from rbd_control.control.goals import (
    ResultCode,
    TrajectoryGoal,
)
from rbd_control.control.waypoints import (
    PastTrajectoryError,
    TrajectoryJointsError,
)
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (lambda g: g.refuse(TrajectoryError("why")), "aborted", ResultCode.INVALID_GOAL),
        (lambda g: g.refuse(TrajectoryJointsError("why")), "aborted", ResultCode.INVALID_JOINTS),
        (lambda g: g.refuse(PastTrajectoryError("why")), "aborted", -3),
        (lambda g: g.replace(), "aborted", ResultCode.INVALID_GOAL),
        (lambda g: g.interrupt("why"), "aborted", ResultCode.INVALID_GOAL),
        (lambda g: g.touch("the arm holds"), "aborted", ResultCode.INVALID_GOAL),
        (lambda g: g.end(ResultCode.SUCCESSFUL, "why"), "succeeded", ResultCode.SUCCESSFUL),
        (lambda g: g.cancel(), "canceled", ResultCode.SUCCESSFUL),
    ],
)
def test_a_goal_ends_once(end: Callable[[TrajectoryGoal], None], status: str, code: int) -> None:
    goal = TrajectoryGoal(3)
    end(goal)
    first = ended(goal)
    assert (first.status, first.code) == (status, code)
    assert first.text
    goal.cancel()
    goal.interrupt("later")
    assert ended(goal) is first


@pytest.mark.parametrize(
    ("names", "stamp", "code"),
    [
        (["link"], 0.0, ResultCode.INVALID_JOINTS),
        ([], 0.0, ResultCode.INVALID_JOINTS),
        (None, 90.0, ResultCode.OLD_HEADER_TIMESTAMP),
        (None, 0.0, ResultCode.INVALID_GOAL),
    ],
)
def test_codes_of_refused_trajectories(
    model: Model, names: list[str] | None, stamp: float, code: ResultCode
) -> None:
    goal, points = TrajectoryGoal(1), [TrajectoryPoint(HOME + 9.0, time_from_start=1.0)]
    names = [*model.joint_names] if names is None else names
    with pytest.raises(TrajectoryError) as refusal:
        started(model).plan_trajectory(names, points, now=100.0, stamp=stamp)
    goal.refuse(refusal.value)
    assert ended(goal).code == code
    assert ended(goal).text == str(refusal.value)
