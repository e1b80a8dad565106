"""Outputs of the detector node: flag, residual, verdict, events, force and tool wrench."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import InertiaStamped, WrenchStamped
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, MultiArrayDimension
from visualization_msgs.msg import MarkerArray

from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, ContactEvent, Detection, ToolWrench, Verdict
from rbd_control.estimation.drift import JointDrift
from rbd_control.joint_states import JointSample
from rbd_control.results import key_values
from rbd_control.ros.contact_messages import (
    ForceArrow,
    ForceWriter,
    StampedVerdict,
    WrenchWriter,
    event_line,
    event_message,
)
from rbd_control.ros.diagnostics import Status
from rbd_control.ros.fault_tolerant_node import FaultTolerantNode, FaultTolerantPublisher, Output
from rbd_control.ros.messages import (
    EVERY_SAMPLE,
    EXPIRING,
    LATCHED,
    JointStateWriter,
    NumberWriter,
    Stamp,
    to_array,
    to_stamp,
)

CONTACT = Output("~/contact", Bool, EXPIRING, "verdict: at each change, and at 50 Hz while valid")
STAMPED = Output(
    "~/contact_stamped",
    DiagnosticArray,
    EXPIRING,
    "verdict with the stamp of its sample: at each change of its level, and at 50 Hz while valid",
    while_read=True,
)
EVENTS = Output("~/events", DiagnosticArray, 50, "onset and release of each contact")
RESIDUAL = Output(
    "~/external_joint_torques",
    JointState,
    EVERY_SAMPLE,
    "residual in `effort`: each joint state",
    while_read=True,
)
FORCE = Output(
    "~/external_wrench",
    WrenchStamped,
    EVERY_SAMPLE,
    "force on the touched link, in its frame: each joint state in contact",
    while_read=True,
)
MARKERS = Output("~/markers", MarkerArray, 10, "arrow along the force, for RViz: at most 30 Hz")
TOOL_WRENCH = Output(
    "~/tool_wrench",
    WrenchStamped,
    EVERY_SAMPLE,
    "external wrench at `tool_frame`, if it is set: each joint state with a verdict",
    while_read=True,
)
TOOL_COVARIANCE = Output(
    "~/tool_wrench_covariance",
    Float64MultiArray,
    EVERY_SAMPLE,
    "covariance of the wrench, 6 × 6, row by row",
    while_read=True,
)
DRIFT = Output(
    "~/drift",
    DiagnosticArray,
    10,
    "change of each joint's friction, as the detector has learned it: every second",
    while_read=True,
)

TAKEN = Output(
    "~/payload",
    InertiaStamped,
    LATCHED,
    "payload in force, if `gripper_joint` is set: at each change",
)


def _no_listener(_flag: bool) -> None:
    """Ignore the flag; the default callback."""


class FlagOutput:
    """Publishes the contact flag while there is a verdict; without a verdict the topic is silent.

    A verdict is contact (true) or no contact (false). The node repeats :attr:`value`.

    Args:
        node: the node.

    Attributes:
        value: the flag of the last verdict; None while there is no verdict.
        is_published: whether the middleware accepted the last publication of the flag; True before
            the first and after :meth:`end`.
        on_verdict: callback for each flag before it is published, for a controller in this process.
    """

    def __init__(self, node: FaultTolerantNode) -> None:
        self._publisher = node.open(CONTACT)
        self.value: bool | None = None
        self.is_published = True
        self.on_verdict: Callable[[bool], None] = _no_listener

    def publish(self, flag: bool) -> None:
        """Store the flag of a verdict, pass it to ``on_verdict``, and publish it.

        Args:
            flag: whether there is contact.
        """
        self.value = flag
        self.on_verdict(flag)
        self.is_published = self._publisher.try_publish(Bool(data=flag))

    def end(self) -> None:
        """Set :attr:`value` to None, because there is no verdict; nothing is published."""
        self.value, self.is_published = None, True


LOG_PERIOD = 0.1
"""Period at which events are logged [s]."""

MOST_UNLOGGED = 20
"""Maximum number of events that wait to be logged; older events are not logged."""

MOST_REFUSED = 50
"""Maximum number of stored events that the middleware has refused; older ones are discarded."""


class EventOutput:
    """Publishes contact events in their order on ``~/events``, and logs them afterwards.

    Args:
        node: the node.
    """

    def __init__(self, node: FaultTolerantNode) -> None:
        self._node = node
        self._publisher = node.open(EVENTS)
        self._waiting: deque[DiagnosticArray] = deque(maxlen=MOST_REFUSED)
        self._unlogged: deque[str] = deque(maxlen=MOST_UNLOGGED)
        node.create_timer(LOG_PERIOD, self._log)

    def add(self, event: ContactEvent, stamp: Stamp, model: Model, frame: str) -> None:
        """Publish an event; if the middleware refuses it, :meth:`publish` tries again.

        Args:
            event: the onset or the release of a contact.
            stamp: time of the sample, for the header.
            model: the robot.
            frame: name of the root link, for the header; force, direction and point are in its
                axes.
        """
        name = self._node.get_fully_qualified_name().lstrip("/")
        self._waiting.append(event_message(name, event, stamp, frame))
        self.publish()
        # A log line takes as long as ten samples, so a timer writes it later.
        self._unlogged.append(event_line(event, model))

    def publish(self) -> None:
        """Publish waiting events; keep those that the middleware refuses. Call it periodically."""
        while self._waiting and self._publisher.try_publish(self._waiting[0]):
            self._waiting.popleft()

    def _log(self) -> None:
        while self._unlogged:
            self._node.get_logger().info(self._unlogged.popleft())


COMPONENTS = "force x y z, torque x y z"
"""Label of rows and columns of the published covariance: the order of the components."""

_FORCE_FIRST = np.array([3, 4, 5, 0, 1, 2])
"""Order of the components in messages, as indices into ``[moment; force]``."""

_COVARIANCE = np.ix_(_FORCE_FIRST, _FORCE_FIRST)


class ToolWrenchOutput:
    """Publishes the external wrench at the frame of the parameter ``tool_frame``.

    The topics are ``~/tool_wrench`` and ``~/tool_wrench_covariance``. If the parameter is empty,
    nothing is published.

    Args:
        node: the node.
        detector: estimates the wrench; its parameters contain ``tool_frame``.
        frame_prefix: text before the name of the frame in ``header.frame_id``.
    """

    def __init__(
        self, node: FaultTolerantNode, detector: ContactDetector, frame_prefix: str = ""
    ) -> None:
        self._node, self._detector = node, detector
        self._publishers: list[FaultTolerantPublisher[Any]] = []
        if not detector.parameters.tool_frame:
            return
        self._publishers = [node.open(TOOL_WRENCH), node.open(TOOL_COVARIANCE)]
        self._wrench = WrenchWriter(self._publishers[0], frame_prefix)
        self._covariance = NumberWriter(self._publishers[1], 36, covariance_message)

    def destroy(self) -> None:
        """Destroy the publishers."""
        while self._publishers:
            self._node.destroy_publisher(self._publishers.pop())

    @property
    def is_read(self) -> bool:
        """Whether one of the topics has subscribers."""
        return any(publisher.is_read for publisher in self._publishers)

    def publish(self, found: ToolWrench | None, stamp: Stamp) -> None:
        """Publish the wrench of a sample.

        Args:
            found: the wrench of the environment on the robot; None publishes nothing.
            stamp: time of the sample.
        """
        if found is not None:
            self._wrench.publish(found.frame, found.wrench[_FORCE_FIRST], stamp)
            self._covariance.publish(found.covariance[_COVARIANCE].ravel())

    def report(self, status: Status) -> None:
        """Add frame, observable directions, damping and largest standard deviations to a status."""
        found = self._detector.tool_wrench() if self._publishers else None
        if found is None:
            return
        status.add("tool wrench: frame", found.frame)
        status.add("tool wrench: observable directions", f"{int(found.observable)} of 6")
        status.add("tool wrench: damping in the worst direction", float(found.damping[-1]))
        force, moment = _largest_deviations(found)
        status.add("tool wrench: largest standard deviation of the force [N]", force)
        status.add("tool wrench: largest standard deviation of the torque [N·m]", moment)


def covariance_message(numbers: NDArray[np.float64]) -> Float64MultiArray:
    """Return a covariance of force and torque as a message, row by row, with labels.

    Args:
        numbers: in the order of :data:`COMPONENTS`, (36,) [N², N²·m, (N·m)²].
    """
    message = Float64MultiArray(data=to_array(numbers))
    message.layout.dim = [
        MultiArrayDimension(label=f"row: {COMPONENTS}", size=6, stride=36),
        MultiArrayDimension(label=f"column: {COMPONENTS}", size=6, stride=6),
    ]
    return message


def _largest_deviations(found: ToolWrench) -> tuple[float, float]:
    """Return the largest standard deviations of force [N] and moment [N·m] along any axis."""
    moment, force = (np.linalg.eigvalsh(found.covariance[i : i + 3, i : i + 3]) for i in (0, 3))
    return float(np.sqrt(force[-1])), float(np.sqrt(moment[-1]))


DRIFT_PERIOD = 1.0
"""Period at which changes of friction are published [s]."""


class DriftOutput:
    """Publishes the changes of friction on ``~/drift``, and logs contacts that were friction.

    Args:
        node: the node.

    Attributes:
        detector: the detector that has learned them; None while the node is not configured.
    """

    def __init__(self, node: FaultTolerantNode) -> None:
        self._node = node
        self._publisher = node.open(DRIFT)
        self.detector: ContactDetector | None = None
        self._recoveries = 0
        node.create_timer(DRIFT_PERIOD, self._publish)

    def _publish(self) -> None:
        detector = self.detector
        if detector is None:
            return
        if detector.recoveries > self._recoveries:
            changes = "; ".join(each.text for each in detector.drift if each.text)
            self._node.get_logger().warning(
                f"the contact was a sudden change of friction, which is now corrected: {changes}; "
                "the service ~/friction gives the parameters"
            )
        self._recoveries = detector.recoveries
        if self._publisher.is_read:
            name = self._node.get_fully_qualified_name().lstrip("/")
            message = drift_message(name, detector.drift)
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._publisher.publish(message)


def drift_message(node: str, drift: Sequence[JointDrift]) -> DiagnosticArray:
    """Return the changes of friction as a message with one status for each joint.

    Args:
        node: name of the node with its namespace, without a leading slash.
        drift: the change of each joint's friction.
    """
    return DiagnosticArray(
        status=[
            DiagnosticStatus(
                level=DiagnosticStatus.OK,
                name=f"{node}: friction of {each.joint}",
                message=each.text,
                values=[KeyValue(key=key, value=text) for key, text in key_values(each).items()],
            )
            for each in drift
        ]
    )


def report_drift(detector: ContactDetector, status: Status) -> None:
    """Add the change of each joint's friction, and the pushes that are always reported."""
    for each in detector.drift:
        share, error = 100.0 * each.share, 100.0 * each.share_uncertainty
        status.add(f"friction {each.joint}", f"{share:+.1f} ± {error:.1f} %")
        status.add(f"offset {each.joint} [N·m]", each.offset)
        status.add(f"always reported at rest {each.joint} [N·m]", each.bound_at_rest)
        status.add(f"always reported in motion {each.joint} [N·m]", each.bound_in_motion)
    if detector.drift:
        rest, motion = detector.least_lasting_push
        status.add("always reported: weakest push at rest [N]", rest)
        status.add("always reported: weakest push in motion [N]", motion)
        status.add("contacts that were friction", detector.recoveries)


