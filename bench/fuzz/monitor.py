"""Monitor of the closed loop during fuzzing: torques within limits, and verdicts."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

SLACK = 1e-9
"""Fraction of its limit by which a torque may exceed the limit due to rounding."""

MOST_KEPT = 20
"""Number of violations that are described; all are counted."""


class TorqueMonitor:
    """Checks that every published torque command is finite and within the limits.

    Args:
        limits: largest torque of each joint [N·m].

    Attributes:
        count: number of checked commands.
        largest: largest ratio of a commanded torque to its limit.
        violations: descriptions of violations since the last :meth:`take_violations`.
    """

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits = tuple(limits)
        self.count = 0
        self.largest = 0.0
        self.violations: list[str] = []

    def take_violations(self) -> list[str]:
        """Return the descriptions of violations since the last call, and forget them."""
        taken, self.violations = self.violations, []
        return taken

    def judge(self, torques: Sequence[float]) -> None:
        """Check one command, with one torque for each joint [N·m]."""
        self.count += 1
        wrong = self._wrong(torques)
        if wrong and len(self.violations) < MOST_KEPT:
            self.violations.append(wrong)

    def _wrong(self, torques: Sequence[float]) -> str:
        if len(torques) != len(self._limits):
            return f"{len(torques)} torques for {len(self._limits)} joints"
        for joint, (torque, limit) in enumerate(zip(torques, self._limits, strict=True), 1):
            if not math.isfinite(torque):
                return f"torque of joint {joint} is {torque}"
            share = abs(torque) / limit
            self.largest = max(self.largest, share)
            if share > 1.0 + SLACK:
                return f"torque of joint {joint} is {torque:.6g} of {limit:g} N·m"
        return ""


class LoopMonitor:
    """Listens to joint states, the controller's torques and the detector's verdict of a loop.

    Args:
        node: node that subscribes to the topics.
        namespace: namespace of arm, controller and detector.
        limits: largest torque of each joint [N·m].

    Attributes:
        torque: check of the torques.
        topic: topic of the torques.
        state_at: time of receipt of the last joint state on the monotonic clock [s]; minus infinity
            before the first.
        verdict_at, torque_at: the same of the last verdict and of the last torque.
    """

    def __init__(self, node: Node, namespace: str, limits: Sequence[float]) -> None:
        self.torque = TorqueMonitor(limits)
        self.topic = f"{namespace}/effort_controller/commands"
        self.state_at = self.verdict_at = self.torque_at = -math.inf
        self._state = b""
        # Enough for the torques of the longest time that the fuzzer itself is busy.
        every = QoSProfile(depth=20_000)
        node.create_subscription(Float64MultiArray, self.topic, self._on_command, every, raw=True)
        volatile = QoSProfile(depth=10, durability=DurabilityPolicy.VOLATILE)
        node.create_subscription(
            Bool, f"{namespace}/contact_detector/contact", self._on_verdict, volatile
        )

        node.create_subscription(
            JointState, f"{namespace}/joint_states", self._on_state, volatile, raw=True
        )

    @property
    def state_is_finite(self) -> bool:
        """Whether the last joint state could be decoded and had finite positions."""
        try:
            positions = deserialize_message(self._state, JointState).position
        except Exception:  # whatever rclpy raises for bytes that are no message
            return False
        return all(map(math.isfinite, positions))

    def _on_state(self, raw: bytes) -> None:
        self.state_at, self._state = time.monotonic(), raw

    def _on_command(self, raw: bytes) -> None:
        self.torque_at = time.monotonic()
        try:
            torques = deserialize_message(raw, Float64MultiArray).data
        except Exception:  # whatever rclpy raises for bytes that are no message
            self.torque.violations.append(f"a command of {len(raw)} bytes is no message")
            return
        self.torque.judge(torques)

    def _on_verdict(self, message: Bool) -> None:
        self.verdict_at = time.monotonic()
