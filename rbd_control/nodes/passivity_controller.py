"""The node that moves an arm by joint torques under Slotine-Li control."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import CommandingParameters, FrameParameters
from rbd_control.nodes.claim import Claim
from rbd_control.nodes.detector_input import DetectorInput
from rbd_control.nodes.diagnostics import ERROR, WARN, Status
from rbd_control.nodes.energy_output import EnergyOutput
from rbd_control.nodes.estimates_file import read_estimates
from rbd_control.nodes.follow_joint_trajectory import FollowJointTrajectoryServer, GoalState
from rbd_control.nodes.joint_state_input import JointStateInput, Tap
from rbd_control.nodes.managed_node import ManagedNode, NotReadyError
from rbd_control.nodes.messages import EVERY_SAMPLE, JointStateWriter, Stamp
from rbd_control.nodes.order_services import OrderServices
from rbd_control.nodes.payload_input import PayloadInput
from rbd_control.nodes.run import run
from rbd_control.nodes.torque_output import TorqueOutput
from rbd_control.nodes.torque_watchdog import TorqueWatchdog
from rbd_control.nodes.touched_link import TouchedLink
from rbd_control.nodes.trajectory_input import TrajectoryInput
from rbd_control.parameters import parameter
from rbd_control.robot.payload import PayloadParameters
from rbd_control.startup.rehearsal import rehearse_controller

Array = NDArray[np.float64]

COMMANDS = "effort_controller/commands"

WATCH_PERIOD = 0.01
"""Period of the watchdog and of repeated safe-torque commands [s]."""

RIVALS_PERIOD = 0.1
"""Period of the check for other publishers of torque [s]."""

CLAIM_POLL = 0.01
"""Polling period of an activation that waits for discovery [s]."""


@dataclass(frozen=True)
class PassivityControllerParameters(FrameParameters, CommandingParameters, ControllerParameters):
    """Parameters of the node: its model, its input, and the controller's."""

    estimates: str = parameter(
        "",
        "file to which ~/save_estimates writes the estimates; if it exists, the node reads it when "
        "it is configured",
        live=False,
        start_only=True,
    )


class _Answered(NamedTuple):
    """A sample whose torque was sent, and what is to be reported of it."""

    sample: JointSample
    stamp: Stamp
    command: Command
    torque: Array
    """(nv,) the last published torque: that of the command, unless it was refused [N·m or N]."""
    effort: Array | None
    """(nv,) measured joint torque [N·m or N]; None without effort."""


