"""``rbd-control view`` without a recording: shows live arms in the browser."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.context import Context
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rich.console import Console
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError, RecordingError
from rbd_control.estimation import ContactEvent
from rbd_control.live.monitor import (
    LARGEST,
    MOST_JOINTS,
    DetectorListener,
    Topic,
    detector_topics,
)
from rbd_control.nodes.detector_input import link_of_frame
from rbd_control.playback.live_view import SILENCE, LiveState
from rbd_control.playback.recorded_joints import match_joints
from rbd_control.results import LONGEST
from rbd_control.robot.shapes import MeshFiles
from rbd_control.ros.messages import LATCHED, to_seconds
from rbd_control.ros.transports import running_ros
from rbd_control.startup.prompt_end import stop_requests
from rbd_control.view.page import Page, Place, announce
from rbd_control.view.scene import Scene, scene_of
from rbd_control.view.state import ArmState, ResidualHistory, Touch, Verdict, probabilities
from rbd_control.wording import listed, shortened

REPORT_AGE = 3.0
"""Age above which diagnostics are ignored [s]; they are published once a second."""

LATE = 0.5
"""Age above which a tracking error is ignored [s]; it is published with each joint state."""

_MOST_VALUES = 1000


class ControllerListener:
    """Stores mode, energies and tracking error of a controller from its messages.

    A value that is unknown or out of date is an empty text or NaN.

    Args:
        controller: full name of the controller's node, which begins with a slash.
    """

    def __init__(self, controller: str) -> None:
        self._controller = controller
        self._reported = self._tracked = -math.inf
        self._values: dict[str, str] = {}
        self._error = math.nan

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Topics to subscribe to, with the methods that take their messages."""
        return (
            Topic(JointState, f"{self._controller}/tracking_error", self.on_tracking_error),
            Topic(DiagnosticArray, "/diagnostics", self.on_diagnostics, only_newest=False),
        )

    @property
    def has_heard(self) -> bool:
        """Whether a message of the controller was ever received."""
        return math.isfinite(self._reported) or math.isfinite(self._tracked)

    @property
    def mode(self) -> str:
        """Mode: hold, follow, float or safe; empty if unknown or older than :data:`REPORT_AGE`."""
        return shortened(self._fresh().get("mode", ""), LONGEST)

    @property
    def storage(self) -> float:
        """Energy stored in tracking errors [J]; NaN if unknown or older than :data:`REPORT_AGE`."""
        return self._number("storage [J]")

    @property
    def tank(self) -> float:
        """Level of the energy tank [J]; NaN without a tank, or if older than :data:`REPORT_AGE`."""
        return self._number("tank [J]")

    @property
    def tracking_error(self) -> float:
        """Largest absolute position error [rad or m]; NaN if older than :data:`LATE`."""
        return self._error if time.monotonic() - self._tracked < LATE else math.nan

    def on_tracking_error(self, message: JointState) -> None:
        """Store the largest absolute position error; ignore an empty or non-finite message."""
        errors = [abs(float(x)) for x in message.position]
        if errors and all(map(math.isfinite, errors)):
            self._error, self._tracked = max(errors), time.monotonic()

    def on_diagnostics(self, message: DiagnosticArray) -> None:
        """Store mode and energies of the controller; ignore the statuses of other nodes."""
        for status in message.status:
            if f"/{status.name.lstrip('/')}" == self._controller:
                self._take(status)

    def _take(self, status: DiagnosticStatus) -> None:
        self._values = {item.key: item.value for item in status.values[:_MOST_VALUES]}
        self._reported = time.monotonic()

    def _fresh(self) -> dict[str, str]:
        return self._values if time.monotonic() - self._reported < REPORT_AGE else {}

    def _number(self, key: str) -> float:
        try:
            return float(self._fresh().get(key, "nan"))
        except ValueError:
            return math.nan


NEWEST = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Quality of service of topics whose newest message suffices; it never delays a publisher."""

FIRST = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Quality of service of a topic whose first message is needed, however late it is read."""

EVERY = QoSProfile(depth=50)
"""Quality of service of topics with few messages, all of which are needed."""


