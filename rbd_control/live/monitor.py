"""The state of a contact detector as its topics report it, for ``rbd-control`` monitor and view."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from rich.live import Live
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.estimation import ContactEvent
from rbd_control.playback.live_view import SILENCE, LiveState, event_line, render
from rbd_control.reports.console import console_for_output
from rbd_control.results import LONGEST
from rbd_control.ros.contact_messages import THRESHOLD, events_in
from rbd_control.ros.messages import LATCHED
from rbd_control.ros.run import make_executor
from rbd_control.ros.transports import running_ros
from rbd_control.startup.prompt_end import stop_requests
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

        A flag that repeats another is a verdict newer than the reason why there was none.

        Args:
            message: whether there is contact.
            now: time of receipt on the steady clock [s].
        """
        state = self.state
        if now - state.judged <= SILENCE and state.condition.startswith("no verdict"):
            state.condition = ""
        state.contact, state.judged = bool(message.data), now

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
        state = self.state
        if not self.samples:
            state.condition = ""  # a status from before the samples says nothing about them
        self.samples += 1
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


REFRESH = 0.1
"""Period of the display [s]."""

PATIENCE = 5.0
"""Time without a message of the detector after which the monitor reports it [s]."""

_WEAK = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)

_QOS = {Bool: LATCHED, JointState: _WEAK, WrenchStamped: _WEAK}
"""Quality of service by type of message."""


class Monitor:
    """Keeps a :class:`LiveState` up to date from the topics of one detector.

    ROS must run before the construction (``rclpy.init``).

    Args:
        detector: full name of the detector's node, which begins with its namespace.
        on_event: called with one line of text about each event: onset or release of a contact.

    Attributes:
        state: last state that the detector has published.
        node: the node that subscribes.
    """

    def __init__(self, detector: str, on_event: Callable[[str], None]) -> None:
        self.state = LiveState(f"/{detector.strip('/')}")
        listener = DetectorListener(self.state, lambda event: on_event(event_line(event)))
        self._listener = listener
        self.node = node = Node(f"monitor_{os.getpid()}")
        self._executor = make_executor()
        self._executor.add_node(node)
        self._since, self._samples = time.monotonic(), 0
        for topic in detector_topics(listener):
            qos = _QOS.get(topic.kind, QoSProfile(depth=50))
            node.create_subscription(topic.kind, topic.name, topic.take, qos)

    @property
    def has_heard(self) -> bool:
        """Whether a message of the detector was received."""
        state = self.state
        return bool(
            state.condition
            or state.joints
            or state.events
            or state.force is not None
            or self._has_verdict
        )

    @property
    def knows_all(self) -> bool:
        """Whether all is known: residuals, thresholds, rate, status, and a verdict or why not."""
        state = self.state
        is_explained = self._has_verdict or state.condition != "ok"
        has_status = bool(state.thresholds and state.condition)
        return has_status and math.isfinite(state.rate) and is_explained

    @property
    def _has_verdict(self) -> bool:
        return math.isfinite(self.state.judged)

    def spin(self, seconds: float) -> None:
        """Process messages for ``seconds`` [s], and update ``state.rate`` once a second."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)
        now, samples = time.monotonic(), self._listener.samples
        if samples and not self._samples:  # only a full second of samples tells their rate
            self._since, self._samples, self.state.rate = now, samples, math.nan
        elif now - self._since >= 1.0:
            self.state.rate = (samples - self._samples) / (now - self._since)
            self._since, self._samples = now, samples

    def destroy_node(self) -> None:
        """Destroy the node of the monitor."""
        self.node.destroy_node()


def run_monitor(detector: str, duration: float | None, once: bool) -> int:
    """Show a detector until ``duration`` [s] is over or SIGINT or SIGTERM arrives.

    The last display stays on the terminal. If the output is not a terminal, events are printed as
    lines when they are received (not with ``once``), and one display at the end.

    Args:
        detector: name of the detector's node, with its namespace.
        duration: length of the display [s]; None means until a signal. With ``once`` it is the
            longest wait; None then means :data:`PATIENCE`.
        once: print one display and end, as soon as :attr:`Monitor.knows_all`, or when the longest
            wait is over.

    Returns:
        The exit code: 0, or 1 if no message of the detector was received.

    Raises:
        RbdControlError: if the middleware cannot be started without shared memory.
    """
    console = console_for_output()
    lines = console.is_terminal is False and not once

    def on_event(text: str) -> None:
        if lines:
            console.print(text, markup=False)

    with stop_requests() as stopped, running_ros(lambda: Monitor(detector, on_event)) as monitor:
        begin = time.monotonic()

        def passed() -> float:
            return time.monotonic() - begin

        def picture() -> object:
            if not monitor.has_heard and passed() > PATIENCE:
                return _nothing(monitor.state.detector)
            return render(monitor.state, time.monotonic())

        if once:
            longest = PATIENCE if duration is None else duration
            while not (stopped() or monitor.knows_all or passed() > longest):
                monitor.spin(REFRESH)
            monitor.spin(REFRESH)
        else:
            with Live(console=console, auto_refresh=False, transient=True) as live:
                while not (stopped() or (duration is not None and passed() > duration)):
                    monitor.spin(REFRESH)
                    if console.is_terminal:
                        live.update(picture(), refresh=True)  # type: ignore[arg-type]
        if not monitor.has_heard:
            console.print(_nothing(monitor.state.detector), markup=False)
            return 1
        console.print(picture())
        return 0


def _nothing(detector: str) -> str:
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f"no message received from {detector} in ROS domain {domain}; check that it runs under "
        "this name, with the same ROS_DOMAIN_ID and RMW_IMPLEMENTATION"
    )
