"""Outputs of the controller: torque, with exclusive access to the arm; tracking error, energies.

A controller sees another one by its publisher on the torque topic, which exists only while that
controller is active or about to be. The rules are those of listen before talk:

1. A controller looks for other publishers for ``discovery_time`` before it creates its own. Of two
   Fast DDS participants that start within some seconds of each other, one may wait up to 3 s for
   the periodic announcement of the other.
2. It looks again when its publisher exists, before the first torque. Controllers that see each
   other there give way, and try again after a random time.
3. An active controller looks every 0.1 s. Another publisher is a fault, so that of two controllers
   that send torque in spite of the first two rules both send safe torque within 0.1 s.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from rbd_control.control import Command, PassivityController
from rbd_control.control.energy import EnergyBalance
from rbd_control.control.torque_path import WEAKENED
from rbd_control.joint_states import JointSample
from rbd_control.node_parameters import NodeParameters
from rbd_control.ros.diagnostics import ERROR, WARN, Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode, FaultTolerantPublisher, Output
from rbd_control.ros.managed_node import ManagedNode, NotReadyError
from rbd_control.ros.messages import EVERY_SAMPLE, JointStateWriter, NumberWriter, Stamp, to_array

POLL = 0.01
"""Polling period of an activation that waits for discovery [s]."""

LONGEST_STEP = 0.1
"""Longest time that one look adds to the observed time [s]; look at least this often."""

LONGEST_GAP = 0.5
"""Time between two looks after which the observed time is reset to zero [s].

