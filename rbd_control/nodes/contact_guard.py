"""The node that stops an arm without torque interface when the contact detector reports contact."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import isnan

from diagnostic_msgs.msg import DiagnosticArray
from rclpy._rclpy_pybind11 import RCLError
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from rbd_control.contact_stop import ContactStop, StandstillMonitor, StopParameters
from rbd_control.contact_stop.retreat_along_path import LONGEST_PAUSE
from rbd_control.errors import ParameterError
from rbd_control.node_parameters import NodeParameters
from rbd_control.nodes.retreat_output import RetreatOutput
from rbd_control.nodes.stop_orders import ORDERS, StopOrders
from rbd_control.parameters import parameter
from rbd_control.ros.contact_messages import events_in, reports_collision
from rbd_control.ros.diagnostics import WARN, Status, report_unreceived
from rbd_control.ros.fault_tolerant_node import Output
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import EXPIRING, REPEAT_PERIOD, to_seconds
from rbd_control.ros.run import run
from rbd_control.ros.threads import CallbackWatchdog, ShortLock
from rbd_control.wording import listed

CONTACT = "contact_detector/contact"
EVENTS = "contact_detector/events"
STAMPED = "contact_detector/contact_stamped"

VERDICTS_KEPT = 100
"""Queue depth of the contact-flag subscription: 2 s at 50 Hz, so that no raised flag is lost."""

LARGEST_VERDICT = 4096
"""Size above which a message with the contact flag is dropped before deserialization [bytes]."""

LARGEST_EVENTS = 65_536
"""Size above which events or joint states are dropped before deserialization [bytes]."""

WATCH_PERIOD = 0.01
"""Period at which stops are supervised [s].

The node then checks whether the detector is silent, the servers have answered and the arm is at
rest, and sends again the requests that the middleware has refused to send.
"""

LATEST_WATCH = 0.03
"""Delay of the supervision, which waits behind other callbacks, above which a thread helps [s]."""

LATE_LOOKS = 5
"""Number of successive checks by this thread, 6 ms apart, that must find the supervision late.

After a pause of the process the callback thread has this time to process the waiting messages.
"""

LOOK_PERIOD = 0.5
"""Period of the check that servers and subscribers of all requests exist [s]."""


LATEST_RETREAT = 5.0
"""Time from a stop to its confirmation above which the arm does not retreat [s].

