"""Messages on the wire: stamps, arrays, quality of service, and serialization for a 1 kHz loop.

The bytes of messages with the same names and lengths differ only in stamp and numbers, which always
have the same offsets. A :class:`Template` is used only after rclpy has read its bytes as the same
message. All other messages are converted by rclpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.subscription import Subscription
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from rbd_control.joint_states import JointMessage
from rbd_control.joint_states.cdr import HEAD, STAMP, JointStateReader
from rbd_control.ros.fault_tolerant_node import FaultTolerantPublisher

Array = NDArray[np.float64]


def joint_state_reader() -> JointStateReader:
    """Return a reader of serialized joint states.

    It reads messages of a known layout itself. For all other messages it calls rclpy, whose
    exceptions it passes on.
    """
    return JointStateReader(_decode)


def _decode(receipt: float, raw: bytes) -> JointMessage:
    """Return the message that rclpy makes of the bytes, received at ``receipt`` [s]."""
    message = deserialize_message(raw, JointState)
    stamp = message.header.stamp
    fields = (message.position, message.velocity, message.effort)
    numbers = [np.array(field, dtype=np.float64) for field in fields]
    return JointMessage(stamp.sec + 1e-9 * stamp.nanosec, receipt, tuple(message.name), *numbers)


MOST_AT_ONCE = 10_000
"""Default maximum number of messages that one call of :meth:`Arrivals.take` returns."""

_MOST_PUBLISHERS = 16


class Arrivals:
    """Takes the messages that wait in the queue of a subscription, with their sequence numbers.

    The middleware does not count messages that newer messages overwrite in a full queue. Each
    message carries the sequence number of its publisher, but the events executor of rclpy 9.1
    cannot pass this number to a callback (``SystemError``). The sequence number of the message that
    the callback receives is therefore unknown. This class takes the messages that follow it in the
    queue together with their numbers. Messages are overwritten only in a full queue, which holds at
    least two messages and therefore at least one with a number. An overwritten message thus lies
    between two known numbers, unless it comes before the first one. The gap between two known
    numbers, less the messages taken meanwhile, is the number of losses.

    With several publishers on the topic, the messages of the other publishers are subtracted as
    well, and the estimate is too low.

    Args:
        subscription: a subscription with ``raw=True`` and a queue depth of at least 2, whose
            callback calls :meth:`take`.

    Attributes:
        missed: estimated number of messages that were published to this subscription and never
            taken, because they were overwritten in the queue or lost in transport.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._handle = subscription.handle
        self._type = subscription.msg_type
        self.missed = 0
        self._taken = 0
        self._known: dict[bytes, tuple[int, int]] = {}

    def take(self, first: bytes | None, most: int = MOST_AT_ONCE) -> list[bytes]:
        """Take the waiting messages from the queue, update ``missed``, and return the messages.

        Messages beyond the maximum ``most`` stay in the queue.

        Args:
            first: serialized message that the callback has received, which is no longer in the
                queue; None if the method is not called by the callback.
            most: maximum number of messages, ``first`` included.

        Returns:
            The serialized messages, ``first`` included, oldest first.
        """
        found = [] if first is None else [first]
        self._taken += len(found)
        with self._handle:
            while len(found) < most:
                message = self._handle.take_message(self._type, True)
                if message is None:
                    break
                self._taken += 1
                found.append(message[0])
                self._count(message[1])
        return found

    def _count(self, info: dict[str, Any]) -> None:
        number = info.get("publication_sequence_number")
        if number is None:
            return
        publisher = bytes((info.get("publisher_gid") or {}).get("data", b""))
        known = self._known.get(publisher)
        if known is not None:
            self.missed += max(number - known[0] - (self._taken - known[1]), 0)
        elif len(self._known) >= _MOST_PUBLISHERS:
            self._known.clear()
        self._known[publisher] = (number, self._taken)


def read_waiting(subscription: Subscription) -> None:
    """Pass the messages that wait in the queue of a subscription to its callback, oldest first.

    Call it in a callback that takes long, during which the executor reads nothing.

    Args:
        subscription: a subscription with ``raw=True``.
    """
    for message in Arrivals(subscription).take(None):
        subscription.callback(message)


class Template:
    """Serializes messages that differ only in their stamp and in a fixed count of numbers.

    Args:
        make: returns such a message with the given numbers, (count,).
        count: number of numbers in the message, in all its fields together.
        has_header: whether the message begins with a header, whose stamp is set.

    Attributes:
        is_exact: whether rclpy reads the bytes as the same message; otherwise the template must
            not be used.
    """

    def __init__(
        self, make: Callable[[Array], Any], count: int, *, has_header: bool = False
    ) -> None:
        # Two messages show the places of the numbers, and that no other bytes depend on them.
        one = np.arange(1.0, count + 1.0)
        self._bytes, self._count = bytearray(serialize_message(make(one))), count
        self._has_header = has_header
        whole = (len(self._bytes) - HEAD) // 8
        self._numbers = np.frombuffer(self._bytes, "<f8", whole, HEAD)
        found = {number: place for place, number in enumerate(self._numbers.tolist())}
        self._places = np.array([found.get(number, -1) for number in one], np.intp)
        expected = make(-one)
        # Messages are compared, not bytes, because padding may hold any value.
        self.is_exact = (
            bool((self._places >= 0).all())
            and deserialize_message(self.filled(-one), type(expected)) == expected
        )

    def filled(self, numbers: Array, sec: int = 0, nanosec: int = 0) -> bytes:
        """Return the serialized message with these numbers and this stamp.

        Args:
            numbers: the numbers, (count,).
            sec, nanosec: the stamp; ignored for messages without a header.

        Raises:
            ValueError: unless there are ``count`` numbers.
        """
        if len(numbers) != self._count:
            raise ValueError(f"{len(numbers)} numbers; the size of the message is {self._count}")
        if self._has_header:
            STAMP.pack_into(self._bytes, HEAD, sec, nanosec)
        self._numbers[self._places] = numbers
        return bytes(self._bytes)


