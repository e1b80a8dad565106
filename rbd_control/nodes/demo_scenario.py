"""The scenario of the demo, and the node of ``demo.launch.py`` that moves and pushes its arm.

``config/demo.yaml`` defines the ball and the initial posture of the arm.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from geometry_msgs.msg import Vector3, WrenchStamped
from numpy.typing import NDArray
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory

from rbd_control.control import TrajectoryPoint
from rbd_control.dynamics import Model, frame_placement
from rbd_control.live.requests import CommandNode
from rbd_control.node_parameters import NodeParameters
from rbd_control.parameters import parameter
from rbd_control.robot.arm7 import arm7_urdf
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import to_seconds
from rbd_control.ros.run import run
from rbd_control.ros.trajectory_wire import message_of_trajectory

Array = NDArray[np.float64]

SHORTEST = 10.0
"""Shortest duration of the motion with all contacts [s]."""

START = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 0.9, 0.0])
"""Initial and final joint positions [rad]."""

_AMPLITUDE = np.array([0.5, 0.3, 0.5, 0.4, 0.7, 0.5, 0.9])
_PERIOD = np.array([4.6, 3.8, 5.3, 3.3, 2.9, 2.6, 2.3])
_FADE = 1.5
_STROKE = np.array([-1.15, 0.15, 0.0, 0.1, 0.0, 0.0, 0.0])
_STROKE_TIME = 3.6
_SPACING = 0.1


@dataclass(frozen=True)
class Push:
    """A push at the origin of a link.

    Attributes:
        time: time of the push from the start of the trajectory [s].
        link: the link that is pushed.
        force: x, y, z along the axes of the link [N].
    """

    time: float
    link: str
    force: tuple[float, float, float]


@dataclass(frozen=True)
class Scenario:
    """The demo's motion and pushes for the arm ``arm7``, distributed over ``duration`` [s].

    All contacts happen if ``duration`` is at least :data:`SHORTEST`.
    """

    duration: float

    @property
    def stroke(self) -> float:
        """Time at which the motion into the ball begins, from the start of the trajectory [s]."""
        return self.duration - _STROKE_TIME

    @property
    def pushes(self) -> tuple[Push, ...]:
        """The pushes in the order of time: 25 N on ``tool``, then 30 N on ``link_5``."""
        free = self.stroke
        return (
            self._push(0.35 * free, "tool", np.array([0.0, 25.0, 0.0])),
            self._push(0.7 * free, "link_5", np.array([0.0, -30.0, 0.0])),
        )

    def _push(self, time: float, link: str, force: Array) -> Push:
        """Return a push with a force in world axes (3,) [N], for the planned link orientation."""
        model = Model.from_urdf(arm7_urdf())
        q = self._positions(np.array([time]))[0]
        x, y, z = (float(part) for part in force @ frame_placement(model, q, link)[:3, :3])
        return Push(time, link, (x, y, z))

    @property
    def contacts(self) -> tuple[str, ...]:
        """Descriptions of the contacts that the scenario provokes, in the order of time."""
        pushed = (f"push of {np.linalg.norm(p.force):.0f} N on {p.link}" for p in self.pushes)
        return (*pushed, "collision with the ball")

    def points(self) -> list[TrajectoryPoint]:
        """Return the trajectory: a point about every 0.1 s, from 0.1 s to ``duration``.

        Each point has positions, velocities and accelerations.
        """
        count = round(self.duration / _SPACING)
        times = np.linspace(0.0, self.duration, count + 1)[1:]
        h = 1e-4
        before, at, after = (self._positions(times + dt) for dt in (-h, 0.0, h))
        v = (after - before) / (2.0 * h)
        a = (after - 2.0 * at + before) / h**2
        # The ends must be exactly at rest; finite differences are not.
        v[-1] = a[-1] = 0.0
        return [TrajectoryPoint(*point) for point in zip(at, v, a, times, strict=True)]

    def _positions(self, times: Array) -> Array:
        """Return the joint positions, (k, 7) [rad], at ``times``, (k,) [s].

        These are sines that fade in and out, then the motion into the ball and back.
        """
        free = self.stroke
        t = times[:, None]
        fade = _smooth(t / _FADE) * _smooth((free - t) / _FADE)
        lively = _AMPLITUDE * np.sin(2.0 * np.pi * t / _PERIOD) * fade
        phase = (t - free) / _STROKE_TIME
        stroke = _STROKE * _smooth(2.0 * phase) * _smooth(2.0 * (1.0 - phase))
        return START + lively + stroke


def _smooth(x: Array) -> Array:
    """Return a step from 0 to 1 with two continuous derivatives at both ends."""
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


TRAJECTORY = "passivity_controller/joint_trajectory"

PUSH = "simulated_arm/external_wrench"

PUSH_SHOWN = 1.0
"""Time for which :attr:`ScenarioDriver.activity` names a push [s]."""


class ScenarioDriver:
    """Publishes the trajectory of a scenario, and each push when it is due.

    A message that the middleware refuses is published again at the next call.

    Args:
        node: creates the publishers of trajectory and pushes.
        scenario: motion and pushes.
        joints: names of the joints, in the order of the scenario.

    Attributes:
        activity: text that names the present motion or push, for the user; empty before the motion.
    """

    def __init__(
        self, node: CommandNode | FaultTolerantNode, scenario: Scenario, joints: Sequence[str]
    ) -> None:
        self.activity = ""
        self._scenario, self._joints = scenario, tuple(joints)
        self._begin: float | None = None
        self._pushes: list[Push] = []
        self._shown_until = 0.0
        self._trajectory = node.create_publisher(JointTrajectory, TRAJECTORY, 10)
        self._push = node.create_publisher(WrenchStamped, PUSH, 10)

    @property
    def is_heard(self) -> bool:
        """Whether the topics of the trajectory and of the pushes both have subscribers."""
        readers = (self._trajectory, self._push)
        return all(publisher.get_subscription_count() for publisher in readers)

    @property
    def has_begun(self) -> bool:
        """Whether the trajectory was sent."""
        return self._begin is not None

    def elapsed(self, time: float) -> float:
        """Return the time since the beginning of the motion [s], or zero before the motion.

        Args:
            time: present stamp of the arm's joint states [s].
        """
        return 0.0 if self._begin is None else time - self._begin

    def begin(self, time: float) -> bool:
        """Send the trajectory; the motion and its pushes begin anew.

        Args:
            time: present stamp of the arm's joint states [s].

        Returns:
            Whether the middleware accepted the trajectory. If it refused the trajectory, the motion
            has not begun; call this method again.
        """
        message = message_of_trajectory(self._joints, self._scenario.points())
        if not self._trajectory.try_publish(message):
            return False
        self._begin, self._shown_until = time, 0.0
        self._pushes = list(self._scenario.pushes)
        return True

    def step(self, time: float) -> None:
        """Send the next push if it is due, and update ``activity``; call this method often.

        Args:
            time: present stamp of the arm's joint states [s].
        """
        if self._begin is None:
            return
        elapsed = self.elapsed(time)
        if self._pushes and elapsed >= self._pushes[0].time:
            push = self._pushes[0]
            message = WrenchStamped()
            message.header.frame_id = push.link
            x, y, z = push.force
            message.wrench.force = Vector3(x=x, y=y, z=z)
            if self._push.try_publish(message):
                self._pushes.pop(0)
                self._say(f"pushing {push.link} with {np.linalg.norm(push.force):.0f} N", elapsed)
        elif elapsed > self._shown_until:
            stroke = elapsed > self._scenario.stroke
            self._say("moving into the ball" if stroke else "moving every joint", elapsed)

    def _say(self, what: str, elapsed: float) -> None:
        if what != self.activity:
            self.activity = what
            self._shown_until = elapsed + PUSH_SHOWN


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
    """Plays a :class:`Scenario` on the nodes of the demo.

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
        self._timer = self.create_timer(PERIOD, self._tick)

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
