"""Output of a detector's results except the flag: residual, verdict, events, force and wrench."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from rbd_control.estimation import ContactDetector, ContactEvent, Detection, ToolWrench, Verdict
from rbd_control.joint_states import JointSample
from rbd_control.nodes.contact_messages import ForceArrow, ForceWriter
from rbd_control.nodes.diagnostics import Status
from rbd_control.nodes.event_output import EventOutput
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.messages import EVERY_SAMPLE, JointStateWriter, Stamp, to_stamp
from rbd_control.nodes.tool_wrench_output import ToolWrenchOutput
from rbd_control.nodes.verdict_output import TOPIC as STAMPED
from rbd_control.nodes.verdict_output import StampedVerdict


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
        qos: quality of service of ``~/contact_stamped``.

    Attributes:
        on_force: callback for the touched link and the force on it, (3,) in world axes [N], for a
            controller in this process.
    """

    def __init__(self, node: GuardedNode, qos: QoSProfile) -> None:
        self._node = node
        self._verdicts = node.create_publisher(DiagnosticArray, STAMPED, qos)
        self._torques = node.create_publisher(JointState, "~/external_joint_torques", EVERY_SAMPLE)
        self._forces = node.create_publisher(WrenchStamped, "~/external_wrench", EVERY_SAMPLE)
        self._markers = node.create_publisher(MarkerArray, "~/markers", QoSProfile(depth=10))
        self._events = EventOutput(node)
        self.on_force: Callable[[str, NDArray[np.float64]], None] = _nobody

    def configure(self, detector: ContactDetector, prefix: str) -> None:
        """Prepare the messages of an arm, and create the publishers of the tool wrench.

        Args:
            detector: gives the results of the sample that it judged last.
            prefix: text before the names of links in ``header.frame_id``.
        """
        model = detector.model
        self._detector, self._frame = detector, prefix + model.root_link
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
        return self._tool.is_heard

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
        if verdict.is_quiet and not self._stamped.is_heard:
            self.clear()
        else:
            detection = judged.detection if judged.is_completed else self._detector.complete()
            if detection is not None:
                self._publish_contact(detection, sample, stamp)
        is_sound = verdict.valid and not verdict.dropped_code and not sample.is_late
        if self._tool.is_heard and is_sound:
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
        self._events.add(event, Stamp(end.sec, end.nanosec), self._frame)

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

    def look_for_readers(self) -> None:
        """Check for subscribers, without which most topics are silent. Call it periodically."""
        self._residual.look_for_readers()
        self._force.look_for_readers()
        self._stamped.look_for_readers()
        self._tool.look_for_readers()

    def report(self, status: Status) -> None:
        """Add observability and uncertainty of the wrench at ``tool_frame`` to the diagnostics."""
        self._tool.report(status)

    def _publish_contact(self, detection: Detection, sample: JointSample, stamp: Stamp) -> None:
        if sample.is_late:
            self._stamped.clear()
        else:
            self._stamped.take(detection, self._detector.contact_threshold, stamp)
        if detection.event is not None:
            self._events.add(detection.event, stamp, self._frame)
        if sample.is_late or not (detection.contact and detection.force is not None):
            self._arrow.clear()
        elif not detection.dropped:  # the position in a dropped sample is not reliable
            self.on_force(detection.link, detection.force)
            self._force.publish_force(sample.q, detection.link, detection.force, stamp)
            self._arrow.show(sample.q, detection.link, detection.force, detection.point, stamp)