class PolledTopic:
    """Subscribes to a topic and processes waiting messages when :meth:`poll` is called.

    No executor may spin the node, because it would take the messages and discard them.

    Args:
        node: node to subscribe with.
        topic: the topic and its callback.
        qos: quality of service; by default :data:`NEWEST` or :data:`EVERY`, as the topic requires.
    """

    def __init__(self, node: Node, topic: Topic, qos: QoSProfile | None = None) -> None:
        self._take = topic.take
        profile = qos or (NEWEST if topic.only_newest else EVERY)
        self._most = profile.depth
        self._node = node
        self._subscription = node.create_subscription(
            topic.kind, topic.name, lambda _message: None, profile
        )

    def close(self) -> None:
        """End the subscription."""
        self._node.destroy_subscription(self._subscription)

    def poll(self) -> int:
        """Pass the waiting messages to the callback, the oldest first, and return their number.

        At most as many messages wait as the depth of the quality of service.
        """
        handle, kind = self._subscription.handle, self._subscription.msg_type
        found: list[Any] = []
        with handle:
            while len(found) < self._most:
                message = handle.take_message(kind, False)
                if message is None:
                    break
                found.append(message[0])
        for message in found:
            self._take(message)
        return len(found)


Array = NDArray[np.float64]

STILL = 1.0
"""Age of the last joint state above which the page reports that no joint states arrive [s]."""

MOST_EVENTS = 1000
"""Maximum number of stored events; the oldest are discarded."""

_MOST_LAYOUTS = 64


