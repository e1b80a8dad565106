"""Output of the retreat: a trajectory back along the travelled path, after a stop on contact."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rclpy.duration import Duration
from rclpy.exceptions import InvalidTopicNameException
from rclpy.qos import QoSProfile
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.contact_stop import Retreat, RetreatPoint, StandstillMonitor, StopParameters
from rbd_control.contact_stop.retreat_along_path import Phase, RetreatSupervision
from rbd_control.errors import InputError, ParameterError
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode, FaultTolerantPublisher

ACKNOWLEDGE_TIME = 1.0
"""Longest time to publish the hold at a deactivation, and again to wait for its receipt [s].

The hold is the trajectory that stops a running retreat.
"""

RETRY_PERIOD = 0.01
"""Period at which a refused hold is published again during a deactivation [s]."""


class RetreatOutput:
    """Records the travelled path, publishes the retreat of a stopped arm, and supervises it.

    The *retreat* is a trajectory back along the last part of the travelled path. The *hold* is a
    trajectory that stops the retreat at the present position of the arm, or at the position planned
    for this time where the present one is unknown (:meth:`RetreatSupervision.target`).

    Args:
        node: the node.
        parameters: joints, length and speed of the retreat, and conditions of standstill.
    """

    def __init__(self, node: FaultTolerantNode, parameters: StopParameters) -> None:
        self._node, self._retreat = node, Retreat(parameters)
        self._supervision = RetreatSupervision(parameters)
        self._publisher: FaultTolerantPublisher[JointTrajectory] | None = None
        self._waiting: JointTrajectory | None = None
        """The retreat that the middleware has refused to publish, or None."""
        self._is_hold_due = False
        """Whether a hold is still to be published."""

    @property
    def phase(self) -> Phase:
        """The phase of the retreat: ``none``, ``waiting``, ``retreating`` or ``holding``.

        :class:`~rbd_control.contact_stop.retreat_along_path.RetreatSupervision` defines them.
        """
        return self._supervision.phase

    # Lifecycle -------------------------------------------------------------------------------

    def configure(self, topic: str) -> None:
        """Create the publisher of the retreat, unless ``retreat_distance`` is 0.

        Args:
            topic: topic on which the controller of the arm receives trajectories.

        Raises:
            ParameterError: for an invalid name of a topic.
        """
        if not self._retreat.parameters.retreat_distance:
            return
        try:
            self._publisher = self._node.create_publisher(
                JointTrajectory, topic, QoSProfile(depth=1)
            )
        except InvalidTopicNameException as error:
            raise ParameterError(f"retreat_topic: {error}") from None

    def cleanup(self) -> None:
        """Destroy the publisher."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None

    def set_parameters(self, parameters: StopParameters) -> None:
        """Apply new parameters; a planned retreat keeps its points, a hold uses the new speed."""
        self._retreat.parameters = self._supervision.parameters = parameters

    def reset(self) -> None:
        """Discard the path, and a retreat or hold not published yet; allow a new retreat."""
        if self._supervision.phase == "waiting":
            self._node.get_logger().info("the retreat was not published and is dropped")
        self._waiting, self._is_hold_due = None, False
        self._supervision.drop()
        self._retreat.reset()

    def end(self, motion: StandstillMonitor) -> None:
        """Stop a running retreat by a hold, and discard the travelled path.

        It waits until the hold is published, and then until it is received, for at most
        :data:`ACKNOWLEDGE_TIME` each. A hold that could not be published is an error in the log.

        Args:
            motion: the monitored joints.
        """
        try:
            self._hold_at_last(motion)
        finally:
            self.reset()

    def _hold_at_last(self, motion: StandstillMonitor) -> None:
        self.hold("the guard is deactivated", time.monotonic(), motion)
        deadline = time.monotonic() + ACKNOWLEDGE_TIME
        while self._is_hold_due and time.monotonic() < deadline:
            time.sleep(RETRY_PERIOD)
            self._publish_hold(time.monotonic(), motion)
        if self._is_hold_due:
            self._node.get_logger().error(
                f"the hold could not be published for {ACKNOWLEDGE_TIME:g} s; the arm continues "
                "its retreat without supervision"
            )
        elif self._publisher is not None and self.phase == "holding":
            self._publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_TIME))

    # Retreat ---------------------------------------------------------------------------------

    def add(self, motion: StandstillMonitor, is_latched: bool) -> None:
        """Add the present position to the travelled path, with the times of its receipt and stamp.

        Without a publisher, that is with a ``retreat_distance`` of 0, nothing is stored.

        Args:
            motion: the monitored joints, which all have a position.
            is_latched: whether a stop is latched, so that the path before it is kept.
        """
        if self._publisher is not None:
            # Times of the joint with the oldest position: messages with the other joints only must
            # not hide a gap.
            since, stamp = motion.positions_since(), motion.stamps_since()
            self._retreat.take(since, motion.positions(), is_latched, stamp)

    def begin(self, now: float, motion: StandstillMonitor, obstacle: str) -> None:
        """Publish the retreat of an arm that has stopped, once for each stop.

        There is no retreat, and the log says why, without a verdict about contact, while it is
        unknown whether the arm is at rest, and without a travelled path. A retreat that the
        middleware refuses waits for :meth:`supervise`.

        Args:
            now: time on the steady clock [s].
            motion: the monitored joints.
            obstacle: reason why the arm must not retreat, such as a missing verdict; or empty.
        """
        if self._publisher is None:
            return
        reason = obstacle or ("standstill is unknown" if motion.still_since(now) is None else "")
        position = motion.positions()
        points = [] if reason else self._retreat.begin(position)
        if not points:
            self._node.get_logger().info(f"no retreat: {reason or 'no travelled path is stored'}")
            return
        self._waiting = self._message(points)
        self._supervision.plan(now, position, points)
        self._node.get_logger().info(f"retreat along the travelled path in {points[-1].time:.2f} s")
        self._publish_waiting(now)

    def refuse_resume(self) -> None:
        """Raise an error while the retreat moves or stops the arm, so that the stop stays latched.

        Raises:
            InputError: until the retreat has ended.
        """
        obstacle = self._supervision.obstacle()
        if obstacle:
            raise InputError(f"cannot resume: {obstacle}")

    def supervise(
        self, now: float, motion: StandstillMonitor, silence: str, is_touched: bool
    ) -> None:
        """Stop the retreat by a hold if it must not go on; publish again what was refused.

        :meth:`RetreatSupervision.check` decides whether the retreat may go on. A retreat or hold
        that the middleware has refused is published again, and so is a hold at a planned position
        when the present position is known. Call this method every few milliseconds while a stop is
        latched. It checks before it publishes, because the process may have been paused.

        Args:
            now: time on the steady clock [s].
            motion: the monitored joints.
            silence: reason why there is no verdict about contact; empty with a verdict.
            is_touched: whether the contact flag is raised.
        """
        reason = self._supervision.check(now, motion, silence, is_touched)
        self._is_hold_due |= self._supervision.must_hold_again(now, motion)
        if reason:
            self.hold(reason, now, motion)
        elif self._is_hold_due:
            self._publish_hold(now, motion)
        else:
            self._publish_waiting(now)
        if self._supervision.has_ended(now, motion):
            self._node.get_logger().info("the retreat has ended")

    def hold(self, reason: str, now: float, motion: StandstillMonitor) -> None:
        """Stop a running retreat by a hold, or drop a retreat that is not published yet.

        Args:
            reason: the reason as text, for the log.
            now: time on the steady clock [s].
            motion: the monitored joints.
        """
        if self._supervision.phase == "waiting":
            self._waiting = None
            self._supervision.drop()
            self._node.get_logger().warning(f"the retreat is dropped before it began: {reason}")
        elif self._supervision.phase == "retreating":
            self._is_hold_due = True
            self._supervision.hold()
            self._publish_hold(now, motion)
            refused = "; the middleware refuses the hold, it is repeated"
            self._node.get_logger().warning(
                f"the retreat is stopped: {reason}{refused if self._is_hold_due else ''}"
            )
        elif self._is_hold_due:
            self._publish_hold(now, motion)

    # Publication -----------------------------------------------------------------------------

    def _publish_waiting(self, now: float) -> None:
        """Publish a retreat that is not published yet; it begins when the middleware takes it."""
        if self._publisher is None or self._waiting is None:
            return
        if self._publisher.try_publish(self._waiting):
            self._waiting = None
            self._supervision.begin(now)

    def _publish_hold(self, now: float, motion: StandstillMonitor) -> None:
        """Publish the hold for the time ``now``; if the middleware refuses it, it stays due."""
        target = self._supervision.target(now, motion)
        if self._publisher is not None and self._publisher.try_publish(self._message([target])):
            self._is_hold_due = False
            self._supervision.held(now, target.time)

    def _message(self, points: Sequence[RetreatPoint]) -> JointTrajectory:
        message = JointTrajectory(joint_names=list(self._retreat.parameters.joints))
        for point in points:
            message.points.append(
                JointTrajectoryPoint(
                    positions=point.position,
                    time_from_start=Duration(seconds=point.time).to_msg(),
                )
            )
        return message
