"""Check of the size of FollowJointTrajectory goals before rclpy converts them to Python objects.

rclpy receives a goal in the thread of the control loop. Its deserialization takes 0.2 µs per point,
and its conversion to Python objects 8 µs per point. The conversion holds Python's global
interpreter lock: 17 ms for 2,000 points and a second for 100,000 points, in which the arm keeps the
last torque. Therefore this module replaces the conversion of rclpy. The new conversion first reads
the lengths of the sequences, rejects goals that are too large, and leaves the points of other goals
to the planning thread (:mod:`~rbd_control.nodes.goal_points`).

The lengths are read from the C structure of the message. :func:`with_bounded_goals` verifies their
offsets with a message of known lengths, and changes nothing if the verification fails.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.type_support import check_for_type_support

from rbd_control.control import TrajectoryArrays
from rbd_control.control.waypoints import MOST_POINTS
from rbd_control.nodes.goal_points import GoalPoints, Release, find_release
from rbd_control.nodes.guard import describe
from rbd_control.nodes.trajectory_wire import MOST_NAMES

_ID = 16
"""Size of the goal id at the beginning of the structure of a request [bytes]."""


class _Length(NamedTuple):
    """Offset of the length of a sequence in a request [bytes], and the limit of this length."""

    what: str
    offset: int
    most: int


_LENGTHS = (
    _Length("joint names", 56, MOST_NAMES),
    _Length("points", 80, MOST_POINTS),
    _Length("multi-DOF joint names", 136, MOST_NAMES),
    _Length("multi-DOF points", 160, MOST_NAMES),
    _Length("path tolerances", 184, MOST_NAMES),
    _Length("component path tolerances", 208, MOST_NAMES),
    _Length("goal tolerances", 232, MOST_NAMES),
    _Length("component goal tolerances", 256, MOST_NAMES),
)
"""Lengths of the sequences of a request, in the order of its fields, on 64-bit machines."""

_POINTS = 1
"""Index of the points of the trajectory in ``_LENGTHS``."""

_TO_LENGTH = 8
"""Offset of the length in a sequence, after the address of the items [bytes]."""

_CONVERSION = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_name_of_capsule = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_pointer_of_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class UnreadGoal(NamedTuple):
    """Placeholder for a rejected goal, which is not read; ``reason`` says why it is rejected."""

    reason: str


@dataclass(frozen=True, eq=False)
class BoundedGoal:
    """A goal whose points are not converted to Python yet; ``points`` reads them."""

    message: Any
    """The ``FollowJointTrajectory`` goal, with an empty sequence of points in its trajectory."""
    points: GoalPoints


class _Request(NamedTuple):
    """A converted request, in place of an object of rclpy's class."""

    goal_id: Any
    goal: UnreadGoal | BoundedGoal


def with_bounded_goals(action: Any, objection: Callable[[int], str]) -> Any:
    """Return an action type that does not read goals which are too large or rejected.

    The goal callback receives an :class:`UnreadGoal` for such a goal, or if the conversion of a
    goal fails. It receives a :class:`BoundedGoal` for any other goal, or the goal itself if no
    other thread can read its points.

    Args:
        action: ``control_msgs.action.FollowJointTrajectory``.
        objection: returns why a goal with this number of points is rejected; an empty text if it
            is accepted.

    Returns:
        The type for the action server. Its ``leaves_points_unread`` shows whether another thread
        reads the points. If the structure of the messages differs from the expected one, the result
        is ``action`` itself, which reads goals of any size.
    """
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return action
    try:
        check_for_type_support(action)
        request = action.Impl.SendGoalService.Request
        check_for_type_support(request)
        found = _lengths_found(request)
    except Exception:  # another rclpy or control_msgs must not prevent the start of the controller
        return action
    if found != tuple(range(1, len(_LENGTHS) + 1)):
        return action

    release = find_release()
    if release is not None and not _points_are_found(request, release):
        release = None

    class SendGoalService(action.Impl.SendGoalService):
        Request = _with_conversion(request, _bounded(request, objection, release))

    class Impl(action.Impl):
        pass

    class Bounded(action):
        leaves_points_unread = release is not None

    Impl.SendGoalService = SendGoalService
    Bounded.Impl = Impl
    return Bounded


def _lengths(address: int) -> tuple[int, ...]:
    return tuple(ctypes.c_size_t.from_address(address + each.offset).value for each in _LENGTHS)


