"""Fuzzed joint states: wrong numbers, lengths, names and stamps, and implausible sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from sensor_msgs.msg import JointState

from bench.fuzz.arm import Arm, time_message
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

TYPE = "sensor_msgs/msg/JointState"
KIND = "joint states"
_FIELDS = ("position", "velocity", "effort")


def joint_state_burst(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return ``count`` fuzzed joint states.

    Either each has independent faults, or together they are a sequence with one fault, such as a
    frozen sensor or a clock that runs backwards.

    Args:
        random: source of all choices.
        arm: the arm, near whose posture the joint states are.
        channel: topic of the joint states.
        count: number of joint states.
    """
    if random.random() < 0.7:
        return [_one(random, arm, channel) for _ in range(count)]
    return random.choice(_SEQUENCES)(random, arm, channel, count)


def _one(random: Random, arm: Arm, channel: str) -> Input:
    message = arm.joint_state(random)
    shift: float | None = 0.0
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change = random.choice((_numbers, _numbers, _numbers, _lengths, _names, _stamp, _frame))
        shift = change(random, message, shift)
    return message_input(KIND, channel, TYPE, message, shift)


def _numbers(random: Random, message: JointState, shift: float | None) -> float | None:
    field = random.choice(_FIELDS)
    setattr(message, field, replaced(random, getattr(message, field)))
    return shift


def _lengths(random: Random, message: JointState, shift: float | None) -> float | None:
    field = random.choice(_FIELDS)
    setattr(message, field, resized(random, getattr(message, field)))
    return shift


def _names(random: Random, message: JointState, shift: float | None) -> float | None:
    names = list(message.name)
    choice = random.choice(("order", "duplicate", "missing", "extra", "other", "many", "none"))
    if not names:  # by an earlier change
        choice = "many"
    if choice == "order":
        random.shuffle(names)
    elif choice == "duplicate":
        names[random.randrange(len(names))] = random.choice(names)
    elif choice == "missing":
        del names[random.randrange(len(names))]
    elif choice == "extra":
        names.append(odd_text(random))
        for field in _FIELDS:
            setattr(message, field, [*getattr(message, field), odd_number(random)])
    elif choice == "other":
        names[random.randrange(len(names))] = odd_text(random)
    elif choice == "many":
        names = [f"joint_{k}" for k in range(odd_length(random, len(names)))]
    else:
        names = []
    message.name = names
    return shift


def _stamp(random: Random, message: JointState, shift: float | None) -> float | None:
    if random.random() < 0.6:
        return odd_shift(random)
    message.header.stamp = time_message(*odd_stamp(random))
    return None


def _frame(random: Random, message: JointState, shift: float | None) -> float | None:
    message.header.frame_id = odd_text(random)
    return shift


def _frozen(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return the same state over and over, at rest or moving, with advancing stamps."""
    message = arm.joint_state(random)
    if random.random() < 0.5:
        message.velocity = [0.0] * len(arm.joints)
    return [message_input(KIND, channel, TYPE, message, 0.0)] * count


def _ramp(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return positions that run away, by steps that may or may not match the velocity."""
    step = random.choice((1e-4, 1e-3, 1e-2, 0.1, 1.0))
    message = arm.joint_state(random)
    joint = random.randrange(len(arm.joints))
    burst = []
    for k in range(count):
        position = list(message.position)
        position[joint] += step * k
        message.position = position
        burst.append(message_input(KIND, channel, TYPE, message, 0.0))
    return burst


def _wrapping(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return a joint that jumps by full turns, as an encoder that wraps."""
    joint, burst = random.randrange(len(arm.joints)), []
    for k in range(count):
        message = arm.joint_state(random)
        position = list(message.position)
        position[joint] = math.pi * (1 if k // 4 % 2 else -1) + random.gauss(0.0, 1e-3)
        message.position = position
        burst.append(message_input(KIND, channel, TYPE, message, 0.0))
    return burst


def _absurd_effort(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return plausible motion with one or more efforts far beyond the limits."""
    burst = []
    for _ in range(count):
        message = arm.joint_state(random)
        if random.random() < 0.3:
            message.effort = replaced(random, message.effort)
        burst.append(message_input(KIND, channel, TYPE, message, 0.0))
    return burst


def _without(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return messages with velocity or effort absent, zero or NaN."""
    field = random.choice(("velocity", "effort"))
    content = random.choice(([], [0.0] * len(arm.joints), [math.nan] * len(arm.joints)))
    burst = []
    for _ in range(count):
        message = arm.joint_state(random)
        setattr(message, field, content)
        burst.append(message_input(KIND, channel, TYPE, message, 0.0))
    return burst


def _time_travel(random: Random, arm: Arm, channel: str, count: int) -> list[Input]:
    """Return valid states whose clock has an offset, jumps, stops or runs backwards."""
    pattern = random.choice(("constant", "jumps", "still", "backwards"))
    size, burst = odd_shift(random), []
    for k in range(count):
        message = arm.joint_state(random)
        shift: float | None = size
        if pattern == "jumps":
            shift = size if k // 20 % 2 else 0.0
        elif pattern == "backwards":
            shift = -1e-3 * k
        elif pattern == "still":
            message.header.stamp = time_message(1000, 0)
            shift = None
        burst.append(message_input(KIND, channel, TYPE, message, shift))
    return burst


_SEQUENCES: tuple[Callable[[Random, Arm, str, int], list[Input]], ...] = (
    _frozen,
    _ramp,
    _wrapping,
    _absurd_effort,
    _without,
    _time_travel,
)