REPEAT_PERIOD = 0.02
"""Period at which a valid flag is published again [s]."""

LIFESPAN = 2.5 * REPEAT_PERIOD
"""Age at which the middleware discards a flag that it stores for late subscribers [s]."""

LIFESPAN_KEEPERS = ("rmw_fastrtps", "rmw_cyclonedds", "rmw_connextdds")
"""Prefixes of the names of the middlewares that discard expired messages."""


def verdict_qos(middleware: str) -> QoSProfile:
    """Return the quality of service of ``~/contact`` and of other flags that are repeated.

    It is reliable with depth 1. A late subscriber must not receive an outdated flag, but
    subscriptions that request transient-local durability must still match. Therefore the middleware
    stores the last flag for late subscribers for :data:`LIFESPAN`. If the middleware does not
    support lifespans, the durability is volatile.

    Args:
        middleware: name of the ROS middleware implementation, such as ``rmw_fastrtps_cpp``.
    """
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    if middleware.startswith(LIFESPAN_KEEPERS):
        qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        qos.lifespan = Duration(seconds=LIFESPAN)
    else:
        qos.durability = DurabilityPolicy.VOLATILE
    return qos


EVERY_SAMPLE = QoSProfile(depth=1000)
"""Quality of service of topics with a message per joint state: reliable, depth of 1 s at 1 kHz."""

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""Quality of service of a topic whose last message is stored for late subscribers."""

EXPIRING = verdict_qos(get_rmw_implementation_identifier())
"""Quality of service of repeated flags with the middleware of this process."""


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


def number_message(numbers: Array) -> Float64MultiArray:
    """Return a message with these numbers, without a description of their layout."""
    return Float64MultiArray(data=to_array(numbers))


class NumberWriter:
    """Publishes a fixed count of numbers, and reuses the bytes of one message.

    Args:
        publisher: publisher of the topic.
        count: number of values in each message.
        make: returns the message with the given numbers, (count,).
    """

    def __init__(
        self,
        publisher: FaultTolerantPublisher[Float64MultiArray],
        count: int,
        make: Callable[[Array], Float64MultiArray] = number_message,
    ) -> None:
        self._publisher, self._make = publisher, make
        self._template = Template(make, count)

    def publish(self, values: Array) -> bool:
        """Publish the numbers ``values``, (count,), if the topic has a subscriber.

        Returns:
            True if the middleware accepted the message; False if it refused the message, or the
            topic has no subscriber.
        """
        if not self._publisher.is_read:
            return False
        exact = self._template.is_exact
        return self._publisher.try_publish(
            self._template.filled(values) if exact else self._make(values)
        )


class JointStateWriter:
    """Publishes joint states with the same joint names in every message.

    Args:
        publisher: publisher of the topic.
        names: of the joints.
        frame: the root link of the arm, as ``header.frame_id``; an empty text leaves it empty.
    """

    def __init__(
        self, publisher: FaultTolerantPublisher[JointState], names: Sequence[str], frame: str = ""
    ) -> None:
        self._publisher, self._names, self._frame = publisher, list(names), frame
        self._templates: dict[tuple[bool, ...], Template] = {}

    def _message(self, present: tuple[bool, ...], numbers: Array) -> JointState:
        """Return a message with these numbers in the fields that are present."""
        message = JointState(name=self._names)
        message.header.frame_id = self._frame
        values = iter(numbers.reshape(sum(present), -1))
        for field, is_there in zip(("position", "velocity", "effort"), present, strict=True):
            if is_there:
                setattr(message, field, to_array(next(values)))
        return message

    def publish(
        self,
        stamp: Time | Stamp,
        position: NDArray[np.float64] | None = None,
        velocity: NDArray[np.float64] | None = None,
        effort: NDArray[np.float64] | None = None,
    ) -> None:
        """Publish a joint state, unless nobody reads it; fields that are None stay empty.

        Args:
            stamp: time of the joint state.
            position, velocity, effort: one value for each of ``names``, in their order, (n,) each
                [rad or m, rad/s or m/s, N·m or N].
        """
        if not self._publisher.is_read:
            return
        fields = (position, velocity, effort)
        present = (position is not None, velocity is not None, effort is not None)
        numbers = np.concatenate([field for field in fields if field is not None])
        make = partial(self._message, present)
        template = self._templates.get(present)
        if template is None:
            template = self._templates[present] = Template(make, len(numbers), has_header=True)
        if template.is_exact:
            self._publisher.publish(template.filled(numbers, stamp.sec, stamp.nanosec))
            return
        message = make(numbers)
        message.header.stamp = Time(sec=stamp.sec, nanosec=stamp.nanosec)
        self._publisher.publish(message)