class LiveArm:
    """Reads the topics of one arm, its detector and its controller; it never publishes.

    It implements :class:`~rbd_control.view.sources.Source`, so that the page can show it.

    Args:
        node: node to subscribe with; no executor may spin it, because :meth:`state` takes the
            messages from the queues.
        namespace: namespace of the arm's nodes; an empty text if they have no namespace.
        scene: geometry of the arm; with None it comes from the topic ``robot_description``.

    Attributes:
        name: name of the arm on the page.
        scene: geometry of the arm; None while the description is unknown.
        topics: full names of the topics that are subscribed to.
    """

    def __init__(self, node: Node, namespace: str, scene: Scene | None = None) -> None:
        prefix = f"/{namespace.strip('/')}".rstrip("/")
        self.name = prefix or "arm"
        self.scene = scene
        self._zero: float | None = None
        """Stamp from which times count [s]: that of the first residual or of an event before it."""
        self._last = 0.0
        """Time of the last residual [s]."""
        self._heard = self._moved = self._pushed = -math.inf
        self._trouble = self._friction = ""
        self._q: Array | None = None
        self._seen: set[int] = set()
        self._places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        self._live = LiveState(f"{prefix}/contact_detector")
        self._listener = DetectorListener(self._live, self._on_event)
        self._controller = ControllerListener(f"{prefix}/passivity_controller")
        self._events: list[ContactEvent] = []
        self._contacts: dict[tuple[int, float], ArmState] = {}
        """State at the largest residual of each contact, by the event's number and onset."""
        self._history = ResidualHistory()
        self._told = -math.inf
        self._joint_states = f"{prefix}/joint_states"
        self._description = f"{prefix}/robot_description"
        topics = [
            *detector_topics(self._listener),
            *self._controller.topics,
            Topic(JointState, self._joint_states, self._on_joints),
            Topic(WrenchStamped, f"{self._live.detector}/external_wrench", self._on_wrench),
            Topic(DiagnosticArray, f"{self._live.detector}/drift", self._on_drift),
        ]
        residual = f"{self._live.detector}/external_joint_torques"
        topics.append(Topic(JointState, residual, self._on_residual))
        merged = _merged(topics)
        self._polled = [PolledTopic(node, topic) for topic in merged.values()]
        # The newest residual would suffice, if it were not for the first, which times count from.
        first = Topic(JointState, residual, self._on_first)
        self._first: PolledTopic | None = PolledTopic(node, first, FIRST)
        if scene is None:
            topic = merged[self._description] = Topic(
                String, self._description, self._on_description
            )
            self._polled.append(PolledTopic(node, topic, LATCHED))
        self.topics = tuple(merged)

    @property
    def has_heard(self) -> bool:
        """Whether joint states, or a message of the detector or of the controller were received."""
        live = self._live
        times = (self._heard, self._pushed, live.judged)
        return bool(
            any(map(math.isfinite, times))
            or live.joints
            or live.condition
            or self._events
            or self._controller.has_heard
        )

    def state(self) -> ArmState:
        """Process the waiting messages and return the present state of the arm.

        Times in it count, by stamps, from the first residual, as in ``rbd-control demo``. It raises
        nothing because of a message, whatever the message contains.
        """
        if self._first is not None and self._first.poll():
            self._first.close()
            self._first = None
        for polled in self._polled:
            polled.poll()
        now, live = time.monotonic(), self._live
        verdict = self._verdict(now)
        ratios = self._ratios()
        if ratios is not None and live.told > self._told:
            self._told = live.told
            self._history.add(self._last, live.joints, ratios)
        open_event = self._open_event()
        state = ArmState(
            time=self._last,
            q=self._q,
            verdict=verdict,
            touch=self._touch(now) if verdict in ("contact", "collision") else None,
            joints=live.joints,
            ratios=ratios,
            events=tuple(self._events),
            current=len(self._events) - 1 if open_event is not None else -1,
            mode=self._controller.mode,
            tracking_error=self._controller.tracking_error,
            storage=self._controller.storage,
            tank=self._controller.tank,
            friction=self._friction,
            notice=self._notice(now),
        )
        self._keep(state)
        return state

    def during(self, event: ContactEvent) -> ArmState | None:
        """Return the state at the largest residual of a contact; None if it is not kept."""
        return self._contacts.get((event.id, event.onset))

    def _keep(self, state: ArmState) -> None:
        """Store the state of the present contact if its residual is the largest so far."""
        if state.touch is None or state.current < 0:
            return
        event = state.events[state.current]
        kept = self._contacts.get((event.id, event.onset))
        if kept is None or _rank(state) > _rank(kept):
            self._contacts[event.id, event.onset] = state
        if len(self._contacts) > MOST_EVENTS:
            del self._contacts[next(iter(self._contacts))]

    def history(self) -> tuple[tuple[str, ...], Array, Array]:
        """Return joints, times (k,) [s] and residual ratios (k, n) of the last 10 s.

        A ratio is the residual of a joint divided by its threshold, signed. Times count from the
        first residual.
        """
        return (self._history.joints, *self._history.series())

    def _verdict(self, now: float) -> Verdict:
        verdict = self._live.verdict(now)
        if verdict == "contact":
            event = self._open_event()
            return "collision" if event is not None and event.level == "collision" else "contact"
        return "no contact" if verdict == "no contact" else "no verdict"

    def _ratios(self) -> Array | None:
        """Return residual / threshold of each joint, signed, (n,); None before both are known."""
        live = self._live
        if not live.joints or not live.thresholds:
            return None
        return np.array(live.residual) / np.array(live.thresholds)

    def _touch(self, now: float) -> Touch:
        """Return the present contact."""
        event, live = self._open_event(), self._live
        likely = {} if event is None else probabilities(event)
        frame = live.link if now - self._pushed < SILENCE else ""
        link = self._link_of(frame) or (event.link if event is not None else "")
        if link and link not in likely:
            likely = {link: 1.0}  # no event names this link yet
        force = None
        if frame and live.force is not None and self.scene is not None and self._q is not None:
            force = self._in_world(link, live.force)
        at_link = event is not None and event.link == link
        return Touch(link, likely, force, event.point if event is not None and at_link else None)

    def _in_world(self, link: str, force: Sequence[float]) -> Array | None:
        """Return a force on a link in world axes, (3,) [N]; None for an unknown link.

        Args:
            link: name of the link.
            force: the force in the axes of the link, (3,) [N].
        """
        assert self.scene is not None
        assert self._q is not None
        if link not in self.scene.model.link_body:
            return None
        placements = self.scene.placements(self._q)
        return np.asarray(
            self.scene.link_placement(placements, link)[:3, :3] @ np.array(force, dtype=float)
        )

    def _link_of(self, frame: str) -> str:
        """Return the link of a frame, whose name may have a prefix."""
        if self.scene is None or not frame:
            return frame
        return link_of_frame(frame, self.scene.model.link_names, "") or frame

    def _open_event(self) -> ContactEvent | None:
        last = self._events[-1] if self._events else None
        return last if last is not None and last.phase == "onset" else None

    def _notice(self, now: float) -> str:
        """Return a notice for the page: what is missing or out of date."""
        if self._trouble:
            return self._trouble
        if self.scene is None:
            return f"waiting for the URDF on {self._description}; or give it with --urdf"
        if self._heard == -math.inf:
            return f"waiting for joint states on {self._joint_states}"
        if now - self._heard > STILL:
            return f"no joint states on {self._joint_states} for {now - self._heard:.0f} s"
        return self._doubt(self.scene)

    def _doubt(self, scene: Scene) -> str:
        """Return the most serious problem while joint states arrive, or an empty text."""
        names = scene.model.joint_names
        missing = [name for row, name in enumerate(names) if row not in self._seen]
        if missing:
            return f"{self._joint_states} has no joint {listed(missing)}, drawn at 0"
        if not self._live.joints and not math.isfinite(self._live.judged):
            return f"waiting for the detector on {self._live.detector}/contact"
        if self._live.condition not in ("", "ok"):
            return f"detector: {self._live.condition}"
        if not self._live.thresholds:
            return "waiting for the thresholds on /diagnostics"
        return "; ".join(scene.notes)

    # Messages: any node may publish on the topics, so no callback raises ---------------------

    def _on_event(self, event: ContactEvent) -> None:
        """Store an event; a release replaces the onset before it."""
        if self._zero is None:
            self._zero = event.onset
        if event.phase == "release" and self._open_event() is not None:
            self._events.pop()
        self._events.append(event.since(self._zero))
        del self._events[:-MOST_EVENTS]

    def _on_first(self, message: JointState) -> None:
        if self._zero is None:
            self._zero = to_seconds(message.header.stamp)

    def _on_residual(self, message: JointState) -> None:
        stamp = to_seconds(message.header.stamp)
        if self._zero is None or stamp < self._zero:  # the clock of the arm went back
            self._zero = stamp
        self._last = stamp - self._zero

    def _on_wrench(self, _message: WrenchStamped) -> None:
        self._pushed = time.monotonic()

    def _on_drift(self, message: DiagnosticArray) -> None:
        changes = [status.message for status in message.status[:MOST_JOINTS] if status.message]
        self._friction = shortened("; ".join(changes), LONGEST)

    def _on_joints(self, message: JointState) -> None:
        names = tuple(message.name[:MOST_JOINTS])
        if not names or not len(names) == len(message.name) == len(message.position):
            return
        self._heard = time.monotonic()
        if self.scene is None:
            return
        if self._q is None:
            self._q = np.zeros(self.scene.model.nq)
        if names not in self._places:
            if len(self._places) >= _MOST_LAYOUTS:
                self._places.clear()
            self._places[names] = places(self.scene.model, names)
        q = self._q.copy()
        for row, place in self._places[names]:
            position = float(message.position[place])
            if abs(position) <= LARGEST:  # False for NaN
                q[row] = position
                self._seen.add(row)
        self._q = q

    def _on_description(self, message: String) -> None:
        if self.scene is not None:
            return
        try:
            text = message.data
            model = Model.from_urdf(text)
            self.scene = scene_of(model, text, MeshFiles(None))
            self._trouble = ""
        except RbdControlError as error:
            self._trouble = f"{self._description}: {shortened(str(error), 200)}"


