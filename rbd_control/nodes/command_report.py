"""Report of the controller's commands: tracking error, energies, log lines and diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from rbd_control.control import Command, PassivityController
from rbd_control.control.energy import EnergyBalance
from rbd_control.control.torque_path import WEAKENED
from rbd_control.joint_states import JointSample
from rbd_control.ros.diagnostics import ERROR, WARN, Status
from rbd_control.ros.guarded_node import GuardedNode, Output
from rbd_control.ros.messages import EVERY_SAMPLE, JointStateWriter, NumberWriter, Stamp, to_array

ENERGIES = ("storage", "dissipated", "injected", "supplied", "bound", "tank")
"""Entries of ``~/energy``, in this order [J].

``tank`` is the level of the energy tank, the others are fields of :class:`EnergyBalance`.
"""


TRACKING_ERROR = Output(
    "~/tracking_error",
    JointState,
    EVERY_SAMPLE,
    "q − q_d, v − v_d and the published torque: each joint state with velocity",
    while_read=True,
)
ENERGY = Output(
    "~/energy",
    Float64MultiArray,
    EVERY_SAMPLE,
    f"{', '.join(ENERGIES)} [J]: each joint state",
    while_read=True,
)

Array = NDArray[np.float64]


class AnsweredSample(NamedTuple):
    """A sample that the controller has processed and whose report is not published yet.

    Attributes:
        sample: the joint state.
        stamp: its stamp, exact to the nanosecond.
        command: the torque, desired state and mode that the controller computed for it; the
            middleware may have refused its torque, see ``torque``.
    """

    sample: JointSample
    stamp: Stamp
    command: Command
    torque: Array
    """(nv,) torque that was published last [N·m or N].

    It is the torque of ``command``, or the torque before it if the middleware refused the command.
    """
    effort: Array | None
    """(nv,) measured joint torque [N·m or N]; None for a sample without effort."""


class CommandReport:
    """Publishes tracking error and energies, logs changes of the mode, and fills the diagnostics.

    The topics are ``~/tracking_error`` (sensor_msgs/JointState) and ``~/energy``
    (std_msgs/Float64MultiArray with the entries
    :data:`ENERGIES` [J]).

    Args:
        node: the node.
        on_fault: called when the mode becomes ``safe``; the result is ignored.

    Attributes:
        last: the last command; None before the first command. The node sets it to None at each
            activation.
    """

    def __init__(self, node: GuardedNode, on_fault: Callable[[], object]) -> None:
        self._node, self._on_fault = node, on_fault
        self._errors = node.open(TRACKING_ERROR)
        self._energies = NumberWriter(node.open(ENERGY), len(ENERGIES), energy_message)
        self._balance: EnergyBalance | None = None
        self._not_passive = 0
        self._saturated = 0
        self.last: Command | None = None

    def configure(self, joints: tuple[str, ...], frame: str) -> None:
        """Prepare the messages of ``~/tracking_error``; call it before :meth:`publish`.

        Args:
            joints: names of the joints in the order of the model.
            frame: the root link, as ``header.frame_id``.
        """
        self._writer = JointStateWriter(self._errors, joints, frame)

    def publish(self, answered: AnsweredSample, controller: PassivityController) -> None:
        """Publish the tracking error and the energies of a sample, and call :meth:`note`.

        The tracking error consists of ``q - q_d`` as position [rad or m], ``v - v_d`` as velocity
        [rad/s or m/s] and the published torque as effort [N·m or N]. It is not published for a
        sample without velocity. Nothing is published on a topic without subscribers.

        Args:
            answered: the sample with its command.
            controller: the controller that computed the command, for the energies.
        """
        sample, command = answered.sample, answered.command
        if sample.v is not None and self._errors.is_read:
            error, rate = sample.q - command.q_d, sample.v - command.v_d
            self._writer.publish(answered.stamp, error, rate, answered.torque)
        self.note(command)
        self._balance = balance = controller.balance(answered.effort)
        if balance is None:  # of the first sample
            return
        self._not_passive += not balance.passive
        values = [getattr(balance, name) for name in ENERGIES[:-1]]
        self._energies.publish(np.array([*values, controller.law.tank.level]))

    def note(self, command: Command) -> None:
        """Store a command as ``last``, log its mode if it has changed, and count saturation.

        A change to the mode ``safe`` is logged as an error and calls ``on_fault``; a brake that is
        weakened later, because it swings, is logged as a warning, once. A command is saturated if
        its torque was reduced to keep the limits.
        """
        last, self.last = self.last, command
        self._saturated += command.saturated
        if last is not None and last.mode == command.mode:
            if WEAKENED in command.reason and WEAKENED not in last.reason:
                self._node.get_logger().warning(WEAKENED)
            return
        if command.mode == "safe":
            self._on_fault()
            self._node.get_logger().error(
                f"safe torque: {command.reason}; remove the cause and call ~/resume"
            )
        else:
            why = f": {command.reason}" if command.reason else ""
            self._node.get_logger().info(f"{command.mode}{why}")

    def report_command(self, status: Status, controller: PassivityController) -> None:
        """Add mode, goal, energies and learned masses of an active controller to the diagnostics.

        The mode ``safe`` is an error. In another mode the reason of the last command, if it has
        one, is a warning. Frozen joint states are a warning as well. Before the first command
        nothing is added.

        Args:
            status: the status to fill in.
            controller: the active controller.
        """
        command = self.last
        if command is None:
            return
        status.add("mode", command.mode)
        status.add("goal", command.goal)
        if command.mode == "safe":
            status.raise_to(ERROR, f"safe torque: {command.reason}")
        elif command.reason:
            status.raise_to(WARN, command.reason)
        if controller.frozen:
            status.raise_to(WARN, controller.frozen)
        self._report_energy(status, controller)

    def _report_energy(self, status: Status, controller: PassivityController) -> None:
        """Add energies and learned masses; samples that were not passive are a warning."""
        law = controller.law
        if self._balance is not None:
            status.add("storage [J]", self._balance.storage)
        status.add("samples not passive", self._not_passive)
        if self._not_passive:
            self._not_passive = 0
            status.raise_to(
                WARN,
                "the control loop injects more energy than K_D dissipates, because of delay or "
                "saturation; lower the gains or the delay",
            )
        if controller.parameters.tank_capacity:
            status.add("tank [J]", law.tank.level)
        if law.adaptive is not None:
            status.add("payload learned [kg]", law.adaptive.payload)
            for estimate in law.adaptive.estimates.links:
                status.add(f"{estimate.link} mass [kg]", estimate.mass)

    def report_saturation(self, status: Status) -> None:
        """Add the number of commands so far whose torque was reduced to keep the limits."""
        status.add("saturated samples", self._saturated)


def energy_message(values: Array) -> Float64MultiArray:
    """Return the entries :data:`ENERGIES` as a message with their names [J]."""
    message = Float64MultiArray(data=to_array(values))
    count = len(ENERGIES)
    label = ", ".join(f"{name} [J]" for name in ENERGIES)
    message.layout.dim = [MultiArrayDimension(label=label, size=count, stride=count)]
    return message


def report_loop(status: Status, controller: PassivityController) -> None:
    """Add the result of the last measurement of the loop; warn if the gains are too high for it.

    Args:
        status: the status to fill in.
        controller: the active controller.
    """
    result, parameters = controller.loop_result, controller.parameters
    if controller.is_measuring_loop:
        status.add("loop", "is being measured")
    if result is None:
        return
    status.add("loop delay [ms]", 1e3 * result.delay)
    status.add("loop resonance [Hz]", result.resonance)
    for each in result.joints:
        if each.note:
            status.add(f"loop of {each.joint}", each.note)
    bandwidth = min(parameters.bandwidth) or 0.5 * parameters.damping_rate
    warning = result.exceeded(parameters.damping_rate, bandwidth, parameters.resonance)
    if warning:
        status.raise_to(WARN, warning)
