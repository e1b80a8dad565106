"""Fuzzed messages of all types that nodes subscribe to, except joint states.

Each generator takes a source of random choices and the arm, and returns a message with the offset
of its stamp, see :data:`Made`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import InertiaStamped, Vector3, WrenchStamped
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension, String
from trajectory_msgs.msg import JointTrajectory

from bench.fuzz.arm import Arm, time_message, trajectory_point
from bench.fuzz.descriptions import odd_description
from bench.fuzz.inputs import Input, message_input
from bench.fuzz.odd_values import (
    odd_length,
    odd_number,
    odd_shift,
    odd_stamp,
    odd_text,
    replaced,
    resized,
)

LONG_TRAJECTORY = 3000
"""Number of points of a long trajectory."""

_EVENT: Mapping[str, str] = {
    "id": "1", "phase": "onset", "level": "contact", "stamp": "100.0", "detected": "100.01",
    "stamp_uncertainty": "0.001", "joint": "joint_4", "link": "link_5", "candidates": "link_5",
    "confidence": "0.9", "peak_torque": "5.0", "direction": "1 0 0", "force": "12 0 0",
    "point": "0.1 0 0.3", "duration": "0.2", "in_contact": "1", "severity": "1",
}  # fmt: skip
"""Values of a valid event of the detector."""

_POINT_FIELDS = ("positions", "velocities", "accelerations", "effort")

Made = tuple[Any, float | None]
"""A message, and the offset of its stamp from the time of sending [s]; None to keep its stamp."""


def trajectory(random: Random, arm: Arm) -> Made:
    """Return a trajectory with one to three faults, occasionally a valid trajectory."""
    choice = random.random()
    if choice < 0.005:
        return arm.trajectory(random, LONG_TRAJECTORY), None
    if choice < 0.15:  # a stream of single points
        message = JointTrajectory(joint_names=list(arm.joints))
        positions = [q + random.uniform(-0.05, 0.05) for q in arm.posture]
        message.points = [trajectory_point(positions, random.choice((0.01, 0.05, 0.2, 0.3)))]
        return message, None
    message, shift = arm.trajectory(random, random.randint(1, 5)), None
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        shift = random.choice(_TRAJECTORY_FAULTS)(random, message, shift)
    return message, shift


def _numbers(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    if message.points:
        point, field = random.choice(message.points), random.choice(_POINT_FIELDS)
        usual = getattr(point, field) or [0.0] * len(message.joint_names)
        setattr(point, field, replaced(random, usual))
    return shift


def _lengths(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    if message.points:
        point, field = random.choice(message.points), random.choice(_POINT_FIELDS)
        setattr(point, field, resized(random, getattr(point, field)))
    return shift


def _times(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    for point in random.sample(message.points, min(random.choice((1, 2)), len(message.points))):
        seconds, nanoseconds = odd_stamp(random)
        point.time_from_start.sec, point.time_from_start.nanosec = seconds, nanoseconds
    return shift


def _hurry(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    """Return points due at almost the same time, hence far over every speed limit."""
    step = random.choice((1, 1000, 10**6, 10**7))
    for k, point in enumerate(message.points):
        point.time_from_start.sec, point.time_from_start.nanosec = 0, step * (k + 1)
    return shift


def _names(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    names = list(message.joint_names)
    choice = random.choice(("order", "duplicate", "missing", "other", "many", "none"))
    if choice == "order":
        random.shuffle(names)
    elif choice == "duplicate" and names:
        names[0] = names[-1]
    elif choice == "missing" and names:
        names.pop()
    elif choice == "other" and names:
        names[0] = odd_text(random)
    elif choice == "many":
        names = [odd_text(random)] * odd_length(random, len(names))
    else:
        names = []
    message.joint_names = names
    return shift


def _points(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    if random.random() < 0.5:
        message.points = []
    else:
        random.shuffle(message.points)
    return shift


def _stamp(random: Random, message: JointTrajectory, shift: float | None) -> float | None:
    if random.random() < 0.5:
        return odd_shift(random)
    message.header.stamp = time_message(*odd_stamp(random))
    return None


_TRAJECTORY_FAULTS: tuple[Callable[[Random, JointTrajectory, float | None], float | None], ...] = (
    _numbers, _numbers, _lengths, _times, _hurry, _names, _points, _stamp,
)  # fmt: skip


def verdict(random: Random, arm: Arm) -> Made:
    """Return a contact flag, true in 30 % of the messages."""
    return Bool(data=random.random() < 0.3), None


def wrench(random: Random, arm: Arm) -> Made:
    """Return a wrench on a link: with plausible or odd numbers, possibly on an unknown link."""
    message = WrenchStamped()
    message.header.frame_id = random.choice(arm.links)
    numbers = [random.gauss(0.0, 10.0) for _ in range(6)]
    if random.random() < 0.6:
        numbers = replaced(random, numbers)
    if random.random() < 0.3:
        message.header.frame_id = odd_text(random)
    message.wrench.force = Vector3(x=numbers[0], y=numbers[1], z=numbers[2])
    message.wrench.torque = Vector3(x=numbers[3], y=numbers[4], z=numbers[5])
    return message, odd_shift(random) if random.random() < 0.3 else 0.0


def torques(random: Random, arm: Arm) -> Made:
    """Return a torque command, mostly with wrong numbers, length or layout."""
    data: list[float] = [tau + random.gauss(0.0, 5.0) for tau in arm.weight]
    message = Float64MultiArray()
    choice = random.random()
    if choice < 0.5:
        data = replaced(random, data)
    elif choice < 0.8:
        data = resized(random, data)
    if random.random() < 0.1:
        size = random.choice((0, 7, 2**32 - 1))
        message.layout.dim = [MultiArrayDimension(label=odd_text(random), size=size, stride=size)]
        message.layout.data_offset = random.choice((0, 1, 2**32 - 1))
    message.data = data
    return message, None


def description(random: Random, arm: Arm) -> Made:
    """Return a robot description with a fault."""
    return String(data=odd_description(random, arm.urdf)), None


def clock(random: Random, arm: Arm) -> Made:
    """Return a simulated time: a random valid time, or a time from :func:`odd_stamp`."""
    if random.random() < 0.5:
        return Clock(clock=time_message(random.randrange(0, 2**31), random.randrange(10**9))), None
    return Clock(clock=time_message(*odd_stamp(random))), None


def payload(random: Random, arm: Arm) -> Made:
    """Return an impossible or too heavy payload, occasionally a payload of zero mass."""
    message = InertiaStamped()
    message.header.frame_id = random.choice(("", "link_7", odd_text(random)))
    inertia = message.inertia
    if random.random() < 0.1:
        return message, None
    names = ("m", "ixx", "iyy", "izz", "ixy", "ixz", "iyz")
    setattr(inertia, random.choice(names), replaced(random, [1.0])[0])
    inertia.com.x = replaced(random, [0.0])[0]
    inertia.m = random.choice((inertia.m, float("nan"), -1.0, 1e3, 1e300))
    return message, None


def event(random: Random, arm: Arm) -> Made:
    """Return events of the detector with a wrong, missing or extra value, or other statuses."""
    message = DiagnosticArray()
    for _ in range(random.choice((0, 1, 1, 1, 3))):
        values = dict(_EVENT)
        for name in random.sample(tuple(values), random.choice((0, 1, 3))):
            if random.random() < 0.3:
                del values[name]
            else:
                odd = (odd_text(random), repr(odd_number(random)), "1e400 nan 0", "release")
                values[name] = random.choice(odd)
        if random.random() < 0.1:
            values = {odd_text(random): odd_text(random) for _ in range(random.choice((0, 1, 300)))}
        status = DiagnosticStatus(name=odd_text(random), level=bytes([random.randrange(4)]))
        status.values = [KeyValue(key=key, value=value) for key, value in values.items()]
        message.status.append(status)
    return message, odd_shift(random)


def goal_status(random: Random, arm: Arm) -> Made:
    """Return a status message with unknown goals and undefined states."""
    message = GoalStatusArray()
    for _ in range(random.choice((0, 1, 3, 100))):
        status = GoalStatus(status=random.choice((0, 1, 2, 2, 3, 4, 5, 6, 7, -1, 127, -128)))
        status.goal_info.goal_id.uuid = list(random.randbytes(16))
        status.goal_info.stamp = time_message(*odd_stamp(random))
        message.status_list.append(status)
    return message, None


MESSAGES: Mapping[str, tuple[str, Callable[[Random, Arm], Made]]] = {
    "trajectory_msgs/msg/JointTrajectory": ("trajectories", trajectory),
    "std_msgs/msg/Bool": ("verdicts", verdict),
    "geometry_msgs/msg/WrenchStamped": ("forces", wrench),
    "std_msgs/msg/Float64MultiArray": ("torque commands", torques),
    "std_msgs/msg/String": ("robot descriptions", description),
    "rosgraph_msgs/msg/Clock": ("clock", clock),
    "geometry_msgs/msg/InertiaStamped": ("payloads", payload),
    "diagnostic_msgs/msg/DiagnosticArray": ("events", event),
    "action_msgs/msg/GoalStatusArray": ("states of goals", goal_status),
}
"""For each type of message, the row of the results that counts it, and its generator."""


def message_burst(
    random: Random, arm: Arm, channel: str, type_name: str, count: int
) -> list[Input]:
    """Return ``count`` well-formed messages with odd content for a topic.

    Args:
        random: source of all choices.
        arm: the arm of the nodes.
        channel: the topic.
        type_name: type of the topic, a key of :data:`MESSAGES`.
        count: number of messages.
    """
    kind, make = MESSAGES[type_name]
    return [
        message_input(kind, channel, type_name, message, shift)
        for message, shift in (make(random, arm) for _ in range(count))
    ]
