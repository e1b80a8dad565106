"""The node that leads any arm by the hand on its tool."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped, WrenchStamped
from rcl_interfaces.msg import ParameterEvent
from rclpy.duration import Duration
from rclpy.exceptions import InvalidServiceNameException, InvalidTopicNameException
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control.hand_guide import Arm, Command, HandGuide, HandGuideParameters
from rbd_control.errors import InputError, ParameterError
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import FrameParameters, ReceivingParameters
from rbd_control.nodes.detector_input import CONTACT, LARGEST_VERDICT, link_of_frame
from rbd_control.nodes.stop_orders import ServiceKind, StopRequest
from rbd_control.parameters import parameter
from rbd_control.ros.contact_messages import level_and_link
from rbd_control.ros.diagnostics import WARN, Status, report_unreceived
from rbd_control.ros.fault_tolerant_node import FaultTolerantPublisher, Output
from rbd_control.ros.joint_state_input import JointStateInput
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import EXPIRING, REPEAT_PERIOD, Stamp, to_array, to_seconds
from rbd_control.ros.run import run
from rbd_control.ros.threads import CallbackWatchdog, ShortLock
from rbd_control.wording import listed

DETECTOR = CONTACT.partition("/")[0]
"""Name of the detector node, before the names of its topics."""

PERIOD = 0.004
"""Period of the law and of its commands [s]: two or more in each cycle of a driver at 125 Hz."""

LATEST_STEP = 0.1
"""Delay of the law behind other callbacks above which the watchdog thread sends the hold [s]."""

FINAL_TIME = 0.5
"""Time after a stop for which the hold is repeated, because a message may be lost [s]."""

ACKNOWLEDGE_TIME = 1.0
"""Longest time to wait at a deactivation until the hold is received [s]."""

LARGEST_STAMPED = 65_536
"""Size above which a stamped verdict is dropped before deserialization [bytes]."""

WRENCH_ORDER = np.array([3, 4, 5, 0, 1, 2])
"""Order of the components of a message, force first, as indices into ``[moment; force]``."""

NOT_FLOATING = (
    *("motion", "axis", "damping", "mass", "turn_damping", "inertia", "tank_capacity"),
    *("tool_speed", "turn_speed", "joint_speed", "box_lower", "box_upper"),
    *("teach_step", "play_speed", "horizon"),
)
"""Parameters that do not act on the motion of an arm that floats under its own controller."""


class OutputKind(NamedTuple):
    """What belongs to a value of the parameter ``output``."""

    command: str
    """The topic, or the node, that ``command`` has if it is empty."""
    arm: Arm
    """What the arm takes, for the law."""
    message: Any
    """Type of the messages; None for services."""
    unused: tuple[str, ...]
    """Parameters without effect on the motion."""


OUTPUTS = {
    "trajectory": OutputKind(
        "joint_trajectory_controller/joint_trajectory", "position", JointTrajectory, ()
    ),
    "velocity": OutputKind(
        "forward_velocity_controller/commands", "velocity", Float64MultiArray, ("horizon",)
    ),
    "twist": OutputKind("servo_node/delta_twist_cmds", "twist", TwistStamped, ("horizon",)),
    "float": OutputKind("passivity_controller", "torque", None, NOT_FLOATING),
}
"""The kinds of output."""

STATE = Output("~/state", String, EXPIRING, "state of the hand guide: 50 Hz while active")


@dataclass(frozen=True)
class HandGuideNodeParameters(FrameParameters, ReceivingParameters, HandGuideParameters):
    """Parameters of the node: the law, and its output."""

    HEADING = "Output"

    output: str = parameter(
        "trajectory",
        "what the arm takes. 'trajectory': JointTrajectory of one point (ros2_control); "
        "'velocity': Float64MultiArray of joint velocities (forward_velocity_controller); 'twist': "
        "TwistStamped "
        "in the root link, for MoveIt Servo with command_in_type speed_units; 'float': the "
        "passivity_controller floats while the arm is led, at any speed and in all directions; "
        f"no effect then have {', '.join(NOT_FLOATING)}",
        choices=tuple(OUTPUTS),
        live=False,
    )
    command: str = parameter(
        "",
        "topic of the commands, or with 'float' the name of the controller node; empty: "
        + ", ".join(f"{each.command} for '{kind}'" for kind, each in OUTPUTS.items()),
        live=False,
    )
    horizon: float = parameter(
        0.02,
        "time_from_start of the points of 'trajectory': about the period of the controller, at "
        "least two of this node (8 ms); a longer one is smoother and later",
        unit="s",
        lower=0.004,
        upper=0.5,
    )


class HandGuideNode(ManagedNode[HandGuideNodeParameters]):
    """Runs a :class:`HandGuide` on the detector's results, and sends its commands.

    The service ``~/start`` waits for a tare and a hand, ``~/stop`` ends guiding, ``~/play`` repeats
    the led path. The topic ``~/state`` repeats the state.

    A timer steps the law, so that a stop is also carried out when all inputs have ended. The last
    command of every stop is a hold: the present command as position, or zero velocity. It is
    repeated for :data:`FINAL_TIME`, and sent at once when the node is deactivated, fails, or does
    not reach its timer for :data:`LATEST_STEP`.
    """

    parameters_type = HandGuideNodeParameters
    outputs = (STATE,)
    reads_joint_states = True

    def __init__(self) -> None:
        super().__init__("hand_guide")
        self._states = self.open(STATE)
        self._lock = ShortLock()
        self._guide: HandGuide | None = None
        self._arm: ArmOutput | None = None
        self._input: JointStateInput | None = None
        self._covariance: tuple[np.ndarray, float] | None = None
        self._logged = ("", "")
        self._hold_until = -np.inf
        verdicts = QoSProfile(depth=100)
        self._contact = self.create_subscription(
            Bool, CONTACT, self._on_contact, verdicts, largest=LARGEST_VERDICT
        )
        self._qos = verdicts
        for kind, name, callback in (
            (DiagnosticArray, "contact_stamped", self._on_level),
            (Float64MultiArray, "tool_wrench_covariance", self._on_covariance),
            (WrenchStamped, "tool_wrench", self._on_wrench),
        ):
            self.create_subscription(
                kind, f"{DETECTOR}/{name}", callback, QoSProfile(depth=10), largest=LARGEST_STAMPED
            )
        self.create_subscription(
            ParameterEvent, "/parameter_events", self._on_parameters, QoSProfile(depth=100)
        )
        self.offer("start", self._start)
        self.offer("stop", self._stop)
        self.offer("play", self._play)
        self.create_timer(PERIOD, self._step)
        self.create_timer(REPEAT_PERIOD, self._repeat)
        self._watchdog = CallbackWatchdog(
            lambda: LATEST_STEP, lambda: self.errors.run("watchdog", self._on_late)
        )
        self.diagnostics.append(self._report)

    # Lifecycle -----------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the law, the joint-state input and the publisher of the commands.

        Raises:
            RbdControlError: for links that do not fit the arm, and an invalid ``command``.
        """
        p, model = self.parameters, self.robot.model
        # Friction that reverses with the motion; its sign is unknown at rest.
        dry = self.robot.friction.dry(model.nv)
        self._guide = HandGuide(model, p, OUTPUTS[p.output].arm, np.asarray(dry))
        self._arm = ArmOutput(self, p, model.joint_names, p.frame_prefix + model.root_link)
        self._input = JointStateInput(
            self,
            model.joint_names,
            lambda: p.input_timeout,
            self._on_sample,
            on_jump=lambda: self._fail("the clock of the joint states jumped"),
        )
        self._warn_of_unused()

    def cleanup(self) -> None:
        """Destroy the joint-state input and the publisher of the commands."""
        if self._input is not None:
            self._input.destroy()
        if self._arm is not None:
            self._arm.destroy()
        self._input = self._arm = self._guide = None

    def activate(self) -> None:
        """Accept ``~/start``; nothing is sent before a hand leads the arm."""
        self._law.reset()
        self._logged = ("", "")
        self._watchdog.start()

    def deactivate(self) -> None:
        """Send the hold, if the arm is led or stopping, and wait until it is received."""
        with ExitStack() as steps:  # calls them in reverse order
            steps.callback(self._law.reset)
            steps.callback(self._hold_at_last)
            steps.callback(self._watchdog.stop)

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has both
        """Stop the arm, because the state of the node is unknown after a software defect."""
        if self.is_active:
            self._fail(reason)
            self._hold(reason)

    def parameters_changed(self) -> None:
        """Apply the new parameters."""
        self._law.parameters = self.parameters
        self._warn_of_unused()

    def _warn_of_unused(self) -> None:
        """Log parameters that were changed and have no effect with this ``output``."""
        p = self.parameters
        unused = OUTPUTS[p.output].unused
        changed = [
            item.name
            for item in fields(p)
            if item.name in unused and getattr(p, item.name) != item.default
        ]
        if changed:
            self.get_logger().warning(f"{listed(changed)}: no effect with output {p.output}")

    @property
    def _law(self) -> HandGuide:
        """The law of the configured node."""
        assert self._guide is not None
        return self._guide

    # Inputs --------------------------------------------------------------------------------------

    def _on_contact(self, message: Bool) -> None:
        if self._guide is not None:
            self._guide.update_verdict(bool(message.data), time.monotonic())

    def _on_level(self, message: DiagnosticArray) -> None:
        found = level_and_link(message)
        if found is not None and self._guide is not None:
            self._guide.update_level(*found, time.monotonic())

    def _on_covariance(self, message: Float64MultiArray) -> None:
        if len(message.data) == 36:
            values = np.array(message.data).reshape(6, 6)
            self._covariance = values[np.ix_(WRENCH_ORDER, WRENCH_ORDER)], time.monotonic()

    def _on_wrench(self, message: WrenchStamped) -> None:
        now = time.monotonic()
        if self._guide is None or self._covariance is None:
            return
        covariance, since = self._covariance
        if now - since > self.parameters.input_timeout:
            return  # the wrench then counts as missing
        force, torque = message.wrench.force, message.wrench.torque
        values = np.array([torque.x, torque.y, torque.z, force.x, force.y, force.z])
        prefix = self.parameters.frame_prefix
        frame = link_of_frame(message.header.frame_id, self.robot.model.link_names, prefix)
        stamp = to_seconds(message.header.stamp)
        self._guide.update_wrench(stamp, frame, values, covariance, now)

    def _on_sample(self, sample: JointSample, _stamp: Stamp) -> None:
        error = sample.model_error or self.contradiction
        if error:
            self._fail(error)
        if not sample.is_late and sample.v is not None:
            self._law.update_joints(sample.stamp, sample.q, sample.v, time.monotonic())

    def _on_parameters(self, event: ParameterEvent) -> None:
        detector = self._contact.topic_name.rpartition("/")[0]
        if event.node == detector and event.changed_parameters:
            names = ", ".join(each.name for each in event.changed_parameters[:3])
            self._fail(f"parameters of {detector} changed: {names}")

    def _fail(self, reason: str) -> None:
        if self._guide is not None:
            self._guide.fail(reason)

    # Services ------------------------------------------------------------------------------------

    def _start(self) -> str:
        with self._lock.held():
            self._require_arm("start")
            return self._law.start()

    def _stop(self) -> str:
        with self._lock.held():
            self._law.stop("stopped by the service")
            return self._law.state

    def _play(self) -> str:
        with self._lock.held():
            self._require_arm("play")
            return self._law.play()

    def _require_arm(self, order: str) -> None:
        """Refuse an order while an input or the receiver of the commands is missing."""
        assert self._arm is not None
        missing = self._law.missing(time.monotonic()) or self._arm.missing()
        if missing:
            raise InputError(f"cannot {order}: {missing}")

    # Commands ------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Step the law and send its command, or the hold for a while after a stop."""
        self._watchdog.beat()
        if not self.is_active or self._arm is None:
            return
        with self._lock.held():
            before, now = self._law.state, time.monotonic()
            command = self._law.step(now)
            state = self._law.state
            if state == "stopped" and before != "stopped":
                self._hold_until = now + FINAL_TIME
            if command is not None and state != "stopped":
                self._arm.send(command)
            elif now < self._hold_until and state == "stopped":
                self._arm.hold(self._law.command)
            self._arm.switch(state == "led")
        self._log()

    def _hold(self, reason: str) -> None:
        """Stop the law without a ramp, and send the hold if the arm was commanded."""
        law, arm = self._law, self._arm
        if law.end(reason) and arm is not None:
            arm.hold(law.command)
            self._hold_until = time.monotonic() + FINAL_TIME
        if arm is not None:
            arm.switch(False)

    def _on_late(self) -> None:
        """Send the hold in the watchdog thread, because the callback thread is late."""
        with self._lock.held():
            late = self._watchdog.age
            if self.is_active and late > LATEST_STEP:
                self._hold(f"the node is overloaded or blocked: its law is {late:.2g} s late")

    def _hold_at_last(self) -> None:
        with self._lock.held():
            self._hold("the node is deactivated")
        if self._arm is not None:
            self._arm.wait()

    def _repeat(self) -> None:
        if self.is_active:
            self._states.publish(String(data=self._law.state))

    def _log(self) -> None:
        """Log each change of the state."""
        law = self._law
        now = (law.state, law.reason if law.state in ("stopping", "stopped") else "")
        if now[0] != self._logged[0]:
            reason = f": {law.reason}" if law.reason else ""
            self.get_logger().info(f"{law.state}{reason}")
        self._logged = now

    def _report(self, status: Status) -> None:
        law = self._guide
        if law is None or self._arm is None:
            return
        status.add("guide", law.state)
        status.add("reason", law.reason)
        status.add("tank [J]", law.tank.level)
        status.add("force [N]", float(np.linalg.norm(law.force[3:])))
        status.add("moment [N·m]", float(np.linalg.norm(law.force[:3])))
        status.add("points of the led path", len(law.path.points))
        if self.is_active and law.state in ("stopping", "stopped"):
            status.raise_to(WARN, f"{law.state}: {law.reason}; call ~/start", is_logged=True)
        self._arm.report(status)
        if self.is_active and law.missing(time.monotonic()):
            status.raise_to(WARN, law.missing(time.monotonic()))
            report_unreceived(self, self._contact.topic_name, self._qos, status)


