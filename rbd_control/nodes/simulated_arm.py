"""Lockstep of the simulated arm: it waits for a torque command after each joint state."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String

from rbd_control.dynamics import frame_placement
from rbd_control.errors import InputError, ParameterError
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import ModelParameters
from rbd_control.parameters import parameter
from rbd_control.robot.friction import Friction, NoFriction
from rbd_control.ros.contact_messages import ForceWriter
from rbd_control.ros.diagnostics import WARN, Status
from rbd_control.ros.fault_tolerant_node import Output
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import EVERY_SAMPLE, LATCHED, JointStateWriter, Stamp
from rbd_control.ros.run import run
from rbd_control.simulation import HalfSpace, SimulatedArm, SimulationParameters, Sphere
from rbd_control.startup.compilation import rehearse_arm

QUIET = 0.05
"""Time without a command after which the controller has answered all earlier samples [s]."""


class Lockstep:
    """Decides when a simulation may do its next step, so that each sample gets one command.

    A sample is a joint state that the simulation publishes, and a command is the torque with which
    the controller answers. A command does not identify its sample.

    The initial state is ``free``: samples are published at their rate. At the first command the
    state becomes ``catching up``: commands answer older samples, so the simulation waits until no
    more commands arrive. In the state ``paired`` each sample gets one command. A second command
    for the same sample shows that commands lag; the state becomes ``catching up`` again. If no
    command arrives in time, it becomes ``free``. All times are those of a steady clock [s].

    A controller without samples repeats its safe torque, so that commands may never cease. The
    state ``catching up`` therefore ends after the timeout, too.

    Attributes:
        unanswered: number of samples that got no command within the timeout of :meth:`may_step`, in
            the state ``paired``.
        unceasing: number of times that commands did not cease within this timeout, in the state
            ``catching up``.
    """

    def __init__(self) -> None:
        self.unanswered = self.unceasing = 0
        self._state: Literal["free", "catching up", "paired"] = "free"
        self._answered = False
        self._commanded = self._published = self._behind_since = 0.0

    def published(self, now: float) -> None:
        """Record that a sample was published at the time ``now`` [s]."""
        self._published, self._answered = now, False

    def commanded(self, now: float) -> None:
        """Record that a command was received at the time ``now`` [s]."""
        if self._state != "catching up" and (self._state == "free" or self._answered):
            self._state, self._behind_since = "catching up", now
        self._commanded, self._answered = now, True

    def may_step(self, now: float, timeout: float) -> bool:
        """Return whether the simulation may do its next step now. This method does not block.

        Args:
            now: the time [s].
            timeout: longest wait for the command to the last sample [s]; afterwards the state
                becomes ``free``, in which the result is always True. Also the longest wait for the
                end of the commands to older samples; afterwards the state becomes ``paired``.
        """
        if self._state == "catching up":
            is_quiet = now - self._commanded >= QUIET
            if not is_quiet and now - self._behind_since < max(timeout, QUIET):
                return False
            self.unceasing += not is_quiet
            self._state = "paired"
        elif self._state == "paired" and not self._answered:
            if now - self._published < timeout:
                return False
            self.unanswered += 1
            self._state = "free"
        return True


DESCRIBE_PERIOD = 0.1
"""Period at which a robot description that the middleware refused is published again [s]."""

STATES = Output("joint_states", JointState, EVERY_SAMPLE, "sensor readings: each step")
TRUE_TORQUES = Output(
    "~/true_external_joint_torques", JointState, EVERY_SAMPLE, "the truth, in `effort`: each step"
)
TRUE_CONTACT = Output("~/true_contact", Bool, LATCHED, "whether the arm is touched: each change")
TRUE_FORCES = Output(
    "~/true_external_wrench",
    WrenchStamped,
    EVERY_SAMPLE,
    "force of each contact, in the frame of its link: each step in contact",
)
DESCRIPTION = Output("robot_description", String, LATCHED, "the URDF of a parameter: once")

SPHERE_NUMBERS = 6
HALF_SPACE_NUMBERS = 8


@dataclass(frozen=True)
class SimulatedArmParameters(ModelParameters, SimulationParameters):
    """Parameters of the node: the arm, the simulation, obstacles, pushes and lockstep."""

    HEADING = "Obstacles, pushes and lockstep"

    spheres: tuple[float, ...] = parameter(
        (),
        "spherical obstacles, six numbers each: centre x y z, radius, stiffness, damping",
        unit="m, N/m, N·s/m",
        lower=-1e8,
        upper=1e8,
        live=False,
    )
    half_spaces: tuple[float, ...] = parameter(
        (),
        "tables and walls, eight numbers each: point x y z, normal x y z (out of the obstacle), "
        "stiffness, damping",
        unit="m, N/m, N·s/m",
        lower=-1e8,
        upper=1e8,
        live=False,
    )
    push_timeout: float = parameter(
        0.2,
        "time from the last external_wrench message to the end of the push",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    lockstep: bool = parameter(
        False,
        "wait for a command after each joint state, so that a busy machine slows the simulation "
        "down instead of delaying the torque",
    )
    lockstep_timeout: float = parameter(
        0.2,
        "longest wait for a command; then continue without commands until the next one",
        unit="s",
        above=0.0,
        upper=60.0,
    )

    def obstacles(self) -> list[Sphere | HalfSpace]:
        """Return the obstacles that ``spheres`` and ``half_spaces`` describe, in world axes.

        Raises:
            ParameterError: if the length of a list is wrong, or an obstacle is impossible.
        """
        try:
            return [
                *(
                    Sphere((x[0], x[1], x[2]), *x[3:])
                    for x in _groups("spheres", self.spheres, SPHERE_NUMBERS)
                ),
                *(
                    HalfSpace((x[0], x[1], x[2]), (x[3], x[4], x[5]), *x[6:])
                    for x in _groups("half_spaces", self.half_spaces, HALF_SPACE_NUMBERS)
                ),
            ]
        except InputError as error:
            raise ParameterError(f"spheres or half_spaces: {error}") from error


class SimulatedArmNode(ManagedNode[SimulatedArmParameters]):
    """Steps a :class:`SimulatedArm` in real time or slower, and publishes its sensor readings.

    It receives torques on ``effort_controller/commands`` and pushes on ``~/external_wrench``. It
    publishes joint states, the robot description, and the true contact, external joint torques and
    contact forces. The stamp of a joint state is the time of the activation plus the time simulated
    since then. If the machine is too slow, simulated time falls behind the clock; skipped periods
    are not simulated later.
    """

    parameters_type = SimulatedArmParameters
    outputs = (STATES, DESCRIPTION, TRUE_TORQUES, TRUE_CONTACT, TRUE_FORCES)

    def __init__(self) -> None:
        super().__init__("simulated_arm")
        self._states, self._torques = self.open(STATES), self.open(TRUE_TORQUES)
        self._contact, self._forces = self.open(TRUE_CONTACT), self.open(TRUE_FORCES)
        self._description = self.open(DESCRIPTION)
        self.create_subscription(
            Float64MultiArray, "effort_controller/commands", self._on_command, QoSProfile(depth=10)
        )
        self.create_subscription(
            WrenchStamped, "~/external_wrench", self._on_push, QoSProfile(depth=10)
        )
        self._undescribed = ""
        """Description that is still to be published."""
        self.create_timer(DESCRIBE_PERIOD, self._describe)
        self._skipped = self._bad_commands = 0
        self.diagnostics.append(self._report)

    def configure(self) -> None:
        """Create the arm at ``initial_position``, publish its description, and compile its kernels.

        The description is published only if it comes from a parameter.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length, an initial position
                outside of the limits, or an impossible obstacle.
        """
        model = self.robot.model
        # First, so that other nodes can prepare at the same time.
        if self.parameters.robot_description or self.parameters.urdf:
            self._undescribed = self.robot.urdf
            self._describe()
        rehearse_arm(self._make_arm(self.parameters))
        self._arm = self._make_arm(self.parameters)
        self._state_writer = JointStateWriter(self._states, model.joint_names)
        self._torque_writer = JointStateWriter(self._torques, model.joint_names)
        self._force_writer = ForceWriter(model, self._forces)

    def activate(self) -> None:
        """Start the simulation from the present state of the arm."""
        self._origin = self.get_clock().now().nanoseconds - round(self._arm.time * 1e9)
        self._command: np.ndarray | None = None
        self._in_contact: bool | None = None
        self._is_due = False
        self._lockstep = Lockstep()
        self._ticked = time.monotonic()
        period = 1.0 / self.parameters.rate
        self._timer = self.create_timer(period, self._tick)

    def deactivate(self) -> None:
        """Pause the simulation; the arm keeps its position and velocity."""
        self.destroy_timer(self._timer)

    def _describe(self) -> None:
        """Publish the description if it is not published yet, or was refused by the middleware."""
        text = self._undescribed
        if text and self._description.try_publish(String(data=text)):
            self._undescribed = ""

    def check_parameters(self, new: SimulatedArmParameters) -> None:
        """Raise an error for a change that does not fit the arm.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
            InputError: for an impossible payload.
        """
        self.robot.with_parameters(new)
        self._make_arm(new)

    def parameters_changed(self) -> None:
        """Apply new parameters of payload, friction and effort from the next step on."""
        self.robot = self.robot.with_parameters(self.parameters)
        self._arm.set_model(self.robot.model)
        self._arm.set_friction(self._friction)

    def _make_arm(self, parameters: SimulatedArmParameters) -> SimulatedArm:
        parameters = self.robot.in_model_order(parameters)
        return SimulatedArm(self.robot.model, parameters, parameters.obstacles(), self._friction)

    @property
    def _friction(self) -> Friction | None:
        """The friction of the robot; None if no friction model is set."""
        friction = self.robot.friction
        return None if isinstance(friction, NoFriction) else friction

    def _tick(self) -> None:
        now = time.monotonic()
        self._skipped += max(round((now - self._ticked) * self.parameters.rate) - 1, 0)
        self._ticked = now
        if self.parameters.lockstep and not self._may_step(now):
            self._is_due = True
            return
        self._advance()

    def _may_step(self, now: float) -> bool:
        before = self._lockstep.unceasing
        may_step = self._lockstep.may_step(now, self.parameters.lockstep_timeout)
        if self._lockstep.unceasing > before:
            self.get_logger().warning(
                "commands did not cease within lockstep_timeout "
                f"({self.parameters.lockstep_timeout:g} s) while no joint state was published; "
                "the simulation continues; check which node publishes them",
                throttle_duration_sec=10.0,
            )
        return may_step

    def _advance(self) -> None:
        self._arm.step(self._command)
        self._is_due, self._command = False, None
        self._lockstep.published(time.monotonic())
        self._publish()

    def _publish(self) -> None:
        arm = self._arm
        nanoseconds = self._origin + round(arm.time * 1e9)
        stamp = Stamp(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)
        reading = arm.reading()
        if reading is not None:
            # With closed brakes the motors are off, so their torque is not the joint torque.
            effort = None if arm.braked else self._effort(reading)
            self._state_writer.publish(stamp, reading.q, reading.v, effort)
        self._torque_writer.publish(stamp, effort=arm.external_torque)
        if arm.in_contact:
            q = arm.q
            for contact in arm.contacts:
                self._force_writer.publish_force(q, contact.link, contact.force, stamp)
        is_in_contact = bool(arm.in_contact)
        # A change that the middleware refuses is published with the next sample.
        if is_in_contact != self._in_contact and self._contact.try_publish(
            Bool(data=is_in_contact)
        ):
            self._in_contact = is_in_contact

    def _effort(self, reading: JointSample) -> np.ndarray | None:
        """Return the effort that the driver publishes for a torque, see ``effort_kind``."""
        if reading.tau is None:
            return None
        return self.robot.parameters.effort(self.robot.model, reading.q, reading.tau)

    def _on_command(self, message: Float64MultiArray) -> None:
        if not self.is_active:
            return
        torque = np.array(message.data)
        if torque.shape != (self.robot.model.nv,) or not np.isfinite(torque).all():
            self._bad_commands += 1
            self.get_logger().error(
                f"command of {len(message.data)} values ignored; give {self.robot.model.nv} finite "
                "torques",
                throttle_duration_sec=5.0,
            )
            return
        self._command = np.empty_like(torque)
        self._command[self.robot.order] = torque
        now = time.monotonic()
        self._lockstep.commanded(now)
        if self._is_due and self._may_step(now):
            self._advance()

    def _on_push(self, message: WrenchStamped) -> None:
        if not self.is_active:
            return
        link, force, torque = message.header.frame_id, message.wrench.force, message.wrench.torque
        try:
            # To world axes once: the push keeps its direction while the link turns.
            rotation = frame_placement(self._arm.model, self._arm.q, link)[:3, :3]
            self._arm.push(
                link,
                rotation @ (force.x, force.y, force.z),
                rotation @ (torque.x, torque.y, torque.z),
                self.parameters.push_timeout,
            )
        except InputError as error:
            self.get_logger().error(f"push ignored: {error}", throttle_duration_sec=5.0)

    def _report(self, status: Status) -> None:
        status.add("skipped periods", self._skipped)
        status.add("bad commands", self._bad_commands)
        if not self.is_active:
            return
        now = self.get_clock().now().nanoseconds
        status.add("simulated time [s]", self._arm.time)
        status.add("behind the clock [s]", 1e-9 * (now - self._origin) - self._arm.time)
        status.add("unanswered joint states", self._lockstep.unanswered)
        status.add("in contact", self._arm.in_contact)
        status.add("steps that were too fast to simulate", self._arm.stops)
        if self._arm.braked:
            status.raise_to(WARN, "brakes closed: no commands")


def _groups(name: str, numbers: Sequence[float], size: int) -> list[Sequence[float]]:
    if len(numbers) % size:
        raise ParameterError(f"{name} has {len(numbers)} numbers; give {size} for each obstacle")
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(SimulatedArmNode, args)


if __name__ == "__main__":
    sys.exit(main())
