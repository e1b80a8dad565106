"""The node that moves an arm by joint torques under Slotine-Li control."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.duration import Duration
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.control import (
    Command,
    ControllerParameters,
    Estimates,
    PassivityController,
    TrajectoryPoint,
)
from rbd_control.control.energy import EnergyBalance
from rbd_control.errors import InputError, RbdControlError, TrajectoryError
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import ReceivingParameters
from rbd_control.nodes.diagnostics import ERROR, WARN, Status
from rbd_control.nodes.joint_state_input import JointStateInput
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import (
    EVERY_SAMPLE,
    JointStateWriter,
    Stamp,
    TorqueWriter,
    to_seconds,
)
from rbd_control.nodes.run import run
from rbd_control.parameters import parameter
from rbd_control.rehearsal import rehearse_controller

COMMANDS = "effort_controller/commands"

WATCH_PERIOD = 0.01
"""How often it is looked for silence; the safe torque is repeated as often [s]."""

RIVALS_PERIOD = 0.1
"""How often it is looked for others who send torque [s]."""

VERDICT_TIMEOUT = 0.5
"""A detector that has told of contact before and is silent for longer is missed [s]."""

ENERGIES = ("storage", "dissipated", "injected", "supplied", "bound", "tank")
"""What ``~/energy`` holds, in this order [J]."""


@dataclass(frozen=True)
class PassivityControllerParameters(ReceivingParameters, ControllerParameters):
    """Parameters of the node: its model, its input, and the controller's."""

    queue_depth: int = parameter(
        50,
        "joint states kept while the node is busy; of older ones the torque would come too late",
        lower=1,
        upper=100_000,
        live=False,
    )
    estimates: str = parameter(
        "",
        "file that ~/save_estimates writes what was learned to, and that is read when the node is "
        "configured, if it is there",
        live=False,
    )


