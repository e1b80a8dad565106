"""Goals that an arm follows: reached, missed, replaced, or ended by an order, contact or fault."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL, Loop, ended, give, started

from rbd_control.control import ControllerParameters, TrajectoryPoint
from rbd_control.control.goals import ERASED, JointTolerance, ResultCode, TrajectoryGoal
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def send(
    loop: Loop,
    target: np.ndarray,
    time: float,
    path: Sequence[JointTolerance] = (),
    goal: Sequence[JointTolerance] = (),
    lead: float = 0.0,
) -> TrajectoryGoal:
    """Have a trajectory of one point followed, ``lead`` [s] from now; return its goal."""
    controller, sent = loop.controller, TrajectoryGoal(1)
    sent.tolerances = controller.setup.now.tolerances.of_goal(path, goal, 0.0)
    points = [TrajectoryPoint(target, time_from_start=time)]
    names = controller.model.joint_names
    controller.accept(controller.plan_trajectory(names, points, lead=lead, streams=False), sent)
    return sent


def moving(model: Model, **parameters: Any) -> tuple[Loop, TrajectoryGoal]:
    """Return an arm that has followed a trajectory for 0.5 s of 2 s."""
    loop = Loop(model, **parameters)
    goal = send(loop, HOME + 0.4, 2.0)
    loop.run(0.5)
    assert goal.result is None
    return loop, goal


def test_a_goal_is_reached(model: Model) -> None:
    loop = Loop(model)
    goal = send(loop, HOME + 0.2, 1.0)
    assert loop.controller.modes.goal_motion.followed is goal
    loop.run(0.9)
    assert goal.result is None
    assert loop.run(0.5).goal == "reached"
    assert ended(goal)[:2] == ("succeeded", ResultCode.SUCCESSFUL)
    assert loop.controller.modes.goal_motion.followed is None


def test_a_goal_is_not_followed_before_its_trajectory_begins(model: Model) -> None:
    """Until then the feedback would tell times and points of the last trajectory."""
    loop = Loop(model)
    send(loop, HOME + 0.1, 0.5)
    loop.run(1.0)
    goal = send(loop, HOME, 0.5, lead=0.05)
    assert loop.controller.modes.goal_motion.followed is None
    loop.run(0.06)
    motion = loop.controller.modes.goal_motion
    assert motion.followed is goal
    assert 0.0 < motion.place.time < 0.05
    loop.run(1.0)
    assert ended(goal).status == "succeeded"


def test_its_own_path_tolerance_stops_the_arm(model: Model) -> None:
    """The stop begins at the position of the arm, without a step of the desired position."""
    loop = Loop(model)
    desired = []
    tight = JointTolerance(model.joint_names[1], 1e-5)
    goal = send(loop, HOME + 0.4, 1.0, path=[tight])
    command = loop.run(0.5, lambda command: desired.append(command.q_d))
    assert (command.mode, command.goal) == ("hold", "aborted")
    result = ended(goal)
    assert (result.status, result.code) == ("aborted", ResultCode.PATH_TOLERANCE_VIOLATED)
    assert result.text.startswith(f"{model.joint_names[1]} is ")
    steps = np.abs(np.diff(desired, axis=0)).max(axis=1)
    assert steps.max() < 1.5e-3  # a quintic over 0.4 rad in 1 s has 0.75 rad/s; the error is small
    assert np.abs(loop.arm.v).max() < 0.02


def test_its_own_goal_tolerance_is_judged(model: Model) -> None:
    """Friction keeps the arm off its goal by more than 1e-7 rad, and by less than 0.02 rad."""
    loop = Loop(model, goal_time=0.2)
    tight = JointTolerance(model.joint_names[2], 1e-7)
    goal = send(loop, HOME + 0.2, 0.5, goal=[tight])
    assert loop.run(0.8).goal == "missed"
    result = ended(goal)
    assert (result.status, result.code) == ("aborted", ResultCode.GOAL_TOLERANCE_VIOLATED)
    assert f"after the last point: {model.joint_names[2]} is " in result.text
    assert result.text.startswith("0.2")
    loose = JointTolerance(model.joint_names[2], ERASED)
    goal = send(loop, HOME, 0.5, goal=[loose])
    assert loop.run(0.8).goal == "reached"
    assert ended(goal).status == "succeeded"


@pytest.mark.parametrize("by_a_goal", [True, False])
def test_a_newer_trajectory_replaces_a_goal(model: Model, by_a_goal: bool) -> None:
    loop, goal = moving(model)
    if by_a_goal:
        newer = send(loop, HOME + 0.1, 1.0)
    else:
        loop.follow(HOME + 0.1, 1.0)
    result = ended(goal)
    assert result == ("aborted", ResultCode.INVALID_GOAL, "replaced by a newer trajectory", "")
    assert loop.run(2.0).goal == "reached"
    if by_a_goal:
        assert ended(newer).status == "succeeded"


def test_a_bad_goal_leaves_the_running_one(model: Model) -> None:
    loop, goal = moving(model)
    with pytest.raises(TrajectoryError):
        send(loop, HOME + 9.0, 1.0)
    assert goal.result is None
    loop.run(3.0)
    assert ended(goal).status == "succeeded"


@pytest.mark.parametrize("order", ["hold", "float", "retract", "cancel"])
def test_an_order_ends_a_goal_for_good(model: Model, order: str) -> None:
    """The sender believes that it has ended: resume must not let the arm move on."""
    loop, goal = moving(model)
    give(loop.controller, order)
    assert (ended(goal).status, ended(goal).code) == ("aborted", ResultCode.INVALID_GOAL)
    assert "by request; goal aborted" in ended(goal).text
    loop.run(0.5)
    if order != "cancel":
        assert loop.controller.resume() == "holding here"
    here = loop.arm.q
    assert loop.run(1.0).goal == "cancelled"
    assert np.abs(loop.arm.q - here).max() < 0.01


@pytest.mark.parametrize(
    ("reaction", "what"),
    [("hold", "the arm holds"), ("float", "the arm yields"), ("retract", "the arm retracts")],
)
def test_a_contact_ends_a_goal(model: Model, reaction: str, what: str) -> None:
    loop, goal = moving(model, contact_reaction=reaction)
    loop.controller.contact(True)
    loop.controller.touched("link_5", np.array([0.0, 10.0, 0.0]))
    assert loop.controller.modes.goal_motion.touched_link == "link_5"
    result = ended(goal)
    assert (result.status, result.code) == ("aborted", ResultCode.INVALID_GOAL)
    assert result.text == f"contact; {what}; goal aborted"
    assert result.touching("link_5").text == f"contact at link_5; {what}; goal aborted"
    # The reaction is that of a trajectory without sender, but for what resume does.
    command = loop.run(0.3)
    assert command.reason.startswith("contact")
    assert command.goal == "cancelled"
    with pytest.raises(TrajectoryError, match="resume first"):
        loop.controller.modes.require_free()
    assert loop.controller.resume() == "holding here"


def test_a_slowed_goal_takes_its_time(model: Model) -> None:
    """The time of a goal is that of its trajectory, which a slowed arm passes more slowly."""
    loop, goal = moving(model, contact_reaction="slow", slow_factor=0.5, goal_time=0.3)
    loop.controller.contact(True)
    loop.run(2.0)  # 2.5 s after the start of 2 s, and 0.3 s for the goal
    assert goal.result is None
    loop.run(2.0)
    assert ended(goal).status == "succeeded"


def test_a_fault_ends_a_goal_and_only_resume_leads_out(model: Model) -> None:
    loop, goal = moving(model)
    loop.controller.modes.fault("a test")
    assert ended(goal).text == "safe torque: a test; goal aborted"
    with pytest.raises(TrajectoryError, match="resume first"):
        send(loop, HOME, 1.0)
    assert loop.run(0.2).mode == "safe"
    assert loop.controller.resume() == "holding here"


def test_silence_of_the_joint_states_ends_a_goal(model: Model) -> None:
    loop, goal = moving(model)
    command = loop.controller.silence(loop.arm.time + 1.0)
    assert command is not None
    assert ended(goal).text.startswith("safe torque: no joint states for")


def test_a_clock_that_goes_back_ends_a_goal(model: Model) -> None:
    controller = started(model, ControllerParameters(**SCRIPTED))
    goal = TrajectoryGoal(1)
    points = [TrajectoryPoint(HOME + 0.1, time_from_start=1.0)]
    controller.accept(controller.plan_trajectory(model.joint_names, points, lead=0.0), goal)
    controller.update(0.001, HOME, STILL)
    controller.clock_went_back()
    controller.update(-5.0, HOME, STILL, now=0.002)
    assert ended(goal).text == "the clock of the joint states jumped; goal aborted"


def test_a_cancelled_goal_stops_the_arm_in_time(model: Model) -> None:
    loop, goal = moving(model, stop_time=0.15)
    loop.controller.modes.cancel_goal(goal)
    assert ended(goal).status == "canceled"
    stopping = []
    for _ in range(2):
        command = loop.run(0.08)
        stopping.append(loop.controller.modes.goal_motion.is_stopping)
    assert stopping == [True, False]
    assert command.mode == "hold"
    loop.controller.modes.require_free()


def test_cancelling_a_goal_that_is_not_followed_leaves_the_motion(model: Model) -> None:
    loop, goal = moving(model)
    other = TrajectoryGoal(1)
    loop.controller.modes.cancel_goal(other)
    assert ended(other).status == "canceled"
    assert goal.result is None
    assert loop.controller.mode == "follow"


def test_points_of_goals_are_no_stream(model: Model) -> None:
    """A stream passes its points with speed; a goal ends at its point."""
    loop = Loop(model)
    for k in range(3):
        goal = send(loop, HOME + 0.01 * (k + 1), 0.2)
        loop.run(0.1)
    loop.run(0.5)
    assert ended(goal).status == "succeeded"
    np.testing.assert_allclose(
        loop.controller.modes.goal_motion.place.trajectory.final, HOME + 0.03
    )
