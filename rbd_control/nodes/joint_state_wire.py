"""Reading and writing of serialized messages, in a third of the time of message objects.

The bytes of messages with the same names and lengths differ only in stamp and numbers, which always
have the same offsets, the *layout*. A layout is used only after its result was compared with the
result of rclpy for the same message, to the last bit. All other messages are converted by rclpy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from rbd_control.joint_states import JointMessage
from rbd_control.joint_states.cdr import HEAD, STAMP, JointStateReader, Layout

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


class JointStateTemplate:
    """Serializes joint states that differ only in their stamp and their numbers.

    Args:
        message: a joint state with the same joints and lengths of the fields, any stamp and any
            numbers.

    Attributes:
        is_exact: whether the bytes are those that rclpy makes of the same message; otherwise the
            template must not be used.
    """

    def __init__(self, message: JointState) -> None:
        raw = serialize_message(message)
        layout = Layout.of(raw)
        size = layout.size if layout else 0
        self._places = layout.places if layout else ()
        self._bytes = bytearray(raw[:size])
        self._view = memoryview(self._bytes)  # a memoryview refuses to change its size
        self.is_exact = layout is not None and layout.names == tuple(message.name)
        if self.is_exact:
            stamp = message.header.stamp
            fields = [np.array(f) for f in (message.position, message.velocity, message.effort)]
            self.is_exact = raw[:size] == self.filled(stamp.sec, stamp.nanosec, fields)

    def filled(self, sec: int, nanosec: int, fields: Sequence[Array | None]) -> bytes:
        """Return the serialized message with this stamp and these numbers.

        Args:
            sec, nanosec: the stamp.
            fields: position, velocity and effort, each with the length that it has in the template;
                None leaves a field unchanged.

        Raises:
            ValueError: for a field of another length.
        """
        STAMP.pack_into(self._bytes, HEAD, sec, nanosec)
        for (at, count), values in zip(self._places, fields, strict=True):
            if values is not None:
                self._view[at : at + 8 * count] = np.asarray(values, np.float64).tobytes()
        return bytes(self._bytes)


class TailTemplate:
    """Serializes messages that differ only in their stamp and in one sequence of numbers.

    Args:
        make: returns such a message with the given numbers, (count,).
        count: length of the sequence.
        has_header: whether the message begins with a header, whose stamp is set.

    Attributes:
        is_exact: whether rclpy reads the bytes as the same message; otherwise the template must
            not be used.
    """

    def __init__(
        self, make: Callable[[Array], Any], count: int, *, has_header: bool = False
    ) -> None:
        # Two messages show the place of the numbers, and that no other bytes depend on them.
        one, other = np.arange(1.0, count + 1.0), np.arange(-1.0, -count - 1.0, -1.0)
        raw, expected = serialize_message(make(one)), make(other)
        self._at = raw.find(one.tobytes())
        self._size, self._has_header = 8 * count, has_header
        self._bytes = bytearray(raw)
        self._view = memoryview(self._bytes)
        # Messages are compared, not bytes, because padding may hold any value.
        self.is_exact = (
            self._at > 0 and deserialize_message(self.filled(other), type(expected)) == expected
        )

    def filled(self, numbers: Array, sec: int = 0, nanosec: int = 0) -> bytes:
        """Return the serialized message with these numbers and this stamp.

        Args:
            numbers: the numbers of the sequence, (count,).
            sec, nanosec: the stamp; ignored for messages without a header.

        Raises:
            ValueError: unless there are ``count`` numbers.
        """
        if self._has_header:
            STAMP.pack_into(self._bytes, HEAD, sec, nanosec)
        self._view[self._at : self._at + self._size] = np.asarray(numbers, np.float64).tobytes()
        return bytes(self._bytes)
