"""Subscriber of the loop: records every message of the nodes with its time of receipt.

Messages are stored as bytes and decoded afterwards, because this process shares the machine.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from struct import unpack_from
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from bench.loop.figures import Answer, Command, TrackingError
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.ros.run import make_executor

_TORQUE = 7 * 8
"""Number of bytes of the torques, which are the last field of their messages."""

REPORT_TIME, SLICE = 3.0, 0.005
"""Longest wait for a report, which is published once a second, and polling period [s]."""

MOST = 0.5
"""Share of answered joint states from which the loop counts as closed."""

Raw = tuple[int, bytes]


class Ear:
    """Records the messages on the topics of the loop.

    Attributes:
        counted: last values on ``/diagnostics``, by name of the node and key.
        faults: message of the last report of each node on ``/diagnostics`` if its level is ERROR;
            otherwise empty.
    """

    def __init__(self) -> None:
        self._node = Node("loop_ear")
        self._executor = make_executor()
        self._executor.add_node(self._node)
        self.counted: dict[str, dict[str, str]] = {}
        self._reports: Counter[str] = Counter()
        self.faults: dict[str, str] = {}
        self._states = self._keep(JointState, "joint_states")
        self._torques = self._keep(JointState, "contact_detector/external_joint_torques")
        self._errors = self._keep(JointState, "passivity_controller/tracking_error")
        self._commands = self._keep(Float64MultiArray, "effort_controller/commands")
        self._flags = self._keep(Bool, "contact_detector/contact")
        self._events = self._keep(DiagnosticArray, "contact_detector/events")
        self._node.create_subscription(DiagnosticArray, "/diagnostics", self._on_report, 50)

    def _keep(self, kind: type, topic: str) -> list[Raw]:
        heard: list[Raw] = []

        def receive(message: bytes) -> None:
            heard.append((time.time_ns(), message))

        self._node.create_subscription(kind, topic, receive, QoSProfile(depth=20000), raw=True)
        return heard

    def _on_report(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.faults[status.name] = (
                status.message if status.level == DiagnosticStatus.ERROR else ""
            )
            self.counted[status.name] = {item.key: item.value for item in status.values}
            self._reports[status.name] += 1

    def listen(self, seconds: float, then: Callable[[], None] = lambda: None) -> None:
        """Receive messages for some time [s], then call ``then``."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)
        then()

    def counts_of_next_report(self, node: str) -> dict[str, dict[str, str]]:
        """Wait for the next report of a node on ``/diagnostics``, and return a copy of ``counted``.

        After :data:`REPORT_TIME` without a report, the last values are returned.

        Args:
            node: name of the node in the reports.
        """
        before, deadline = self._reports[node], time.monotonic() + REPORT_TIME
        while self._reports[node] == before and time.monotonic() < deadline:
            self.listen(SLICE)
        return dict(self.counted)

    def forget(self) -> None:
        """Discard all recorded messages."""
        for heard in (
            self._states, self._torques, self._errors, self._commands, self._flags, self._events
        ):  # fmt: skip
            heard.clear()

    @property
    def is_loop_closed(self) -> bool:
        """Whether both nodes answered at least the share :data:`MOST` of recorded joint states."""
        most = MOST * max(len(self._states), 1)
        return len(self._errors) >= most and len(self._torques) >= most

    def states(self) -> list[Answer]:
        """Return stamp and time of receipt of each joint state, the latency of one hop."""
        return [(_stamp(raw), received) for received, raw in self._states]

    def torques(self) -> list[Answer]:
        """Return joint-state stamp and time of receipt of each residual of the detector."""
        return [(_stamp(raw), received) for received, raw in self._torques]

    def commands(self) -> list[Command]:
        """Return the controller's torque commands with their times of receipt."""
        return [Command(received, raw[-_TORQUE:]) for received, raw in self._commands]

    def errors(self) -> list[TrackingError]:
        """Return the controller's tracking errors, which link each torque to its joint state.

        Each has the stamp of the joint state, and the commanded torque as its effort.
        """
        return [TrackingError(_stamp(raw), raw[-_TORQUE:]) for _, raw in self._errors]

    def flags(self) -> list[tuple[int, bool]]:
        """Return time of receipt [ns] and value of every message of the contact flag."""
        return [(received, deserialize_message(raw, Bool).data) for received, raw in self._flags]

    def detected(self) -> list[int]:
        """Return the stamps of the joint states at which contacts were detected [ns]."""
        events: list[Any] = [
            event_from_status(status)
            for _, raw in self._events
            for status in deserialize_message(raw, DiagnosticArray).status
        ]
        return [round(event.detected * 1e9) for event in events if event.phase == "onset"]

    def destroy(self) -> None:
        """Destroy the node."""
        self._node.destroy_node()


def _stamp(raw: bytes) -> int:
    """Return the stamp of a serialized message whose first field is a header."""
    seconds, nanoseconds = unpack_from("<iI", raw, 4)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)
