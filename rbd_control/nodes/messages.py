"""Conversion between messages and plain values, fast enough for a 1 kHz loop."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rbd_control.nodes.joint_state_wire import JointStateTemplate, TailTemplate
from rbd_control.nodes.publications import GuardedPublisher

EVERY_SAMPLE = QoSProfile(depth=1000)
"""Quality of service of topics with a message per joint state: reliable, depth of 1 s at 1 kHz."""

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""Quality of service of a topic whose last message is stored for late subscribers."""

READERS_PERIOD = 0.1
"""Period at which nodes check whether their topics have subscribers [s]."""

_NONE = array("d")

Message = TypeVar("Message")


class Stamp(NamedTuple):
    """A time as in ``builtin_interfaces/Time``: ``sec`` [s] and ``nanosec`` [ns].

    It replaces the message in the control loop, because the message takes long to construct.
    """

    sec: int
    nanosec: int

    def to_msg(self) -> Time:
        """Return the stamp as a message."""
        return Time(sec=self.sec, nanosec=self.nanosec)


def to_seconds(stamp: Time | Stamp) -> float:
    """Return the time of a stamp, on the clock of the stamp [s]."""
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def to_stamp(seconds: float) -> Time:
    """Return the time ``seconds`` [s], rounded to nanoseconds, as a message."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def to_array(values: NDArray[np.float64]) -> array[float]:
    """Return the values as an array that a message field accepts without checking each value."""
    return array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())


class TorqueWriter:
    """Publishes commands as ``Float64MultiArray``, and reuses the bytes of one message.

    Args:
        publisher: publisher of the topic.
        count: number of values in each message, one for each joint.
    """

    def __init__(self, publisher: GuardedPublisher[Float64MultiArray], count: int) -> None:
        self._publisher = publisher
        self._template = TailTemplate(_multi_array, count)

    def publish(self, values: NDArray[np.float64]) -> bool:
        """Publish the torques ``values``, (count,) [N·m or N].

        Returns:
            Whether the middleware accepted the message.
        """
        exact = self._template.is_exact
        return self._publisher.try_publish(
            self._template.filled(values) if exact else _multi_array(values)
        )


def _multi_array(values: NDArray[np.float64]) -> Float64MultiArray:
    return Float64MultiArray(data=to_array(values))


class Writer(Generic[Message]):
    """Base class of objects that publish on one topic only while the topic has subscribers.

    Attributes:
        is_heard: whether the topic had subscribers at the last call of :meth:`look_for_readers`;
            True before the first call.
    """

    def __init__(self, publisher: Publisher[Message]) -> None:
        self._publisher = publisher
        self.is_heard = True

    def look_for_readers(self) -> None:
        """Check for subscribers, without which nothing is published. Call it periodically."""
        self.is_heard = self._publisher.get_subscription_count() > 0


class JointStateWriter(Writer[JointState]):
    """Publishes joint states with the same joint names in every message.

    Args:
        publisher: publisher of the topic.
        names: of the joints.
        frame: the root link of the arm, as ``header.frame_id``; an empty text leaves it empty.
    """

    def __init__(
        self, publisher: Publisher[JointState], names: Sequence[str], frame: str = ""
    ) -> None:
        super().__init__(publisher)
        self._message = JointState()
        self._message.header.frame_id = frame
        self._message.name = list(names)
        self._templates: dict[tuple[bool, ...], JointStateTemplate] = {}

    def publish(
        self,
        stamp: Time | Stamp,
        position: NDArray[np.float64] | None = None,
        velocity: NDArray[np.float64] | None = None,
        effort: NDArray[np.float64] | None = None,
    ) -> None:
        """Publish a joint state if :attr:`is_heard`; fields that are None stay empty.

        Args:
            stamp: time of the joint state.
            position, velocity, effort: one value for each of ``names``, in their order, (n,) each
                [rad or m, rad/s or m/s, N·m or N].
        """
        if not self.is_heard:
            return
        fields = (position, velocity, effort)
        present = (position is not None, velocity is not None, effort is not None)
        template = self._templates.get(present)
        if template is not None and template.is_exact:
            self._publisher.publish(template.filled(stamp.sec, stamp.nanosec, fields))
            return
        message = self._message
        message.header.stamp = stamp.to_msg() if isinstance(stamp, Stamp) else stamp
        message.position = _NONE if position is None else to_array(position)
        message.velocity = _NONE if velocity is None else to_array(velocity)
        message.effort = _NONE if effort is None else to_array(effort)
        if template is None:
            self._templates[present] = JointStateTemplate(message)
        self._publisher.publish(message)
