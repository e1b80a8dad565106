"""The node that moves an arm by joint torques under Slotine-Li control."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.qos import QoSProfile
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.errors import InputError, RbdControlError, TrajectoryError
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import ReceivingParameters
from rbd_control.nodes.claim import Claim
from rbd_control.nodes.detector_input import VERDICT_TIMEOUT, DetectorInput
from rbd_control.nodes.diagnostics import ERROR, WARN, Status
from rbd_control.nodes.energy_output import EnergyOutput
from rbd_control.nodes.estimates_file import EstimatesWriter, read_estimates
from rbd_control.nodes.joint_state_input import JointStateInput
from rbd_control.nodes.managed_node import ManagedNode, NotReadyError
from rbd_control.nodes.messages import EVERY_SAMPLE, JointStateWriter, Stamp
from rbd_control.nodes.planning_thread import PlanningThread
from rbd_control.nodes.run import run
from rbd_control.nodes.torque_output import TorqueOutput
from rbd_control.nodes.torque_watchdog import TorqueWatchdog
from rbd_control.nodes.trajectory_wire import TrajectoryMessage, check_size, read_trajectory
from rbd_control.parameters import parameter
from rbd_control.rehearsal import rehearse_controller

Array = NDArray[np.float64]

COMMANDS = "effort_controller/commands"

WATCH_PERIOD = 0.01
"""Period of the watchdog and of repeated safe-torque commands [s]."""

RIVALS_PERIOD = 0.1
"""Period at which the node looks for other publishers of torque [s]."""

CLAIM_POLL = 0.01
"""Period at which an activation that waits for discovery looks again [s]."""


@dataclass(frozen=True)
class PassivityControllerParameters(ReceivingParameters, ControllerParameters):
    """Parameters of the node: its model, its input, and the controller's."""

    queue_depth: int = parameter(
        50,
        "joint states that may wait in the queue while the node is busy; torque is computed for "
        "the newest one, the others are skipped and counted",
        lower=1,
        upper=100_000,
        live=False,
    )
    discovery_time: float = parameter(
        1.0,
        "time for which no other publisher of torque may be discovered before the node activates; "
        "ROS may need a second to find one",
        unit="s",
        lower=0.0,
        upper=60.0,
    )
    estimates: str = parameter(
        "",
        "file that ~/save_estimates writes what was learned to, and that is read when the node is "
        "configured, if it is there",
        live=False,
        start_only=True,
    )