A process that was paused has received nothing meanwhile, and other nodes could not discover it. The
default ``discovery_time`` exceeds the 3 s of discovery by this time.
"""

BACK_OFF = 1.0
"""Longest random wait after another controller has created its publisher at the same time [s]."""


class ExclusiveAccess:
    """Finds other publishers of torque before the activation and while the node is active.

    Only observed time counts as ``discovery_time``. Each look adds the time since the previous one,
    at most :data:`LONGEST_STEP`, so that a process that gets little processor time waits longer.
    After more than :data:`LONGEST_GAP` the observed time is reset to zero: the first look after a
    pause may show the state of ROS discovery from before the pause.

    Args:
        node: the node.
        topic: name of the torque topic.
        discovery_time: returns the time to look for other controllers [s].
        is_sending: returns whether this node is one of the publishers of the topic.
        refuse_when_stopping: raises a :class:`NotReadyError` if a signal has asked the node to end.
        clock: steady clock [s].

    Attributes:
        topic: resolved name of the torque topic.
    """

    def __init__(
        self,
        node: FaultTolerantNode,
        topic: str,
        discovery_time: Callable[[], float],
        is_sending: Callable[[], bool],
        refuse_when_stopping: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._is_sending, self._clock = node, is_sending, clock
        self._discovery_time, self._refuse_when_stopping = discovery_time, refuse_when_stopping
        self.topic = node.resolve_topic_name(topic)
        self._observed, self._last = 0.0, clock()

    def others(self) -> int:
        """Return the number of publishers of torque without the node's own, and count the time.

        Call it at least every :data:`LONGEST_STEP`.
        """
        others = int(self._node.count_publishers(self.topic)) - self._is_sending()
        # Read after the look, so that a pause during the look counts as a gap.
        now = self._clock()
        gap, self._last = now - self._last, now
        self._observed = 0.0 if gap > LONGEST_GAP else self._observed + min(gap, LONGEST_STEP)
        return others

    def time_left(self) -> float:
        """Return the time for which the node must still look for other controllers [s]."""
        return max(self._discovery_time() - self._observed, 0.0)

    def conflict(self) -> str:
        """Return a message about other publishers of torque; an empty text if there are none."""
        others = self.others()
        if others <= 0:
            return ""
        who = "another publisher" if others == 1 else f"{others} other publishers"
        return f"{who} of torque on {self.topic}"

    def missing(self, *, is_starting: bool) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met.

        Args:
            is_starting: whether the node starts automatically, and must therefore have looked for
                ``discovery_time``. An activation by a service call waits in :meth:`wait` instead.
        """
        others = self.others()
        if others > 0:
            return f"other publishers of torque on {self.topic} ({others}) to end"
        left = self.time_left() if is_starting else 0.0
        return f"{left:.1f} s without another controller of {self.topic}" if left else ""

    def wait(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Block until the node has looked for other publishers for ``discovery_time``.

        With ``autostart`` it has; an activation by a service call may have to wait.

        Args:
            meanwhile: called every :data:`POLL` during the wait, and once after it.

        Raises:
            NotReadyError: if there is another publisher of torque, if a signal ends the node, or if
                the wait takes longer than three times ``discovery_time`` plus 1 s.
        """
        deadline = self._clock() + 3.0 * self._discovery_time() + 1.0
        while self.others() <= 0 and self.time_left() > 0.0:
            self._refuse_when_stopping()
            meanwhile()
            if self._clock() > deadline:
                raise NotReadyError(
                    f"waiting for {self.time_left():.1f} s without another controller of "
                    f"{self.topic} and without a pause of this process; activate again"
                )
            time.sleep(POLL)
        meanwhile()
        if self.others() > 0:
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")

    def require_alone(self) -> None:
        """Refuse the first torque if another controller has appeared since :meth:`wait`.

        Call it when the publisher of this node exists and ``is_sending`` still returns False.

        Raises:
            NotReadyError: if another publisher exists beside that of this node, or if the process
                was paused after :meth:`wait`.
        """
        if self.others() > 1:
            # Otherwise two controllers that collide would collide again.
            self._observed = self._discovery_time() - random.uniform(0.0, BACK_OFF)
            raise NotReadyError(f"waiting for other publishers of torque on {self.topic} to end")
        if self.time_left() > 0.0:
            raise NotReadyError(
                f"waiting for {self.time_left():.1f} s without another controller of "
                f"{self.topic}, because this process was paused"
            )


COMMANDS = Output(
    "effort_controller/commands",
    Float64MultiArray,
    EVERY_SAMPLE,
    "torque [N·m], in the order of `joints`: each joint state while the node is active",
)

ACKNOWLEDGE_TIME = 1.0
"""Longest time to publish the last zero torque, and again to wait for its acknowledgement [s]."""

READER_TIME = 0.5
"""Longest wait until the arm, which subscribes to the torque, discovers the new publisher [s]."""

_POLL = 0.005


class TorqueOutput:
    """Publishes torque while it is open. The last message, from :meth:`close`, is zero torque.

    A receiver may apply the last command for ever, as ros2_control's forward_command_controller
    does. Every end of the controller must therefore call :meth:`close`. After that, :meth:`send`
    does nothing. The lock allows another thread to send zero torque while the callback thread
    hangs, except while it hangs in ``publish``, which holds the lock; see
    :class:`CallbackWatchdog`.

    Args:
        node: the node.
        order: (n,) indices of the published joints in the model: the order of the parameter
            ``joints``.
        clock: returns the time of a steady clock [s].
    """

    def __init__(
        self,
        node: ManagedNode[NodeParameters],
        order: NDArray[np.intp],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._clock = node, clock
        self._count = len(order)
        self._zero = np.zeros(self._count)
        # None for the order of the model, which saves a copy of each torque.
        self._order = None if np.array_equal(order, np.arange(self._count)) else order
        self._publisher: FaultTolerantPublisher[Float64MultiArray] | None = None
        self._writer: NumberWriter | None = None
        self._published = clock()
        self._lock = Lock()

    @property
    def is_open(self) -> bool:
        """Whether the publisher exists; other controllers count it as a source of torque."""
        return self._publisher is not None

    def open(self, meanwhile: Callable[[], object]) -> None:
        """Create the publisher and wait until a subscribing arm has discovered it.

        The wait lasts at most :data:`READER_TIME`; without a subscriber there is no wait. Call it
        at activation, not earlier: a publisher of a waiting node would count as a second source of
        torque.

        Args:
            meanwhile: called repeatedly during the wait.
        """
        self._publisher = self._node.open(COMMANDS)
        self._writer = NumberWriter(self._publisher, self._count)
        # rclpy does not apply remappings to the name in this query.
        topic = self._node.resolve_topic_name(COMMANDS.topic)
        deadline = time.monotonic() + READER_TIME
        while (
            self._node.count_subscribers(topic)
            and not self._publisher.get_subscription_count()
            and time.monotonic() < deadline
        ):
            meanwhile()
            time.sleep(_POLL)
        self._published = self._clock()

    @property
    def age(self) -> float:
        """Time since a torque was last published or, if none was, since :meth:`open` [s]."""
        return self._clock() - self._published

    def send(self, torque: NDArray[np.float64], deadline: float = math.inf) -> bool:
        """Publish a torque if the output is open.

        Args:
            torque: (n,) in the order of the model [N·m or N]; it is published in ``order``.
            deadline: time of the clock after which zero torque is published in its place [s].

        Returns:
            Whether the torque was published; False if the middleware refused it, if zero torque was
            published in its place, or if the output is not open.
        """
        ordered = torque if self._order is None else torque[self._order]
        with self._lock:
            # The process may have been stopped since the torque was computed.
            is_late = self._clock() > deadline
            if is_late:
                ordered = self._zero
            if self._writer is None or not self._writer.publish(ordered):
                return False
            self._published = self._clock()
            return not is_late

    def send_zero(self) -> bool:
        """Publish zero torque; return whether it was published, see :meth:`send`."""
        return self.send(self._zero)

    def abandon(self) -> None:
        """Destroy the publisher without a last zero torque; call it only if no torque was sent."""
        with self._lock:
            publisher, self._publisher, self._writer = self._publisher, None, None
            if publisher is not None:
                self._node.destroy_publisher(publisher)

    def close(self) -> None:
        """Send zero torque, wait for its acknowledgement, and destroy the publisher.

        Zero torque that the middleware refuses is published again for up to
        :data:`ACKNOWLEDGE_TIME`. The wait for the acknowledgement lasts at most as long.
        Afterwards no thread can send torque. A second call does nothing. An exception of the
        middleware is passed on after the output has closed.
        """
        with self._lock:
            publisher, writer = self._publisher, self._writer
            self._writer = None
            if publisher is None or writer is None:
                return
            try:
                self._publish_zero(writer)
                if not publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGE_TIME)):
                    self._node.get_logger().warning(
                        f"not every subscriber of {COMMANDS.topic} acknowledged the zero torque "
                        f"within {ACKNOWLEDGE_TIME:g} s; check that the arm has stopped"
                    )
            finally:
                self._publisher = None
                self._node.destroy_publisher(publisher)

    def _publish_zero(self, writer: NumberWriter) -> None:
        """Publish zero torque; repeat it while refused, and log an error after the longest time."""
        deadline = self._clock() + ACKNOWLEDGE_TIME
        while not writer.publish(self._zero):
            if self._clock() > deadline:
                self._node.get_logger().error(
                    f"zero torque could not be published on {COMMANDS.topic} for "
                    f"{ACKNOWLEDGE_TIME:g} s: without a timeout of its own the arm keeps the last "
                    "torque; stop it by hand"
                )
                return
            time.sleep(_POLL)


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

    def __init__(self, node: FaultTolerantNode, on_fault: Callable[[], object]) -> None:
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
        self._balance = balance = controller.energy.balance(answered.effort)
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
            self._node.get_logger().info(f"mode {command.mode}{why}")

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
            status.raise_to(ERROR, f"safe torque: {command.reason}", is_logged=True)
        elif command.reason:
            status.raise_to(WARN, command.reason, is_logged=True)
        if controller.path.frozen:
            status.raise_to(WARN, controller.path.frozen)
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
    result, parameters = controller.loop.result, controller.parameters
    if controller.loop.is_running:
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
