"""Input of joint states: one subscription, its samples, a watchdog, and statistics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan
from typing import Any, NamedTuple, cast

from rclpy.clock import ROSClock
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from rbd_control.joint_states import DROPS, JointSample, JointStateIntake
from rbd_control.joint_states.cdr import stamp_of
from rbd_control.joint_states.intake import advice
from rbd_control.joint_states.prefix import PrefixMatch, renamed
from rbd_control.node_parameters import ReceivingParameters
from rbd_control.robot.joint_choice import HeldJoints
from rbd_control.ros.diagnostics import ERROR, WARN, Durations, Status, report_unreceived
from rbd_control.ros.managed_node import ManagedNode
from rbd_control.ros.messages import Arrivals, Stamp, joint_state_reader, read_waiting, to_stamp
from rbd_control.startup.compilation import rehearse_intake
from rbd_control.wording import listed

PAUSE = 0.1
"""Time without a callback that counts as a pause of the node [s].

A joint state is late if it has waited for more than this time.
"""

RECOVERY = 0.5
"""Time after a pause in which the middleware may still deliver joint states of the pause [s].

The middleware paused as well, and takes messages from the sockets only afterwards, so that an empty
queue does not prove that the next message is new.
"""


class Lateness:
    """Recognizes joint states that waited while the node was paused or busy.

    A process is paused by SIGSTOP, by a debugger, or without processor time. Afterwards it finds
    joint states of that time in its queue, which do not show the present state. A node that needs
    more time for a joint state than passes between two of them falls behind, and its queue fills.

    The node takes joint states from its queue in *turns*, one or several in each turn. No joint
    state has waited in the queue for longer than the time since the queue was last empty. If that
    time is more than :data:`PAUSE`, and for :data:`RECOVERY` after a pause, the time that a joint
    state has waited is its age less the normal age. The age is the time since its stamp. The normal
    age is the age at which the newest joint state was taken in the last turn that emptied the
    queue, turns after a pause excepted. The clock of the sender may therefore differ from the clock
    of the node, and may run slower, as for a recording that is played slowly. A delay on the way
    does not count.

    Without a usable stamp, all joint states count as late for :data:`RECOVERY` after a pause; a
    node that is too busy is then not recognized.
    """

    def __init__(self) -> None:
        self._ran = inf
        self._paused_until = self._emptied = -inf
        self._normal = nan

    def beat(self, now: float) -> None:
        """Record that the node runs; call it in every callback, and at least every 0.05 s.

        More than :data:`PAUSE` since the last call counts as a pause of the node.

        Args:
            now: time on the steady clock [s].
        """
        if now - self._ran > PAUSE:
            self._paused_until = now + RECOVERY
        self._ran = now

    def begin_turn(self, now: float, *, is_full: bool) -> None:
        """Record the beginning of a turn: the node has just taken joint states from its queue.

        Args:
            now: time on the steady clock [s].
            is_full: whether the queue may hold further joint states. If it may, and the time
                :data:`RECOVERY` after a pause is not over, this time begins again.
        """
        self.beat(now)
        if is_full and now < self._paused_until:
            self._paused_until = now + RECOVERY

    def end_turn(self, begin: float, newest: float | None) -> None:
        """Record that a turn has emptied the queue; do not call it after any other turn.

        Args:
            begin: time at which the turn began, on the steady clock [s].
            newest: age of the newest joint state of this turn at ``begin`` [s]; None if it is
                unknown, or the turn had no usable joint state. It becomes the normal age, except
                for :data:`RECOVERY` after a pause.
        """
        self._emptied = begin
        if newest is not None and begin >= self._paused_until:
            self._normal = newest

    def is_late(self, age: float | None, now: float) -> bool:
        """Return whether a joint state has waited in the queue for more than :data:`PAUSE`.

        If its age or the normal age is unknown, it is late for :data:`RECOVERY` after a pause, and
        never otherwise. The call also counts as :meth:`beat`.

        Args:
            age: time since its stamp, by the clock of the node [s]; None if it has no usable stamp.
            now: time at which it is read, on the steady clock [s].
        """
        self.beat(now)  # the node may also be paused between two joint states of one turn
        is_paused = now < self._paused_until
        if age is None or isnan(self._normal):
            return is_paused
        if not is_paused and now - self._emptied <= PAUSE:
            return False
        return age - self._normal > PAUSE


SILENT = 3.0
"""Time for which joint states must be silent before the log says why [s]."""

SAID_EVERY = 10.0
"""Period at which this log line is repeated while no joint state is usable [s]."""

SAMPLES = "joint states"
"""Name under which :class:`CallbackErrors` counts failures while a joint state is processed."""

WATCH_PERIOD = 0.02
"""Period of the watchdog for missing joint states, and of ``on_silence`` [s]."""

LARGEST_JOINT_STATE = 65_536
"""Size above which a joint state is dropped before decoding [bytes]; 100 joints take 5,000."""

MOST_READ = 16
"""Maximum number of waiting joint states, the newest, that are read with ``newest_only``."""

MOST_IN_TURN = 32
"""Maximum number of waiting joint states that one callback processes, so that timers can run.