class PassivityControllerNode(ManagedNode):
    """Runs a :class:`PassivityController` on each sample and sends the torque it answers."""

    parameters_type = PassivityControllerParameters
    commands_torque = True

    def __init__(self) -> None:
        super().__init__("passivity_controller")
        self._errors = self.create_publisher(JointState, "~/tracking_error", EVERY_SAMPLE)
        self.create_subscription(
            JointTrajectory,
            "~/joint_trajectory",
            self._on_trajectory,
            QoSProfile(depth=10),
            raw=True,
        )
        self._detector = DetectorInput(
            self, self._on_contact, self._on_force, lambda: self.parameters.contact_reaction
        )
        self._energy = EnergyOutput(self)
        self._create_services()
        self.create_timer(WATCH_PERIOD, self._watch, clock=self.steady)
        self.create_timer(RIVALS_PERIOD, self._look_for_rivals, clock=self.steady)
        self._topic = self.resolve_topic_name(COMMANDS)
        self._claim = Claim(self, f"{self._topic}/claim", lambda: self.parameters.discovery_time)
        self._claim.make()
        self._output: TorqueOutput | None = None
        self._planning: PlanningThread[TrajectoryMessage] | None = None
        self._watchdog = TorqueWatchdog(lambda: self.parameters.timeout, self._send_zero)
        self._estimates = EstimatesWriter(self.parameters.estimates)
        self._last: Command | None = None
        self._refused = 0
        self._saturated = 0
        self.diagnostics.append(self._report)

    # Lifecycle -------------------------------------------------------------------------------

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
            newest_only=True,
        )

    def cleanup(self) -> None:
        """Give the subscription back."""
        self._input.destroy()

    def waiting_for(self) -> str:
        """Return what is missing: a fresh sample with velocity, a detector, an arm that is free."""
        sample = self._input.latest
        if sample is None or self._input.is_silent:
            return f"joint states on {self.resolve_topic_name('joint_states')}"
        if sample.v is None:
            return "velocity: the joint states carry none"
        if (
            getattr(self.parameters, "require_detector", False)
            and self._detector.silence > VERDICT_TIMEOUT
        ):
            return f"a contact detector: {self._detector.missing}"
        rivals = self._rivals()
        if rivals:
            return f"whoever sends torque to {self._topic} ({rivals}) to end"
        # An activation by hand waits for it in place, see activate().
        left = self._claim.time_left() if self.is_starting else 0.0
        return f"{left:.1f} s without another controller of {self._topic}" if left else ""

    def activate(self) -> None:
        """Hold the arm where it is."""
        self._wait_for_discovery()
        output = TorqueOutput(self, COMMANDS, self.robot.model.nv)
        output.open()
        try:
            # What came while it waited is in the queue, or was more than fits.
            self._input.poll()
            sample = self._input.latest
            assert sample is not None
            self._refuse_when_stopping()
            self._controller.start(sample.stamp, sample.q, sample.v, time.monotonic())
        except BaseException:
            output.abandon()
            raise
        self._controller.clock_went_back()
        self._claim.withdraw()
        self._output, self._last = output, None
        self._planning = PlanningThread(self._plan, self._refuse_trajectory)
        self._watchdog.start()
        self._detector.watch()

    def deactivate(self) -> None:
        """Send zero torque, wait for its acknowledgement, and end the threads."""
        try:
            if self._output is not None:
                self._output.close()
        finally:
            self._output = None
            self._watchdog.stop()
            if self._planning is not None:
                self._planning.end()
                self._planning = None

    def on_failure(self, name: str, reason: str) -> None:
        """Go to the safe torque: after a defect of the software nothing else is certain."""
        if self.is_active:
            self._controller.fault(reason)

    def _wait_for_discovery(self) -> None:
        """Block until the claim has been alone for ``discovery_time``.

        After a start by itself it has been; an activation by hand may have to wait.
        """
        deadline = time.monotonic() + 3.0 * self.parameters.discovery_time + 1.0
        while self._claim.time_left() > 0.0:
            self._refuse_when_stopping()
            if self._rivals() or time.monotonic() > deadline:
                raise NotReadyError(f"waiting for another controller of {self._topic} to end")
            time.sleep(CLAIM_POLL)
        if self._rivals():
            raise NotReadyError(f"waiting for whoever sends torque to {self._topic} to end")

    # Parameters ------------------------------------------------------------------------------

    def check_parameters(self, new: PassivityControllerParameters) -> None:
        """Refuse per-joint values of the wrong number."""
        self._make_controller(new)

    def parameters_changed(self) -> None:
        """Use the new ones from the next sample on."""
        self._controller.set_parameters(self.robot.in_model_order(self.parameters))

    def _make_controller(self, parameters: PassivityControllerParameters) -> PassivityController:
        return PassivityController(self.robot.model, self.robot.in_model_order(parameters))

    def _load_estimates(self) -> None:
        path, law = self.parameters.estimates, self._controller.law
        if not path or law.adaptive is None:
            return
        estimates = read_estimates(path)
        if estimates is not None:
            law.set_estimates(estimates)
            self.get_logger().info(f"estimates of {path}: payload {law.adaptive.payload:.3g} kg")

    # Joint states ----------------------------------------------------------------------------

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        try:
            self._control(sample, stamp)
        except BaseException:
            self._send_zero()
            raise

    def _control(self, sample: JointSample, stamp: Stamp) -> None:
        self._watchdog.beat()
        self._accept_plan()
        command = self._controller.update(
            sample.stamp, sample.q, sample.v, time.monotonic(), sample.tau
        )
        if self._was_late():
            return
        self._send(command.torque)
        if sample.v is not None:
            self._writer.publish(
                stamp, sample.q - command.q_d, sample.v - command.v_d, command.torque
            )
        self._note(command)
        # Once the torque is on its way.
        self._energy.add(self._controller.balance(sample.tau), self._controller.law.tank.level)

    def _watch(self) -> None:
        self._watchdog.beat()
        if not self.is_active or self._was_late():
            return
        try:
            command = self._controller.silence(time.monotonic())
        except BaseException:
            self._send_zero()
            raise
        if command is not None:
            self._send(command.torque)
            self._note(command)

    def _was_late(self) -> bool:
        """Be safe when the watchdog has sent zero meanwhile: the torque at hand is too old."""
        late = self._watchdog.take_late()
        if late:
            self._controller.fault(f"the node did not respond for {late:.3g} s")
        return late > 0.0

    def _send(self, torque: Array) -> None:
        if self._output is not None:
            self._output.send(torque[self.robot.order])

    def _send_zero(self) -> None:
        if self._output is not None:
            self._output.send_zero()

    def _note(self, command: Command) -> None:
        """Log a change of mode once, and count."""
        last, self._last = self._last, command
        self._saturated += command.saturated
        if last is not None and last.mode == command.mode:
            return
        if command.mode == "safe":
            self._discard_plans("fault")
            self.get_logger().error(f"safe torque: {command.reason}; ~/resume when it is cured")
        else:
            why = f": {command.reason}" if command.reason else ""
            self.get_logger().info(f"{command.mode}{why}")

    # Other publishers of torque --------------------------------------------------------------

    def _rivals(self) -> int:
        """Return how many others send torque to the arm."""
        own = self._output is not None
        return int(self.count_publishers(self._topic)) - own

    def _look_for_rivals(self) -> None:
        if not self.is_active:
            self._claim.give_way()
            return
        rivals = self._rivals()
        if rivals > 0:
            self._controller.fault(f"{rivals} more publishers on {self._topic}")
        self._detector.watch()
        self._energy.look_for_readers()
        self._writer.look_for_readers()

    # Trajectories ----------------------------------------------------------------------------

    def _on_trajectory(self, raw: bytes) -> None:
        try:
            if not self.is_active or self._planning is None:
                raise TrajectoryError("the controller is not active")
            check_size(raw, self.robot.model.nv)
        except TrajectoryError as error:
            self._refuse_trajectory(str(error))
        else:
            self._planning.submit(raw)

    def _plan(self, raw: bytes) -> TrajectoryMessage:
        return read_trajectory(raw)

    def _accept_plan(self) -> None:
        planned = None if self._planning is None else self._planning.take()
        if planned is None:
            return
        try:
            now = self.get_clock().now().nanoseconds * 1e-9
            self._controller.set_trajectory(planned.names, planned.points, now, planned.stamp)
        except TrajectoryError as error:
            self._refuse_trajectory(str(error))

    def _refuse_trajectory(self, reason: str) -> None:
        self._refused += 1
        self.get_logger().error(f"trajectory refused: {reason}")

    def _discard_plans(self, why: str) -> None:
        """Forget trajectories that were sent before a stop and would start after it."""
        if self._planning is not None and self._planning.discard():
            self.get_logger().info(f"the trajectory that was being planned is discarded: {why}")

    # Contact ---------------------------------------------------------------------------------

    def _on_contact(self, flag: bool) -> None:
        if not self.is_active:
            return
        if flag and self.parameters.contact_reaction in ("hold", "float", "retract"):
            self._discard_plans("contact")
        self._controller.contact(flag, time.monotonic())

    def _on_force(self, link: str, force: Array) -> None:
        if self.is_active:
            self._controller.touched(link, force)

    # Services --------------------------------------------------------------------------------

    def _create_services(self) -> None:
        for what, order, stops in (
            ("hold", lambda: self._controller.hold(), True),
            ("float", lambda: self._controller.float_(), True),
            ("retract", lambda: self._controller.retract(), True),
            ("cancel", lambda: self._controller.cancel(), True),
            ("slow", lambda: self._controller.slow(), False),
            ("resume", self._resume, False),
        ):
            self.create_service(Trigger, f"~/{what}", self._service(what, order, stops))
        # In a group of its own: the other callbacks go on while a file is written.
        self.create_service(
            Trigger,
            "~/save_estimates",
            self._save_estimates,
            callback_group=MutuallyExclusiveCallbackGroup(),
        )

    def _service(
        self, what: str, order: Callable[[], str | None], stops: bool
    ) -> Callable[[Trigger.Request, Trigger.Response], Trigger.Response]:
        def answer(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            if not self.is_active:
                response.message = "the controller is not active"
                return response
            if stops:
                self._discard_plans(what)
            try:
                response.message = order() or f"in {self._controller.mode}"
                response.success = True
            except RbdControlError as error:
                response.message = str(error)
            self.get_logger().info(f"{what}: {response.message}")
            return response

        return answer

    def _resume(self) -> str:
        rivals = self._rivals()
        if rivals > 0:
            raise InputError(f"cannot resume: {rivals} more publishers on {self._topic}")
        return self._controller.resume()

    async def _save_estimates(
        self, request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Answer once the file is written; samples are answered meanwhile."""
        try:
            if not self.is_active:
                raise InputError("the controller is not active")
            adaptive = self._controller.law.adaptive
            if adaptive is None:
                raise InputError("nothing is learned: parameter adaptive is false")
            written: Future = Future(executor=self.executor)
            self._estimates.write(
                adaptive.estimates,
                lambda message, success: written.set_result((message, success)),
            )
            response.message, response.success = await written
        except InputError as error:
            response.message = str(error)
        self.get_logger().info(f"save_estimates: {response.message}")
        return response

    # Diagnostics -----------------------------------------------------------------------------

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
            self._energy.report(status, self._controller)
        self._detector.report(status)
        status.add("saturated samples", self._saturated)
        status.add("trajectories refused", self._refused)
        rivals = self._rivals()
        if rivals > 0:
            status.raise_to(ERROR, f"{rivals} more publishers on {self._topic}")


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; its exit code."""
    return run(PassivityControllerNode, args)


if __name__ == "__main__":
    sys.exit(main())
