"""The hand guide as a process, with stand-ins for the detector and the arm."""

from __future__ import annotations

from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import WrenchStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import Trigger

from .bringup import BringUp
from .detector_setting import MODEL, POSTURE
from .probe import LATCHED, Heard, Probe, Source

NODE = "hand_guide"
PERIOD = 0.01
HAND = 15.0
"""Force of the hand along the z axis of the tool [N]."""


class Cell:
    """An arm that takes velocities, and a detector that finds a hand on its tool.

    Attributes:
        force: force on the tool [N].
        is_silent: whether the detector publishes nothing.
    """

    def __init__(self, probe: Probe, topic: str) -> None:
        node = probe.node
        self.force, self.is_silent = 0.0, False
        self.source = Source(MODEL.joint_names, POSTURE.copy(), np.zeros(MODEL.nv))
        probe.stream(self.source)
        self._probe = probe
        self._clock = node.get_clock()
        self._contact = node.create_publisher(Bool, "contact_detector/contact", 10)
        self._level = node.create_publisher(DiagnosticArray, "contact_detector/contact_stamped", 10)
        self._wrench = node.create_publisher(WrenchStamped, "contact_detector/tool_wrench", 10)
        self._covariance = node.create_publisher(
            Float64MultiArray, "contact_detector/tool_wrench_covariance", 10
        )
        node.create_subscription(Float64MultiArray, topic, self._follow, 10)
        probe.every(PERIOD, self._detect)

    def _follow(self, command: Float64MultiArray) -> None:
        v = np.array(command.data)
        self.source.position = np.asarray(self.source.position) + 0.004 * v
        self.source.velocity = v

    def _detect(self) -> None:
        if self.is_silent:
            return
        touched = bool(self.force)
        stamp = self._clock.now().to_msg()
        self._contact.publish(Bool(data=touched))
        status = DiagnosticStatus(
            level=DiagnosticStatus.WARN if touched else DiagnosticStatus.OK,
            message="contact" if touched else "no contact",
            values=[KeyValue(key="link", value="link_7" if touched else "")],
        )
        self._level.publish(DiagnosticArray(status=[status]))
        self._covariance.publish(Float64MultiArray(data=(0.01 * np.eye(6)).ravel().tolist()))
        wrench = WrenchStamped()
        wrench.header.stamp, wrench.header.frame_id = stamp, "tool"
        wrench.wrench.force.z = self.force
        self._wrench.publish(wrench)

    def lead(self, commands: Heard) -> None:
        """Start, wait for the tare, and push until the arm moves; again after a pause of the node.

        The node stops for pauses that a busy machine causes.
        """

        def led() -> bool:
            self.force = 0.0
            if "stopped" in state(self._probe)[0]:
                self._probe.call(Trigger, f"{NODE}/start")
            if "for a hand" not in state(self._probe)[1]:
                return False
            self.force = HAND
            guide, _ = state(self._probe)
            return guide == "led" and moves(commands)

        self._probe.wait(led, f"is not led: {state(self._probe)}")


def state(probe: Probe) -> tuple[str, str]:
    """Return state and reason in the next report of the node."""
    values = probe.report(NODE).values
    return values.get("guide", ""), values.get("reason", "")


def moves(commands: Heard) -> bool:
    return bool(len(commands)) and bool(np.any(np.abs(commands[-1].data) > 0.01))


def parameters(**changes: Any) -> dict[str, Any]:
    given = {"urdf": "arm7", "tool_frame": "tool", "input_timeout": 0.5, "output": "velocity"}
    return {**given, **changes}


def test_a_hand_leads_and_the_last_command_is_zero(bring_up: BringUp, probe: Probe) -> None:
    """After a silent detector, after changed parameters of the detector, and at a deactivation."""
    topic = "forward_velocity_controller/commands"
    cell, commands = Cell(probe, topic), probe.listen(Float64MultiArray, topic)
    states = probe.listen(String, f"{NODE}/state", LATCHED)
    process = bring_up.start(NODE, parameters(horizon=0.1))
    probe.wait_for_report(NODE, lambda r: r.values.get("state") == "active", "is not active")
    cell.force = HAND
    probe.later_report(NODE)
    assert not len(commands), "a touch without a start moves the arm"
    answer = probe.call(Trigger, f"{NODE}/play")
    assert "no path is stored" in answer.message

    cell.lead(commands)
    cell.is_silent = True
    report = probe.wait_for_report(NODE, lambda r: r.values["guide"] == "stopped", "goes on")
    assert report.level == 1
    probe.wait(lambda: not np.any(commands[-1].data), "the last command is no zero")
    probe.wait(lambda: states[-1].data == "stopped", "does not say that it has stopped")
    answer = probe.call(Trigger, f"{NODE}/start")
    assert (answer.success, answer.message[:17]) == (False, "cannot start: no ")
    assert "horizon: no effect with output velocity" in process.output

    cell.is_silent = False
    cell.lead(commands)
    request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
    assert probe.call(ChangeState, f"{NODE}/change_state", request).success
    probe.wait(lambda: not np.any(commands[-1].data), "the last command is no zero")
    count = len(commands)
    probe.later_report(NODE)
    assert len(commands) == count, "commands of a node that is not active"
    process.end()
