"""The node ``demo``, which sends the trajectory and the pushes, and records the results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from rclpy.executors import Executor
from rclpy.qos import QoSProfile
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.dynamics import Model, frame_placement
from rbd_control.nodes.command_node import CommandNode
from rbd_control.nodes.contact_messages import events_in
from rbd_control.nodes.demo.driver import ScenarioDriver
from rbd_control.nodes.demo.result import DemoLog, Series
from rbd_control.nodes.demo.scenario import Scenario
from rbd_control.nodes.messages import to_seconds
from rbd_control.nodes.run import make_executor
from rbd_control.results import LONGEST
from rbd_control.simulation import arm7_urdf
from rbd_control.wording import shortened

STARTING_NODES = (
    "starting the nodes; where no compiled code is stored, they compile for a minute or two"
)
"""Text that is shown as the activity until the nodes are ready."""

_COUNTS = ("samples", "valid samples")


class DemoObserver:
    """Records the topics of the three nodes, and sends the trajectory and pushes of the scenario.

    The nodes are the simulated arm, the controller and the detector. Call ``rclpy.init`` before the
    construction, :meth:`begin` to send the trajectory, and :meth:`spin` repeatedly to record and to
    send pushes, which are due by the stamps of the residuals.

    Args:
        scenario: motion and pushes.
        thresholds: contact thresholds of the detector, one for each joint or one for all [N·m].

    Attributes:
        log: the recorded data.
        ignored: number of messages and statuses ignored as invalid, or as a true force before the
            first joint state.
    """

    def __init__(self, scenario: Scenario, thresholds: tuple[float, ...]) -> None:
        self._model = Model.from_urdf(arm7_urdf())
        self._position: np.ndarray | None = None
        joints = self._model.joint_names
        limits = np.broadcast_to(np.array(thresholds), (len(joints),))
        self.log = DemoLog(joints, limits, scenario.contacts)
        self.ignored = 0
        self._begin: float | None = None
        self._verdicts = 0
        self._counted = (0, 0)
        self._node = CommandNode("demo", lambda text: self._node.get_logger().warning(text))
        self._executor: Executor = make_executor()
        self._executor.add_node(self._node)
        # No message may be lost, even if it is read late.
        many = QoSProfile(depth=5000)
        log, node = self.log, self._node
        for topic, series in (
            ("contact_detector/external_joint_torques", log.residual),
            ("simulated_arm/true_external_joint_torques", log.true_torque),
        ):
            node.create_subscription(JointState, topic, partial(self._on_torque, series), many)
        node.create_subscription(
            JointState, "passivity_controller/tracking_error", self._on_error, many
        )
        node.create_subscription(JointState, "joint_states", self._on_state, 10)
        node.create_subscription(
            WrenchStamped, "simulated_arm/true_external_wrench", self._on_true_force, many
        )
        node.create_subscription(DiagnosticArray, "contact_detector/events", self._on_event, many)
        node.create_subscription(Bool, "contact_detector/contact", self._on_verdict, 10)
        node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 10)
        self._driver = ScenarioDriver(node, scenario, joints)

    @property
    def activity(self) -> str:
        """Text that names the present activity, for the user."""
        return self._driver.activity or STARTING_NODES

    @property
    def is_ready(self) -> bool:
        """Whether all three nodes have published, and trajectory and pushes have subscribers."""
        return bool(
            self._verdicts
            and self.log.tracking_error.last
            and self.log.true_torque.last
            and self._driver.is_heard
        )

    @property
    def time(self) -> float:
        """Stamp of the detector's last residual, by simulated time [s]; 0 before the first."""
        return self.log.residual.last or 0.0

    @property
    def elapsed(self) -> float:
        """Simulated time since the motion began [s]; 0 before."""
        return self._driver.elapsed(self.time)

    def spin(self, seconds: float) -> None:
        """Process messages for ``seconds`` [s], then send a push if it is due."""
        self._executor.spin_until_future_complete(Future(), timeout_sec=seconds)
        self._driver.step(self.time)
        self._node.refusals.log()

    def begin(self) -> bool:
        """Send the trajectory, and begin to count the samples of the motion.

        Returns:
            Whether the middleware accepted the trajectory; if not, call this method again.
        """
        if not self._driver.begin(self.time):
            return False
        self.log.begin = self._begin = self.time
        return True

    def destroy(self) -> None:
        """Destroy the node ``demo``."""
        self._executor.remove_node(self._node)
        self._node.destroy_node()

    def _on_torque(self, series: Series, message: JointState) -> None:
        self._add(series, message, message.effort)

    def _on_error(self, message: JointState) -> None:
        self._add(self.log.tracking_error, message, message.position)

    def _add(self, series: Series, message: JointState, values: Sequence[float]) -> None:
        if len(values) == len(self.log.joints) and all(map(math.isfinite, values)):
            series.add(to_seconds(message.header.stamp), values)
        else:
            self.ignored += 1

    def _on_state(self, message: JointState) -> None:
        position = np.array(message.position)
        if position.shape == (self._model.nq,) and np.isfinite(position).all():
            self._position = position
        else:
            self.ignored += 1

    def _on_true_force(self, message: WrenchStamped) -> None:
        """Record the force in world axes, as in events; the message has axes of the link."""
        link, force = message.header.frame_id, message.wrench.force
        if self._position is None or link not in self._model.link_body:
            self.ignored += 1
            return
        rotation = frame_placement(self._model, self._position, link)[:3, :3]
        turned = rotation @ (force.x, force.y, force.z)
        self.log.true_forces.append((to_seconds(message.header.stamp), link, turned))

    def _on_event(self, message: DiagnosticArray) -> None:
        events, ignored = events_in(message)
        self.ignored += ignored
        for event in events:
            self.log.events[event.id] = event

    def _on_verdict(self, _message: Bool) -> None:
        self._verdicts += 1

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            if status.name == "passivity_controller" and self._begin is not None:
                if any(item.key == "mode" and item.value == "safe" for item in status.values):
                    self.log.fault = self.log.fault or shortened(status.message, LONGEST)
            elif status.name == "contact_detector":
                values = {item.key: item.value for item in status.values if item.key in _COUNTS}
                counts = [values.get(key, "0") for key in _COUNTS]
                if all(count.isdecimal() and len(count) < 20 for count in counts):
                    self._count(*map(int, counts))
                else:
                    self.ignored += 1

    def _count(self, samples: int, valid: int) -> None:
        """Update the fraction of valid samples since the last report before the motion."""
        if self._begin is None:
            self._counted = (samples, valid)
        elif samples > self._counted[0]:
            of, good = samples - self._counted[0], valid - self._counted[1]
            self.log.valid_fraction = good / of