class PassivityControllerNode(ManagedNode[PassivityControllerParameters]):
    """Runs a :class:`PassivityController` on each sample and sends the resulting torque."""

    parameters_type = PassivityControllerParameters
    reads_joint_states = True

    def __init__(self, *, detector_is_here: bool = False) -> None:
        """Create the node.

        Args:
            detector_is_here: whether a detector in this process calls :meth:`on_contact` and
                :meth:`on_force`, so that its topics are not subscribed to.
        """
        super().__init__("passivity_controller")
        self._errors = self.create_publisher(JointState, "~/tracking_error", EVERY_SAMPLE)
        self._topic = self.resolve_topic_name(COMMANDS)
        self._controller: PassivityController | None = None
        self._output: TorqueOutput | None = None
        self._last: Command | None = None
        self._saturated = 0
        self._trajectories = TrajectoryInput(self)
        self._goals = FollowJointTrajectoryServer(
            self, self._trajectories, lambda: self.controller, self._goal_state
        )
        self._detector = DetectorInput(
            self,
            self.on_contact,
            self._on_wrench,
            self._detector_warning,
            subscribes=not detector_is_here,
        )
        self._touched = TouchedLink(self)
        self._energy = EnergyOutput(self)
        PayloadInput(self, self._position)
        OrderServices(
            self,
            lambda: self.controller,
            self._trajectories.discard,
            self._rivalry,
            self.parameters.estimates,
        )
        self._claim = Claim(self, f"{self._topic}/claim", lambda: self.parameters.discovery_time)
        self._claim.make()
        self.tap: Tap | None = None
        """Callback for every usable joint state, before the controller processes the newest. It
        must not raise an exception."""
        self.after_torque: Callable[[], None] | None = None
        """Callback after the torque of each sample was published. It must not raise an exception.
        """
        self._unreported: _Answered | None = None
        self._order: NDArray[np.intp] | None = None
        """Order of the parameter ``joints``; None if it is the order of the model."""
        self._watchdog = TorqueWatchdog(lambda: self.parameters.timeout, self._send_zero)
        self.create_timer(WATCH_PERIOD, self._watch, clock=self.steady)
        self.create_timer(RIVALS_PERIOD, self._look_around, clock=self.steady)
        self.diagnostics.append(self._report)

    @property
    def controller(self) -> PassivityController:
        """The controller of the configured node."""
        assert self._controller is not None
        return self._controller

    # Lifecycle -------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the controller and compile its kernels."""
        model = self.robot.model
        self._controller = self._make_controller(self.parameters)
        self._load_estimates()
        order = self.robot.order
        self._order = None if np.array_equal(order, np.arange(model.nv)) else order
        self._touched.forget()
        rehearse_controller(model)
        root = self.parameters.frame_prefix + model.link_names[0]
        self._writer = JointStateWriter(self._errors, model.joint_names, root)
        self._input = JointStateInput(
            self,
            model.joint_names,
            lambda: self.parameters.timeout,
            self._on_sample,
            on_jump=self._controller.clock_went_back,
            newest_only=True,
        )
        self._input.tap = self.tap
        others = () if self.after_torque is None else (self.after_torque,)
        self._input.afterwards = (*others, self._report_sample)

    def cleanup(self) -> None:
        """Destroy the subscription."""
        self._input.destroy()

    def waiting_for(self) -> str:
        """Return the missing condition: a sample with velocity, a detector, or a free arm."""
        sample = self._input.latest
        if sample is None or self._input.is_silent:
            return f"joint states on {self.resolve_topic_name('joint_states')}"
        if sample.v is None:
            return "velocity: the joint states carry none"
        missing = self._detector_warning() if self.parameters.require_detector else ""
        if missing:
            return f"a verdict on {self._detector.topic}: {missing}"
        rivals = self._rivals()
        if rivals:
            return f"other publishers of torque on {self._topic} ({rivals}) to end"
        # An activation by a service call waits in activate() instead.
        left = self._claim.time_left() if self.is_starting else 0.0
        return f"{left:.1f} s without another controller of {self._topic}" if left else ""

    def activate(self) -> None:
        """Hold the arm at its present position."""
        self._wait_for_discovery()
        output = TorqueOutput(self, COMMANDS, self.robot.model.nv)
        output.open(self._claim.look)
        try:
            # The newest joint states that arrived during the wait are still in the queue.
            self._input.poll()
            sample = self._input.latest
            assert sample is not None
            self._refuse_when_stopping()
            self._refuse_after_pause()
            self.controller.start(sample.stamp, sample.q, sample.v, time.monotonic())
        except BaseException:
            output.abandon()
            raise
        self.controller.clock_went_back()
        self._claim.withdraw()
        self._output, self._last = output, None
        self._trajectories.start(self.controller)
        self._watchdog.start()
        self._detector.watch()

    def deactivate(self) -> None:
        """Send zero torque, wait for its acknowledgement, and end the threads."""
        output, self._output = self._output, None
        try:
            if output is not None:
                output.close()
        finally:
            self._watchdog.stop()
            self._trajectories.stop()
            self._goals.stop("the controller was deactivated")

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has both
        """Switch to the safe torque, because the state is unknown after a software defect."""
        if self.is_active:
            self.controller.fault(reason)

    def _wait_for_discovery(self) -> None:
        """Block until the claim has been the only claim for ``discovery_time``.

        With ``autostart`` this holds already; an activation by a service call may have to wait.

        Raises:
            NotReadyError: if there is another controller, or the wait takes too long.
        """
        deadline = time.monotonic() + 3.0 * self.parameters.discovery_time + 1.0
        while self._claim.time_left() > 0.0:
            self._refuse_when_stopping()
            if self._rivals():
                break
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"waiting for {self._claim.time_left():.1f} s without another controller of "
                    f"{self._topic} and without a pause of this process; activate again"
                )
            time.sleep(CLAIM_POLL)
        if self._rivals():
            raise NotReadyError(f"waiting for other publishers of torque on {self._topic} to end")

    def _refuse_after_pause(self) -> None:
        """Refuse the activation if another controller may have started since the last look.

        Raises:
            NotReadyError: if the process was paused after :meth:`_wait_for_discovery`, or another
                publisher of torque exists beside the new publisher of this node.
        """
        left = self._claim.time_left()
        if left > 0.0:
            raise NotReadyError(
                f"waiting for {left:.1f} s without another controller of {self._topic}, because "
                "this process was paused or another controller has started"
            )
        if self._rivals() > 1:
            raise NotReadyError(f"waiting for other publishers of torque on {self._topic} to end")

    # Parameters ------------------------------------------------------------------------------

    def check_parameters(self, new: PassivityControllerParameters) -> None:
        """Raise an error for per-joint values of the wrong number, or a payload too heavy."""
        robot = self.robot.with_parameters(new)
        PassivityController(robot.model, robot.in_model_order(new))
        loads = PayloadParameters.names()
        other = any(getattr(new, name) != getattr(self.parameters, name) for name in loads)
        if other and self.is_active and not new.gravity_compensated:
            self.controller.refuse_heavy(robot.model)

    def parameters_changed(self) -> None:
        """Apply new parameters from the next sample on."""
        self.robot = self.robot.with_parameters(self.parameters)
        self.controller.set_parameters(self.robot.in_model_order(self.parameters), self.robot.model)

    def _make_controller(self, parameters: PassivityControllerParameters) -> PassivityController:
        return PassivityController(self.robot.model, self.robot.in_model_order(parameters))

    def _load_estimates(self) -> None:
        path, law = self.parameters.estimates, self.controller.law
        if not path or law.adaptive is None:
            return
        estimates = read_estimates(path)
        if estimates is not None:
            law.set_estimates(estimates)
            self.get_logger().info(f"estimates of {path}: payload {law.adaptive.payload:.3g} kg")

    # Joint states and torque -----------------------------------------------------------------

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        try:
            self._control(sample, stamp)
        except BaseException:
            self._send_zero()
            raise

    def _control(self, sample: JointSample, stamp: Stamp) -> None:
        self._watchdog.beat()
        self._trajectories.accept()
        effort = self._measured_torque(sample)
        command = self.controller.update(sample.stamp, sample.q, sample.v, time.monotonic(), effort)
        if self._was_late():
            return
        torque = command.torque if self._send(command.torque) else self.controller.sent
        self._unreported = _Answered(sample, stamp, command, torque, effort)

    def _report_sample(self) -> None:
        """Publish and log what the last torque belongs to; never raise an exception."""
        answered, self._unreported = self._unreported, None
        if answered is not None:
            self.guard.run("report of a sample", self._report_answer, answered)

    def _report_answer(self, answered: _Answered) -> None:
        sample, command = answered.sample, answered.command
        if sample.v is not None and self._writer.is_heard:
            error, rate = sample.q - command.q_d, sample.v - command.v_d
            self._writer.publish(answered.stamp, error, rate, answered.torque)
        self._note(command)
        controller = self.controller
        self._energy.add(controller.balance(answered.effort), controller.law.tank.level)

    def _measured_torque(self, sample: JointSample) -> Array | None:
        """Return the joint torque from the effort of a sample, (nv,) [N·m or N]."""
        if sample.tau is None:
            return None
        robot = self.robot
        return robot.parameters.torque(robot.model, sample.q, sample.tau)

    def _position(self) -> Array | None:
        """Return the present joint positions, (nq,) [rad or m]; None while unknown."""
        latest = self._input.latest if self.is_active else None
        return None if latest is None else latest.q

    def _goal_state(self) -> GoalState | None:
        """Return the measured and the desired state of the arm; None while one is unknown."""
        latest, command = self._input.latest, self._last
        if not self.is_active or latest is None or latest.v is None or command is None:
            return None
        return GoalState(latest.q, latest.v, command.q_d, command.v_d)

    def _watch(self) -> None:
        """Send the safe torque while joint states are silent, and answer goals."""
        self._watchdog.beat()
        self._goals.tick()
        if not self.is_active or self._was_late():
            return
        try:
            command = self.controller.silence(time.monotonic())
        except BaseException:
            self._send_zero()
            raise
        if command is not None:
            self._send(command.torque)
            self._note(command)

    def _was_late(self) -> bool:
        """Switch to safe torque if the watchdog has sent zero; the computed torque is too old."""
        late = self._watchdog.take_late()
        if late:
            self.controller.fault(f"the node did not respond for {late:.3g} s")
        return late > 0.0

    def _send(self, torque: Array) -> bool:
        """Publish the torque of a command, and tell the controller if it was not published.

        Args:
            torque: (nv,) in the order of the model [N·m or N].

        Returns:
            False if the middleware refused the torque.
        """
        output = self._output
        if output is None or output.send(torque if self._order is None else torque[self._order]):
            return True
        self.controller.not_sent(output.age)
        return False

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
            self._trajectories.discard("fault")
            self.get_logger().error(f"safe torque: {command.reason}; ~/resume when it is cured")
        else:
            why = f": {command.reason}" if command.reason else ""
            self.get_logger().info(f"{command.mode}{why}")

    # Contact ---------------------------------------------------------------------------------

    def on_contact(self, flag: bool) -> None:
        """Process a verdict of the contact detector."""
        if self._controller is None:
            return
        if flag and self.parameters.contact_reaction in ("hold", "float", "retract"):
            self._trajectories.discard("contact")
        # Verdicts count before the activation as well, because require_detector needs one.
        self._controller.contact(flag, time.monotonic())

    def on_force(self, link: str, force: Array) -> None:
        """Process the touched link and the force on it, (3,) in world axes [N]."""
        if self.is_active:
            self.controller.touched(link, force)

    def _on_wrench(self, frame: str, force: Array) -> None:
        """Process the force on the touched link, (3,) in the frame of that link on TF [N]."""
        if self.is_active:
            model, prefix = self.controller.model, self.parameters.frame_prefix
            self.controller.touched_in_frame(
                self._touched.of(frame, model.link_body, prefix), force
            )

    def _detector_warning(self) -> str:
        if self._controller is None:
            return ""
        return self._controller.detector_warning(time.monotonic())

    # Other publishers of torque --------------------------------------------------------------

    def _rivals(self) -> int:
        """Return the number of other publishers of torque."""
        own = self._output is not None
        return int(self.count_publishers(self._topic)) - own

    def _rivalry(self) -> str:
        """Return a message about other publishers of torque; empty without any."""
        rivals = self._rivals()
        return f"{rivals} more publishers on {self._topic}" if rivals > 0 else ""

    def _look_around(self) -> None:
        """Check for other publishers of torque, for the detector, and for subscribers."""
        if not self.is_active:
            self._claim.look()
            return
        rivalry = self._rivalry()
        if rivalry:
            self.controller.fault(rivalry)
        self._detector.watch()
        self._energy.look_for_readers()
        self._writer.look_for_readers()

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
            if self.controller.frozen:
                status.raise_to(WARN, self.controller.frozen)
            self._energy.report(status, self.controller)
        if self.is_active:
            self._detector.report(status)
            self._touched.report(status)
        status.add("saturated samples", self._saturated)
        self._trajectories.report(status)
        rivalry = self._rivalry()
        if rivalry:
            status.raise_to(ERROR, rivalry)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(PassivityControllerNode, args)


if __name__ == "__main__":
    sys.exit(main())
