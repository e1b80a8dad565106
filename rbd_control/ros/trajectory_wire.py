"""Decoding of serialized trajectories, with a check of their size, without the middleware.

The conversion by the middleware holds Python's global interpreter lock for the whole message,
100 ms for 100,000 points, in which no torque is sent. This decoder is ordinary Python code, which
another thread may interrupt at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Any, NamedTuple

import numpy as np
from rclpy.duration import Duration
from rclpy.serialization import deserialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control import TrajectoryArrays, TrajectoryPoint
from rbd_control.control.waypoints import MOST_POINTS, Points
from rbd_control.errors import TrajectoryError
from rbd_control.ros.messages import to_array

MOST_NAMES = 256
"""Maximum number of joint names in a trajectory, and of values in one field of a point."""

LONGEST_NAME = 256
"""Maximum length of a joint name or frame, with its terminating zero [bytes]."""

LITTLE_ENDIAN = b"\x00\x01"
"""First two bytes of a message in little-endian CDR."""

_HEAD = 4
_FIELDS = 4
_COUNT = Struct("<I")
_STAMP = Struct("<iI")


class TrajectoryMessage(NamedTuple):
    """A ``trajectory_msgs/JointTrajectory`` as plain values.

    ``names`` are the joints, in the order of the values in each of the ``points``.
    """

    stamp: float
    """Time at which the trajectory starts, on the clock of the sender's stamps [s]; 0: now."""
    names: tuple[str, ...]
    points: Points


def largest_trajectory(joints: int) -> int:
    """Return the size of the largest message that is accepted for this number of joints [bytes].

    It has ``MOST_POINTS`` points with all fields, and names of :data:`LONGEST_NAME` bytes.
    """
    point = _FIELDS * (8 + 8 * joints) + 8
    return MOST_POINTS * point + (joints + 2) * (LONGEST_NAME + 8)


def check_size(raw: bytes, joints: int) -> None:
    """Check the size of a serialized trajectory, and the counts and names before its points.

    Only the size is checked if the message is not little-endian.

    Args:
        raw: serialized message.
        joints: number of joints of the arm.

    Raises:
        TrajectoryError: if the message is larger than any trajectory of such an arm
            (:func:`largest_trajectory`), has too many points or names or too long a name, or ends
            before its points.
    """
    limit = largest_trajectory(joints)
    if len(raw) > limit:
        raise TrajectoryError(f"the message has {len(raw)} bytes; at most {limit} are read")
    if raw[:2] == LITTLE_ENDIAN:
        _head(_Reader(raw))


def read_trajectory(raw: bytes) -> TrajectoryMessage:
    """Read a serialized trajectory whose size :func:`check_size` has accepted.

    Args:
        raw: serialized message.

    Raises:
        TrajectoryError: if the bytes do not form a trajectory.
    """
    if raw[:2] != LITTLE_ENDIAN:
        return _by_the_middleware(raw)
    reader = _Reader(raw)
    stamp, names, count = _head(reader)
    points = _alike(raw, reader, count) if count > 2 else None
    if points is not None:
        return TrajectoryMessage(stamp, names, points)
    return TrajectoryMessage(stamp, names, [_point(reader) for _ in range(count)])


def trajectory_of_message(message: JointTrajectory) -> TrajectoryMessage:
    """Return a trajectory that rclpy has deserialized as plain values."""
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


def message_of_trajectory(names: Sequence[str], points: Points) -> JointTrajectory:
    """Return a trajectory as a message, which starts when it arrives.

    Args:
        names: the joints, in the order of the points.
        points: the points; :class:`TrajectoryArrays` with velocities and accelerations.
    """
    message = JointTrajectory(joint_names=list(names))
    if isinstance(points, TrajectoryArrays):
        columns = (points.positions, points.velocities, points.accelerations, points.times)
        points = [TrajectoryPoint(*row) for row in zip(*columns, strict=True)]
    for point in points:
        message.points.append(
            JointTrajectoryPoint(
                positions=to_array(np.asarray(point.positions, dtype=float)),
                velocities=to_array(np.asarray(point.velocities, dtype=float)),
                accelerations=to_array(np.asarray(point.accelerations, dtype=float)),
                time_from_start=Duration(seconds=float(point.time_from_start)).to_msg(),
            )
        )
    return message


