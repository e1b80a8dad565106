"""Publication of the demo's trajectory and pushes, at times of the simulated arm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import Vector3, WrenchStamped
from rclpy.duration import Duration
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.nodes.command_node import CommandNode
from rbd_control.nodes.demo.scenario import Push, Scenario
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.messages import to_array

TRAJECTORY = "passivity_controller/joint_trajectory"

PUSH = "simulated_arm/external_wrench"

PUSH_SHOWN = 1.0
"""Time for which :attr:`ScenarioDriver.activity` names a push [s]."""


class ScenarioDriver:
    """Publishes the trajectory of a scenario, and each push when it is due.

    A message that the middleware refuses is published again at the next call.

    Args:
        node: creates the publishers of trajectory and pushes.
        scenario: motion and pushes.
        joints: names of the joints, in the order of the scenario.

    Attributes:
        activity: text that names the present motion or push, for the user; empty before the motion.
    """

    def __init__(
        self, node: CommandNode | GuardedNode, scenario: Scenario, joints: Sequence[str]
    ) -> None:
        self.activity = ""
        self._scenario, self._joints = scenario, tuple(joints)
        self._begin: float | None = None
        self._pushes: list[Push] = []
        self._shown_until = 0.0
        self._trajectory = node.create_publisher(JointTrajectory, TRAJECTORY, 10)
        self._push = node.create_publisher(WrenchStamped, PUSH, 10)

    @property
    def is_heard(self) -> bool:
        """Whether the topics of the trajectory and of the pushes both have subscribers."""
        readers = (self._trajectory, self._push)
        return all(publisher.get_subscription_count() for publisher in readers)

    @property
    def has_begun(self) -> bool:
        """Whether the trajectory was sent."""
        return self._begin is not None

    def elapsed(self, time: float) -> float:
        """Return the time since the beginning of the motion [s], or zero before the motion.

        Args:
            time: present stamp of the arm's joint states [s].
        """
        return 0.0 if self._begin is None else time - self._begin

    def begin(self, time: float) -> bool:
        """Send the trajectory; the motion and its pushes begin anew.

        Args:
            time: present stamp of the arm's joint states [s].

        Returns:
            Whether the middleware accepted the trajectory. If it refused the trajectory, the motion
            has not begun; call this method again.
        """
        message = JointTrajectory(joint_names=list(self._joints))
        for point in self._scenario.points():
            message.points.append(
                JointTrajectoryPoint(
                    positions=to_array(np.asarray(point.positions)),
                    velocities=to_array(np.asarray(point.velocities)),
                    accelerations=to_array(np.asarray(point.accelerations)),
                    time_from_start=Duration(seconds=point.time_from_start).to_msg(),
                )
            )
        if not self._trajectory.try_publish(message):
            return False
        self._begin, self._shown_until = time, 0.0
        self._pushes = list(self._scenario.pushes)
        return True

    def step(self, time: float) -> None:
        """Send the next push if it is due, and update ``activity``; call this method often.

        Args:
            time: present stamp of the arm's joint states [s].
        """
        if self._begin is None:
            return
        elapsed = self.elapsed(time)
        if self._pushes and elapsed >= self._pushes[0].time:
            push = self._pushes[0]
            message = WrenchStamped()
            message.header.frame_id = push.link
            x, y, z = push.force
            message.wrench.force = Vector3(x=x, y=y, z=z)
            if self._push.try_publish(message):
                self._pushes.pop(0)
                self._say(f"pushing {push.link} with {np.linalg.norm(push.force):.0f} N", elapsed)
        elif elapsed > self._shown_until:
            stroke = elapsed > self._scenario.stroke
            self._say("moving into the ball" if stroke else "moving every joint", elapsed)

    def _say(self, what: str, elapsed: float) -> None:
        if what != self.activity:
            self.activity = what
            self._shown_until = elapsed + PUSH_SHOWN
