"""Goals of trajectories: tolerances, results, answers to their senders, and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, SCRIPTED, STILL, Loop, ended, give, started
from robots import two_joint_urdf

from rbd_control.control import ControllerParameters, TrajectoryPoint
from rbd_control.control.goals import (
    ERASED,
    FEEDBACK_PERIOD,
    LONGEST_GOAL_TIME,
    NAMING_TIME,
    GoalMotion,
    GoalResult,
    Goals,
    JointTolerance,
    ResultCode,
    Tolerances,
    TrajectoryGoal,
)
from rbd_control.control.motion import Place
from rbd_control.control.trajectory import Trajectory
from rbd_control.control.waypoints import PastTrajectoryError, TrajectoryJointsError
from rbd_control.dynamics import Model
from rbd_control.errors import TrajectoryError
from rbd_control.simulation import arm7_urdf

TWO_JOINTS = Model.from_urdf(two_joint_urdf())
DEFAULTS = ControllerParameters(
    path_tolerance=(0.1, 0.0), goal_tolerance=(0.02,), stopped_velocity_tolerance=0.1, goal_time=1.0
)
NOTHING = np.zeros(2)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# Tolerances ---------------------------------------------------------------------------------------


def test_a_goal_keeps_the_tolerances_that_it_does_not_give() -> None:
    own = Tolerances(TWO_JOINTS, DEFAULTS).of_goal([], [], 0.0)
    assert own.goal_time == 1.0
    assert own.strayed(np.array([0.11, 0.0]), NOTHING, NOTHING, NOTHING).startswith("shoulder")
    assert not own.strayed(np.array([0.0, 9.0]), np.array([9.0, 9.0]), NOTHING, NOTHING)
    assert not own.reached(np.array([0.0, 0.03]), NOTHING, NOTHING)
    assert not own.reached(NOTHING, np.array([0.0, 0.11]), NOTHING)
    assert own.reached(np.array([0.0, 0.01]), np.array([0.0, 0.09]), NOTHING)


def test_a_goal_tightens_and_loosens_single_joints() -> None:
    defaults = Tolerances(TWO_JOINTS, DEFAULTS)
    own = defaults.of_goal(
        [JointTolerance("elbow", 0.05, 0.5), JointTolerance("shoulder", ERASED)],
        [JointTolerance("elbow", 0.2, 0.3), JointTolerance("shoulder", 0.0, ERASED)],
        2.5,
    )
    assert own.goal_time == 2.5
    text = own.strayed(np.array([5.0, 0.06]), NOTHING, NOTHING, NOTHING)
    assert text == "elbow is 0.06 from its path; its tolerance is 0.05"
    assert own.strayed(NOTHING, np.array([9.0, -0.6]), NOTHING, NOTHING).startswith("elbow is 0.6")
    assert own.reached(np.array([0.02, 0.19]), np.array([9.0, 0.29]), NOTHING)
    assert own.missed(np.array([0.03, 0.0]), NOTHING, NOTHING).startswith("shoulder is 0.03 from")
    assert own.missed(NOTHING, np.array([0.0, 0.31]), NOTHING).startswith("elbow is 0.31 from rest")
    # The defaults are what they were.
    assert defaults.strayed(np.array([5.0, 0.0]), NOTHING, NOTHING, NOTHING)


@pytest.mark.parametrize("time", [ERASED, 1e9])
def test_no_goal_waits_for_ever(time: float) -> None:
    assert Tolerances(TWO_JOINTS, DEFAULTS).of_goal([], [], time).goal_time == LONGEST_GOAL_TIME


@pytest.mark.parametrize("value", [nan, inf, -0.5])
def test_tolerances_that_mean_nothing_are_refused(value: float) -> None:
    defaults = Tolerances(TWO_JOINTS, DEFAULTS)
    for path, goal, time in (
        ([JointTolerance("elbow", 0.1, value)], [], 0.0),
        ([], [JointTolerance("elbow", value)], 0.0),
        ([], [], value),
    ):
        with pytest.raises(TrajectoryError, match="tolerance"):
            defaults.of_goal(path, goal, time)
    with pytest.raises(TrajectoryJointsError, match="'wrist'; joints are shoulder, elbow"):
        defaults.of_goal([JointTolerance("wrist", 0.1)], [], 0.0)


# Results ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status", "code"),
    [
        (lambda g: g.refuse(TrajectoryError("why")), "aborted", ResultCode.INVALID_GOAL),
        (lambda g: g.refuse(TrajectoryJointsError("why")), "aborted", ResultCode.INVALID_JOINTS),
        (lambda g: g.refuse(PastTrajectoryError("why")), "aborted", -3),
        (lambda g: g.replace(), "aborted", ResultCode.INVALID_GOAL),
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


# Answers to the senders ---------------------------------------------------------------------------

NAMES = ("shoulder", "elbow")
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


# Goals that an arm follows ------------------------------------------------------------------------


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
    """Return an arm that has followed a trajectory for 0.3 s of 1 s."""
    loop = Loop(model, **parameters)
    goal = send(loop, HOME + 0.2, 1.0)
    loop.run(0.3)
    assert goal.result is None
    return loop, goal


def test_a_goal_is_followed_from_the_begin_of_its_trajectory_to_its_end(model: Model) -> None:
    """Before it the feedback would tell times and points of the last trajectory."""
    loop = Loop(model)
    send(loop, HOME + 0.1, 0.5)
    loop.run(0.8)
    goal = send(loop, HOME, 0.5, lead=0.05)
    assert loop.controller.modes.goal_motion.followed is None
    loop.run(0.06)
    following = loop.controller.modes.goal_motion
    assert following.followed is goal
    assert 0.0 < following.place.time < 0.05
    assert loop.run(0.8).goal == "reached"
    assert ended(goal)[:2] == ("succeeded", ResultCode.SUCCESSFUL)
    assert loop.controller.modes.goal_motion.followed is None


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
    loose = JointTolerance(model.joint_names[2], ERASED)
    goal = send(loop, HOME, 0.5, goal=[loose])
    assert loop.run(0.8).goal == "reached"
    assert ended(goal).status == "succeeded"


@pytest.mark.parametrize("by_a_goal", [True, False])
def test_a_newer_trajectory_replaces_a_goal(model: Model, by_a_goal: bool) -> None:
    loop, goal = moving(model)
    with pytest.raises(TrajectoryError):
        send(loop, HOME + 9.0, 1.0)
    assert goal.result is None
    if by_a_goal:
        newer = send(loop, HOME + 0.1, 0.5)
    else:
        loop.follow(HOME + 0.1, 0.5)
    result = ended(goal)
    assert result == ("aborted", ResultCode.INVALID_GOAL, "replaced by a newer trajectory", "")
    assert loop.run(1.0).goal == "reached"
    if by_a_goal:
        assert ended(newer).status == "succeeded"


@pytest.mark.parametrize("order", ["hold", "float", "retract", "cancel"])
def test_an_order_ends_a_goal_for_good(model: Model, order: str) -> None:
    """The sender believes that it has ended: resume must not let the arm move on."""
    loop, goal = moving(model)
    give(loop.controller, order)
    assert (ended(goal).status, ended(goal).code) == ("aborted", ResultCode.INVALID_GOAL)
    assert "by request; goal aborted" in ended(goal).text
    loop.run(0.3)
    if order != "cancel":
        assert loop.controller.resume() == "holding here"
    here = loop.arm.q
    assert loop.run(0.5).goal == "cancelled"
    assert np.abs(loop.arm.q - here).max() < 0.01


def test_a_contact_ends_a_goal(model: Model) -> None:
    """The reaction is that of a trajectory without sender, but for what resume does."""
    loop, goal = moving(model, contact_reaction="float")
    loop.controller.contact(True)
    loop.controller.set_contact_force("link_5", np.array([0.0, 10.0, 0.0]))
    assert loop.controller.modes.goal_motion.touched_link == "link_5"
    result = ended(goal)
    assert (result.status, result.code) == ("aborted", ResultCode.INVALID_GOAL)
    assert result.touching("link_5").text == "contact at link_5; the arm yields; goal aborted"
    command = loop.run(0.3)
    assert command.reason.startswith("contact")
    assert command.goal == "cancelled"
    with pytest.raises(TrajectoryError, match="resume first"):
        loop.controller.modes.require_free()
    assert loop.controller.resume() == "holding here"


def test_a_slowed_goal_takes_its_time(model: Model) -> None:
    """The time of a goal is that of its trajectory, which a slowed arm passes more slowly."""
    loop, goal = moving(model, contact_reaction="slow", slow_factor=0.5, goal_time=0.1)
    loop.controller.contact(True)
    loop.run(1.0)  # 1.3 s after the start of 1 s, and 0.1 s for the goal
    assert goal.result is None
    loop.run(1.0)
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
    """Its sender must not wait for ever."""
    loop, goal = moving(model)
    assert loop.controller.silence(loop.arm.time + 1.0) is not None
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
    """Another goal, which is not followed, leaves the motion when it is cancelled."""
    loop, goal = moving(model, stop_time=0.15)
    other = TrajectoryGoal(1)
    loop.controller.modes.cancel_goal(other)
    assert ended(other).status == "canceled"
    assert goal.result is None
    loop.controller.modes.cancel_goal(goal)
    assert ended(goal).status == "canceled"
    stopping = []
    for _ in range(2):
        command = loop.run(0.08)
        stopping.append(loop.controller.modes.goal_motion.is_stopping)
    assert stopping == [True, False]
    assert command.mode == "hold"
    loop.controller.modes.require_free()


def test_points_of_goals_are_no_stream(model: Model) -> None:
    """A stream passes its points with speed; a goal ends at its point."""
    loop = Loop(model)
    for k in range(3):
        goal = send(loop, HOME + 0.01 * (k + 1), 0.2)
        loop.run(0.1)
    loop.run(0.4)
    assert ended(goal).status == "succeeded"
    final = loop.controller.modes.goal_motion.place.trajectory.final
    np.testing.assert_allclose(final, HOME + 0.03)
