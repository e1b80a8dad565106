"""``rbd-control monitor``: shows the verdict, residuals and events of a running detector."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import rclpy
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from rich.console import Console
from rich.live import Live
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.nodes.detector_listener import DetectorListener, detector_topics
from rbd_control.nodes.messages import LATCHED
from rbd_control.nodes.run import make_executor
from rbd_control.nodes.transports import without_shared_memory
from rbd_control.playback.live_view import LiveState, event_line, render
from rbd_control.startup.stop_requests import stop_requests

REFRESH = 0.1
"""Period of the display [s]."""

PATIENCE = 5.0
"""Time without a message of the detector after which the monitor reports it [s]."""

WIDTH = 110

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
    """

    def __init__(self, detector: str, on_event: Callable[[str], None]) -> None:
        self.state = LiveState(f"/{detector.strip('/')}")
        listener = DetectorListener(self.state, lambda event: on_event(event_line(event)))
        self._listener = listener
        self._node = node = Node(f"monitor_{os.getpid()}")
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
        """Whether residuals, their thresholds, and a verdict or why there is none are known."""
        state = self.state
        is_explained = self._has_verdict or state.condition not in ("", "ok")
        return bool(state.joints and state.thresholds and is_explained)

    @property
    def _has_verdict(self) -> bool:
        return math.isfinite(self.state.judged)

    def spin(self, seconds: float) -> None:
        """Process messages for ``seconds`` [s], and update ``state.rate`` once a second."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)
        now, samples = time.monotonic(), self._listener.samples
        if now - self._since >= 1.0:
            self.state.rate = (samples - self._samples) / (now - self._since) or math.nan
            self._since, self._samples = now, samples

    def destroy(self) -> None:
        """Destroy the node of the monitor."""
        self._node.destroy_node()


def run_monitor(detector: str, duration: float | None, once: bool) -> int:
    """Show a detector until ``duration`` [s] is over or SIGINT or SIGTERM arrives.

    The last display stays on the terminal. If the output is not a terminal, events are printed as
    lines when they are received (not with ``once``), and one display at the end.

    Args:
        detector: name of the detector's node, with its namespace.
        duration: length of the display [s]; None means until a signal. With ``once`` it is the
            longest wait; None then means :data:`PATIENCE`.
        once: print one display and end, as soon as residuals, thresholds, and a verdict or the
            reason why there is none are known, or when the longest wait is over.

    Returns:
        The exit code: 0, or 1 if no message of the detector was received.

    Raises:
        RbdControlError: if the middleware cannot be started without shared memory.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    lines = console.is_terminal is False and not once

    def on_event(text: str) -> None:
        if lines:
            console.print(text, markup=False)

    with stop_requests() as stopped, _running(detector, on_event) as monitor:
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


@contextmanager
def _running(detector: str, on_event: Callable[[str], None]) -> Iterator[Monitor]:
    """Yield a monitor; ROS runs until the context is left."""
    try:
        with without_shared_memory():
            rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
            monitor = Monitor(detector, on_event)
        try:
            yield monitor
        finally:
            monitor.destroy()
    finally:
        rclpy.try_shutdown(uninstall_handlers=False)
