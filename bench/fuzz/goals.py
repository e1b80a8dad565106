"""Goals of FollowJointTrajectory with unusual values in every field, if ``control_msgs`` exists."""

from __future__ import annotations

from random import Random
from typing import Any

from bench.fuzz.arm import Arm
from bench.fuzz.inputs import Input, request_input, type_of
from bench.fuzz.messages import trajectory
from bench.fuzz.odd_values import odd_number, odd_stamp, odd_text
from bench.fuzz.requests import Interface

GOALS = "goals"

SEND_GOAL = "control_msgs/action/FollowJointTrajectory_SendGoal"
"""Type of the service that receives goals."""

MANY_TOLERANCES = 2000
"""Number of tolerances of a goal with far more tolerances than joints."""


def goal_channel(interface: Interface) -> str:
    """Return the full name of a node's service that receives goals; empty without this service."""
    return next((name for name, kind in interface.services.items() if kind == SEND_GOAL), "")


def goal_burst(random: Random, arm: Arm, interface: Interface, count: int) -> list[Input]:
    """Return ``count`` requests with goals for the FollowJointTrajectory action of a node.

    Args:
        random: random number generator for all choices.
        arm: the arm of the node.
        interface: a node that receives goals.
        count: number of goals.
    """
    channel = goal_channel(interface)
    return [request_input(GOALS, channel, SEND_GOAL, _request(random, arm)) for _ in range(count)]


def _request(random: Random, arm: Arm) -> Any:
    request = type_of(SEND_GOAL).Request()
    # A repeated id belongs to a goal that the server knows already.
    number = random.randbytes(16) if random.random() < 0.95 else bytes(16)
    request.goal_id.uuid = list(number)
    goal = request.goal
    goal.trajectory, _ = trajectory(random, arm)
    for field in ("path_tolerance", "goal_tolerance"):
        if random.random() < 0.3:
            setattr(goal, field, _tolerances(random, arm))
    if random.random() < 0.3:
        goal.goal_time_tolerance.sec, goal.goal_time_tolerance.nanosec = odd_stamp(random)
    return request


def _tolerances(random: Random, arm: Arm) -> list[Any]:
    """Return tolerances with unusual numbers, for unknown joints, or far too many."""
    from control_msgs.msg import JointTolerance

    count = random.choice((1, 1, len(arm.joints), len(arm.joints) + 1))
    if random.random() < 0.02:
        count = MANY_TOLERANCES
    found = []
    for k in range(count):
        tolerance = JointTolerance(name=arm.joints[k % len(arm.joints)])
        if random.random() < 0.1:
            tolerance.name = odd_text(random)
        for field in ("position", "velocity", "acceleration"):
            # -1 means no tolerance, 0 the tolerance of the node.
            setattr(tolerance, field, random.choice((-1.0, 0.0, 0.1, 1.0, odd_number(random))))
        found.append(tolerance)
    return found