class PassivityControllerNode(ManagedNode):
    """Runs a :class:`PassivityController` on each sample and sends the torque it answers."""

    parameters_type = PassivityControllerParameters

    def __init__(self) -> None:
        super().__init__("passivity_controller")
        self._errors = self.create_publisher(JointState, "~/tracking_error", EVERY_SAMPLE)
        self.create_subscription(
            JointTrajectory, "~/joint_trajectory", self._on_trajectory, QoSProfile(depth=10)
        )
        self.create_subscription(
            Bool, "contact_detector/contact", self._on_contact, QoSProfile(depth=10)
        )
        self.create_subscription(
            WrenchStamped, "contact_detector/external_wrench", self._on_wrench, QoSProfile(depth=10)
        )
        self._energies = self.create_publisher(Float64MultiArray, "~/energy", EVERY_SAMPLE)
        for what, order in (
            ("hold", lambda: self._controller.hold()),
            ("float", lambda: self._controller.float_()),
            ("retract", lambda: self._controller.retract()),
            ("slow", lambda: self._controller.slow()),
            ("cancel", lambda: self._controller.cancel()),
            ("resume", self._resume),
            ("save_estimates", self._save_estimates),
        ):
            self.create_service(Trigger, f"~/{what}", self._service(what, order))
        self.create_timer(WATCH_PERIOD, self._watch, clock=self.steady)
        self.create_timer(RIVALS_PERIOD, self._look_for_rivals, clock=self.steady)
        self._topic = self.resolve_topic_name(COMMANDS)
        self._commands: Publisher[Float64MultiArray] | None = None
        self._energy_message = Float64MultiArray()
        self._energy_message.layout.dim = [
            MultiArrayDimension(
                label=", ".join(f"{name} [J]" for name in ENERGIES),
                size=len(ENERGIES),
                stride=len(ENERGIES),
            )
        ]
        self._energy_readers = 0
        self._energy: EnergyBalance | None = None
        self._not_passive = 0
        self._verdict: float | None = None
        self._last: Command | None = None
        self._refused = 0
        self._saturated = 0
        self.diagnostics.append(self._report)

    def configure(self) -> None:
        """Make the controller and compile what it needs."""
        model = self.robot.model
        self._controller = self._make_controller(self.parameters)
        self._load_estimates()
        rehearse_controller(model)
        self._writer = JointStateWriter(self._errors, model.joint_names)
        self._input = JointStateInput(
            self,
            model.joint_names,
            lambda: self.parameters.timeout,
            self._on_sample,
            on_jump=self._controller.clock_went_back,
        )

    def cleanup(self) -> None:
        """Give the subscription back."""
        self._input.destroy()

    def waiting_for(self) -> str:
        """A fresh sample with velocity, which is never assumed to be zero."""
        sample = self._input.latest
        if sample is None or self._input.is_silent:
            return f"joint states on {self.resolve_topic_name('joint_states')}"
        if sample.v is None:
            return "velocity: the joint states carry none"
        rivals = self._rivals()
        return f"whoever sends torque to {self._topic} ({rivals}) to end" if rivals else ""

    def activate(self) -> None:
        """Hold the arm where it is."""
        sample = self._input.latest
        assert sample is not None
        # Not before: a node that only waits must not look like one that sends.
        self._commands = self.create_publisher(Float64MultiArray, COMMANDS, EVERY_SAMPLE)
        self._torques = TorqueWriter(self._commands, self.robot.model.nv)
        self._wait_for_reader(self._commands)
        try:
            self._controller.start(sample.stamp, sample.q, sample.v, time.monotonic())
        except InputError:
            self._give_commands_back()
            raise
        # What came while it waited is in the queue, or was more than fits.
        self._controller.clock_went_back()
        self._last = None

    def deactivate(self) -> None:
        """Send zero torque, and see it off: whoever receives it keeps the last command for ever."""
        if self._commands is not None:
            self._send(np.zeros(self.robot.model.nv))
            self._commands.wait_for_all_acked(Duration(seconds=1.0))
            self._give_commands_back()

    def _give_commands_back(self) -> None:
        """An idle publisher would pass for another controller."""
        assert self._commands is not None
        self.destroy_publisher(self._commands)
        self._commands = None

    def check_parameters(self, new: PassivityControllerParameters) -> None:
        """Refuse per-joint values of the wrong number."""
        self._make_controller(new)

    def parameters_changed(self) -> None:
        """Use the new ones from the next sample on."""
        self._controller.set_parameters(self.robot.in_model_order(self.parameters))

    def _make_controller(self, parameters: PassivityControllerParameters) -> PassivityController:
        return PassivityController(self.robot.model, self.robot.in_model_order(parameters))

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        command = self._controller.update(
            sample.stamp, sample.q, sample.v, time.monotonic(), sample.tau
        )
        self._send(command.torque)
        if sample.v is not None:
            self._writer.publish(
                stamp, sample.q - command.q_d, sample.v - command.v_d, command.torque
            )
        self._note(command)
        self._account(sample)

    def _account(self, sample: JointSample) -> None:
        """Follow the energies, once the torque is on its way."""
        energy = self._energy = self._controller.balance(sample.tau)
        if energy is None:
            return
        self._not_passive += not energy.passive
        if self._energy_readers:
            values = [getattr(energy, name) for name in ENERGIES[:-1]]
            values.append(self._controller.law.tank.level)
            self._energy_message.data = [float(x) for x in values]
            self._energies.publish(self._energy_message)

    def _watch(self) -> None:
        if self.is_active:
            command = self._controller.silence(time.monotonic())
            if command is not None:
                self._send(command.torque)
                self._note(command)

    def _rivals(self) -> int:
        """How many others send torque to the arm."""
        return int(self.count_publishers(self._topic)) - (self._commands is not None)

    def _look_for_rivals(self) -> None:
        if self.is_active:
            rivals = self._rivals()
            if rivals > 0:
                self._controller.fault(f"{rivals} more publishers on {self._topic}")
            self._energy_readers = self._energies.get_subscription_count()
            self._writer.look_for_readers()

    def _resume(self) -> str:
        rivals = self._rivals()
        if rivals > 0:
            raise InputError(f"cannot resume: {rivals} more publishers on {self._topic}")
        return self._controller.resume()

    def _wait_for_reader(self, publisher: Publisher[Float64MultiArray]) -> None:
        """Until the arm, if it is there, has found the new publisher; its first torque counts."""
        deadline = time.monotonic() + 0.5
        while (
            self.count_subscribers(self._topic)
            and not publisher.get_subscription_count()
            and time.monotonic() < deadline
        ):
            time.sleep(0.005)

    def _send(self, torque: np.ndarray) -> None:
        assert self._commands is not None
        self._torques.publish(torque[self.robot.order])

    def _note(self, command: Command) -> None:
        """Log a change of mode once, and count."""
        last, self._last = self._last, command
        self._saturated += command.saturated
        if last is not None and last.mode == command.mode:
            return
        if command.mode == "safe":
            self.get_logger().error(f"safe torque: {command.reason}; ~/resume when it is cured")
        else:
            why = f": {command.reason}" if command.reason else ""
            self.get_logger().info(f"{command.mode}{why}")

    def _on_contact(self, message: Bool) -> None:
        self._verdict = time.monotonic()
        if self.is_active:
            self._controller.contact(message.data, self._verdict)

    def _on_wrench(self, message: WrenchStamped) -> None:
        if self.is_active:
            force = message.wrench.force
            self._controller.touched(message.header.frame_id, np.array([force.x, force.y, force.z]))

    def _load_estimates(self) -> None:
        path, law = self.parameters.estimates, self._controller.law
        if path and law.adaptive is not None and Path(path).exists():
            law.set_estimates(Estimates.load(path))
            self.get_logger().info(f"estimates of {path}: payload {law.adaptive.payload:.3g} kg")

    def _save_estimates(self) -> str:
        path, adaptive = self.parameters.estimates, self._controller.law.adaptive
        if adaptive is None:
            raise InputError("nothing is learned: parameter adaptive is false")
        if not path:
            raise InputError("parameter estimates names no file to write to")
        try:
            adaptive.estimates.save(path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from error
        return f"written to {path}"

    def _on_trajectory(self, message: JointTrajectory) -> None:
        try:
            if not self.is_active:
                raise TrajectoryError("the controller is not active")
            self._controller.set_trajectory(
                message.joint_names,
                [_point(point) for point in message.points],
                self.get_clock().now().nanoseconds * 1e-9,
                to_seconds(message.header.stamp),
            )
        except TrajectoryError as error:
            self._refused += 1
            self.get_logger().error(f"trajectory refused: {error}")

    def _service(
        self, what: str, order: Callable[[], str | None]
    ) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def answer(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            if not self.is_active:
                response.message = "the controller is not active"
                return response
            try:
                response.message = order() or f"in {self._controller.mode}"
                response.success = True
            except RbdControlError as error:
                response.message = str(error)
            self.get_logger().info(f"{what}: {response.message}")
            return response

        return answer

    def _report(self, status: Status) -> None:
        command = self._last
        if self.is_active and command is not None:
            status.add("mode", command.mode)
            status.add("goal", command.goal)
            if command.mode == "safe":
                status.raise_to(ERROR, f"safe torque: {command.reason}")
            elif command.reason:
                status.raise_to(WARN, command.reason)
            if self._controller.frozen:
                status.raise_to(WARN, self._controller.frozen)
            self._report_verdict(status)
        status.add("saturated samples", self._saturated)
        self._report_energy(status)
        status.add("trajectories refused", self._refused)
        rivals = self._rivals()
        if rivals > 0:
            status.raise_to(ERROR, f"{rivals} more publishers on {self._topic}")

    def _report_verdict(self, status: Status) -> None:
        reaction = self.parameters.contact_reaction
        if self._verdict is None or reaction == "none":
            return
        silent = time.monotonic() - self._verdict
        if silent > VERDICT_TIMEOUT:
            status.raise_to(
                WARN, f"no verdict about contact for {silent:.1f} s: no {reaction} on contact"
            )

    def _report_energy(self, status: Status) -> None:
        if not self.is_active:
            return
        law = self._controller.law
        if self._energy is not None:
            status.add("storage [J]", self._energy.storage)
        status.add("samples not passive", self._not_passive)
        if self._not_passive:
            self._not_passive = 0
            status.raise_to(
                WARN, "the loop injects more energy than K_D takes out: delay or saturation"
            )
        if self.parameters.tank_capacity:
            status.add("tank [J]", law.tank.level)
        if law.adaptive is not None:
            status.add("payload learned [kg]", law.adaptive.payload)
            for estimate in law.adaptive.estimates.links:
                status.add(f"{estimate.link} mass [kg]", estimate.mass)


def _point(point: JointTrajectoryPoint) -> TrajectoryPoint:
    due = point.time_from_start
    return TrajectoryPoint(
        point.positions, point.velocities, point.accelerations, due.sec + 1e-9 * due.nanosec
    )


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; its exit code."""
    return run(PassivityControllerNode, args)


if __name__ == "__main__":
    sys.exit(main())
