"""ROS messages about contacts: events, also read back, verdicts, forces, wrenches and markers."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Point, Vector3, WrenchStamped
from numpy.typing import NDArray
from visualization_msgs.msg import Marker, MarkerArray

from rbd_control.dynamics import Model, frame_placement
from rbd_control.errors import InputError
from rbd_control.estimation import ContactEvent, Detection
from rbd_control.results import MOST_VALUES, key_values
from rbd_control.ros.fault_tolerant_node import FaultTolerantPublisher
from rbd_control.ros.messages import Stamp, Template, to_seconds

Array = NDArray[np.float64]

THRESHOLD = "threshold "
"""Prefix of the keys of contact thresholds in ``/diagnostics``; the joint and the unit follow."""

MOST_LINKS = 3
"""Maximum number of candidate links in a log line."""

SEVERITY = {"none": 0, "contact": 1, "collision": 2}
"""Level of a verdict or an event as a number that can be plotted."""

ARROW_SCALE = 0.02
"""Length of the force arrow in RViz per newton [m/N]."""

ARROW_PERIOD = 0.03
"""Shortest time between two arrows [s]; a faster rate would not be visible."""


def event_message(node: str, event: ContactEvent, stamp: Stamp, frame: str = "") -> DiagnosticArray:
    """Return a message with one status that reports the onset or the release of a contact.

    The status has the fields of the event as key-value pairs, see docs/topics.md. Its level is
    ERROR for the onset of a collision, WARN for another onset, and OK for a release.

    Args:
        node: name of the node with its namespace, without a leading slash.
        event: the onset or the release.
        stamp: time of the sample, for the header.
        frame: frame of force, direction and point, for the header: the root link, whose axes are
            the world's.
    """
    severe = DiagnosticStatus.ERROR if event.level == "collision" else DiagnosticStatus.WARN
    status = DiagnosticStatus(
        level=severe if event.is_onset else DiagnosticStatus.OK,
        name=f"{node}: {event.level}",
        message=f"{event.level} {event.id} {event.phase} at {event.link or event.joint}",
        hardware_id=event.link,
        values=[KeyValue(key=key, value=text) for key, text in key_values(event).items()],
    )
    message = DiagnosticArray(status=[status])
    message.header.stamp = stamp.to_msg()
    message.header.frame_id = frame
    return message


def event_line(event: ContactEvent, model: Model) -> str:
    """Return a contact event as one line for the log.

    The line has the level, number, duration, up to :data:`MOST_LINKS` links, joint torque and
    force of the event, as far as they are known.
    """
    what = f"{event.level} {event.id}"
    if event.phase == "release":
        lasted = "" if event.duration is None else f" after {event.duration:.2f} s"
        return f"{what} is over{lasted}: {_touch(event, model)}"
    return f"{what}: {_touch(event, model)}"


def _touch(event: ContactEvent, model: Model) -> str:
    unit = model.torque_unit(model.joint_index(event.joint))
    links = " or ".join(event.candidates[:MOST_LINKS]) or event.link
    force = f", {event.force_text}" if event.force_text else ""
    return f"{links or 'no link'}, {event.joint} {event.peak_torque:+.3g} {unit}{force}"


def event_from_status(status: DiagnosticStatus) -> ContactEvent:
    """Return the event in a status of :func:`event_message`.

    Numbers have the precision of the text, for example 1 ns for the onset and six significant
    digits for torque and force. Names longer than :data:`~rbd_control.results.LONGEST` are cut.

    Raises:
        InputError: if the status does not contain a contact event.
    """
    values = {item.key: item.value for item in status.values[:MOST_VALUES]}
    try:
        return ContactEvent.from_values(values)
    except (KeyError, ValueError) as error:
        raise InputError(f"the status contains no contact event: {error}") from None


def events_in(message: DiagnosticArray) -> tuple[list[ContactEvent], int]:
    """Return the contact events in a message, and the number of its statuses without one."""
    events = []
    for status in message.status:
        with suppress(InputError):
            events.append(event_from_status(status))
    return events, len(message.status) - len(events)


class WrenchWriter:
    """Publishes wrenches, each in the frame of a link, while the topic has subscribers.

    Args:
        publisher: publisher of the topic.
        frame_prefix: text before the names of links in ``header.frame_id``.
    """

    def __init__(
        self, publisher: FaultTolerantPublisher[WrenchStamped], frame_prefix: str = ""
    ) -> None:
        self._publisher = publisher
        self._frame_prefix = frame_prefix
        self._templates: dict[str, Template] = {}

    def publish(self, frame: str, wrench: Array, stamp: Stamp) -> None:
        """Publish a wrench, if the topic has subscribers.

        Args:
            frame: name of the link, without ``frame_prefix``.
            wrench: force, then torque about the origin of the frame, components along its axes,
                (6,) [N, N·m].
            stamp: time of the sample.
        """
        if not self._publisher.is_read:
            return
        template = self._templates.get(frame)
        name = self._frame_prefix + frame
        if template is None:
            template = Template(lambda numbers: _wrench(name, numbers), 6, has_header=True)
            self._templates[frame] = template
        if template.is_exact:
            self._publisher.publish(template.filled(wrench, stamp.sec, stamp.nanosec))
            return
        message = _wrench(name, wrench)
        message.header.stamp = stamp.to_msg()
        self._publisher.publish(message)


def _wrench(frame: str, wrench: Array) -> WrenchStamped:
    message = WrenchStamped()
    message.header.frame_id = frame
    force, torque = message.wrench.force, message.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = (float(x) for x in wrench)
    return message


class ForceWriter(WrenchWriter):
    """Publishes the force on a link as a wrench in the frame of the link, without torque.

    Args:
        model: the arm.
        publisher: publisher of the topic.
        frame_prefix: text before the names of links in ``header.frame_id``.
    """

    def __init__(
        self, model: Model, publisher: FaultTolerantPublisher[WrenchStamped], frame_prefix: str = ""
    ) -> None:
        super().__init__(publisher, frame_prefix)
        self._model, self._wrench = model, np.zeros(6)

    def publish_force(self, q: Array, link: str, force: Array, stamp: Stamp) -> None:
        """Publish the force on a link in the frame of the link, if the topic has subscribers.

        Args:
            q: joint positions, (nq,) [rad or m].
            link: name of the link.
            force: force on the link, (3,) in world axes [N].
            stamp: time of the sample.

        Raises:
            InputError: for an unknown link, and for a ``q`` of the wrong shape or not finite.
        """
        if self._publisher.is_read:
            rotation = frame_placement(self._model, q, link)[:3, :3]
            self._wrench[:3] = force @ rotation
            self.publish(link, self._wrench, stamp)


class ForceArrow:
    """Publishes an arrow for RViz along the contact force, from the point where the force acts.

    Args:
        model: the arm.
        publisher: publisher of the topic.
        frame_prefix: text before the name of the root link in ``header.frame_id``.
    """

    def __init__(
        self, model: Model, publisher: FaultTolerantPublisher[MarkerArray], frame_prefix: str = ""
    ) -> None:
        self._model, self._publisher = model, publisher
        marker = Marker(ns="contact_force", type=Marker.ARROW)
        marker.header.frame_id = frame_prefix + model.root_link
        marker.scale = Vector3(x=0.015, y=0.03, z=0.0)
        marker.color.r = marker.color.a = 1.0
        self._marker = marker
        self._shown: float | None = None

    def show(self, q: Array, link: str, force: Array, point: Array | None, stamp: Stamp) -> None:
        """Publish the arrow, at most once in :data:`ARROW_PERIOD` by the stamps of the samples.

        Args:
            q: joint positions, (nq,) [rad or m].
            link: name of the touched link.
            force: force on the link, (3,) in world axes [N].
            point: point where the arrow begins, (3,) in world axes [m]; None for the origin of the
                link.
            stamp: time of the sample.

        Raises:
            InputError: without ``point``, for an unknown link or an invalid ``q``.
        """
        now = to_seconds(stamp)
        if self._shown is not None and 0.0 <= now - self._shown < ARROW_PERIOD:
            return
        self._shown = now
        origin = frame_placement(self._model, q, link)[:3, 3] if point is None else point
        self._marker.points = [_point(origin), _point(origin + ARROW_SCALE * force)]
        self._send(Marker.ADD, stamp.to_msg())

    def clear(self) -> None:
        """Remove the arrow from RViz, if one was published."""
        if self._shown is not None:
            self._shown = None
            self._send(Marker.DELETE, self._marker.header.stamp)

    def _send(self, action: int, stamp: Time) -> None:
        self._marker.header.stamp = stamp
        self._marker.action = action
        self._publisher.publish(MarkerArray(markers=[self._marker]))


def _point(values: Array) -> Point:
    return Point(x=float(values[0]), y=float(values[1]), z=float(values[2]))


_LEVELS = {
    "none": DiagnosticStatus.OK,
    "contact": DiagnosticStatus.WARN,
    "collision": DiagnosticStatus.ERROR,
}


def reports_collision(message: DiagnosticArray) -> bool:
    """Return whether a message of ``~/contact_stamped`` reports a contact of level collision."""
    return any(
        status.level == _LEVELS["collision"] and status.message == "collision"
        for status in message.status
    )


def level_and_link(message: DiagnosticArray) -> tuple[str, str] | None:
    """Return level and touched link in a message of ``~/contact_stamped``; None for another one.

    The level is ``none``, ``contact`` or ``collision``; the link is empty without contact.
    """
    for status in message.status:
        level = next((name for name, each in _LEVELS.items() if each == status.level), "")
        link = next((item.value for item in status.values if item.key == "link"), None)
        if level and link is not None:
            return level, link
    return None


class StampedVerdict:
    """Publishes each change of the level of the verdict, and repeats the verdict while it is valid.

    The level of the verdict is ``none``, ``contact`` or ``collision``.

    Args:
        publisher: of the topic ``~/contact_stamped``.
        node: name of the node with its namespace, without a leading slash.
        joints: names of the joints in the order of the model, (nv,).
        frame: the root link, as ``header.frame_id``.
    """

    def __init__(
        self,
        publisher: FaultTolerantPublisher[DiagnosticArray],
        node: str,
        joints: tuple[str, ...],
        frame: str,
    ) -> None:
        self._publisher = publisher
        self._node, self._joints, self._frame = node, joints, frame
        self._last: tuple[Detection, NDArray[np.float64], Stamp] | None = None

    def take(self, detection: Detection, thresholds: NDArray[np.float64], stamp: Stamp) -> None:
        """Store the verdict on a sample, and publish it if its level differs from the previous one.

        A valid verdict is also published if there was none before.

        Args:
            detection: the verdict with level, residual and link; if it is not valid, the repetition
                ends.
            thresholds: contact thresholds at rest, (nv,) [N·m or N].
            stamp: time of the sample.
        """
        before, self._last = self._last, (detection, thresholds, stamp) if detection.valid else None
        if self._last and (before is None or before[0].level != detection.level):
            self.repeat()

    def clear(self) -> None:
        """End the repetition, because there is no verdict."""
        self._last = None

    def repeat(self) -> None:
        """Publish the last verdict again, if there are a valid verdict and a subscriber."""
        if self._last is not None and self._publisher.is_read:
            self._publisher.publish(self._message(*self._last))

    def _message(
        self, detection: Detection, thresholds: NDArray[np.float64], stamp: Stamp
    ) -> DiagnosticArray:
        shares = np.abs(detection.residual) / thresholds
        highest = int(np.argmax(shares))
        values = {
            "contact": int(detection.contact),
            "severity": SEVERITY[detection.level],
            "threshold_share": f"{float(shares[highest]):.6g}",
            "joint": self._joints[highest],
            "link": detection.link,
        }
        status = DiagnosticStatus(
            level=_LEVELS[detection.level],
            name=f"{self._node}: verdict",
            message=detection.level if detection.contact else "no contact",
            hardware_id=self._node,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
        message = DiagnosticArray(status=[status])
        message.header.stamp = stamp.to_msg()
        message.header.frame_id = self._frame
        return message
