"""The node of ``demo.launch.py`` that moves and pushes the arm of the demo."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.dynamics import Model
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.demo.driver import TRAJECTORY, ScenarioDriver
from rbd_control.nodes.demo.scenario import SHORTEST, Scenario
from rbd_control.nodes.diagnostics import Status
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import to_seconds
from rbd_control.nodes.run import run
from rbd_control.parameters import parameter
from rbd_control.robot.arm7 import arm7_urdf

CLOCK = "passivity_controller/tracking_error"
"""Topic whose stamps give the time of the arm: the controller copies them from joint states."""

VERDICT = "contact_detector/contact"

PERIOD = 0.02
"""Period of the check for due pushes [s]."""

PAUSE = 2.0
"""Time for which the arm stands still before the scenario, and before each repetition [s]."""


@dataclass(frozen=True)
class DemoScenarioParameters(NodeParameters):
    """Parameters of the node: duration and repetition of the scenario."""

    HEADING = "Scenario"

    duration: float = parameter(
        20.0,
        "length of the motion",
        unit="s",
        lower=SHORTEST,
        upper=3600.0,
        live=False,
        start_only=True,
    )
    loop: bool = parameter(False, "begin again when the motion is over")


class DemoScenario(ManagedNode[DemoScenarioParameters]):
    """Plays a :class:`~rbd_control.nodes.demo.scenario.Scenario` on the nodes of the demo.

    The scenario begins :data:`PAUSE` after arm, controller and detector have become active. The
    process ends with exit code 0 as soon as another node has a publisher of trajectories for the
    controller, or, without ``loop``, after one pass.
    """

    parameters_type = DemoScenarioParameters
    needs_model = False

    def __init__(self) -> None:
        super().__init__("demo_scenario")
        self._newest: bytes | None = None
        self._has_verdict = False
        self._ready_since: float | None = None
        self._passes = 0
        self._told = ""
        self._scenario = Scenario(self.parameters.duration)
        joints = Model.from_urdf(arm7_urdf()).joint_names
        self._driver = ScenarioDriver(self, self._scenario, joints)
        # Of a thousand messages per second only the newest is deserialized.
        self.create_subscription(JointState, CLOCK, self._on_error, QoSProfile(depth=1), raw=True)
        self.create_subscription(Bool, VERDICT, self._on_verdict, QoSProfile(depth=1))
        self.diagnostics.append(self._report)

    def activate(self) -> None:
        """Wait for the other nodes, then begin the scenario; after a pause go on with it."""
        self._timer = self.create_timer(PERIOD, self._tick, clock=self.steady)

    def deactivate(self) -> None:
        """Pause the pushes while the controller moves on; activation then sends overdue pushes."""
        self.destroy_timer(self._timer)

    def _on_error(self, raw: bytes) -> None:
        self._newest = raw

    def _on_verdict(self, _message: Bool) -> None:
        self._has_verdict = True

    def _tick(self) -> None:
        time = self._time_of_the_arm()
        if self.count_publishers(self.resolve_topic_name(TRAJECTORY)) > 1:
            self._end("another node publishes trajectories: the scenario ends here")
        elif not self._driver.has_begun:
            self._begin_when_ready(time)
        elif time is not None:
            self._go_on(time)

    def _time_of_the_arm(self) -> float | None:
        """Return the stamp of the newest sample that the controller answered [s], or None."""
        if self._newest is None:
            return None
        return to_seconds(deserialize_message(self._newest, JointState).header.stamp)

    def _begin_when_ready(self, time: float | None) -> None:
        """Begin :data:`PAUSE` after all nodes have become active, by the time of the arm."""
        missing = self._missing(time)
        if missing:
            text = f"waiting for {missing}"
            self.get_logger().info(text, throttle_duration_sec=30.0, skip_first=True)
        elif self._ready_since is None:
            self._ready_since = time
        elif time is not None and time > self._ready_since + PAUSE:
            self._driver.begin(time)

    def _missing(self, time: float | None) -> str:
        if time is None:
            return f"the controller to publish {self.resolve_topic_name(CLOCK)}"
        if not self._has_verdict:
            return f"the detector to publish {self.resolve_topic_name(VERDICT)}"
        return "" if self._driver.is_heard else "controller and arm to subscribe"

    def _go_on(self, time: float) -> None:
        self._driver.step(time)
        self._tell(self._driver.activity)
        if self._driver.elapsed(time) <= self._scenario.duration + PAUSE:
            return
        if self.parameters.loop:
            self._passes += self._driver.begin(time)
        else:
            self._passes += 1
            self._end("the scenario is over and the arm holds; loop:=true repeats it")

    def _tell(self, activity: str) -> None:
        if activity != self._told:
            self._told = activity
            self.get_logger().info(activity)

    def _end(self, why: str) -> None:
        self.get_logger().info(why)
        self.exit_code = 0
        self.trigger_deactivate()

    def _report(self, status: Status) -> None:
        status.add("activity", self._told)
        status.add("passes", self._passes)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or the node itself ends it; return its exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run(DemoScenario, args)


if __name__ == "__main__":
    sys.exit(main())
