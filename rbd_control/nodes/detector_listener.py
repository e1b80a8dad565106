"""The state of a contact detector as its topics report it, for ``rbd-control`` monitor and view."""

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
from rbd_control.nodes.contact_messages import THRESHOLD, events_in
from rbd_control.playback.live_view import LiveState
from rbd_control.results import LONGEST
from rbd_control.wording import shortened

MOST_JOINTS = 1000
"""Number of joints above which a message cannot come from a detector."""

LARGEST = 1e9
"""Torque or force above which a message cannot come from a detector [N·m or N]."""


class DetectorListener:
    """Updates a :class:`LiveState` from the messages of one detector.

    Any node may publish on a topic: a message that cannot come from a detector is counted in
    ``state.ignored`` and changes nothing else. No message causes an exception.

    Args:
        state: the state to update.
        on_event: called with each contact event.

    Attributes:
        state: the state to update.
        samples: number of messages with residuals that were stored.
    """

    def __init__(self, state: LiveState, on_event: Callable[[ContactEvent], None]) -> None:
        self.state = state
        self.samples = 0
        self._on_event = on_event
        self._thresholds: dict[str, float] = {}

    def on_contact(self, message: Bool, now: float) -> None:
        """Store the contact flag of a message.

        Args:
            message: whether there is contact.
            now: time of receipt on the steady clock [s].
        """
        self.state.contact, self.state.judged = bool(message.data), now

    def on_residual(self, message: JointState, now: float) -> None:
        """Store the residuals of all joints, with their contact thresholds from the diagnostics.

        The thresholds in the state are empty while the threshold of any of these joints is unknown.

        Args:
            message: residuals, which are the estimated external joint torques, in ``effort``
                [N·m or N].
            now: time of receipt on the steady clock [s].
        """
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
        """Store the touched link and the force on it from a message.

        The link is the ``header.frame_id`` of the message, which includes the ``frame_prefix`` of
        the detector. The components of the force are along the axes of this frame [N].
        """
        force = (message.wrench.force.x, message.wrench.force.y, message.wrench.force.z)
        if not _are_plausible(force):
            self.state.ignored += 1
            return
        self.state.link, self.state.force = shortened(message.header.frame_id, LONGEST), force

    def on_events(self, message: DiagnosticArray) -> None:
        """Store onsets and releases of contacts, with the link, and call ``on_event`` for each.

        The stored force is discarded, because it may belong to another link. Statuses that are no
        contact events are counted in ``state.ignored``.
        """
        events, ignored = events_in(message)
        self.state.ignored += ignored
        for event in events:
            self.state.link, self.state.force = event.link, None
            self.state.events.append(event)
            self._on_event(event)

    def on_diagnostics(self, message: DiagnosticArray) -> None:
        """Store condition and contact thresholds from the status of the detector.

        The condition is the message of the status. Statuses of other nodes are ignored and not
        counted.
        """
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
    """A topic and the callback for its messages.

    Attributes:
        kind: type of the messages.
        name: full name of the topic.
        take: called with a message.
        only_newest: whether older messages that wait in the queue may be discarded.
    """

    kind: type
    name: str
    take: Callable[[Any], None]
    only_newest: bool = True


def detector_topics(listener: DetectorListener) -> tuple[Topic, ...]:
    """Return the topics of the detector ``listener.state.detector``, for its listener."""
    name = listener.state.detector
    return (
        Topic(Bool, f"{name}/contact", timed(listener.on_contact)),
        Topic(JointState, f"{name}/external_joint_torques", timed(listener.on_residual)),
        Topic(DiagnosticArray, f"{name}/events", listener.on_events, only_newest=False),
        Topic(WrenchStamped, f"{name}/external_wrench", listener.on_wrench),
        Topic(DiagnosticArray, "/diagnostics", listener.on_diagnostics, only_newest=False),
    )


def timed(take: Callable[[Any, float], None]) -> Callable[[Any], None]:
    """Return a callback that calls ``take`` with the message and the steady time of receipt [s]."""
    return lambda message: take(message, time.monotonic())


def _are_plausible(values: tuple[float, ...]) -> bool:
    return all(abs(value) <= LARGEST for value in values)  # False for NaN