def _nobody(_link: str, _force: NDArray[np.float64]) -> None:
    """Ignore the force; the default callback."""


class JudgedSample(NamedTuple):
    """A sample whose verdict is known and whose other results are not published yet.

    Attributes:
        sample: the joint state.
        stamp: its stamp, exact to the nanosecond.
    """

    sample: JointSample
    stamp: Stamp
    verdict: Verdict | None
    """The verdict; None for a sample that is not judged, as the efforts refute ``effort_kind``."""
    is_completed: bool = False
    """Whether ``detection`` and ``wrench`` are stored, because the detector judges a later sample.

    Until then they are None, and the detector returns them.
    """
    detection: Detection | None = None
    """The detection: the verdict with link, force and event of a contact; None if it failed."""
    wrench: ToolWrench | None = None
    """The wrench at ``tool_frame``, stored together with ``detection``.

    None if there is no wrench, or no subscriber for it.
    """


class DetectionOutput:
    """Publishes the results of each judged sample except the contact flag.

    Residual, stamped verdict, force and tool wrench are published while their topics have
    subscribers, events and the arrow for RViz always.

    Args:
        node: the node.

    Attributes:
        on_force: callback for the touched link and the force on it, (3,) in world axes [N], for a
            controller in this process.
    """

    def __init__(self, node: FaultTolerantNode) -> None:
        self._node = node
        self._verdicts, self._torques = node.open(STAMPED), node.open(RESIDUAL)
        self._forces, self._markers = node.open(FORCE), node.open(MARKERS)
        self._events = EventOutput(node)
        self._drift = DriftOutput(node)
        self.on_force: Callable[[str, NDArray[np.float64]], None] = _nobody

    def configure(self, detector: ContactDetector, prefix: str) -> None:
        """Prepare the messages of an arm, and create the publishers of the tool wrench.

        Args:
            detector: gives the results of the sample that it judged last.
            prefix: text before the names of links in ``header.frame_id``.
        """
        model = detector.model
        self._detector, self._frame = detector, prefix + model.root_link
        self._drift.detector = detector
        self._residual = JointStateWriter(self._torques, model.joint_names, self._frame)
        name = self._node.get_fully_qualified_name().lstrip("/")
        self._stamped = StampedVerdict(self._verdicts, name, model.joint_names, self._frame)
        self._force = ForceWriter(model, self._forces, prefix)
        self._arrow = ForceArrow(model, self._markers, prefix)
        self._tool = ToolWrenchOutput(self._node, detector, prefix)

    def cleanup(self) -> None:
        """Destroy the publishers of the wrench at ``tool_frame``."""
        self._tool.destroy()

    @property
    def needs_tool_wrench(self) -> bool:
        """Whether the wrench at ``tool_frame``, or its covariance, has subscribers."""
        return self._tool.is_read

    def publish(self, judged: JudgedSample, verdict: Verdict) -> Detection | None:
        """Publish the residual, then verdict, force and event, then the wrench at ``tool_frame``.

        The residual is published for samples with velocity and effort, the wrench for valid samples
        that the detector did not drop. For a late sample only residual and event are published,
        because its verdict, link and force do not describe the present state.

        Args:
            judged: the sample.
            verdict: its verdict.

        Returns:
            The detection; None, to save time, for a quiet sample (:attr:`Verdict.is_quiet`) if
            ``~/contact_stamped`` has no subscriber.
        """
        sample, stamp = judged.sample, judged.stamp
        if sample.v is not None and sample.tau is not None:
            self._residual.publish(stamp, effort=verdict.residual)
        detection = None
        if verdict.is_quiet and not self._verdicts.is_read:
            self.clear()
        else:
            detection = judged.detection if judged.is_completed else self._detector.complete()
            if detection is not None:
                self._publish_contact(detection, sample, stamp)
        is_sound = verdict.valid and not verdict.dropped_code and not sample.is_late
        if self._tool.is_read and is_sound:
            wrench = judged.wrench if judged.is_completed else self._detector.tool_wrench()
            if wrench is not None:
                self._tool.publish(wrench, stamp)
        return detection

    def publish_release(self, event: ContactEvent) -> None:
        """Publish the release of a contact that ends because the detector was reset.

        Args:
            event: the release; its time of release is the stamp of the message.
        """
        end = to_stamp(event.detected if event.release is None else event.release)
        self._events.add(event, Stamp(end.sec, end.nanosec), self._detector.model, self._frame)

    def publish_waiting_events(self) -> None:
        """Publish events that the middleware has refused. Call it periodically."""
        self._events.publish()

    def repeat(self) -> None:
        """Publish the last verdict with its stamp again, on ``~/contact_stamped``."""
        self._stamped.repeat()

    def clear(self) -> None:
        """Discard the verdict that :meth:`repeat` publishes, and remove the arrow from RViz."""
        self._stamped.clear()
        self._arrow.clear()

    def report(self, status: Status) -> None:
        """Add the changes of friction, and the quality of the wrench at ``tool_frame``."""
        report_drift(self._detector, status)
        self._tool.report(status)

    def _publish_contact(self, detection: Detection, sample: JointSample, stamp: Stamp) -> None:
        if sample.is_late:
            self._stamped.clear()
        else:
            self._stamped.take(detection, self._detector.contact_threshold, stamp)
        if detection.event is not None:
            self._events.add(detection.event, stamp, self._detector.model, self._frame)
        if sample.is_late or not (detection.contact and detection.force is not None):
            self._arrow.clear()
        elif not detection.dropped:  # the position in a dropped sample is not reliable
            self.on_force(detection.link, detection.force)
            self._force.publish_force(sample.q, detection.link, detection.force, stamp)
            self._arrow.show(sample.q, detection.link, detection.force, detection.point, stamp)
