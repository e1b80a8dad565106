"""Goals of FollowJointTrajectory to a running controller that moves the simulated arm.

The tests need the package ``control_msgs``,
which comes with ROS 2 and not with the wheels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.action import ActionClient
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from .bringup import BringUp, Process
from .controller_setting import ALONE, MODEL, NODE, wait_for_mode
from .probe import Probe

pytestmark = pytest.mark.skipif(
    find_spec("control_msgs") is None, reason="control_msgs is not installed"
)

PARAMETERS = {
    "urdf": "arm7",
    **ALONE,
    "contact_reaction": "float",
    "goal_tolerance": [0.05],
}
ARM = {"urdf": "arm7", "rate": 250.0}
"""A quarter of the usual rate leaves the processor to the tests."""
ACTION = f"{NODE}/follow_joint_trajectory"
SUCCEEDED, ABORTED, CANCELED = (
    GoalStatus.STATUS_SUCCEEDED,
    GoalStatus.STATUS_ABORTED,
    GoalStatus.STATUS_CANCELED,
)
INVALID_GOAL, INVALID_JOINTS, OLD_STAMP = -1, -2, -3


@dataclass
class Sent:
    """A goal that was sent, and the answers to its sender."""

    probe: Probe
    handle: Any
    feedback: list[Any] = field(default_factory=list)

    def result(self) -> tuple[int, int, str]:
        """Status, error code and error string, once there are any."""
        answer = self.handle.get_result_async()
        self.probe.wait(answer.done, "no result")
        found = answer.result()
        return found.status, found.result.error_code, found.result.error_string


class Sender:
    """A client of the action, on an arm that reports where it is."""

    def __init__(self, probe: Probe, process: Process) -> None:
        from control_msgs.action import FollowJointTrajectory
        from control_msgs.msg import JointTolerance

        self.probe, self.process = probe, process
        self.kind, self.tolerance = FollowJointTrajectory, JointTolerance
        self._client = probe.in_its_thread(
            lambda: ActionClient(probe.node, FollowJointTrajectory, ACTION)
        )
        self.states = probe.listen(JointState, "joint_states")
        probe.wait(self._client.server_is_ready, "no action server")
        heard = len(self.states)  # of the arm before, if there was one
        probe.wait(lambda: len(self.states) > heard + 1, "no joint states")

    def close(self) -> None:
        self.probe.in_its_thread(self._client.destroy)

    @property
    def position(self) -> np.ndarray:
        """Return the position of the arm [rad]."""
        return np.array(self.states[-1].position)

    def goal(self, *offsets: float, seconds: float = 1.0) -> Any:
        """A goal through points that are so far from where the arm is, in all joints [rad]."""
        goal = self.kind.Goal()
        goal.trajectory = self.trajectory(offsets, seconds)
        return goal

    def trajectory(self, offsets: Sequence[float], seconds: float) -> JointTrajectory:
        message = JointTrajectory(joint_names=list(self.states[-1].name))
        here = self.position
        for k, offset in enumerate(offsets):
            point = JointTrajectoryPoint(positions=(here + offset).tolist())
            point.time_from_start = Duration(seconds=seconds * (k + 1) / len(offsets)).to_msg()
            message.points.append(point)
        return message

    def offer(self, goal: Any) -> Sent:
        """Send a goal; whether it was accepted is in its handle."""
        sent = Sent(self.probe, None)
        answer = self._client.send_goal_async(
            goal, feedback_callback=lambda message: sent.feedback.append(message.feedback)
        )
        self.probe.wait(answer.done, "no answer to a goal")
        sent.handle = answer.result()
        return sent

    def send(self, goal: Any) -> Sent:
        sent = self.offer(goal)
        assert sent.handle.accepted, self.process.output
        return sent

    def moving(self) -> Sent:
        """A goal that is followed, for as long as a test may take."""
        wait_for_mode(self.probe, "hold")
        sent = self.send(self.goal(0.1, seconds=300.0))
        self.probe.wait(lambda: sent.feedback, "no feedback")
        return sent

    def rejected(self, goal: Any) -> str:
        """What the node logs of a goal that it must reject."""
        before = len(self.process.output)
        assert not self.offer(goal).handle.accepted
        self.probe.wait(lambda: "rejected:" in self.process.output[before:], "gives no reason")
        return self.process.output[before:]


@pytest.fixture(scope="module")
def sender(bring_up: BringUp, probe: Probe) -> Iterator[Sender]:
    """A client beside the arm and its controller."""
    bring_up.start("simulated_arm", ARM)
    process = bring_up.start(NODE, PARAMETERS)
    wait_for_mode(probe, "hold")
    sender = Sender(probe, process)
    yield sender
    sender.close()
    bring_up.stop()


def test_a_goal_is_followed_to_its_end(sender: Sender) -> None:
    goal = sender.goal(0.1, 0.2, seconds=1.0)
    end = np.array(goal.trajectory.points[-1].positions)
    sent = sender.send(goal)
    status, code, text = sent.result()
    assert (status, code, text) == (SUCCEEDED, 0, "goal reached")
    # On a busy machine the probe hears old joint states.
    sender.probe.wait(lambda: np.abs(sender.position - end).max() < 0.05, "is not there")
    assert len(sent.feedback) >= 5  # 20 in a second, fewer on a busy machine
    last = sent.feedback[-1]
    assert set(last.joint_names) == set(MODEL.joint_names)
    desired, actual, error = (
        np.array(point.positions) for point in (last.desired, last.actual, last.error)
    )
    np.testing.assert_allclose(desired - actual, error, atol=1e-12)
    assert np.abs(error).max() < 0.05
    times = [f.desired.time_from_start.sec for f in sent.feedback]
    assert times == sorted(times)
    assert {f.index for f in sent.feedback} <= {0, 1}


def test_a_bad_goal_is_aborted_with_its_code(sender: Sender) -> None:
    """And leaves the one that is followed."""
    moving = sender.moving()
    unknown, old, negative = (sender.goal(0.01) for _ in range(3))
    unknown.trajectory.joint_names[2] = "elbow"
    old.trajectory.header.stamp.sec = 1000
    negative.goal_tolerance = [sender.tolerance(name=MODEL.joint_names[0], position=-3.0)]
    for goal, code, said in (
        (unknown, INVALID_JOINTS, "no joint 'elbow'"),
        (negative, INVALID_GOAL, "goal_tolerance"),
        (old, OLD_STAMP, "s ago"),
    ):
        result = sender.send(goal).result()
        assert result[:2] == (ABORTED, code)
        assert said in result[2]
    count = len(moving.feedback)
    sender.probe.wait(lambda: len(moving.feedback) > count, "the running goal does not go on")
    sender.send(sender.goal(0.0, seconds=0.3)).result()


def test_a_cancelled_goal_ends_with_the_arm_at_rest(sender: Sender) -> None:
    """It is answered when the arm has stopped, and the next goal is taken at once."""
    moving = sender.moving()
    moving.handle.cancel_goal_async()
    assert moving.result()[0] == CANCELED
    report = sender.probe.report(NODE)
    assert (report.values["mode"], report.values["goal"]) == ("hold", "cancelled")
    assert sender.send(sender.goal(0.02, seconds=0.3)).result()[0] == SUCCEEDED


def test_a_contact_ends_a_goal_and_names_the_link(sender: Sender) -> None:
    """As MoveIt sees it."""
    moving = sender.moving()
    wrench = WrenchStamped()
    wrench.header.frame_id = "link_5"
    wrench.wrench.force.y = 20.0
    sender.probe.send("contact_detector/contact", Bool(data=True))
    sender.probe.send("contact_detector/external_wrench", wrench)
    result = moving.result()
    assert result == (ABORTED, INVALID_GOAL, "contact at link_5; the arm yields; goal aborted")
    assert "contact" in sender.rejected(sender.goal(0.01))
    sender.probe.send("contact_detector/contact", Bool(data=False))
    assert sender.probe.call(Trigger, f"{NODE}/resume").success


def test_a_signal_ends_the_node_with_a_goal(sender: Sender) -> None:
    """Its sender gets the result. Last, as the node is gone afterwards."""
    moving = sender.moving()
    answer = moving.handle.get_result_async()
    count = len(moving.feedback)
    sender.probe.wait(lambda: len(moving.feedback) > count + 2, "the request may not have arrived")
    sender.process.end()
    sender.probe.wait(answer.done, "no result")
    found = answer.result()
    assert (found.status, found.result.error_code) == (ABORTED, INVALID_GOAL)
    assert found.result.error_string == "the controller was deactivated; goal aborted"
    assert "Traceback" not in sender.process.output
    assert "goal aborted: the controller was deactivated" in sender.process.output
    assert "; goal aborted" not in sender.process.output
