"""The node that moves an arm by joint torques under Slotine-Li control."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.control import ControllerParameters, PassivityController
from rbd_control.control.limits import ArmLimits
from rbd_control.control.reactions import ENDING
from rbd_control.dynamics import gravity_torque
from rbd_control.errors import InputError
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import CommandingParameters, FrameParameters
from rbd_control.nodes.command_output import (
    COMMANDS,
    ENERGY,
    TRACKING_ERROR,
    AnsweredSample,
    CommandReport,
    ExclusiveAccess,
    TorqueOutput,
    report_loop,
)
from rbd_control.nodes.detector_input import DetectorInput, TouchedLink
from rbd_control.nodes.follow_joint_trajectory import FollowJointTrajectoryServer, GoalState
from rbd_control.nodes.order_services import OrderServices, read_estimates
from rbd_control.nodes.trajectory_input import TrajectoryInput
from rbd_control.parameters import parameter
from rbd_control.robot.joint_choice import HeldJoints
from rbd_control.robot.robot import Robot
from rbd_control.ros.diagnostics import ERROR, WARN, Status
from rbd_control.ros.joint_state_input import JointStateInput, OtherJoint, Tap
from rbd_control.ros.managed_node import ManagedNode, NotReadyError
from rbd_control.ros.messages import Stamp
from rbd_control.ros.robot_source import PayloadInput
from rbd_control.ros.run import run
from rbd_control.ros.threads import CallbackWatchdog
from rbd_control.startup.compilation import rehearse_controller

Array = NDArray[np.float64]

WATCH_PERIOD = 0.01
"""Period of the watchdog and of repeated safe-torque commands [s]."""

RIVALS_PERIOD = 0.1
"""Period of the checks for other publishers of torque and for the detector [s]."""

REPORT = "report of a sample"
"""Name of the work after the torque was published, in the counts of exceptions by callback.

