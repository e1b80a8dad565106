"""Subscriber to all nodes of a soak, which polls its queues without an executor.

The events executor of rclpy 9.1 cannot pass the source timestamp of a message to a callback, and
the other executors would use a whole core at 5,000 messages per second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from struct import unpack_from
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from bench.soak.figures import Contacts, Event, Gaps, Played, Told, Unanswered, Unheard, Windows
from rbd_control.joint_states import DROPS
from rbd_control.joint_states.cdr import stamp_of
from rbd_control.ros.contact_messages import event_from_status
from rbd_control.ros.messages import joint_state_reader

DEPTH = 20_000
"""Queue depth of each subscription, for messages that arrive while this process is busy."""

LEAST_EXTERNAL = 1.0
"""External torque of a joint above which the arm is touched or hits its own stops [N·m]."""

PERIOD = 1_000_000
"""Period of the joint states, and of the messages in the recording that the player plays [ns]."""

ARM, CONTROLLER, DETECTOR, PLAYER = (
    "soak/simulated_arm",
    "soak/passivity_controller",
    "soak/contact_detector",
    "play/joint_state_player",
)
"""Full names of the nodes."""

STATES, TORQUES, PLAYED, FORCES = (
    "/soak/joint_states",
    "/soak/effort_controller/commands",
    "/play/joint_states",
    f"/{ARM}/true_external_wrench",
)
"""Topics of the joint states, the torques, the player, and the forces of pushes."""

ANSWERS = {
    CONTROLLER: f"/{CONTROLLER}/tracking_error",
    DETECTOR: f"/{DETECTOR}/external_joint_torques",
}
"""Topic on which a node answers each joint state."""

LOST = (
    "lost on the way",
    "overwritten in the queue (estimated)",
    "skipped for a newer one",
    *(f"publications refused on {topic}" for topic in ANSWERS.values()),
)
"""Keys on ``/diagnostics`` of the counts of samples that a node did not process or not answer."""

COUNTED = (*LOST, *DROPS)
"""Keys on ``/diagnostics`` of the counts that explain a sample without answer."""

Array = NDArray[np.float64]


class Ear:
    """Computes statistics of the messages of all nodes, without storing the messages.

    So its memory does not grow with the run. A sample is a joint state of the arm; its answer is
    the message that the controller or the detector publishes for it.

    Args:
        node: node for the subscriptions; no executor may spin it.
        timeout: maximum gap between torques [s].
        limits: largest torque of each joint [N·m].
        foreign: torque of each joint that the soak's own second publisher sends [N·m]; such
            commands are not checked.

    Attributes:
        sample_windows, torque_windows: times in which faults excuse missing answers and torques.
        answered: counts of samples and missing answers, by node.
        unheard: counts of messages that were published and did not arrive here: of the answers, by
            node, and of each other topic for which gaps are counted.
        torque_gaps, state_gaps, play_gaps: gaps between torques, joint states, played states.
        contacts: the true contacts.
        external: times with an external torque above :data:`LEAST_EXTERNAL`: contacts, and impacts
            on the arm's own stops.
        detected: the events, by the stamp of the sample that detected them [ns].
        played: counts of the messages of the player.
        violations: descriptions of torques that were not finite or over their limit.
        torques: number of received torque commands.
        largest: largest ratio of a torque to its limit.
        reports: last level, message and values of each node's diagnostics.
        told: counts of each node, summed over its restarts.
        verdict: whether the last message of the detector reported contact.
        verdict_at, torque_at: time of receipt of the last verdict and of the last torque, on the
            monotonic clock [s]; 0 before the first.
        state: positions, velocities and efforts of the newest joint state, (nv,) each, the efforts
            empty if it has none; None before the first.
    """

    def __init__(self, node: Node, timeout: float, limits: Sequence[float], foreign: float) -> None:
        self._timeout = timeout
        self._limits, self._foreign = np.array(limits), foreign
        self.reports: dict[str, tuple[int, str, dict[str, str]]] = {}
        self.told = {name: Told(COUNTED) for name in (CONTROLLER, DETECTOR)}
        self.verdict, self.verdict_at, self.torque_at = False, 0.0, 0.0
        self.state: tuple[Array, Array, Array] | None = None
        self._reader = joint_state_reader()
        self.restart()
        self._takes: list[tuple[Any, type, Callable[[bytes, dict[str, Any]], None]]] = []
        for kind, topic, take in (
            (JointState, STATES, self._on_state),
            *((JointState, topic, self._answer(name)) for name, topic in ANSWERS.items()),
            (Float64MultiArray, TORQUES, self._on_torque),
            (WrenchStamped, FORCES, self._on_force),
            (JointState, f"/{ARM}/true_external_joint_torques", self._on_external),
            (Bool, f"/{DETECTOR}/contact", self._on_verdict),
            (DiagnosticArray, f"/{DETECTOR}/events", self._on_event),
            (DiagnosticArray, "/diagnostics", self._on_report),
            (JointState, PLAYED, self._on_played),
        ):
            self._takes.append((node.create_subscription(
                kind, topic, lambda _: None, QoSProfile(depth=DEPTH)
            ), kind, take))  # fmt: skip

    def restart(self) -> None:
        """Reset all statistics except ``told``; samples sent before this call do not count."""
        self._since = time.time_ns()
        self.sample_windows, self.torque_windows = Windows(), Windows()
        self.answered = {name: Unanswered(self.sample_windows) for name in (CONTROLLER, DETECTOR)}
        counted = (CONTROLLER, DETECTOR, TORQUES, STATES, PLAYED, FORCES)
        self.unheard = {name: Unheard() for name in counted}
        self.torque_gaps = self._gaps(self.torque_windows)
        self.state_gaps = self._gaps(self.torque_windows)
        self.play_gaps = self._gaps(Windows())
        self.contacts, self.external = Contacts(PERIOD), Contacts(PERIOD)
        self.detected: dict[int, Event] = {}
        self.played = Played(PERIOD)
        self.violations: list[str] = []
        self.torques = 0
        self.largest = 0.0

    def _gaps(self, windows: Windows) -> Gaps:
        return Gaps(windows, self._timeout, 1e-9 * PERIOD)

    def listen(self) -> None:
        """Process all waiting messages."""
        for subscription, kind, take in self._takes:
            with subscription.handle:
                while (taken := subscription.handle.take_message(kind, True)) is not None:
                    take(*taken)
        now = time.time_ns()
        for unanswered in self.answered.values():
            unanswered.settle(now)

    def _on_state(self, raw: bytes, info: dict[str, Any]) -> None:
        try:
            message = self._reader.read(raw, 0.0)
        except Exception:  # malformed messages that the soak itself sent
            return
        fields = [np.asarray(values, float) for values in message[3:]]
        if len(fields[0]) != len(self._limits):
            return
        self.state = (fields[0], fields[1], fields[2])
        sent = int(info["source_timestamp"])
        if sent < self._since:
            return
        self.state_gaps.message(sent, self.unheard[STATES].message(info))
        seconds, nanoseconds = stamp_of(raw)
        stamp = seconds * 10**9 + nanoseconds
        self.answered[CONTROLLER].sample(stamp, sent)
        if len(fields[2]):  # without effort (brakes closed) there is no residual
            self.answered[DETECTOR].sample(stamp, sent)

    def _answer(self, name: str) -> Callable[[bytes, dict[str, Any]], None]:
        def take(raw: bytes, info: dict[str, Any]) -> None:
            seconds, nanoseconds = unpack_from("<iI", raw, 4)
            self.unheard[name].message(info)
            self.answered[name].answer(int(seconds) * 10**9 + int(nanoseconds))

        return take

    def _on_torque(self, raw: bytes, info: dict[str, Any]) -> None:
        torque = np.array(deserialize_message(raw, Float64MultiArray).data)
        if torque.size and (torque == self._foreign).all():
            return
        self.torques += 1
        self.torque_at = time.monotonic()
        lost = self.unheard[TORQUES].message(info)
        self.torque_gaps.message(int(info["source_timestamp"]), lost)
        share = np.abs(torque) / self._limits if torque.shape == self._limits.shape else None
        if share is None or not np.isfinite(torque).all() or (share > 1.0 + 1e-9).any():
            self.violations.append(f"torque {torque.tolist()}"[:200])
        else:
            self.largest = max(self.largest, float(share.max()))

    def _on_force(self, raw: bytes, info: dict[str, Any]) -> None:
        seconds, nanoseconds = unpack_from("<iI", raw, 4)
        stamp, lost = int(seconds) * 10**9 + int(nanoseconds), self.unheard[FORCES].message(info)
        self.contacts.force(stamp, int(info["source_timestamp"]), lost)

    def _on_external(self, raw: bytes, info: dict[str, Any]) -> None:
        # The efforts are the last field of the message.
        torque = np.frombuffer(raw[-8 * len(self._limits) :])
        if np.abs(torque).max() > LEAST_EXTERNAL:
            seconds, nanoseconds = unpack_from("<iI", raw, 4)
            stamp = int(seconds) * 10**9 + int(nanoseconds)
            self.external.force(stamp, int(info["source_timestamp"]))

    def _on_verdict(self, raw: bytes, info: dict[str, Any]) -> None:
        self.verdict, self.verdict_at = bool(raw[4]) if len(raw) > 4 else False, time.monotonic()

    def _on_event(self, raw: bytes, info: dict[str, Any]) -> None:
        for status in deserialize_message(raw, DiagnosticArray).status:
            event = event_from_status(status)
            if event.phase == "onset":
                text = f"{event.peak_torque:.3g} on {event.joint}, {event.link}"
                sent = int(info["source_timestamp"])
                self.detected[round(event.detected * 1e9)] = Event(text, sent)

    def _on_report(self, raw: bytes, info: dict[str, Any]) -> None:
        for status in deserialize_message(raw, DiagnosticArray).status:
            level = int.from_bytes(status.level, "little")
            values = {item.key: item.value for item in status.values}
            self.reports[status.name] = (level, status.message, values)
            if status.name in self.told:
                self.told[status.name].report(time.time_ns(), values)

    def _on_played(self, raw: bytes, info: dict[str, Any]) -> None:
        lost = self.unheard[PLAYED].message(info)
        self.play_gaps.message(int(info["source_timestamp"]), lost)
        number = info.get("publication_sequence_number")
        if number is None:
            return
        seconds, nanoseconds = unpack_from("<iI", raw, 4)
        self.played.message(int(number), int(seconds) * 10**9 + int(nanoseconds))