An operator may have begun to free or to move the arm meanwhile. Stops take up to 3 s.
"""


STOPPED = Output("~/stopped", Bool, EXPIRING, "whether a stop is latched: 50 Hz while active")


@dataclass(frozen=True)
class ContactGuardParameters(NodeParameters, StopParameters):
    """Parameters of the node: the requests of a stop, and its conditions.

    Raises:
        ParameterError: if no action, service, topic or MoveIt stop is selected, for an empty or
            repeated name, and for ``velocity_topics`` without ``joints``.
    """

    HEADING = "Requests"

    actions: tuple[str, ...] = parameter(
        ("joint_trajectory_controller/follow_joint_trajectory",),
        "actions whose goals are all cancelled at a stop, and while it is latched; ['']: none",
        live=False,
    )
    services: tuple[str, ...] = parameter(
        (), "services of type std_srvs/Trigger that are called at a stop", live=False
    )
    pause_services: tuple[str, ...] = parameter(
        (),
        "services of type std_srvs/SetBool that are called with true at a stop, and while it is "
        "latched, such as servo_node/pause_servo of MoveIt Servo",
        live=False,
    )
    velocity_topics: tuple[str, ...] = parameter(
        (),
        "topics of type std_msgs/Float64MultiArray on which zeros, one for each of joints, are "
        "published every 10 ms while a stop is latched",
        live=False,
    )
    twist_topics: tuple[str, ...] = parameter(
        (),
        "topics of type geometry_msgs/TwistStamped on which zero velocities are published every "
        "10 ms while a stop is latched",
        live=False,
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
        names = self.order_names
        if not (any(names.values()) or self.moveit_stop):
            raise ParameterError(
                f"nothing to stop: {listed(ORDERS)} are empty and moveit_stop is false"
            )
        if names["velocity_topics"] and not self.joints:
            raise ParameterError("velocity_topics needs joints: one zero is published for each")
        for name, texts in names.items():
            if not all(texts) or len(set(texts)) != len(texts):
                raise ParameterError(f"{name} contains an empty or repeated name: {listed(texts)}")

    @property
    def order_names(self) -> dict[str, tuple[str, ...]]:
        """Names of actions, services and topics of a stop, by parameter; ``('',)`` means none."""
        given = {name: getattr(self, name) for name in ORDERS}
        return {name: () if texts == ("",) else texts for name, texts in given.items()}


class ContactGuard(ManagedNode[ContactGuardParameters]):
    """Decides by a :class:`ContactStop` when to stop an arm, and sends the requests that stop it.

    A stop is latched until the service ``~/resume`` or the next activation. The topic ``~/stopped``
    repeats whether a stop is latched; it is silent while the node is not active. With
    ``retreat_distance`` the arm moves back along its path after a stop on contact.

    All callbacks run in one thread. While they are late, a watchdog thread sends the requests; both
    threads hold ``_lock`` while they decide or send.
    """

    parameters_type = ContactGuardParameters
    outputs = (STOPPED,)
    needs_model = False

    def __init__(self) -> None:
        super().__init__("contact_guard")
        self._stop = ContactStop(self.parameters)
        self._stopped = self.open(STOPPED)
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
        self.offer("resume", self._resume)
        self.create_timer(WATCH_PERIOD, self._watch)
        self.create_timer(REPEAT_PERIOD, self._repeat)
        self.create_timer(LOOK_PERIOD, self._look)
        self._levels: Subscription | None = None
        """Subscription to the level of the contact, while only collisions stop the arm."""
        self._orders: StopOrders | None = None
        self._retreat = RetreatOutput(self, self.parameters)
        self._motion = StandstillMonitor()
        self._next_round = 0.0
        self._lock = ShortLock()
        self._late_looks = 0
        self._watchdog = CallbackWatchdog(
            lambda: LATEST_WATCH, lambda: self.errors.run("watchdog", self._watch_late)
        )
        self.diagnostics.append(self._report)

    # Lifecycle -------------------------------------------------------------------------------

    def configure(self) -> None:
        """Create the clients for the requests of a stop, and the publisher of the retreat.

        Raises:
            ParameterError: for a name that is no valid name of an action, service or topic.
        """
        parameters = self._stop.parameters = self.parameters
        self._motion = StandstillMonitor(parameters.joints)
        moveit = parameters.moveit_topic if parameters.moveit_stop else ""
        self._orders = StopOrders(
            self, parameters.order_names, moveit, len(parameters.joints), self._lock
        )
        self._retreat.set_parameters(parameters)
        try:
            self._retreat.configure(parameters.retreat_topic)
            self._subscribe_to_level(parameters.stop_at == "collision")
        except BaseException:  # also if the middleware refuses a topic
            self.cleanup()
            raise

    def cleanup(self) -> None:
        """Destroy the clients, the retreat publisher and the stamped-verdict subscription."""
        self._subscribe_to_level(False)
        if self._orders is not None:
            self._orders.destroy()
            self._orders = None
        self._retreat.cleanup()

    def waiting_for(self) -> str:
        """Return the condition that the activation waits for, as text; empty if it is met.

        With ``require_detector`` it is a contact flag within the last ``silence_timeout``.
        """
        missing = self._stop.missing(time.monotonic()) if self.parameters.require_detector else ""
        return f"a verdict on {self._contact.topic_name}: {missing}" if missing else ""

    def activate(self) -> None:
        """Start to guard the arm; an earlier stop and the recorded path are discarded."""
        # A deactivation that failed may have left the requests of a stop in force.
        self._orders_made.end()
        self._motion.forget()
        self._retreat.reset()
        self._look()
        self._watchdog.start()
        self._stop.start(time.monotonic())
        names = [name for kind in self.parameters.order_names.values() for name in kind]
        names += ["MoveIt"] if self.parameters.moveit_stop else []
        self.get_logger().info(
            f"active: a contact on {self._contact.topic_name} stops {listed(names)}"
        )

    def deactivate(self) -> None:
        """Stop guarding the arm, and stop a retreat.

        Cancelled goals stay cancelled; new goals are no longer cancelled. An exception in one step
        does not prevent the other steps.
        """
        with ExitStack() as steps:  # calls them in reverse order
            steps.callback(self._retreat.end, self._motion)
            steps.callback(self._orders_made.end)
            steps.callback(self._stop.end)
            steps.callback(self._watchdog.stop)

    def parameters_changed(self) -> None:
        """Apply the new parameters."""
        self._stop.parameters = self.parameters
        self._retreat.set_parameters(self.parameters)
        if self._orders is None:
            return
        try:
            self._subscribe_to_level(self.parameters.stop_at == "collision")
        except RCLError as error:
            # Events still show a collision at the onset or the release.
            self.get_logger().error(
                f"a contact that becomes a collision stops the arm late: {error}"
            )

    def on_failure(self, name: str, reason: str) -> None:  # noqa: ARG002 - the hook has both
        """Stop the arm, because the state of the node is unknown after a software defect.

        A retreat is stopped as well. The method has no effect while the node is not active.
        """
        if not self.is_active:
            return
        with self._lock.held():
            now = time.monotonic()
            if self._stop.fail(reason, now):
                self._begin_stop()
            self._retreat.hold(reason, now, self._motion)

    @property
    def _orders_made(self) -> StopOrders:
        """Return the stop requests of the configured node."""
        assert self._orders is not None
        return self._orders

    # Subscriptions and services ----------------------------------------------------------------

    def _on_contact(self, message: Bool) -> None:
        # Verdicts count before the activation as well, because require_detector needs one.
        with self._lock.held():
            if self._stop.update_verdict(bool(message.data), time.monotonic()) and self.is_active:
                self._begin_stop()

    def _on_events(self, message: DiagnosticArray) -> None:
        if not self.is_active:
            return
        events = events_in(message)[0]
        with self._lock.held():
            now = time.monotonic()
            for event in events:
                # A contact may become a collision after its onset; its release says so at the
                # latest.
                if event.level == "collision" and self._stop.update_collision(now):
                    self._begin_stop()
                if event.phase == "onset":
                    clock = self.get_clock().now().nanoseconds * 1e-9
                    self._stop.update_onset(clock - event.onset, now)

    def _subscribe_to_level(self, is_needed: bool) -> None:
        """Subscribe to the stamped verdict, or end the subscription.

        It shows when a contact becomes a collision, for which there is no event. With a subscriber
        the detector does more work for each sample.
        """
        if is_needed and self._levels is None:
            qos = QoSProfile(depth=10)
            self._levels = self.create_subscription(
                DiagnosticArray, STAMPED, self._on_level, qos, largest=LARGEST_EVENTS
            )
        elif not is_needed and self._levels is not None:
            self.destroy_subscription(self._levels)
            self._levels = None

    def _on_level(self, message: DiagnosticArray) -> None:
        if not (self.is_active and reports_collision(message)):
            return
        with self._lock.held():
            if self._stop.update_collision(time.monotonic()):
                self._begin_stop()

    def _on_joint_state(self, message: JointState) -> None:
        if not self.is_active:
            return
        now, parameters = time.monotonic(), self.parameters
        self._motion.beat(now)
        is_whole = self._motion.add_joint_state(
            to_seconds(message.header.stamp),
            message.name,
            message.position,
            message.velocity,
            now,
            parameters.standstill_speed,
        )
        if is_whole:
            self._retreat.add(self._motion, self._stop.is_latched)

    def _resume(self) -> str:
        with self._lock.held():
            if self._stop.is_latched:
                self._retreat.refuse_resume()
                self._stop.resume(time.monotonic())
                self._orders_made.end()
                self._retreat.reset()
                self._repeat()
        return self._stop.state

    # Stop and retreat --------------------------------------------------------------------------

    def _begin_stop(self) -> None:
        """Send all requests, before any work that takes time."""
        orders = self._orders_made
        orders.begin()
        self._next_round = time.monotonic() + self.parameters.repeat_period
        unsent = orders.unsent
        if not unsent:
            self._stop.sent(time.monotonic())
        self._repeat()
        if unsent:
            self.get_logger().error(
                f"stop: {self._stop.reason}; the middleware refuses to send the requests to "
                f"{listed(unsent)}; they are repeated every {1e3 * WATCH_PERIOD:g} ms"
            )
        else:
            self._log_sent()

    def _watch(self) -> None:
        """Begin a stop on silence or a long contact, and supervise a latched stop.

        The requests of a latched stop are repeated until the service ``~/resume``. When the stop is
        confirmed, this is logged and, after a contact, the retreat begins.
        """
        self._watchdog.beat()
        self._late_looks = 0
        if not self.is_active:
            return
        self._motion.beat(time.monotonic())
        with self._lock.held():
            now = time.monotonic()
            if self._stop.check(now):
                self._begin_stop()
            if self._stop.is_latched:
                self._send_again(now)
                self._supervise(now)

    def _watch_late(self) -> None:
        """Stop the arm in the watchdog thread while :meth:`_watch` waits behind other callbacks.

        If it waits for more than ``silence_timeout``, flags may wait as well: the arm is stopped
        even without ``stop_on_silence``. A retreat is held after :data:`LONGEST_PAUSE`. The
        requests of a latched stop are repeated. Only the callback thread confirms a stop and judges
        pauses, because answers, joint states and flags wait for it.
        """
        self._late_looks += 1
        if self._late_looks < LATE_LOOKS:
            return
        with self._lock.held():
            late = self._watchdog.age
            if not self.is_active or late <= LATEST_WATCH:
                return
            now = time.monotonic()
            reason = f"the guard is overloaded or blocked: its checks are {late:.2g} s late"
            is_too_late = late > self.parameters.silence_timeout
            if self._stop.fail(reason, now) if is_too_late else self._stop.check(now):
                self._begin_stop()
            if not self._stop.is_latched:
                return
            self._send_again(now)
            obstacle = reason if late > LONGEST_PAUSE else self._stop.missing(now)
            if obstacle:
                self._retreat.hold(obstacle, now, self._motion)

    def _send_again(self, now: float) -> None:
        """Send zero velocities and refused requests again; repeat all every repeat_period."""
        self._send_refused()
        if now >= self._next_round:
            self._next_round = now + self.parameters.repeat_period
            self._orders_made.repeat()

    def _supervise(self, now: float) -> None:
        """Supervise the retreat, and confirm the latched stop."""
        silence, is_touched = self._stop.missing(now), self._stop.is_touched(now)
        self._retreat.supervise(now, self._motion, silence, is_touched)
        is_settled, still_since = self._orders_made.are_settled, self._motion.still_since(now)
        if self._stop.confirm(is_settled, still_since, now):
            unknown = "; standstill is unknown" if still_since is None else ""
            assert self._stop.times is not None
            took = self._stop.times.durations().items()
            summary = ", ".join(f"{what} {value:.3f} s" for what, value in took)
            self.get_logger().info(f"stopped: {summary}{unknown}")
            if self._stop.is_by_contact:
                late = now - self._stop.times.begin > LATEST_RETREAT
                why = f"the stop took more than {LATEST_RETREAT:g} s" if late else silence
                self._retreat.begin(now, self._motion, why)

    def _send_refused(self) -> None:
        """Send the requests again that the middleware refused; log when all of them are sent."""
        orders = self._orders_made
        orders.send_refused()
        times = self._stop.times
        if times is not None and isnan(times.sent) and not orders.unsent:
            self._stop.sent(time.monotonic())
            self._log_sent()

    def _log_sent(self) -> None:
        times = self._stop.times
        assert times is not None
        self.get_logger().warning(
            f"stop: {self._stop.reason}; requests sent after "
            f"{1e3 * (times.sent - times.begin):.1f} ms; call ~/resume when the arm is free"
        )

    def _repeat(self) -> None:
        """Publish whether a stop is latched; without this message no guard is active."""
        if self.is_active:
            self._stopped.publish(Bool(data=bool(self._stop.is_latched)))

    # Diagnostics -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Check for the servers, also before the activation."""
        if self._orders is not None:
            self._orders.look()

    def _report(self, status: Status) -> None:
        if self._orders is None:
            return
        now, stop = time.monotonic(), self._stop
        with self._lock.held():
            self._orders.report(status, stop.is_latched and self.is_active)
        status.add("guard", stop.state)
        status.add("retreat", self._retreat.phase)
        status.add("stops", stop.stops)
        if stop.times is not None:
            for what, value in stop.times.durations().items():
                status.add(f"{what} [s]", value)
        status.add("joint states ignored", self._motion.ignored)
        if not self.is_active:
            return
        if stop.is_latched:
            is_retreating = self._retreat.phase == "retreating"
            progress = "retreating" if is_retreating else stop.state
            status.raise_to(WARN, f"{progress}: {stop.reason}; call ~/resume", is_logged=True)
        self._report_detector(stop.missing(now), status)
        self._report_motion(now, status)

    def _report_detector(self, missing: str, status: Status) -> None:
        """Report the number of detectors, a missing detector and its possible causes."""
        topic = self._contact.topic_name
        count = self.count_publishers(topic)
        status.add("detectors", count)
        if count > 1:
            status.raise_to(WARN, f"{topic} has {count} publishers")
        if missing:
            advice = f"no stop on contact; start a detector that publishes {topic}"
            status.raise_to(WARN, f"{missing}: {advice}")
            report_unreceived(self, topic, self._contact_qos, status)

    def _report_motion(self, now: float, status: Status) -> None:
        """Warn of a joint that moves while a stop is in progress, and of an unknown standstill.

        Only the fastest joint is named. Joints without joint states within the last 0.5 s are a
        warning as well (:data:`~rbd_control.contact_stop.standstill_monitor.JOINT_STATE_TIMEOUT`).
        """
        motion, parameters = self._motion, self.parameters
        missing = motion.missing(now)
        joint, speed = motion.fastest()
        if self._stop.state == "stopping" and speed > parameters.standstill_speed:
            fastest = f"{joint}: {speed:.3g} rad/s or m/s"
            if joint in missing:
                fastest += f" in its last joint state, {motion.age(joint, now):.1f} s ago"
            status.raise_to(WARN, f"the arm still moves after the stop ({fastest})")
        is_unknown = motion.still_since(now) is None
        if missing or is_unknown:
            which = f" of {listed(missing)}" if missing else ""
            result = ": standstill is unknown" if is_unknown else ""
            advice = "" if parameters.joints or not missing else "; name the arm's joints in joints"
            status.raise_to(WARN, f"no joint states{which}{result}{advice}")


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until a signal or the node itself ends it; return its exit code.

    Args:
        args: arguments of ROS; by default the arguments of the process.
    """
    return run(ContactGuard, args)


if __name__ == "__main__":
    sys.exit(main())
