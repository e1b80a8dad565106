"""The torque output of the controller node, which sends zero torque when it closes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from std_msgs.msg import Float64MultiArray

from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import EVERY_SAMPLE, NumberWriter
from rbd_control.ros.publications import GuardedPublisher, Output

COMMANDS = Output(
    "effort_controller/commands",
    Float64MultiArray,
    EVERY_SAMPLE,
    "torque [N·m], in the order of `joints`: each joint state while the node is active",
)

ACKNOWLEDGE_TIME = 1.0
"""Longest time to publish the last zero torque, and again to wait for its acknowledgement [s]."""

READER_TIME = 0.5
"""Longest wait until the arm, which subscribes to the torque, discovers the new publisher [s]."""

_POLL = 0.005


class TorqueOutput:
    """Publishes torque while it is open. The last message, from :meth:`close`, is zero torque.

    A receiver may apply the last command for ever, as ros2_control's forward_command_controller
    does. Every end of the controller must therefore call :meth:`close`. After that, :meth:`send`
    does nothing. The lock allows another thread to send zero torque while the callback thread
    hangs, except while it hangs in ``publish``, which holds the lock; see
    :class:`CallbackWatchdog`.

    Args:
        node: the node.
        order: (n,) indices of the published joints in the model: the order of the parameter
            ``joints``.
        clock: returns the time of a steady clock [s].
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        order: NDArray[np.intp],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._clock = node, clock
        self._count = len(order)
        self._zero = np.zeros(self._count)
        # None for the order of the model, which saves a copy of each torque.
        self._order = None if np.array_equal(order, np.arange(self._count)) else order
        self._publisher: GuardedPublisher[Float64MultiArray] | None = None
        self._writer: NumberWriter | None = None
        self._published = clock()
        self._lock = Lock()

    @property
    def is_open(self) -> bool:
        """Whether the publisher exists; other controllers count it as a source of torque."""
        return self._publisher is not None

    def open(self, meanwhile: Callable[[], object]) -> None:
        """Create the publisher and wait until a subscribing arm has discovered it.

        The wait lasts at most :data:`READER_TIME`; without a subscriber there is no wait. Call it
        at activation, not earlier: a publisher of a waiting node would count as a second source of
        torque.

        Args:
            meanwhile: called repeatedly during the wait.
        """
        self._publisher = self._node.open(COMMANDS)
        self._writer = NumberWriter(self._publisher, self._count)
        # rclpy does not apply remappings to the name in this query.
        topic = self._node.resolve_topic_name(COMMANDS.topic)
        deadline = time.monotonic() + READER_TIME
        while (
            self._node.count_subscribers(topic)
            and not self._publisher.get_subscription_count()
            and time.monotonic() < deadline
        ):
            meanwhile()
            time.sleep(_POLL)
        self._published = self._clock()

    @property
    def age(self) -> float:
        """Time since a torque was last published or, if none was, since :meth:`open` [s]."""
        return self._clock() - self._published

    def send(self, torque: NDArray[np.float64], deadline: float = math.inf) -> bool:
        """Publish a torque if the output is open.

        Args:
            torque: (n,) in the order of the model [N·m or N]; it is published in ``order``.
            deadline: time of the clock after which zero torque is published in its place [s].

        Returns:
            Whether the torque was published; False if the middleware refused it, if zero torque was
            published in its place, or if the output is not open.
        """
        ordered = torque if self._order is None else torque[self._order]
        with self._lock:
            # The process may have been stopped since the torque was computed.
            is_late = self._clock() > deadline
            if is_late:
                ordered = self._zero
            if self._writer is None or not self._writer.publish(ordered):
                return False
            self._published = self._clock()
            return not is_late

    def send_zero(self) -> bool:
        """Publish zero torque; return whether it was published, see :meth:`send`."""
        return self.send(self._zero)

    def abandon(self) -> None:
        """Destroy the publisher without a last zero torque; call it only if no torque was sent."""
        with self._lock:
            publisher, self._publisher, self._writer = self._publisher, None, None
            if publisher is not None:
                self._node.destroy_publisher(publisher)

    def close(self) -> None:
        """Send zero torque, wait for its acknowledgement, and destroy the publisher.

        Zero torque that the middleware refuses is published again for up to
        :data:`ACKNOWLEDGE_TIME`. The wait for the acknowledgement lasts at most as long.
        Afterwards no thread can send torque. A second call does nothing. An exception of the
        middleware is passed on after the output has closed.
        """
        with self._lock:
            publisher, writer = self._publisher, self._writer
            self._writer = None
            if publisher is None or writer is None:
                return
            try:
                self._publish_zero(writer)
                if not publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_TIME)):
                    self._node.get_logger().warning(
                        f"not every subscriber of {COMMANDS.topic} acknowledged the zero torque "
                        f"within {ACKNOWLEDGE_TIME:g} s; check that the arm has stopped"
                    )
            finally:
                self._publisher = None
                self._node.destroy_publisher(publisher)

    def _publish_zero(self, writer: NumberWriter) -> None:
        """Publish zero torque; repeat it while refused, and log an error after the longest time."""
        deadline = self._clock() + ACKNOWLEDGE_TIME
        while not writer.publish(self._zero):
            if self._clock() > deadline:
                self._node.get_logger().error(
                    f"zero torque could not be published on {COMMANDS.topic} for "
                    f"{ACKNOWLEDGE_TIME:g} s: without a timeout of its own the arm keeps the last "
                    "torque; stop it by hand"
                )
                return
            time.sleep(_POLL)
