"""The node that publishes the joint states of a recording on ``joint_states``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rclpy.duration import Duration
from sensor_msgs.msg import JointState

from rbd_control.errors import ParameterError, RbdControlError, RecordingError
from rbd_control.joint_states import JointMessage
from rbd_control.node_parameters import NodeParameters
from rbd_control.parameters import parameter
from rbd_control.playback.recording import BURST, Pace, Recording, read_recording, timeline
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.fault_tolerant_node import Output
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import to_array, to_stamp
from rbd_control.ros.run import run

STATES = Output("joint_states", JointState, 50, "joint states of the recording, in its rhythm")

TICK = 0.001
"""Period at which due messages are published [s]."""

LATEST = 2.0**31 - 1.0
"""Largest time that a stamp can represent [s]."""


@dataclass(frozen=True)
class PlayerParameters(NodeParameters):
    """Parameters of the node: the recording and the playback."""

    HEADING = "Playback"

    recording: str = parameter("", "rosbag2 folder, .db3, .mcap or .csv file to play", live=False)
    topic: str = parameter(
        "/joint_states", "topic of the joint states within the recording", live=False
    )
    rate: float = parameter(
        1.0, "playback speed; 1 is as recorded", above=0.0, upper=1000.0, live=False
    )
    loop: bool = parameter(False, "restart at the end, without limit", live=False)
    restamp: bool = parameter(
        True,
        "shift the stamps so that the recording begins now, with the recorded intervals; above "
        "rate 1 the recorded stamps are kept, because shifted stamps would be ahead of the clock",
        live=False,
    )
    listeners: int = parameter(
        1,
        "number of subscribers to joint_states to wait for before playback; 0: do not wait",
        lower=0,
        upper=100,
        live=False,
    )


class JointStatePlayer(ManagedNode[PlayerParameters]):
    """Publishes the joint states of a recording with the recorded intervals divided by ``rate``.

    Without ``loop`` the process ends with the recording. The exit code is 0, or 1 if the recording
    cannot be read to its end.
    """

    parameters_type = PlayerParameters
    outputs = (STATES,)
    needs_model = False

    def __init__(self) -> None:
        super().__init__("joint_state_player")
        self._publisher = self.open(STATES)
        self._count = 0
        self._recording: Recording
        self._lead: float | None = None
        self.diagnostics.append(self._report)

    def configure(self) -> None:
        """Open the recording.

        Raises:
            ParameterError: if the parameter ``recording`` is empty.
            RecordingError: if the recording cannot be read, or has no joint states on ``topic``.
        """
        if not self.parameters.recording:
            raise ParameterError("recording is empty; give the path of the recording to play")
        self._recording = read_recording(self.parameters.recording, self.parameters.topic)

    def waiting_for(self) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met.

        The condition is that ``joint_states`` has as many subscribers as the parameter
        ``listeners``.
        """
        wanted = self.parameters.listeners
        if self._publisher.get_subscription_count() >= wanted:
            return ""
        return f"{wanted} subscribers to {self.resolve_topic_name('joint_states')}"

    def activate(self) -> None:
        """Start to play from the beginning.

        Raises:
            RecordingError: if the recording contains no joint states.
        """
        self._timeline = timeline(self._recording.messages, self.parameters.loop)
        following = next(self._timeline, None)
        if following is None:
            raise RecordingError(f"{self._recording.path} contains no joint states")
        self._next = following
        self._pace = Pace(self.parameters.rate, time.monotonic())
        restamps = self.parameters.restamp and self.parameters.rate <= 1.0
        self._lead = None if restamps else 0.0
        self._timer = self.create_timer(TICK, self._tick)
        self.get_logger().info(
            f"playing {self._recording.count} messages of {self._recording.path}"
        )

    def deactivate(self) -> None:
        """Stop playing; wait up to 1 s until the subscribers have acknowledged the messages."""
        self.destroy_timer(self._timer)
        # The process may end next, which would discard messages still in transit.
        self._publisher.wait_for_all_acked(Duration(seconds=1.0))

    def _tick(self) -> None:
        try:
            self._play()
        except RbdControlError as error:
            self.get_logger().error(f"cannot play on after {self._count} messages: {error}")
            self._end(1)

    def _play(self) -> None:
        """Publish the due messages, at most one burst."""
        if self.stopping:
            return  # The executor does not return while a timer is always due.
        now = time.monotonic()
        # Before the burst, because fewer messages than a burst may be due after a suspension.
        if self._pace.hold_back(self._next[0], now):
            self.get_logger().warning(
                f"too slow for rate {self.parameters.rate:g}: {self._pace.late:.1f} s late",
                throttle_duration_sec=10.0,
            )
        position = self._pace.position(now)
        for _ in range(BURST):
            due, shift, message = self._next
            if due > position:
                return
            self._publish(message, shift)
            following = next(self._timeline, None)
            if following is None:
                self.get_logger().info(f"played {self._count} messages to the end")
                self._end(0)
                return
            self._next = following

    def _end(self, code: int) -> None:
        self.exit_code = code
        self.trigger_deactivate()

    def _publish(self, message: JointMessage, shift: float) -> None:
        output = JointState()
        # A stamp of zero means "no stamp" and is kept.
        if message.stamp and abs(message.stamp) < LATEST:
            if self._lead is None:
                self._lead = self.get_clock().now().nanoseconds * 1e-9 - message.stamp
            stamp = message.stamp + shift + self._lead
            if abs(stamp) < LATEST:
                output.header.stamp = to_stamp(stamp)
        output.name = list(message.name)
        output.position = to_array(np.asarray(message.position, dtype=float))
        output.velocity = to_array(np.asarray(message.velocity, dtype=float))
        output.effort = to_array(np.asarray(message.effort, dtype=float))
        self._count += self._publisher.try_publish(output)

    def _report(self, status: Status) -> None:
        status.add("played", self._count)
        if self.is_active:
            status.add("late [s]", self._pace.late)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or the node itself ends it; return its exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run(JointStatePlayer, args)


if __name__ == "__main__":
    sys.exit(main())
