"""Trajectories as the bytes they travel in: checked for size, then read without the middleware.

The conversion of the middleware holds Python's global lock for the whole message, 100 ms for
100,000 points, in which no torque is sent. Reading here is ordinary Python, which another thread
may interrupt at any time.
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple

from rclpy.serialization import deserialize_message
from trajectory_msgs.msg import JointTrajectory

from rbd_control.control import TrajectoryPoint
from rbd_control.control.waypoints import MOST_POINTS
from rbd_control.errors import TrajectoryError

MOST_NAMES = 256
"""Maximum number of joints that a trajectory may name."""

LONGEST_NAME = 256
"""Maximum length of a joint name or frame [bytes]."""

LITTLE_ENDIAN = b"\x00\x01"
"""First two bytes of a message in little-endian CDR."""

_HEAD = 4
_FIELDS = 4
_COUNT = Struct("<I")
_STAMP = Struct("<iI")


class TrajectoryMessage(NamedTuple):
    """A ``trajectory_msgs/JointTrajectory`` as plain values."""

    stamp: float
    """Time at which it starts [s]; 0: now."""
    names: tuple[str, ...]
    points: list[TrajectoryPoint]


def largest_trajectory(joints: int) -> int:
    """Return the size of the largest trajectory for so many joints [bytes]."""
    point = _FIELDS * (8 + 8 * joints) + 8
    return MOST_POINTS * point + (joints + 2) * (LONGEST_NAME + 8)


def check_size(raw: bytes, joints: int) -> None:
    """Check the size of a serialized trajectory and the counts in its head.

    Args:
        raw: serialized message.
        joints: number of joints of the arm.

    Raises:
        TrajectoryError: when it is larger than any trajectory of such an arm, or truncated.
    """
    limit = largest_trajectory(joints)
    if len(raw) > limit:
        raise TrajectoryError(f"the message has {len(raw)} bytes; at most {limit} are read")
    if raw[:2] == LITTLE_ENDIAN:
        _head(_Reader(raw))


def read_trajectory(raw: bytes) -> TrajectoryMessage:
    """Read a serialized trajectory of checked size.

    Raises:
        TrajectoryError: when the bytes are no trajectory.
    """
    if raw[:2] != LITTLE_ENDIAN:
        return _by_the_middleware(raw)
    reader = _Reader(raw)
    stamp, names, count = _head(reader)
    return TrajectoryMessage(stamp, names, [_point(reader) for _ in range(count)])


class _Reader:
    """Reads CDR values one after the other, aligned to the end of the encapsulation.

    Raises:
        TrajectoryError: by each method, when the bytes end too early.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, _HEAD

    def stamp(self) -> tuple[int, int]:
        sec, nanosec = self._unpack(_STAMP, 4)
        return int(sec), int(nanosec)

    def count(self) -> int:
        return int(self._unpack(_COUNT, 4)[0])

    def text(self) -> str:
        size = self.count()
        if size > LONGEST_NAME:
            raise TrajectoryError(f"a name of {size} bytes; at most {LONGEST_NAME} are read")
        end = self._at + size
        if end > len(self._raw):
            raise _truncated(self._raw)
        text = self._raw[self._at : end].rstrip(b"\0")
        self._at = end
        return text.decode("utf-8", errors="replace")

    def numbers(self) -> tuple[float, ...]:
        count = self.count()
        if not count:
            return ()
        if count > MOST_NAMES:
            raise TrajectoryError(f"{count} values in a point; at most {MOST_NAMES} are read")
        return self._unpack(Struct(f"<{count}d"), 8)

    def _unpack(self, layout: Struct, alignment: int) -> tuple[float, ...]:
        at = _HEAD + -(-(self._at - _HEAD) // alignment) * alignment
        try:
            values = layout.unpack_from(self._raw, at)
        except error:
            raise _truncated(self._raw) from None
        self._at = at + layout.size
        return values


def _head(reader: _Reader) -> tuple[float, tuple[str, ...], int]:
    """Stamp [s], names of the joints, and number of points."""
    sec, nanosec = reader.stamp()
    reader.text()
    names = reader.count()
    if names > MOST_NAMES:
        raise TrajectoryError(f"{names} joint names; at most {MOST_NAMES} are read")
    joints = tuple(reader.text() for _ in range(names))
    points = reader.count()
    if points > MOST_POINTS:
        raise TrajectoryError(f"{points} points; at most {MOST_POINTS} can be planned in time")
    return sec + 1e-9 * nanosec, joints, points


def _point(reader: _Reader) -> TrajectoryPoint:
    positions, velocities, accelerations, _ = (reader.numbers() for _ in range(_FIELDS))
    sec, nanosec = reader.stamp()
    return TrajectoryPoint(positions, velocities, accelerations, sec + 1e-9 * nanosec)


def _by_the_middleware(raw: bytes) -> TrajectoryMessage:
    """Read a message in another encoding, as big-endian machines send it."""
    try:
        message = deserialize_message(raw, JointTrajectory)
    except Exception as failure:
        raise TrajectoryError(f"the message cannot be read: {failure}") from failure
    stamp = message.header.stamp
    points = [
        TrajectoryPoint(
            tuple(point.positions),
            tuple(point.velocities),
            tuple(point.accelerations),
            point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec,
        )
        for point in message.points
    ]
    return TrajectoryMessage(stamp.sec + 1e-9 * stamp.nanosec, tuple(message.joint_names), points)


def _truncated(raw: bytes) -> TrajectoryError:
    return TrajectoryError(f"the message is truncated: it ends after {len(raw)} bytes")