class ArmOutput:
    """Sends commands to the arm, in the form that the parameter ``output`` chooses.

    Args:
        node: the node.
        parameters: kind and name of the output.
        joints: names of the joints, in the order of the commands.
        root: frame of the twists.

    Raises:
        ParameterError: if no topic or service can have the name.
    """

    def __init__(
        self,
        node: HandGuideNode,
        parameters: HandGuideNodeParameters,
        joints: Sequence[str],
        root: str,
    ) -> None:
        self._node, self._joints, self._root = node, list(joints), root
        self._kind = parameters.output
        name = parameters.command or OUTPUTS[self._kind].command
        self._publisher: FaultTolerantPublisher[Any] | None = None
        self._requests: dict[bool, StopRequest] = {}
        self._floats: bool | None = None
        self._next_request = 0.0
        try:
            if self._kind == "float":
                trigger = ServiceKind(Trigger, Trigger.Request(), is_once=True)
                lock = ShortLock()
                self._requests = {
                    on: StopRequest(node, trigger, f"{name}/{order}", _refusal, lock)
                    for on, order in ((True, "float"), (False, "hold"))
                }
            else:
                kind = OUTPUTS[self._kind].message
                self._publisher = node.create_publisher(kind, name, QoSProfile(depth=1))
        except (InvalidTopicNameException, InvalidServiceNameException) as error:
            raise ParameterError(f"command: {error}") from None

    def destroy(self) -> None:
        """Destroy publisher and clients."""
        if self._publisher is not None:
            self._node.destroy_publisher(self._publisher)
            self._publisher = None
        for request in self._requests.values():
            request.destroy()
        self._requests = {}

    def send(self, command: Command) -> None:
        """Publish a command; without a publisher nothing happens."""
        if self._publisher is None:
            return
        if self._kind == "trajectory":
            horizon = Duration(seconds=self._node.parameters.horizon).to_msg()
            point = JointTrajectoryPoint(positions=to_array(command.q), time_from_start=horizon)
            message: Any = JointTrajectory(joint_names=self._joints, points=[point])
        elif self._kind == "velocity":
            message = Float64MultiArray(data=to_array(command.v))
        else:
            message = TwistStamped()
            message.header.stamp = self._node.get_clock().now().to_msg()
            message.header.frame_id = self._root
            values = [float(x) for x in command.twist]
            angular, linear = message.twist.angular, message.twist.linear
            angular.x, angular.y, angular.z, linear.x, linear.y, linear.z = values
        self._publisher.try_publish(message)

    def hold(self, last: Command) -> None:
        """Publish the hold: the position of the last command, or zero velocity."""
        zero = np.zeros_like(last.v)
        self.send(Command(last.q, zero, np.zeros(6)))

    def switch(self, floats: bool) -> None:
        """Let the controller float, or hold; repeated until it agrees. Once it has ever floated."""
        if not self._requests or (self._floats is None and not floats):
            return
        now, request = time.monotonic(), self._requests[floats]
        if floats != self._floats:
            self._floats = floats
            request.begin()
            request.send()
        elif not request.is_settled and not request.is_waiting and now >= self._next_request:
            request.repeat()
        else:
            return
        self._next_request = now + 0.1

    def wait(self) -> None:
        """Wait until the last command is received, for at most :data:`ACKNOWLEDGE_TIME`."""
        if self._publisher is not None:
            self._publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_TIME))

    def missing(self) -> str:
        """Return which receiver of the commands is missing, or an empty text."""
        if self._publisher is not None and not self._publisher.get_subscription_count():
            return f"nothing subscribes to {self._publisher.topic_name}"
        for request in self._requests.values():
            request.look()
            if not request.is_there:
                return f"no service {request.name}"
        return ""

    def report(self, status: Status) -> None:
        """Warn of a missing receiver of the commands."""
        if self._publisher is not None:
            status.add("receivers of commands", self._publisher.get_subscription_count())
        missing = self.missing()
        if missing:
            status.raise_to(WARN, missing)
        for request in self._requests.values():
            if request.refused:
                status.raise_to(WARN, f"{request.name} refuses: {request.refused}")


def _refusal(answer: Trigger.Response) -> str:
    return "" if answer.success else answer.message or "no success"


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or the node itself ends it; return its exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run(HandGuideNode, args)


if __name__ == "__main__":
    sys.exit(main())