def _bounded(
    request: Any, objection: Callable[[int], str], release: Release | None
) -> Callable[[int], Any]:
    """Return a conversion of requests that leaves goals, or their points, unread.

    Args:
        request: the class of the request.
        objection: see :func:`with_bounded_goals`.
        release: frees points; None if no such function was found, so that rclpy reads them.
    """
    capsule = type(request)._CONVERT_TO_PY
    convert = _CONVERSION(_pointer_of_capsule(capsule, _name_of_capsule(capsule)))
    id_type = type(request().goal_id)

    def to_python(address: int) -> Any:
        lengths, reason = _lengths(address), ""
        for each, length in zip(_LENGTHS, lengths, strict=True):
            if length > each.most:
                reason = f"{length} {each.what}; the limit is {each.most}"
        # An exception must not leave a callback of C: rclpy would find a null pointer.
        try:
            reason = reason or objection(lengths[_POINTS])
            if not reason:
                if release is None:
                    return convert(address)
                points = GoalPoints(address + _LENGTHS[_POINTS].offset - _TO_LENGTH, release)
                read = convert(address)
                return _Request(read.goal_id, BoundedGoal(read.goal, points))
        except Exception as error:  # for a name that is not UTF-8
            reason = f"it cannot be read: {describe(error)}"
        goal_id = id_type(uuid=list(ctypes.string_at(address, _ID)))
        return _Request(goal_id, UnreadGoal(reason))

    return to_python


def _with_conversion(request: Any, to_python: Callable[[int], Any]) -> Any:
    """Return a stand-in for the class of a request, with another conversion to Python."""
    callback = _CONVERSION(to_python)
    capsule = _new_capsule(ctypes.cast(callback, ctypes.c_void_p), None, None)
    kind = type(request)
    names = ("_CREATE_ROS_MESSAGE", "_CONVERT_FROM_PY", "_DESTROY_ROS_MESSAGE", "_TYPE_SUPPORT")
    content = {name: getattr(kind, name) for name in names}
    # The callback must live as long as the capsule that points to it.
    meta = type(kind.__name__, (type,), {**content, "_CONVERT_TO_PY": capsule, "kept": callback})
    return meta(request.__name__, (), {})


def _lengths_found(request: Any) -> tuple[int, ...]:
    """Return the lengths read from a request whose sequences have the lengths 1, 2, 3, ..."""
    example = request()
    goal = example.goal
    sequences = (
        (goal.trajectory, "joint_names"),
        (goal.trajectory, "points"),
        (goal.multi_dof_trajectory, "joint_names"),
        (goal.multi_dof_trajectory, "points"),
        (goal, "path_tolerance"),
        (goal, "component_path_tolerance"),
        (goal, "goal_tolerance"),
        (goal, "component_goal_tolerance"),
    )
    for length, (message, field) in enumerate(sequences, 1):
        kind = message.get_fields_and_field_types()[field]
        item = "" if kind == "sequence<string>" else _item(kind)
        setattr(message, field, [item] * length)
    raw = serialize_message(example)
    found: tuple[int, ...] = deserialize_message(raw, _with_conversion(request, _lengths))
    return found


def _points_are_found(request: Any, release: Release) -> bool:
    """Return whether the points of a message with known points are read correctly."""
    example = request()
    kind = example.goal.trajectory.get_fields_and_field_types()["points"]
    for k in range(3):
        point = _item(kind)
        point.positions, point.velocities = [1.0 + k, 2.0], [3.0, 4.0]
        point.accelerations, point.effort = [5.0, 6.0 + k], [7.0]
        point.time_from_start.sec, point.time_from_start.nanosec = 8 + k, 500_000_000
        example.goal.trajectory.points.append(point)
    bounded = _with_conversion(request, _bounded(request, lambda _points: "", release))
    goal = deserialize_message(serialize_message(example), bounded).goal
    if not isinstance(goal, BoundedGoal) or goal.message.trajectory.points:
        return False
    found, step = goal.points.read(), np.arange(3.0)
    return isinstance(found, TrajectoryArrays) and all(
        np.array_equal(values, np.column_stack(expected))
        for values, expected in (
            (found.positions, (1.0 + step, 0.0 * step + 2.0)),
            (found.velocities, (0.0 * step + 3.0, 0.0 * step + 4.0)),
            (found.accelerations, (0.0 * step + 5.0, 6.0 + step)),
            (found.times[:, None], (8.5 + step,)),
        )
    )


def _item(kind: str) -> Any:
    """Return an empty message of the type of a sequence, as ``sequence<package/Type>``."""
    package, name = kind.removeprefix("sequence<").removesuffix(">").split("/")
    module = __import__(f"{package}.msg", fromlist=[name])
    return getattr(module, name)()
