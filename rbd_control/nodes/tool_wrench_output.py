"""Output of the external wrench at the tool frame, with its covariance, for each valid sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from numpy.typing import NDArray
from rclpy.publisher import Publisher
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from rbd_control.estimation import ContactDetector, ToolWrench
from rbd_control.nodes.contact_messages import WrenchWriter
from rbd_control.nodes.diagnostics import Status
from rbd_control.nodes.guarded_node import GuardedNode
from rbd_control.nodes.joint_state_wire import TailTemplate
from rbd_control.nodes.messages import EVERY_SAMPLE, Stamp, Writer, to_array

TOPIC = "~/tool_wrench"

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
        self, node: GuardedNode, detector: ContactDetector, frame_prefix: str = ""
    ) -> None:
        self._node, self._detector = node, detector
        self._publishers: list[Publisher[Any]] = []
        if not detector.parameters.tool_frame:
            return
        wrenches = node.create_publisher(WrenchStamped, TOPIC, EVERY_SAMPLE)
        covariances = node.create_publisher(Float64MultiArray, f"{TOPIC}_covariance", EVERY_SAMPLE)
        self._publishers = [wrenches, covariances]
        self._wrench = WrenchWriter(wrenches, frame_prefix)
        self._covariance = CovarianceWriter(covariances)

    def destroy(self) -> None:
        """Destroy the publishers."""
        while self._publishers:
            self._node.destroy_publisher(self._publishers.pop())

    def look_for_readers(self) -> None:
        """Check for subscribers, without which nothing is published. Call it periodically."""
        if self._publishers:
            self._wrench.look_for_readers()
            self._covariance.look_for_readers()

    @property
    def is_heard(self) -> bool:
        """Whether one of the topics has subscribers."""
        return bool(self._publishers) and (self._wrench.is_heard or self._covariance.is_heard)

    def publish(self, found: ToolWrench | None, stamp: Stamp) -> None:
        """Publish the wrench of a sample.

        Args:
            found: the wrench of the environment on the robot; None publishes nothing.
            stamp: time of the sample.
        """
        if found is not None:
            self._wrench.publish(found.frame, found.wrench[_FORCE_FIRST], stamp)
            self._covariance.publish(found.covariance[_COVARIANCE])

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


class CovarianceWriter(Writer[Float64MultiArray]):
    """Publishes covariances of wrenches, row by row, with the order of the components as label.

    Args:
        publisher: publisher of the topic.
    """

    def __init__(self, publisher: Publisher[Float64MultiArray]) -> None:
        super().__init__(publisher)
        self._template = TailTemplate(_matrix, 36)

    def publish(self, covariance: NDArray[np.float64]) -> None:
        """Publish a covariance, if the topic has subscribers.

        Args:
            covariance: of force and torque, in the order of :data:`COMPONENTS`, (6, 6) [N², N²·m,
                (N·m)²].
        """
        if self.is_heard:
            numbers = covariance.ravel()
            exact = self._template.is_exact
            self._publisher.publish(self._template.filled(numbers) if exact else _matrix(numbers))


def _matrix(numbers: NDArray[np.float64]) -> Float64MultiArray:
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