This work is the publication of tracking error and energies. An exception in it is counted, and
switches the controller to the safe torque, as in any other callback.
"""


@dataclass(frozen=True)
class PassivityControllerParameters(FrameParameters, CommandingParameters, ControllerParameters):
    """Parameters of the node: arm, joint-state input, controller, and file of estimates."""

    HEADING = "File of the adaptive law"

    estimates: str = parameter(
        "",
        "file to which ~/save_estimates writes the estimates; if it exists, the node reads it when "
        "it is configured",
        live=False,
        start_only=True,
    )


class PassivityControllerNode(ManagedNode[PassivityControllerParameters]):
    """Runs a :class:`PassivityController` on the newest joint state and sends the resulting torque.

    Joint states that have waited behind a newer one are skipped.

    Attributes:
        tap: called with sample and stamp of every usable joint state among the newest
            :data:`~rbd_control.ros.joint_state_input.MOST_READ` in the queue, including skipped
            ones, before the controller processes the newest. It must not raise an exception. Set it
            before the configuration; None disables it.
        after_torque: called without arguments each time joint states were read from the queue:
            after the torque of the newest was published, if any was, also if the computation
            failed. It must not raise an exception. Set it before the configuration; None disables
            it.
        while_waiting: called without arguments about every 10 ms or more often while an activation
            waits and the executor runs no timer. It must not raise an exception; None disables it.
        gripper: a joint beside the arm's that a detector in this process reads from the joint
            states; set it before the configuration.
    """

    parameters_type = PassivityControllerParameters
    outputs = (COMMANDS, TRACKING_ERROR, ENERGY)
    reads_joint_states = True

    def __init__(self, *, detector_is_here: bool = False) -> None:
        """Create the node.

        Args:
            detector_is_here: whether a detector in this process calls :meth:`on_contact` and
                :meth:`on_force`, so that its topics are not subscribed to.
        """
        super().__init__("passivity_controller")
        self._controller: PassivityController | None = None
        self._output: TorqueOutput | None = None
        self._trajectories = TrajectoryInput(self)
        self._report = CommandReport(self, lambda: self._trajectories.discard("fault"))
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
        self._payload = PayloadInput(self, self._posture, self._refuse_heavier)
        self._access = ExclusiveAccess(
            self,
            COMMANDS.topic,
            lambda: self.parameters.discovery_time,
            lambda: self._output is not None,
            self.refuse_when_stopping,
        )
        self._orders = OrderServices(
            self,
            lambda: self.controller,
            self._trajectories.discard,
            self._access.conflict,
            self.parameters.estimates,
        )
        self.tap: Tap | None = None
        self.after_torque: Callable[[], None] | None = None
        self.while_waiting: Callable[[], None] | None = None
        self.gripper: OtherJoint | None = None
        self._unreported: AnsweredSample | None = None
        self._watchdog = CallbackWatchdog(lambda: self.parameters.timeout, self._send_zero)
        self.create_timer(WATCH_PERIOD, self._watch)
        self.create_timer(RIVALS_PERIOD, self._look_around)
        self.diagnostics.append(self._report_status)

    @property
    def controller(self) -> PassivityController:
        """The controller of the configured node; it does not exist before the configuration."""
        assert self._controller is not None
        return self._controller

    # From a sample to the torque, then to its report -------------------------------------------

    def _on_sample(self, sample: JointSample, stamp: Stamp) -> None:
        """Compute and send the torque of a sample; nothing else is published.

        After an exception zero torque is sent, and the guard switches to the safe torque. If the
        computation has taken longer than the timeout, zero torque is sent in place of its result.
        """
        controller = self._controller
        assert controller is not None
        try:
            self._watchdog.beat()
            if sample.model_error != controller.path.model_error:
                controller.set_model_error(sample.model_error)
            self._trajectories.accept()
            effort = None
            if sample.tau is not None:
                robot = self.robot
                effort = robot.parameters.torque(robot.model, sample.q, sample.tau)
            command = controller.update(sample.stamp, sample.q, sample.v, time.monotonic(), effort)
            late = self._watchdog.take_late()
            if late:
                self._send_zero()
                self._fault_late(late)
                return
            torque, output = command.torque, self._output
            if output is not None and not output.send(torque, self._watchdog.deadline):
                late = self._watchdog.take_late()
                if late:  # zero was sent in its place
                    self._fault_late(late)
                    return
                controller.not_sent(output.age)
                torque = controller.path.sent
            self._unreported = AnsweredSample(sample, stamp, command, torque, effort)
        except BaseException:
            self._send_zero()
            raise

    def _on_jump(self) -> None:
        """Hold the arm where it is after a jump of the clock, and discard earlier trajectories."""
        self._trajectories.discard("the clock of the joint states jumped")
        self.controller.clock_went_back()

    def _compare(self, sample: JointSample) -> None:
        """Compare a sample with those before it, while the node is not active."""
        self.controller.observed.take(sample.stamp, sample.q, sample.v, time.monotonic())

    def _report_sample(self) -> None:
        """Publish the tracking error and the energies of the last torque; raise no exception."""
        answered, self._unreported = self._unreported, None
        if answered is not None:
            self.errors.run(REPORT, self._report.publish, answered, self.controller)

    # Watchdogs ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Reset the watchdog, watch the torque while active, then write logs and answer goals."""
        self._watchdog.beat()
        if self.is_active:
            self._watch_torque()
        self._trajectories.tell()
        self._goals.tick()
        self._orders.tell()

    def _watch_torque(self) -> None:
        """Send the safe torque while joint states are silent; fault if the watchdog has acted."""
        late = self._watchdog.take_late()
        if late:
            self._fault_late(late)
            return
        try:
            command = self.controller.silence(time.monotonic())
        except BaseException:
            self._send_zero()
            raise
        if command is not None:
            output = self._output
            if output is not None and not output.send(command.torque):
                self.controller.not_sent(output.age)
            self._report.note(command)

    def _fault_late(self, late: float) -> None:
        """Switch to the safe torque after the watchdog has sent zero.

        A torque that was computed meanwhile is too old.

        Args:
            late: time without a callback [s].
        """
        self.controller.modes.fault(f"the node did not respond for {late:.3g} s")

    def _send_zero(self) -> None:
        output = self._output  # another thread may replace it meanwhile
        if output is not None:
            output.send_zero()

    def _look_around(self) -> None:
        """Check for other publishers of torque, and for the detector.

        Another publisher of torque is a fault of the active controller. While the node is not
        active, this look only counts towards ``discovery_time``.
        """
        conflict = self._access.conflict()
        if not self.is_active:
            return
        if conflict:
            self.controller.modes.fault(conflict)
        self._detector.watch()

    # Contact -----------------------------------------------------------------------------------

    def on_contact(self, flag: bool) -> None:
        """Process a verdict of the contact detector; ignore it before the first configuration.

        A contact starts the reaction of the parameter ``contact_reaction``. If this reaction stops
        the arm, a trajectory that is being planned is discarded.

        Args:
            flag: whether there is contact.
        """
        if self._controller is None:
            return
        # Verdicts count before the activation as well, because require_detector needs one.
        begins = self._controller.contact(flag, time.monotonic())
        if begins and self.parameters.contact_reaction in ENDING:
            self._trajectories.discard("contact")

    def on_force(self, link: str, force: Array) -> None:
        """Store a contact force for the reaction ``retract``; ignore it while not active.

        Args:
            link: the touched link.
            force: (3,) force on it, in world axes [N].
        """
        if self.is_active:
            self.controller.set_contact_force(link, force)

    def _on_wrench(self, frame: str, force: Array) -> None:
        """Process the force on the touched link, (3,) in the frame of that link on TF [N]."""
        if self.is_active:
            model, prefix = self.controller.model, self.parameters.frame_prefix
            self.controller.set_contact_force(
                self._touched.of(frame, model.link_body, prefix), force, in_frame=True
            )

    def _detector_warning(self) -> str:
        if self._controller is None:
            return ""
        return self._controller.watches.detector_warning(time.monotonic())

    # State of the arm --------------------------------------------------------------------------

    def _posture(self) -> Array | None:
        """Return the present joint positions, (nq,) [rad or m], or None if they are unknown."""
        latest = self._input.latest
        return None if latest is None or self._input.is_silent else latest.q

    def _law_parameters(self) -> ControllerParameters:
        """Return the parameters in the order of the model.

        Simulated time may pass more slowly than the steady clock, which is no delay.
        """
        parameters = self.robot.in_model_order(self.parameters)
        if self.get_clock().ros_time_is_active:
            return replace(parameters, delay_growth=0.0)
        return parameters

    def _refuse_heavier(self, robot: Robot, former: Robot, q: Array) -> None:
        """Raise an error if a payload makes the arm too heavy for its torque limits.

        A joint that is above its limit already is accepted if the payload does not load it more.

        Args:
            robot: the arm with the new payload.
            former: the arm with the previous payload.
            q: joint positions, (nq,) [rad or m].

        Raises:
            InputError: naming the joint and the share of its limit that it needs.
        """
        parameters = robot.in_model_order(self.parameters)
        limits = ArmLimits.of(robot.model, parameters)
        before = ArmLimits.of(former.model, parameters)
        limits.refuse_heavier(
            gravity_torque(robot.model, q), before, gravity_torque(former.model, q)
        )

    def _goal_state(self) -> GoalState | None:
        """Return the measured and the desired state of the arm.

        The result is None while the node is not active, before the first command, and while the
        last sample has no velocity.
        """
        latest, command = self._input.latest, self._report.last
        if not self.is_active or latest is None or latest.v is None or command is None:
            return None
        return GoalState(latest.q, latest.v, command.q_d, command.v_d)

    # Lifecycle ---------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the controller and the joint-state subscription, and compile all kernels.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
            InputError: if the file of the parameter ``estimates`` exists and cannot be used.
        """
        model = self.robot.model
        self._controller = PassivityController(model, self._law_parameters())
        self._load_estimates()
        self._touched.forget()
        rehearse_controller(model)
        root = self.parameters.frame_prefix + model.root_link
        self._report.configure(model.joint_names, root)
        self._input = JointStateInput(
            self,
            model.joint_names,
            lambda: self.parameters.timeout,
            self._on_sample,
            on_jump=self._on_jump,
            newest_only=True,
        )
        if self.robot.supporting:
            self._input.held = HeldJoints(self.robot.supporting)
        self._input.tap, self._input.other = self.tap, self.gripper
        self._input.while_inactive = self._compare
        others = () if self.after_torque is None else (self.after_torque,)
        self._input.afterwards = (*others, self._report_sample)

    def cleanup(self) -> None:
        """Destroy the joint-state subscription."""
        self._input.destroy()

    def waiting_for(self) -> str:
        """Return the missing condition for the activation, or an empty text.

        The conditions are joint states with velocity that do not contradict each other, at a rate
        at which the gains are stable (a busy machine loses some), a verdict of the detector if the
        parameter ``require_detector`` is set, no other publisher on the torque topic and, during an
        automatic start, ``discovery_time`` in which the node has looked for one.
        """
        return self._missing_input() or self._access.missing(is_starting=self.is_starting)

    def _missing_input(self) -> str:
        """Return the input without which the control does not start; empty if it is there."""
        sample = self._input.latest
        if sample is None or self._input.is_silent:
            return f"joint states on {self.resolve_topic_name('joint_states')}"
        if sample.v is None:
            return "joint states with velocities; the present ones have none"
        if self.contradiction or sample.model_error:
            return f"a model that fits: {self.contradiction or sample.model_error}"
        if self.controller.observed.mixed:
            topic = self.resolve_topic_name("joint_states")
            return f"joint states of one source; on {topic} they contradict each other"
        try:
            self.parameters.require_stable(self._input.period)
        except InputError as error:
            return f"joint states at a higher rate, or lower gains: {error}"
        missing = self._detector_warning() if self.parameters.require_detector else ""
        return f"a verdict on {self._detector.topic}: {missing}" if missing else ""

    def _read_waiting(self) -> None:
        """Process the waiting messages, because an activation blocks the executor.

        Otherwise a verdict of the detector would expire, an announced payload would be unknown at
        the first torque, and the joint states of the wait would stay in the queue.
        """
        self._input.poll()
        if self.while_waiting is not None:
            self.while_waiting()
        self._detector.poll()
        self._payload.poll()

    def _refuse_without_input(self) -> None:
        """Raise a :class:`NotReadyError` unless input and payload permit the first torque."""
        self._payload.settle()
        missing = self._missing_input()
        if not missing and self._payload.is_pending:
            missing = "the check of the payload that was announced"
        if missing:
            raise NotReadyError(f"waiting for {missing}")

    @property
    def sends_torque(self) -> bool:
        """Whether this node is active; several changes of parameters then take the time of one."""
        return self.is_active

    def activate(self) -> None:
        """Begin to publish torque, and hold the arm at its present position.

        The call returns after this node has looked for other controllers for ``discovery_time``.

        Raises:
            NotReadyError: if another node may send torque, if a condition of :meth:`waiting_for` is
                not met any more, if the check of a payload is pending, or if a signal has asked the
                node to end.
            InputError: if the controller refuses to start, see :meth:`PassivityController.start`.
        """
        self._access.wait(self._read_waiting)
        output = TorqueOutput(self, self.robot.order)

        def meanwhile() -> None:
            self._access.others()
            self._read_waiting()

        try:
            output.open(meanwhile)
            self._read_waiting()
            self._refuse_without_input()
            sample = self._input.latest
            assert sample is not None
            self.refuse_when_stopping()
            self._access.require_alone()
            self.controller.set_model_error("")  # _refuse_without_input has refused an error
            self.controller.start(sample.stamp, sample.q, sample.v, time.monotonic())
            self.controller.clock_went_back()
            self._trajectories.start(self.controller)
            self._watchdog.start()
            self._detector.watch()
        except BaseException:
            self._watchdog.stop()
            self._trajectories.stop()
            output.abandon()
            raise
        self._output, self._report.last = output, None

    def deactivate(self) -> None:
        """Send zero torque, wait for its acknowledgement, and end the threads.

        These are the threads of the watchdog and of the planning. Planned trajectories are
        discarded, and goals are aborted.
        """
        output, self._output = self._output, None
        try:
            if output is not None:
                output.close()
        finally:
            self._watchdog.stop()
            self._trajectories.stop()
            self._goals.stop("the controller was deactivated")

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has both
        """Switch an active controller to the safe torque, because its state is unknown.

        Args:
            name: name of the callback that raised an exception.
            reason: the callback and the exception as text.
        """
        if self.is_active:
            self.controller.modes.fault(reason)

    # Parameters --------------------------------------------------------------------------------

    def check_parameters(self, new: PassivityControllerParameters) -> None:
        """Raise an error for values that do not fit the arm.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
            InputError: for an impossible payload, and, while the node is active, for a payload or
                torque limits with which the motors could not hold the weight of the arm.
        """
        robot = self.robot.with_parameters(new)
        parameters = robot.in_model_order(new)
        self.controller.check_parameters(parameters, robot.model)
        if self.is_active:
            new.require_stable(self._input.period)
            self.controller.refuse_heavier(parameters, robot.model)

    def parameters_changed(self) -> None:
        """Apply new parameters from the next sample on.

        If they enable ``adaptive``, the file of the parameter ``estimates`` is read. It is not used
        if the motors are too weak for its masses.
        """
        self.robot = self.robot.with_parameters(self.parameters)
        was_adaptive = self.controller.law.adaptive is not None
        self.controller.set_parameters(self._law_parameters(), self.robot.model)
        if not was_adaptive:
            # Otherwise ~/save_estimates would replace a file that was never read.
            try:
                self._load_estimates()
            except InputError as error:
                self.get_logger().error(f"the estimates are not used: {error}")
        why = self.controller.law.discarded
        if why:
            self.get_logger().warning(f"the estimates of the adaptive law are discarded: {why}")

    def _load_estimates(self) -> None:
        path, law = self.parameters.estimates, self.controller.law
        if not path or law.adaptive is None:
            return
        estimates = read_estimates(path)
        if estimates is not None:
            self.controller.set_estimates(estimates)
            self.get_logger().info(f"estimates of {path}: payload {law.adaptive.payload:.3g} kg")

    # Diagnostics -------------------------------------------------------------------------------

    def _report_status(self, status: Status) -> None:
        if self.is_active:
            self._report.report_command(status, self.controller)
            try:
                self.parameters.require_stable(self._input.period)
            except InputError as error:
                status.raise_to(WARN, str(error))
            report_loop(status, self.controller)
            self._detector.report(status)
            self._touched.report(status)
        self._report.report_saturation(status)
        self._trajectories.report(status)
        conflict = self._access.conflict()
        if conflict:
            status.raise_to(ERROR, conflict)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(PassivityControllerNode, args)


if __name__ == "__main__":
    sys.exit(main())
