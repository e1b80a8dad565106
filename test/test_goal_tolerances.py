"""Tolerances of trajectories, and tolerances that a goal of the action specifies itself."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from robots import two_joint_urdf

from rbd_control.control import ControllerParameters
from rbd_control.control.goals import ERASED, LONGEST_GOAL_TIME, JointTolerance, Tolerances
from rbd_control.control.waypoints import TrajectoryJointsError
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError

MODEL = Model.from_urdf(two_joint_urdf())
DEFAULTS = ControllerParameters(
    path_tolerance=(0.1, 0.0), goal_tolerance=(0.02,), stopped_velocity_tolerance=0.1, goal_time=1.0
)
NOTHING = np.zeros(2)


def test_a_goal_keeps_the_tolerances_that_it_does_not_give() -> None:
    own = Tolerances(MODEL, DEFAULTS).of_goal([], [], 0.0)
    assert own.goal_time == 1.0
    assert own.strayed(np.array([0.11, 0.0]), NOTHING, NOTHING, NOTHING).startswith("shoulder")
    assert not own.strayed(np.array([0.0, 9.0]), np.array([9.0, 9.0]), NOTHING, NOTHING)
    assert not own.reached(np.array([0.0, 0.03]), NOTHING, NOTHING)
    assert not own.reached(NOTHING, np.array([0.0, 0.11]), NOTHING)
    assert own.reached(np.array([0.0, 0.01]), np.array([0.0, 0.09]), NOTHING)


def test_a_goal_tightens_and_loosens_single_joints() -> None:
    defaults = Tolerances(MODEL, DEFAULTS)
    own = defaults.of_goal(
        [JointTolerance("elbow", 0.05, 0.5), JointTolerance("shoulder", ERASED)],
        [JointTolerance("elbow", 0.2, 0.3), JointTolerance("shoulder", 0.0, ERASED)],
        2.5,
    )
    assert own.goal_time == 2.5
    text = own.strayed(np.array([5.0, 0.06]), NOTHING, NOTHING, NOTHING)
    assert text == "elbow is 0.06 from its path; its tolerance is 0.05"
    text = own.strayed(NOTHING, np.array([9.0, -0.6]), NOTHING, NOTHING)
    assert text == "elbow is 0.6 from the velocity of its path; its tolerance is 0.5"
    assert own.reached(np.array([0.02, 0.19]), np.array([9.0, 0.29]), NOTHING)
    assert own.missed(np.array([0.03, 0.0]), NOTHING, NOTHING).startswith("shoulder is 0.03 from")
    assert own.missed(NOTHING, np.array([0.0, 0.31]), NOTHING).startswith("elbow is 0.31 from rest")
    # The defaults are what they were.
    assert defaults.strayed(np.array([5.0, 0.0]), NOTHING, NOTHING, NOTHING)


@pytest.mark.parametrize("time", [ERASED, 1e9])
def test_no_goal_waits_for_ever(time: float) -> None:
    assert Tolerances(MODEL, DEFAULTS).of_goal([], [], time).goal_time == LONGEST_GOAL_TIME


@pytest.mark.parametrize("value", [nan, inf, -inf, -0.5, -2.0])
def test_tolerances_that_mean_nothing_are_refused(value: float) -> None:
    defaults = Tolerances(MODEL, DEFAULTS)
    for path, goal, time in (
        ([JointTolerance("elbow", value)], [], 0.0),
        ([JointTolerance("elbow", 0.1, value)], [], 0.0),
        ([], [JointTolerance("elbow", value)], 0.0),
        ([], [], value),
    ):
        with pytest.raises(TrajectoryError, match="tolerance"):
            defaults.of_goal(path, goal, time)


def test_tolerances_of_unknown_joints_are_refused() -> None:
    with pytest.raises(TrajectoryJointsError, match="'wrist'; joints are shoulder, elbow"):
        Tolerances(MODEL, DEFAULTS).of_goal([JointTolerance("wrist", 0.1)], [], 0.0)
