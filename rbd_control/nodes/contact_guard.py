"""The node that stops an arm without torque interface when the contact detector reports contact."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.duration import Duration
from rclpy.qos import QoSCompatibility, QoSProfile, ReliabilityPolicy, qos_check_compatible
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from rbd_control.contact_stop import (
    ArmMotion,
    ContactStop,
    Retreat,
    RetreatPoint,
    StopParameters,
)
from rbd_control.errors import ParameterError, RbdControlError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.contact_messages import events_in
from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.managed_node import ManagedNode
from rbd_control.nodes.messages import to_seconds
from rbd_control.nodes.publications import GuardedPublisher
from rbd_control.nodes.repeated_topic import REPEAT_PERIOD, verdict_qos
from rbd_control.nodes.run import run
from rbd_control.nodes.stop_orders import StopOrders
from rbd_control.parameters import parameter
from rbd_control.wording import listed

CONTACT = "contact_detector/contact"
EVENTS = "contact_detector/events"

VERDICTS_KEPT = 100
"""Queue depth of the verdict subscription, 2 s of verdicts, so that no raised flag is lost."""

LARGEST_VERDICT = 4096
"""Size above which a verdict is dropped before deserialization [bytes]."""

LARGEST_EVENTS = 65_536
"""Size above which events or joint states are dropped before deserialization [bytes]."""

WATCH_PERIOD = 0.01
"""Period of the checks for silence, answers and standstill [s]."""

LOOK_PERIOD = 0.5
"""Period of the checks for required servers [s]."""

HOLD_TIME = 0.1
"""Time in which a retreat stops after a new contact [s]."""

DISCOVERY_TIME = 3.5
"""Time after a start for which a missing server is not logged [s]; Fast DDS needs up to 3 s."""


@dataclass(frozen=True)
class ContactGuardParameters(NodeParameters, StopParameters):
    """Parameters of the node: the requests of a stop, and its conditions.

    Raises:
        ParameterError: if no action, service or MoveIt stop is selected.
    """

    actions: tuple[str, ...] = parameter(
        ("joint_trajectory_controller/follow_joint_trajectory",),
        "actions whose goals are all cancelled at a stop, and while it is latched",
        live=False,
    )
    services: tuple[str, ...] = parameter(
        (), "services of type std_srvs/Trigger that are called at a stop", live=False
    )
    moveit_stop: bool = parameter(
        True, "publish MoveIt's event 'stop' on moveit_topic at a stop", live=False
    )
    moveit_topic: str = parameter(
        "trajectory_execution_event", "topic of MoveIt's execution events", live=False
    )
    repeat_period: float = parameter(
        0.2,
        "period at which the requests of a latched stop are repeated; a request counts as "
        "unanswered after this time",
        unit="s",
        lower=0.02,
        upper=10.0,
    )
    require_detector: bool = parameter(
        False, "activate the node only when a contact detector publishes verdicts", live=False
    )
    retreat_topic: str = parameter(
        "joint_trajectory_controller/joint_trajectory",
        "topic of the arm's trajectories, for the retreat",
        live=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.actions or self.services or self.moveit_stop):
            raise ParameterError(
                "nothing to stop: actions and services are empty and moveit_stop is false"
            )
        for name, texts in (("actions", self.actions), ("services", self.services)):
            if not all(texts) or len(set(texts)) != len(texts):
                raise ParameterError(f"{name} contains an empty or repeated name: {listed(texts)}")


class ContactGuard(ManagedNode[ContactGuardParameters]):
    """Runs a :class:`ContactStop` and sends its requests."""

    parameters_type = ContactGuardParameters
    needs_model = False

    def __init__(self) -> None:
        super().__init__("contact_guard")
        self._stop = ContactStop(self.parameters)
        self._stopped = self.create_publisher(
            Bool, "~/stopped", verdict_qos(get_rmw_implementation_identifier())
        )
        # Volatile: a flag from before the subscription is out of date.
        self._contact_qos = QoSProfile(depth=VERDICTS_KEPT)
        self._contact = self.create_subscription(
            Bool, CONTACT, self._on_contact, self._contact_qos, largest=LARGEST_VERDICT
        )
        self.create_subscription(
            DiagnosticArray, EVENTS, self._on_events, QoSProfile(depth=50), largest=LARGEST_EVENTS
        )
        self.create_subscription(
            JointState,
            "joint_states",
            self._on_joint_state,
            QoSProfile(depth=2, reliability=ReliabilityPolicy.BEST_EFFORT),
            largest=LARGEST_EVENTS,
        )
        self.create_service(Trigger, "~/resume", self._on_resume)
        self.create_timer(WATCH_PERIOD, self._watch, clock=self.steady)
        self.create_timer(REPEAT_PERIOD, self._repeat, clock=self.steady)
        self.create_timer(LOOK_PERIOD, self._look, clock=self.steady)
        self._orders: StopOrders | None = None
        self._retreat = Retreat(self.parameters)
        self._trajectories: GuardedPublisher[JointTrajectory] | None = None
        self._unsent: JointTrajectory | None = None
        """The part of a retreat that the middleware has refused to publish."""
        self._motion = ArmMotion()
        self._next_round = 0.0
        self.diagnostics.append(self._report)

    # Lifecycle -------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the clients for the requests of a stop."""
        parameters = self._stop.parameters = self._retreat.parameters = self.parameters
        self._motion = ArmMotion(parameters.joints)
        moveit = parameters.moveit_topic if parameters.moveit_stop else ""
        self._orders = StopOrders(self, parameters.actions, parameters.services, moveit)
        if parameters.retreat_distance:
            self._trajectories = self.create_publisher(
                JointTrajectory, parameters.retreat_topic, QoSProfile(depth=1)
            )

    def cleanup(self) -> None:
        """Destroy the clients."""
        if self._orders is not None:
            self._orders.destroy()
            self._orders = None
        if self._trajectories is not None:
            self.destroy_publisher(self._trajectories)
            self._trajectories = None

    def waiting_for(self) -> str:
        """Return the reason if a required detector is missing; else an empty text."""
        missing = self._stop.missing(time.monotonic()) if self.parameters.require_detector else ""
        return f"a verdict on {self._contact.topic_name}: {missing}" if missing else ""

    def activate(self) -> None:
        """Start to guard the arm."""
        self._motion.forget()
        self._retreat.reset()
        self._stop.start(time.monotonic())
        self._look()

    def deactivate(self) -> None:
        """Stop to guard the arm; cancelled goals stay cancelled."""
        self._stop.end()
        self._unsent = None
        self._orders_made.end()

    def parameters_changed(self) -> None:
        """Apply the new parameters."""
        self._stop.parameters = self._retreat.parameters = self.parameters

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has both
        """Stop the arm, because the state of the node is unknown after a software defect."""
        if self.is_active and self._stop.fail(reason, time.monotonic()):
            self._begin_stop()

    @property
    def _orders_made(self) -> StopOrders:
        """Return the stop requests of the configured node."""
        assert self._orders is not None
        return self._orders

    # Subscriptions and services ----------------------------------------------------------------

    def _on_contact(self, message: Bool) -> None:
        # Verdicts count before the activation as well, because require_detector needs one.
        if self._stop.hear(bool(message.data), time.monotonic()) and self.is_active:
            self._begin_stop()

    def _on_events(self, message: DiagnosticArray) -> None:
        if not self.is_active:
            return
        now = time.monotonic()
        for event in events_in(message)[0]:
            if event.phase == "onset":
                if event.level == "collision" and self._stop.hear_collision(now):
                    self._begin_stop()
                clock = self.get_clock().now().nanoseconds * 1e-9
                self._stop.hear_onset(clock - event.onset, now)

    def _on_joint_state(self, message: JointState) -> None:
        if not self.is_active:
            return
        now, parameters = time.monotonic(), self.parameters
        is_whole = self._motion.hear(
            to_seconds(message.header.stamp),
            message.name,
            message.position,
            message.velocity,
            now,
            parameters.standstill_speed,
        )
        if is_whole and self._trajectories is not None:
            self._retreat.take(now, self._motion.positions(), self._stop.is_latched)

    def _on_resume(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            if not self.is_active:
                raise ParameterError("the guard is not active")
            if self._stop.is_latched:
                self._stop.resume(time.monotonic())
                self._unsent = None
                self._orders_made.end()
                self._retreat.reset()
                self._repeat()
            response.success, response.message = True, self._stop.state
        except RbdControlError as error:
            response.message = str(error)
        self.get_logger().info(f"resume: {response.message}")
        return response

    # Stop and retreat --------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        """Send all requests, before any work that takes time."""
        self._orders_made.begin()
        now = time.monotonic()
        self._stop.sent(now)
        self._next_round = now + self.parameters.repeat_period
        self._repeat()
        self.get_logger().warning(
            f"stop: {self._stop.reason}; requests sent after {1e3 * self._time_to_send():.1f} ms; "
            "call ~/resume when the arm is free"
        )

    def _watch(self) -> None:
        """Check for silence, and carry on with a stop until the arm is at rest."""
        if not self.is_active:
            return
        now = time.monotonic()
        if self._stop.check(now):
            self._begin_stop()
        if not self._stop.is_latched:
            return
        self._publish_retreat()
        if now >= self._next_round:
            self._next_round = now + self.parameters.repeat_period
            self._orders_made.repeat()
        is_settled = self._orders_made.are_settled
        if self._stop.confirm(is_settled, self._motion.still_since(now), now):
            self.get_logger().info(f"stopped: {self._summary()}")
            self._begin_retreat(now)
        if self._retreat.is_hindered(now, self._stop.is_touched(now)):
            # The target is the present position, so that the arm stops there.
            self._send_trajectory([RetreatPoint(HOLD_TIME, self._motion.positions())])
            self.get_logger().warning("contact during the retreat; the arm stays where it is")

    def _begin_retreat(self, now: float) -> None:
        known = self._motion.still_since(now) is not None
        if self._trajectories is None or not (known and self._stop.is_by_contact):
            return
        motion = self._retreat.begin(now, self._motion.positions())
        if motion:
            self._send_trajectory(motion)
            self.get_logger().info(f"retreat along the travelled path in {motion[-1].time:.2f} s")

    def _send_trajectory(self, motion: Sequence[RetreatPoint]) -> None:
        if self._trajectories is None:
            return
        message = JointTrajectory(joint_names=list(self.parameters.joints))
        for point in motion:
            message.points.append(
                JointTrajectoryPoint(
                    positions=point.position,
                    time_from_start=Duration(seconds=point.time).to_msg(),
                )
            )
        self._unsent = message
        self._publish_retreat()

    def _publish_retreat(self) -> None:
        """Publish a trajectory that is due; repeat it later if the middleware refuses it."""
        if self._trajectories is None or self._unsent is None:
            return
        if self._trajectories.try_publish(self._unsent):
            self._unsent = None

    def _repeat(self) -> None:
        """Publish whether the arm is stopped; without this message no guard is active."""
        if self.is_active:
            self._stopped.publish(Bool(data=bool(self._stop.is_latched)))

    # Diagnostics -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Check for the servers, also before the activation."""
        if self._orders is not None:
            self._orders.look(DISCOVERY_TIME)

    def _time_to_send(self) -> float:
        times = self._stop.times
        return times.sent - times.begin if times is not None else nan

    def _summary(self) -> str:
        """Return the durations of the last stop as text."""
        return ", ".join(f"{what} {value:.3f} s" for what, value in self._durations().items())

    def _durations(self) -> dict[str, float]:
        """Return the known durations of the last stop by name [s]."""
        times = self._stop.times
        if times is None:
            return {}
        found = {
            "flag to requests sent": times.sent - times.begin,
            "flag to answers": times.answered - times.begin,
            "flag to standstill": times.standstill - times.begin,
            "onset to requests sent": times.sent - times.onset,
            "onset to standstill": times.standstill - times.onset,
        }
        return {what: value for what, value in found.items() if isfinite(value)}

    def _report(self, status: Status) -> None:
        if self._orders is None:
            return
        now, stop = time.monotonic(), self._stop
        self._orders.report(status, stop.is_latched)
        status.add("guard", stop.state)
        status.add("stops", stop.stops)
        for what, value in self._durations().items():
            status.add(f"{what} [s]", value)
        status.add("joint states ignored", self._motion.ignored)
        if not self.is_active:
            return
        if stop.is_latched:
            status.raise_to(WARN, f"{stop.state}: {stop.reason}; call ~/resume")
            joint, speed = self._motion.fastest()
            if stop.state == "stopping" and speed > self.parameters.standstill_speed:
                status.raise_to(WARN, f"{joint} moves at {speed:.3g} rad/s or m/s")
        self._report_detector(status, stop.missing(now))
        missing = self._motion.missing(now)
        if missing or self._motion.still_since(now) is None:
            which = f" of {listed(missing)}" if missing else ""
            status.raise_to(WARN, f"no joint states{which}: standstill is unknown")

    def _report_detector(self, status: Status, missing: str) -> None:
        """Report a missing detector and its possible causes."""
        topic = self._contact.topic_name
        publishers = self.get_publishers_info_by_topic(topic)
        status.add("detectors", len(publishers))
        if len(publishers) > 1:
            status.raise_to(WARN, f"{topic} has {len(publishers)} publishers")
        if not missing:
            return
        status.raise_to(WARN, f"{missing}: no stop on contact; start a detector of {topic}")
        for publisher in publishers:
            fits, reason = qos_check_compatible(publisher.qos_profile, self._contact_qos)
            if fits == QoSCompatibility.ERROR:
                why = f"cannot be received: {reason}"
                status.raise_to(WARN, f"{topic} of {publisher.node_name} {why}")


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; return its exit code."""
    return run(ContactGuard, args)


if __name__ == "__main__":
    sys.exit(main())
