"""Joint states off the wire: one subscription, judged, watched for silence, and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from rclpy.clock import ROSClock
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSCompatibility, QoSProfile, ReliabilityPolicy, qos_check_compatible
from sensor_msgs.msg import JointState

from rbd_control.joint_states import DROPS, JointSample, JointStateIntake
from rbd_control.nodes.diagnostics import ERROR, WARN, Durations, Status
from rbd_control.nodes.joint_state_wire import JointStateReader
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import Stamp, to_stamp
from rbd_control.rehearsal import rehearse_intake

WATCH_PERIOD = 0.02
"""How often it is looked for silence [s]."""


class JointStateInput:
    """Calls ``on_sample(sample, stamp)`` for each usable message while the node is active.

    Args:
        node: the node; its parameters give the quality of service.
        joint_names: the joints in the order of the samples.
        timeout: tells after which time without a sample joint states are silent [s]; it counts on
            the steady clock, which runs on when simulated time stands still.
        on_sample: takes the sample and its stamp as a message.
        on_silence: called over and over while the node is active and joint states are silent.
        on_jump: called before the first sample after the clock has gone back.

    Attributes:
        latest: the last sample, whether the node was active or not; None before the first.
        is_silent: whether the last sample is longer ago than ``timeout``.
    """

    def __init__(
        self,
        node: ManagedNode,
        joint_names: Sequence[str],
        timeout: Callable[[], float],
        on_sample: Callable[[JointSample, Stamp], None],
        on_silence: Callable[[], None] = lambda: None,
        on_jump: Callable[[], None] | None = None,
    ) -> None:
        self._node, self._timeout = node, timeout
        self._on_sample, self._on_silence, self._on_jump = on_sample, on_silence, on_jump
        rehearse_intake()
        self._intake = JointStateIntake(joint_names, follow_jumps=on_jump is not None)
        self._jumps = 0
        # The executor's own time of receipt would be better: rclpy 9.1's events executor fails
        # when it is asked for.
        self._age = Durations()
        self._latency = Durations()
        self._clock = cast(ROSClock, node.get_clock())
        self._simulated = self._clock.ros_time_is_active
        self._heard = -math.inf
        self._counted: dict[str, int] = {}
        self.latest: JointSample | None = None
        parameters = node.parameters
        reliability = (
            ReliabilityPolicy.BEST_EFFORT if parameters.best_effort else ReliabilityPolicy.RELIABLE
        )
        self._lost = 0
        self._reader = JointStateReader()
        self._qos = QoSProfile(depth=parameters.queue_depth, reliability=reliability)
        self._subscription = node.create_subscription(
            JointState,
            "joint_states",
            self._receive,
            self._qos,
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(message_lost=self._on_lost),
        )
        self._watchdog = node.create_timer(WATCH_PERIOD, self._watch, clock=node.steady)
        node.diagnostics.append(self._report)

    def destroy(self) -> None:
        """Take everything back from the node."""
        self._node.diagnostics.remove(self._report)
        self._node.destroy_timer(self._watchdog)
        self._node.destroy_subscription(self._subscription)

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self._heard > self._timeout()

    def _receive(self, raw: bytes) -> None:
        begin = time.monotonic()
        # rclpy's clock takes ten times as long to tell the same.
        now = self._clock.now().nanoseconds * 1e-9 if self._simulated else time.time()
        message = self._reader.read(raw)
        stamp = message.sec + 1e-9 * message.nanosec
        sample = self._intake.accept(
            stamp, now, message.name, message.position, message.velocity, message.effort
        )
        if sample is None:
            return
        self.latest = sample
        self._heard = begin
        if self._node.is_active:
            if self._on_jump and self._intake.jumps != self._jumps:
                self._jumps = self._intake.jumps
                self._node.get_logger().warning("the clock has gone back; starting again")
                self._on_jump()
            replaced = stamp != sample.stamp
            self._on_sample(
                sample,
                _stamp(sample.stamp) if replaced else Stamp(message.sec, message.nanosec),
            )
            self._age.add(now - sample.stamp)
            self._latency.add(time.monotonic() - begin)

    def _on_lost(self, status: Any) -> None:
        self._lost = status.total_count

    def _watch(self) -> None:
        self._simulated = self._clock.ros_time_is_active
        if self._node.is_active and self.is_silent:
            self._on_silence()

    def _report(self, status: Status) -> None:
        intake = self._intake
        if not self._clock.now().nanoseconds:
            status.raise_to(ERROR, "use_sim_time is set, but nothing comes on /clock")
        level = WARN
        if self.is_silent:
            why = f", last dropped: {intake.last_reason}" if intake.last_reason else ""
            level = ERROR if self._node.is_active else WARN
            status.raise_to(level, f"no usable joint states for {self._timeout():g} s{why}")
        self._report_publishers(status, level)
        status.add("rate [Hz]", intake.rate)
        status.add("gaps", intake.gaps)
        status.add("largest gap [s]", intake.largest_gap)
        status.add("clock jumps", intake.jumps)
        for what, count in intake.counts.items():
            status.add(what, count)
            new = count - self._counted.get(what, 0)
            # What is missing matters to some only, and they say so.
            if new and what in (*DROPS, "stamp replaced"):
                status.raise_to(WARN, f"joint states: {what} ({new} in the last second)")
        self._counted = dict(intake.counts)
        # By the middleware's own count; what a full queue overwrites it does not count.
        status.add("lost on the way", self._lost)
        self._age.report(status, "stamp to receipt")
        self._latency.report(status, "receipt to publication")

    def _report_publishers(self, status: Status, level: bytes) -> None:
        """Who publishes; ``level`` is that of silence, of which this may be the cause."""
        topic = self._subscription.topic_name
        publishers = self._node.get_publishers_info_by_topic(topic)
        types = {p.topic_type for p in publishers} - {"sensor_msgs/msg/JointState"}
        if types:
            status.raise_to(level, f"{topic} is published as {', '.join(sorted(types))}")
        if len(publishers) > 1:
            status.raise_to(WARN, f"{topic} has {len(publishers)} publishers")
        for publisher in publishers:
            compatibility, reason = qos_check_compatible(publisher.qos_profile, self._qos)
            if compatibility == QoSCompatibility.ERROR:
                status.raise_to(
                    level, f"{topic} of {publisher.node_name} cannot be received: {reason}"
                )
        status.add("publishers", len(publishers))


def _stamp(seconds: float) -> Stamp:
    made = to_stamp(seconds)
    return Stamp(made.sec, made.nanosec)