def goal_of_trajectory(names: Sequence[str], points: Points) -> Any:
    """Return a trajectory as a goal of ``control_msgs/action/FollowJointTrajectory``.

    Args:
        names, points: see :func:`message_of_trajectory`.

    Raises:
        ModuleNotFoundError: if ``control_msgs`` is not installed.
    """
    from control_msgs.action import FollowJointTrajectory

    return FollowJointTrajectory.Goal(trajectory=message_of_trajectory(names, points))


class _Reader:
    """Reads CDR values in sequence, aligned relative to the end of the encapsulation header.

    Raises:
        TrajectoryError: by each method, if the bytes end too early.
    """

    def __init__(self, raw: bytes, at: int = _HEAD) -> None:
        self._raw, self.at = raw, at

    def stamp(self) -> tuple[int, int]:
        sec, nanosec = self._unpack(_STAMP, 4)
        return int(sec), int(nanosec)

    def count(self) -> int:
        return int(self._unpack(_COUNT, 4)[0])

    def text(self) -> str:
        size = self.count()
        if size > LONGEST_NAME:
            raise TrajectoryError(f"a name of {size} bytes; at most {LONGEST_NAME} are read")
        end = self.at + size
        if end > len(self._raw):
            raise _truncated(self._raw)
        text = self._raw[self.at : end].rstrip(b"\0")
        self.at = end
        return text.decode("utf-8", errors="replace")

    def numbers(self) -> tuple[float, ...]:
        count = self.count()
        if not count:
            return ()
        if count > MOST_NAMES:
            raise TrajectoryError(f"{count} values in a point; at most {MOST_NAMES} are read")
        return self._unpack(Struct(f"<{count}d"), 8)

    def _unpack(self, form: Struct, alignment: int) -> tuple[float, ...]:
        at = _HEAD + -(-(self.at - _HEAD) // alignment) * alignment
        try:
            values = form.unpack_from(self._raw, at)
        except error:
            raise _truncated(self._raw) from None
        self.at = at + form.size
        return values


def _head(reader: _Reader) -> tuple[float, tuple[str, ...], int]:
    """Return stamp [s], names of the joints, and number of points."""
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


def _alike(raw: bytes, reader: _Reader, count: int) -> TrajectoryArrays | None:
    """Read all points at once; return None unless all have positions and the same fields.

    The first point may have another alignment than the rest. From the second point on the bytes
    are a table with one row per point. The position of the reader does not change.
    """
    ahead = _Reader(raw, reader.at)
    first, begin = _point(ahead), ahead.at
    offsets: list[int] = []
    sizes: list[int] = []
    for _ in range(_FIELDS):
        offsets.append(ahead.at - begin)
        sizes.append(len(ahead.numbers()))
        offsets.append(ahead.at - begin - 8 * sizes[-1])
    offsets += [ahead.at - begin, ahead.at - begin + 4]
    ahead.stamp()
    stride = ahead.at - begin
    formats = [x for size in sizes for x in ("<u4", f"({size},)<f8")] + ["<i4", "<u4"]
    row = np.dtype(
        {
            "names": [str(k) for k in range(len(formats))],
            "formats": formats,
            "offsets": offsets,
            "itemsize": stride,
        }
    )
    if stride % 8 or len(raw) < begin + (count - 1) * stride:
        return None
    rows = np.frombuffer(raw, row, count - 1, begin)
    if not sizes[0] or [len(field) for field in first[:3]] != sizes[:3]:
        return None
    if any((rows[str(2 * k)] != size).any() for k, size in enumerate(sizes)):
        return None
    positions, velocities, accelerations = (
        np.vstack((np.array([begun]), rows[str(2 * k + 1)])) if begun else np.empty((0, 0))
        for k, begun in enumerate(first[:3])
    )
    seconds = rows[str(2 * _FIELDS)] + 1e-9 * rows[str(2 * _FIELDS + 1)]
    times = np.concatenate(([first.time_from_start], seconds))
    return TrajectoryArrays(positions, times, velocities, accelerations)


def _by_the_middleware(raw: bytes) -> TrajectoryMessage:
    """Read a message in another encoding, such as big-endian, by the middleware."""
    try:
        message = deserialize_message(raw, JointTrajectory)
    except Exception as failure:
        raise TrajectoryError(f"the message cannot be read: {failure}") from failure
    return trajectory_of_message(message)


def _truncated(raw: bytes) -> TrajectoryError:
    return TrajectoryError(f"the message is truncated: it ends after {len(raw)} bytes")
