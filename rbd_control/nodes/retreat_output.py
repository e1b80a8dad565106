"""Output of the retreat: a trajectory back along the travelled path, after a stop on contact."""

from __future__ import annotations

from collections.abc import Sequence

from rclpy.duration import Duration
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.contact_stop import ArmMotion, Retreat, RetreatPoint, StopParameters
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.publications import GuardedPublisher

HOLD_TIME = 0.1
"""Time in which a retreat stops after a new contact [s]."""


class RetreatOutput:
    """Records the travelled path, and publishes the retreat once the arm has stopped.

    Args:
        node: the node.
        parameters: length and speed of the retreat.
    """

    def __init__(self, node: GuardedNode, parameters: StopParameters) -> None:
        self._node, self._retreat = node, Retreat(parameters)
        self._publisher: GuardedPublisher[JointTrajectory] | None = None
        self._unsent: JointTrajectory | None = None
        """The trajectory that the middleware has refused to publish, or None."""

    def configure(self, topic: str) -> None:
        """Create the publisher, unless the parameters disable the retreat.

        Args:
            topic: topic of the arm's trajectories.
        """
        if self._retreat.parameters.retreat_distance:
            self._publisher = self._node.create_publisher(
                JointTrajectory, topic, QoSProfile(depth=1)
            )

    def cleanup(self) -> None:
        """Destroy the publisher."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def set_parameters(self, parameters: StopParameters) -> None:
        """Apply new parameters from the next retreat on."""
        self._retreat.parameters = parameters

    def reset(self) -> None:
        """Forget the travelled path, and a trajectory that is not published yet."""
        self._unsent = None
        self._retreat.reset()

    def add(self, now: float, motion: ArmMotion, is_latched: bool) -> None:
        """Record the present position.

        Args:
            now: time on the steady clock [s].
            motion: the monitored joints, which all have a position.
            is_latched: whether a stop is latched.
        """
        if self._publisher is not None:
            self._retreat.take(now, motion.positions(), is_latched)

    def begin(self, now: float, motion: ArmMotion) -> None:
        """Publish the retreat of an arm that has stopped; it needs the joint states.

        Args:
            now: time on the steady clock [s].
            motion: the monitored joints.
        """
        if self._publisher is None or motion.still_since(now) is None:
            return
        points = self._retreat.begin(now, motion.positions())
        if points:
            self._send(points)
            self._node.get_logger().info(
                f"retreat along the travelled path in {points[-1].time:.2f} s"
            )

    def stop_if_touched(self, now: float, motion: ArmMotion, is_touched: bool) -> None:
        """End the retreat at the present position if there is contact.

        Args:
            now: time on the steady clock [s].
            motion: the monitored joints.
            is_touched: whether the contact flag is raised.
        """
        if self._retreat.is_hindered(now, is_touched):
            # The target is the present position, so that the arm stops there.
            self._send([RetreatPoint(HOLD_TIME, motion.positions())])
            self._node.get_logger().warning("contact during the retreat; the arm stays where it is")

    def publish_waiting(self) -> None:
        """Publish a trajectory that the middleware has refused; call it every few milliseconds."""
        if self._publisher is None or self._unsent is None:
            return
        if self._publisher.try_publish(self._unsent):
            self._unsent = None

    def _send(self, points: Sequence[RetreatPoint]) -> None:
        """Publish a trajectory; it stays due if the middleware refuses it."""
        message = JointTrajectory(joint_names=list(self._retreat.parameters.joints))
        for point in points:
            message.points.append(
                JointTrajectoryPoint(
                    positions=point.position,
                    time_from_start=Duration(seconds=point.time).to_msg(),
                )
            )
        self._unsent = message
        self.publish_waiting()