def _rank(state: ArmState) -> tuple[bool, float]:
    """Return whether the force is known, and the largest ratio of residual to threshold."""
    peak = 0.0 if state.ratios is None else float(np.abs(state.ratios).max())
    return state.touch is not None and state.touch.force is not None, peak


def _merged(topics: Sequence[Topic]) -> dict[str, Topic]:
    """Return one topic per name, which passes its messages to all callbacks of that name."""
    merged: dict[str, Topic] = {}
    for topic in topics:
        known = merged.get(topic.name)
        take = topic.take if known is None else _both(known.take, topic.take)
        merged[topic.name] = replace(topic, take=take)
    return merged


def _both(first: Callable[[Any], None], second: Callable[[Any], None]) -> Callable[[Any], None]:
    def take(message: Any) -> None:
        first(message)
        second(message)

    return take


def places(model: Model, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return where the positions of the model's joints are in a joint state.

    If ``names`` contains no name of the model, names that differ from those of all joints of the
    model by one prefix match as well (``panda_joint1``, ``fer_joint1``), as in recordings.

    Args:
        model: the arm.
        names: joint names of a joint state.

    Returns:
        Pairs (row in q, index in ``names``); joints that ``names`` lacks are left out.
    """
    try:
        matched, _ = match_joints(model.joint_names, names, others=model.other_joints)
    except RecordingError:
        matched = model.joint_names
    index = {name: place for place, name in enumerate(names)}
    return [(row, index[name]) for row, name in enumerate(matched) if name in index]


PATIENCE = 5.0
"""Time after the start at which each arm without a message is reported, with its topics [s]."""


def view_node(context: Context | None = None) -> Node:
    """Return a node for subscriptions of the view: without ``/rosout`` and parameter services.

    Its name is ``view_`` and the process ID.

    Args:
        context: context of the node; None means the default context.
    """
    return Node(
        f"view_{os.getpid()}",
        context=context,
        enable_rosout=False,
        start_parameter_services=False,
    )


def run_live_view(
    namespaces: Sequence[str],
    scene: Scene | None,
    place: Place,
    duration: float | None,
    console: Console,
) -> int:
    """Show live arms until SIGINT or SIGTERM comes, or ``duration`` [s] is over.

    Args:
        namespaces: the namespace of each arm; an empty list means one arm without a namespace.
        scene: geometry of all arms; with None each arm has the geometry of the description on its
            topic ``robot_description``.
        place: address and port of the page.
        duration: length of the view [s]; with None only a signal ends it.
        console: prints the address, and a line for each arm without a message.

    Returns:
        The exit code: 0, or 1 if no message of any arm was received (:attr:`LiveArm.has_heard`).

    Raises:
        InputError: if the port is in use, or the host is not an address of this machine.
        RbdControlError: if the middleware cannot be started without shared memory, see
            :func:`~rbd_control.ros.transports.running_ros`.
    """
    with stop_requests() as stopped, running_ros(view_node) as node:
        arms = [LiveArm(node, name, scene) for name in namespaces or [""]]
        page = Page(arms, place)
        try:
            announce(page, console)
            reporter = _Reporter(arms, console)
            page.run(lambda: reporter.looked() or stopped(), duration)
        finally:
            page.close()
    silent = [arm for arm in arms if not arm.has_heard]
    for arm in silent:
        console.print(nothing_heard(arm), markup=False)
    return 1 if len(silent) == len(arms) else 0


def nothing_heard(arm: LiveArm) -> str:
    """Return the error text for an arm without a message: ROS domain, topics and what to check."""
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f"no message received from {arm.name} in ROS domain {domain}; waiting for "
        f"{listed(arm.topics, 400)}; check that its nodes run in this namespace (--namespace), "
        "with the same ROS_DOMAIN_ID and RMW_IMPLEMENTATION"
    )


class _Reporter:
    """Prints the notes of each scene, and after :data:`PATIENCE` which arms have sent no message.

    Each line is printed once.
    """

    def __init__(self, arms: list[LiveArm], console: Console) -> None:
        self._arms, self._console = arms, console
        self._deadline = time.monotonic() + PATIENCE
        self._printed: set[str] = set()

    def looked(self) -> bool:
        """Check the arms; return False, so that a loop continues."""
        notes = [f"note: {note}" for arm in self._arms if arm.scene for note in arm.scene.notes]
        if time.monotonic() > self._deadline:
            notes += [nothing_heard(arm) for arm in self._arms if not arm.has_heard]
            self._deadline = math.inf
        for note in notes:
            if note not in self._printed:
                self._printed.add(note)
                self._console.print(note, markup=False)
        return False
