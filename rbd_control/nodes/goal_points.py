"""Points of trajectory goals, taken from the C structure of a message and read by another thread.

The conversion of 2,000 points to Python objects takes rclpy 17 ms, in which the control loop sends
no torque. :class:`GoalPoints` moves the sequence out of the structure in microseconds and leaves an
empty sequence. The planning thread reads the numbers and frees the memory.

The memory belongs to the C library of ``trajectory_msgs``, whose function frees it. Where that
function is not found, :func:`find_release` returns None, and rclpy must read the points.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from math import isnan

import numpy as np
from numpy.typing import NDArray

from rbd_control.control import TrajectoryArrays, TrajectoryPoint
from rbd_control.control.waypoints import Points
from rbd_control.errors import TrajectoryError
from rbd_control.nodes.trajectory_wire import MOST_NAMES

Array = NDArray[np.float64]
Release = Callable[[int], object]
"""Function that frees the content of the C sequence of points at an address."""

_LIBRARY = "libtrajectory_msgs__rosidl_generator_c.so"
_FUNCTION = "trajectory_msgs__msg__JointTrajectoryPoint__Sequence__fini"

_Sequence = ctypes.c_size_t * 3
"""A sequence in C: address of the items, number of items, number of allocated items."""

_FIELDS = ("positions", "velocities", "accelerations", "effort")
_SEQUENCE_TYPE = np.dtype([("data", "u8"), ("size", "u8"), ("capacity", "u8")])
_NOTHING: Array = np.empty(0)
_POINT_TYPE = np.dtype(
    [*((name, _SEQUENCE_TYPE) for name in _FIELDS), ("sec", "i4"), ("nanosec", "u4")]
)
"""A ``trajectory_msgs/JointTrajectoryPoint`` in C on 64-bit machines."""


def find_release() -> Release | None:
    """Return the function of ``trajectory_msgs`` that frees a C sequence of points.

    The result is None if the C library, or the function in it, is not found.
    """
    try:
        release = getattr(ctypes.CDLL(_LIBRARY), _FUNCTION)
    except (OSError, AttributeError):
        return None
    release.argtypes, release.restype = [ctypes.c_void_p], None

    def free(address: int) -> None:
        release(address)

    return free


class GoalPoints:
    """The trajectory points of one goal, in memory of a C library until :meth:`read` is called.

    The length of the object is the number of points. The memory is freed by :meth:`read`, or
    together with the object.

    Args:
        address: address of the sequence within the C structure of the message, where an empty
            sequence replaces it.
        release: frees the sequence, see :func:`find_release`.
    """

    def __init__(self, address: int, release: Release) -> None:
        there = _Sequence.from_address(address)
        self._sequence = _Sequence(*there)
        there[:] = [0, 0, 0]
        self._count = int(self._sequence[1])
        self._points: Points | None = None
        # The closure keeps the sequence, but not this object, alive.
        sequence = self._sequence
        self._free = weakref.finalize(self, lambda: release(ctypes.addressof(sequence)))
        self._free.atexit = False

    def __len__(self) -> int:
        return self._count

    def read(self) -> Points:
        """Return the points; the first call takes milliseconds and frees the memory of C.

        Another thread than the one that received the goal may call the method.

        Raises:
            TrajectoryError: if a field of a point has more than :data:`MOST_NAMES` values.
        """
        if self._points is None:
            self._points = self._read()
            self._free()
        return self._points

    def _read(self) -> Points:
        if not self._count:
            return []
        size = self._count * _POINT_TYPE.itemsize
        table = np.frombuffer(ctypes.string_at(self._sequence[0], size), _POINT_TYPE)
        largest = max(int(table[name]["size"].max()) for name in _FIELDS)
        if largest > MOST_NAMES:
            raise TrajectoryError(f"{largest} values in a point; at most {MOST_NAMES} are read")
        times = table["sec"] + 1e-9 * table["nanosec"]
        values = [_values(table[name]) for name in _FIELDS[:3]]
        return _alike(values, times) or [
            TrajectoryPoint(q, v, a, float(time))
            for q, v, a, time in zip(*values, times, strict=True)
        ]


def _values(sequences: NDArray[np.void]) -> list[Array]:
    """Return the numbers of each sequence, ``(size,)`` each.

    This is a loop of short calls, so that another thread can interrupt it.
    """
    return [
        np.frombuffer(ctypes.string_at(data, 8 * size)) if size else _NOTHING
        for data, size in zip(sequences["data"].tolist(), sequences["size"].tolist(), strict=True)
    ]


def _alike(values: list[list[Array]], times: Array) -> TrajectoryArrays | None:
    """Return the points as arrays; None if they do not fit into arrays, see :func:`_table`.

    They also do not fit if they have different numbers of positions, or none.

    Args:
        values: positions, velocities and accelerations of each point.
        times: (m,) time of each point [s].
    """
    joints = values[0][0].size
    if not joints or any(each.size != joints for each in values[0]):
        return None
    fields = [_table(given, joints) for given in values]
    positions, velocities, accelerations = fields
    if positions is None or velocities is None or accelerations is None:
        return None
    return TrajectoryArrays(positions, times, velocities, accelerations)


def _table(given: list[Array], joints: int) -> Array | None:
    """Return one field of all points, (m, joints), rows of NaN where a point lacks the field.

    Returns:
        An empty array if no point has the field; None if the field of a point has another number of
        values, or begins with NaN, so that the point would seem to lack the field.
    """
    if not any(each.size for each in given):
        return np.empty((0, 0))
    table = np.full((len(given), joints), np.nan)
    for row, each in zip(table, given, strict=True):
        if each.size == joints and not isnan(each[0]):
            row[:] = each
        elif each.size:
            return None
    return table
