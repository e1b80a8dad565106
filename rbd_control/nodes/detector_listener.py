"""What the topics of a contact detector say, kept up to date for whoever shows it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.estimation import ContactEvent
from rbd_control.nodes.contact_messages import LONGEST, THRESHOLD, events_in
from rbd_control.playback.live_view import LiveState
from rbd_control.wording import shortened

MOST_JOINTS = 1000
"""Number of joints above which a message is none of a detector."""

LARGEST = 1e9
"""Torque or force above which a message is none of a detector [N·m or N]."""


class DetectorListener:
    """Fills a :class:`LiveState` from messages.

    Anybody may publish anything on a topic: a message that no detector sends is counted in
    ``state.ignored`` and changes nothing else. No message raises.

    Args:
        state: what is filled.
        on_event: takes each contact event.
    """

    def __init__(self, state: LiveState, on_event: Callable[[ContactEvent], None]) -> None:
        self.state = state
        self.samples = 0
        self._on_event = on_event
        self._thresholds: dict[str, float] = {}

    def on_contact(self, message: Bool, now: float) -> None:
        """Take a verdict that came at ``now`` [s]."""
        self.state.contact, self.state.judged = bool(message.data), now

    def on_residual(self, message: JointState, now: float) -> None:
        """Take the residuals of all joints."""
        names = tuple(shortened(name, LONGEST) for name in message.name[:MOST_JOINTS])
        if not (0 < len(names) == len(set(names)) == len(message.name) == len(message.effort)):
            self.state.ignored += 1
            return
        residual = tuple(float(value) for value in message.effort)
        if not _are_plausible(residual):
            self.state.ignored += 1
            return
        self.samples += 1
        state = self.state
        state.joints, state.residual, state.told = names, residual, now
        known = all(joint in self._thresholds for joint in names)
        state.thresholds = tuple(self._thresholds[joint] for joint in names) if known else ()

    def on_wrench(self, message: WrenchStamped) -> None:
        """Take the estimated force on the touched link."""
        force = (message.wrench.force.x, message.wrench.force.y, message.wrench.force.z)
        if not _are_plausible(force):
            self.state.ignored += 1
            return
        self.state.link, self.state.force = shortened(message.header.frame_id, LONGEST), force

    def on_events(self, message: DiagnosticArray) -> None:
        """Take onsets and releases."""
        events, ignored = events_in(message)
        self.state.ignored += ignored
        for event in events:
            self.state.link, self.state.force = event.link, None
            self.state.events.append(event)
            self._on_event(event)

    def on_diagnostics(self, message: DiagnosticArray) -> None:
        """Take condition and thresholds; the topic belongs to all nodes, and nothing is counted."""
        for status in message.status:
            if f"/{status.name.lstrip('/')}" == self.state.detector:
                self.state.condition = shortened(status.message, LONGEST)
                self._take_thresholds(status)

    def _take_thresholds(self, status: DiagnosticStatus) -> None:
        thresholds = {}
        for item in status.values[: 2 * MOST_JOINTS]:
            if item.key.startswith(THRESHOLD):
                joint = item.key[len(THRESHOLD) :].rpartition(" ")[0]
                try:
                    value = float(item.value)
                except ValueError:
                    value = math.nan
                if 0.0 < value < math.inf:
                    thresholds[shortened(joint, LONGEST)] = value
        if thresholds:
            self._thresholds = thresholds


@dataclass(frozen=True)
class Topic:
    """A topic and what takes its messages.

    Attributes:
        kind: type of its messages.
        name: its full name.
        take: takes a message.
        only_newest: whether older messages say nothing that the newest does not.
    """

    kind: type
    name: str
    take: Callable[[Any], None]
    only_newest: bool = True


def detector_topics(listener: DetectorListener) -> tuple[Topic, ...]:
    """Return what a listener subscribes to, by the name of the detector in its state."""
    name = listener.state.detector
    return (
        Topic(Bool, f"{name}/contact", timed(listener.on_contact)),
        Topic(JointState, f"{name}/external_joint_torques", timed(listener.on_residual)),
        Topic(DiagnosticArray, f"{name}/events", listener.on_events, only_newest=False),
        Topic(WrenchStamped, f"{name}/external_wrench", listener.on_wrench),
        Topic(DiagnosticArray, "/diagnostics", listener.on_diagnostics, only_newest=False),
    )


def timed(take: Callable[[Any, float], None]) -> Callable[[Any], None]:
    """Return a function that hands a message on with the time on the steady clock [s]."""
    return lambda message: take(message, time.monotonic())


def _are_plausible(values: tuple[float, ...]) -> bool:
    return all(abs(value) <= LARGEST for value in values)  # False for NaN