It does not apply with ``newest_only``.
"""


@dataclass
class OtherJoint:
    """A joint beside the arm's whose positions are read from the same topic, such as a gripper's.

    Attributes:
        on_position: called with its position in each joint state that has it, before the sample of
            that joint state, also while the node is not active. It must not raise an exception.
        name: its name in the joint states, or in the description if both differ by one prefix; an
            empty name is no joint.
    """

    on_position: Callable[[float], None]
    name: str = ""


Tap = Callable[[JointSample, Stamp], None]
"""A callback for a sample and its stamp."""


class _Received(NamedTuple):
    """A usable joint state."""

    sample: JointSample
    stamp: Stamp
    now: float
    """Time of receipt on the clock of the stamps [s]."""
    age: float | None
    """Age when it was taken from the queue, from its stamp [s].

    None if the stamp is unusable, or the node uses simulated time.
    """


class JointStateInput:
    """Calls ``on_sample(sample, stamp)`` for usable joint states while the node is active.

    Samples that waited in the queue while the node was paused or busy are marked ``is_late``.

    Args:
        node: the node; its parameters ``best_effort`` and ``queue_depth`` give the quality of
            service.
        joint_names: the joints in the order of the samples.
        timeout: returns the time without a sample after which joint states are silent [s]. It is
            measured by the steady clock, which continues when simulated time stops.
        on_sample: called with the sample and its stamp.
        on_silence: called every :data:`WATCH_PERIOD` while the node is active and joint states are
            silent.
        on_jump: called before the first sample after the clock has gone back, and when
            ``prefix`` changes the accepted joints; only while the node is active. With None,
            joint states that are older than the last sample are dropped.
        newest_only: process only the newest usable joint state in the queue and skip the others,
            because torque for them would be too late. Otherwise all are processed in order.
        prefix: accepts joints whose names differ from ``joint_names`` by one prefix, as ``replay``
            does, if no other joints match. With None only the exact names are accepted. Leave it
            None in a node that moves an arm: the joints may belong to another arm.

    Attributes:
        tap: with ``newest_only``, called with each usable sample among the newest
            :data:`MOST_READ` in the queue before the newest of them is processed, also while the
            node is not active. With None nothing is called. It must not raise an exception.
        afterwards: with ``newest_only``, functions that are called after the newest sample was
            processed, for work that must not delay the sample; also if its processing raised an
            exception, or no message was usable. They must not raise an exception.
        while_inactive: called with the processed sample while the node is not active. With None
            nothing is called.
        latest: the last processed sample, whether the node was active or not; None before the first
            sample.
        is_silent: whether more than ``timeout`` has passed since the last sample that was not late;
            true before the first sample.
        held: held joints whose motion makes the model wrong. All joint states on the topic are
            compared with them, also those without the joints of the arm; the samples while one of
            them is elsewhere have a ``model_error``. None if there are no such joints.
        other: a joint beside the arm's that any joint state on the topic may have; None for none.

    Raises:
        InputError: if ``joint_names`` is empty or names a joint twice.
    """

    def __init__(
        self,
        node: ManagedNode[ReceivingParameters],
        joint_names: Sequence[str],
        timeout: Callable[[], float],
        on_sample: Callable[[JointSample, Stamp], None],
        on_silence: Callable[[], None] = lambda: None,
        on_jump: Callable[[], None] | None = None,
        *,
        newest_only: bool = False,
        prefix: PrefixMatch | None = None,
    ) -> None:
        self._node, self._timeout = node, timeout
        self._on_sample, self._on_silence, self._on_jump = on_sample, on_silence, on_jump
        self._newest_only = newest_only
        rehearse_intake()
        self._names = tuple(joint_names)
        self._prefix = prefix
        self._others = frozenset[str]() if prefix is None else prefix.others
        self._intake = self._new_intake(self._names)
        self._jumps = 0
        # The time of receipt from the executor would be better, but the events executor of
        # rclpy 9.1 fails when it is requested.
        self._age = Durations()
        self._latency = Durations()
        self._clock = cast(ROSClock, node.get_clock())
        self._simulated = self._clock.ros_time_is_active
        self._heard = -math.inf
        self._lateness = Lateness()
        self._patience = time.monotonic() + SILENT
        self._publishers = 0
        self._counted: dict[str, int] = {}
        self.latest: JointSample | None = None
        parameters = node.parameters
        reliability = (
            ReliabilityPolicy.BEST_EFFORT if parameters.best_effort else ReliabilityPolicy.RELIABLE
        )
        self._lost = self._skipped = self._answered = self._late = 0
        self._reader = joint_state_reader()
        # With a queue depth of one, overwritten messages could not be counted, see Arrivals.
        depth = max(parameters.queue_depth, 2)
        self._qos = QoSProfile(depth=depth, reliability=reliability)
        self._subscription = node.create_subscription(
            JointState,
            "joint_states",
            self._receive,
            self._qos,
            raw=True,
            event_callbacks=SubscriptionEventCallbacks(
                message_lost=lambda status: node.errors.run("message_lost", self._on_lost, status)
            ),
        )
        self._arrivals = Arrivals(self._subscription)
        self.tap: Tap | None = None
        self.held: HeldJoints | None = None
        self.other: OtherJoint | None = None
        self.while_inactive: Callable[[JointSample], None] | None = None
        self._is_destroyed = False
        self.afterwards: Sequence[Callable[[], None]] = ()
        self._watchdog = node.create_timer(WATCH_PERIOD, self._watch)
        node.diagnostics.append(self._report)

    def _new_intake(self, names: tuple[str, ...]) -> JointStateIntake:
        return JointStateIntake(
            names,
            follow_jumps=self._on_jump is not None,
            velocity_filter=self._node.parameters.velocity_filter,
        )

    def destroy(self) -> None:
        """Destroy the subscription and the watchdog, and end the report in the diagnostics."""
        self._is_destroyed = True
        self._node.diagnostics.remove(self._report)
        self._node.destroy_timer(self._watchdog)
        self._node.destroy_subscription(self._subscription)

    @property
    def is_silent(self) -> bool:
        """Whether more than ``timeout`` has passed since the last sample that was not late.

        A late sample has waited while the process was paused or busy. The value is true before the
        first sample.
        """
        return time.monotonic() - self._heard > self._timeout()

    def poll(self) -> None:
        """Process the messages in the queue now, for example in a callback that takes long.

        Simulated time is read first. While the executor does not read it, new joint states seem to
        come from the future, so that they get the stamp of the old time, and are dropped.
        """
        if self._simulated:
            for subscription in self._node.subscriptions:
                if subscription.msg_type is Clock:
                    read_waiting(subscription)
        self._receive(None)

    def _receive(self, first: bytes | None) -> None:
        if self._is_destroyed:  # the executor had scheduled this callback before
            return
        begin = time.monotonic()
        if not self._newest_only:
            waiting = self._arrivals.take(first, MOST_IN_TURN)
            is_full = len(waiting) == MOST_IN_TURN
            self._lateness.begin_turn(begin, is_full=is_full)
            received = None
            for raw in waiting:
                # One by one: an exception in one sample must not lose the others.
                received = self._node.errors.run(SAMPLES, self._take, raw, begin)
            if not is_full:
                self._end_turn(received, begin)
            return
        waiting = self._arrivals.take(first)
        self._lateness.begin_turn(begin, is_full=False)
        usable = [found for raw in waiting[-MOST_READ:] if (found := self._read(raw, begin))]
        self._end_turn(usable[-1] if usable else None, begin)
        if self.tap is not None:
            for each in usable:
                self.tap(each.sample, each.stamp)
        if len(waiting) > 1:
            self._skipped += max(len(waiting) - MOST_READ, 0) + max(len(usable) - 1, 0)
        try:
            if usable:
                self._act(usable[-1], begin)
        finally:
            for callback in self.afterwards:
                callback()

    def _end_turn(self, newest: _Received | None, begin: float) -> None:
        """Record that a turn has emptied the queue, and the age of its newest sample, if any."""
        self._lateness.end_turn(begin, None if newest is None else newest.age)

    def _take(self, raw: bytes, begin: float) -> _Received | None:
        """Read and process a message that was taken at ``begin`` on the steady clock [s]."""
        received = self._read(raw, begin)
        if received is not None:
            self._act(received, begin)
        return received

    def _read(self, raw: bytes, begin: float) -> _Received | None:
        """Return the sample of a serialized message; count and drop an unusable message (None).

        Args:
            raw: the message.
            begin: time at which it was taken from the queue, on the steady clock [s].
        """
        # The clock of rclpy takes ten times as long for the same time.
        now = self._clock.now().nanoseconds * 1e-9 if self._simulated else time.time()
        try:
            if len(raw) > LARGEST_JOINT_STATE:
                raise ValueError(f"{len(raw)} bytes; at most {LARGEST_JOINT_STATE} are read")
            message = self._reader.read(raw, now)
        except Exception as error:
            self._node.errors.dropped(self._subscription.topic_name, error)
            return None
        if self.held is not None:
            self.held.look(message.name, message.position, begin)
        if self.other is not None and self.other.name:
            self._look_at(self.other, message.name, message.position)
        sample = self._intake.accept(*message)
        if sample is None:
            if self._prefix is not None and self._intake.last_reason == "missing joint":
                self._match(self._prefix, message.name)
            return None
        if self._prefix is not None and self._prefix.found is None:
            self._prefix = None  # names with another prefix belong to another arm
        # Exact to the nanosecond, unlike a float of seconds since 1970.
        replaced = message.stamp != sample.stamp
        exact = _stamp(sample.stamp) if replaced else Stamp(*stamp_of(raw))
        # Simulated time comes in messages, which a pause delays as well.
        age = None if replaced or self._simulated else now - sample.stamp
        steady = time.monotonic()
        if self._lateness.is_late(age, steady):
            self._late += 1
            sample = replace(sample, is_late=True)
        if self.held is not None and self.held.moved:
            sample = replace(sample, model_error=self.held.moved)
        return _Received(sample, exact, now, None if age is None else age - (steady - begin))

    def _look_at(self, other: OtherJoint, names: Sequence[str], positions: Any) -> None:
        name = other.name
        if name not in names and self._intake.joint_names != self._names:
            name = renamed(name, self._names, self._intake.joint_names)
        if name in names and len(positions) == len(names):
            other.on_position(float(positions[names.index(name)]))

    def _match(self, prefix: PrefixMatch, names: Sequence[str]) -> None:
        """Check whether joint states name the joints with another prefix.

        If the accepted names change, log this, restart the intake with these names, and call
        ``on_jump`` while the node is active.
        """
        if not prefix.look(names, time.monotonic()):
            return
        topic, logger = self._subscription.topic_name, self._node.get_logger()
        if prefix.found is not None:
            logger.warning(
                f"joint names differ by a prefix: {prefix.found[0]} on {topic} is used as "
                f"{self._names[0]} of the model, and the other joints likewise"
            )
        elif not prefix.is_ambiguous:
            logger.warning(f"joints with the names of the model appeared on {topic} and are used")
        else:
            logger.error(
                f"several sets of joints on {topic} match the model except for a prefix; none is "
                f"used; give a description whose joints are named as on {topic}"
            )
        names_now = self._names if prefix.found is None else prefix.found
        for what in self._intake.counts:
            self._counted.pop(what, None)
        self._jumps = 0
        self._intake = self._new_intake(names_now)
        if self._on_jump is not None and self._node.is_active:
            self._on_jump()  # they may be those of another arm

    def _act(self, received: _Received, begin: float) -> None:
        """Store a sample, and pass it to ``on_sample``, or to ``while_inactive``.

        If the clock went back before it, ``on_jump`` comes first. A late sample does not end a
        silence.

        Args:
            received: the sample.
            begin: time of its receipt on the steady clock [s].
        """
        self.latest = received.sample
        if not received.sample.is_late:
            self._heard = begin
        if self._node.is_active:
            if self._on_jump and self._intake.jumps != self._jumps:
                self._jumps = self._intake.jumps
                self._node.get_logger().warning("the clock has gone back; starting again")
                self._on_jump()
            self._answered += 1
            self._on_sample(received.sample, received.stamp)
            self._age.add(received.now - received.sample.stamp)
            self._latency.add(time.monotonic() - begin)
        elif self.while_inactive is not None:
            self.while_inactive(received.sample)

    def _on_lost(self, status: Any) -> None:
        self._lost = status.total_count

    @property
    def period(self) -> float:
        """Mean time between the accepted joint states [s]; NaN before the second."""
        return self._intake.period

    def _watch(self) -> None:
        if self._newest_only:
            self._lateness.beat(time.monotonic())
        else:
            self.poll()  # shows that the queue is empty, also at low rates
        self._simulated = self._clock.ros_time_is_active
        topic = self._subscription.topic_name
        if not self.is_silent or (not self._publishers and self._node.count_publishers(topic)):
            # A driver that has just started needs a moment until it sends.
            self._patience = time.monotonic() + SILENT
            self._publishers = 1
        elif time.monotonic() > self._patience:
            self._patience = time.monotonic() + SAID_EVERY
            self._publishers = self._node.count_publishers(topic)
            said = advice(
                topic, self._publishers, self._intake, self._others, self._elsewhere(topic)
            )
            self._node.get_logger().warning(said)
        if self._node.is_active and self.is_silent:
            self._on_silence()

    def _elsewhere(self, topic: str) -> list[str]:
        """Return the other topics named ``joint_states`` that have publishers.

        Nodes of this package publish other quantities as joint states under other names.
        """
        return [
            name
            for name, _ in self._node.get_topic_names_and_types()
            if name != topic
            and name.endswith("/joint_states")
            and self._node.count_publishers(name)
        ]

    def _report(self, status: Status) -> None:
        intake = self._intake
        if intake.joint_names != self._names:
            status.add("joints taken for the model's", listed(intake.joint_names))
        if not self._clock.now().nanoseconds:
            status.raise_to(ERROR, "use_sim_time is set, but no message arrives on /clock")
        level = WARN
        if self.is_silent:
            why = f", last dropped: {intake.last_reason}" if intake.last_reason else ""
            if intake.last_reason == "too large":
                why += f" ({intake.too_large})"
            level = ERROR if self._node.is_active else WARN
            silence = f"no usable joint states for {self._timeout():g} s{why}"
            status.raise_to(level, silence, is_logged=True)
        if self.held is not None and self.held.moved:
            status.raise_to(ERROR, self.held.moved, is_logged=True)
        self._report_publishers(status, level)
        status.add("rate [Hz]", intake.rate)
        status.add("gaps", intake.gaps)
        status.add("largest gap [s]", intake.largest_gap)
        status.add("clock jumps", intake.jumps)
        for what, count in intake.counts.items():
            status.add(what, count)
            new = count - self._counted.get(what, 0)
            # Missing velocity or effort matters to some nodes only, and these report it.
            # Messages without the joints of the arm are normal beside others, as of a gripper.
            is_normal = what == "missing joint" and not self.is_silent
            if new and what in (*DROPS, "stamp replaced") and not is_normal:
                status.raise_to(WARN, f"joint states: {what} ({new} in the last second)")
            self._counted[what] = count
        if intake.parts.joined:
            status.add("joined from parts", intake.parts.joined)
            status.add("age of the oldest part [s]", intake.parts.age)
        if intake.missing:
            status.add("last missing", intake.missing)
        self._report_missed(status)
        self._age.report(status, "stamp to receipt")
        self._latency.report(status, "receipt to publication")

    def _report_missed(self, status: Status) -> None:
        """Report the numbers of lost and skipped joint states, with the reasons."""
        status.add("answered", self._answered)
        # The count of the middleware, which does not include messages overwritten in a full queue.
        status.add("lost on the way", self._lost)
        overwritten = max(self._arrivals.missed - self._lost, 0)
        for key, count in (
            ("late", self._late),
            ("overwritten in the queue (estimated)", overwritten),
            ("skipped for a newer one", self._skipped),
        ):
            status.add(key, count)
            new = count - self._counted.get(key, 0)
            self._counted[key] = count
            if new > 0 and key != "skipped for a newer one":
                status.raise_to(WARN, f"joint states: {key} ({new} in the last second)")

    def _report_publishers(self, status: Status, level: bytes) -> None:
        """Report several publishers, and publishers of another type or incompatible QoS.

        Args:
            status: the status to fill in.
            level: level of the last two problems, which can cause silence; the first is a warning.
        """
        topic = self._subscription.topic_name
        publishers = self._node.get_publishers_info_by_topic(topic)
        types = {p.topic_type for p in publishers} - {"sensor_msgs/msg/JointState"}
        if types:
            status.raise_to(level, f"{topic} is published as {', '.join(sorted(types))}")
        # An arm and its gripper may share the topic, or the parts of an arm.
        lists = len(self._intake.lists)
        self._intake.lists.clear()
        if len(publishers) > max(lists, 1):
            status.raise_to(WARN, f"{topic} has {len(publishers)} publishers")
        report_unreceived(self._node, topic, self._qos, status, level)
        status.add("publishers", len(publishers))


def _stamp(seconds: float) -> Stamp:
    made = to_stamp(seconds)
    return Stamp(made.sec, made.nanosec)
