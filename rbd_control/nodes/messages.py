"""Between messages and plain values, cheap enough for every sample of a 1 kHz loop."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rbd_control.nodes.joint_state_wire import JointStateTemplate, TailTemplate

EVERY_SAMPLE = QoSProfile(depth=1000)
"""For what is published with each joint state: a second of it is kept for slow reliable readers."""

READERS_PERIOD = 0.1
"""How often it is looked for somebody who listens [s]."""

_NONE = array("d")

Message = TypeVar("Message")


class Stamp(NamedTuple):
    """What a ``builtin_interfaces/Time`` holds; that itself takes long to make."""

    sec: int
    nanosec: int

    def to_msg(self) -> Time:
        """As a message."""
        return Time(sec=self.sec, nanosec=self.nanosec)


def to_seconds(stamp: Time | Stamp) -> float:
    """The time of a stamp [s]."""
    return float(stamp.sec + 1e-9 * stamp.nanosec)


def to_stamp(seconds: float) -> Time:
    """The stamp of a time [s]."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def to_array(values: NDArray[np.float64]) -> array[float]:
    """The values as a message field takes them without looking at each."""
    return array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())


class TorqueWriter:
    """Publishes an array of ``count`` numbers over and over."""

    def __init__(self, publisher: Publisher[Float64MultiArray], count: int) -> None:
        self._publisher = publisher
        self._template = TailTemplate(_multi_array, count)

    def publish(self, values: NDArray[np.float64]) -> None:
        """Publish."""
        exact = self._template.is_exact
        self._publisher.publish(self._template.filled(values) if exact else _multi_array(values))


def _multi_array(values: NDArray[np.float64]) -> Float64MultiArray:
    return Float64MultiArray(data=to_array(values))


class Writer(Generic[Message]):
    """Publishes messages of one kind over and over.

    Attributes:
        is_heard: whether it publishes at all; see :meth:`look_for_readers`.
    """

    def __init__(self, publisher: Publisher[Message]) -> None:
        self._publisher = publisher
        self.is_heard = True

    def look_for_readers(self) -> None:
        """Publish nothing from now on while nobody would hear it; to be called now and then."""
        self.is_heard = self._publisher.get_subscription_count() > 0


class JointStateWriter(Writer[JointState]):
    """Publishes joint states of the same joints over and over.

    Args:
        publisher: of the topic.
        names: of the joints.
        frame: the root link of the arm, as ``header.frame_id``; empty for none.
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
        """Publish; what is None stays empty."""
        if not self.is_heard:
            return
        fields = (position, velocity, effort)
        present = tuple(field is not None for field in fields)
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
