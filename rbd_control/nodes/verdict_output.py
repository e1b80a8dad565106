"""Output of the verdict about contact with the stamp of its sample, as numbers for plots."""

from __future__ import annotations

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from numpy.typing import NDArray
from rclpy.publisher import Publisher

from rbd_control.estimation import Detection
from rbd_control.nodes.contact_messages import SEVERITY
from rbd_control.nodes.messages import Stamp, Writer

TOPIC = "~/contact_stamped"

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


class StampedVerdict(Writer[DiagnosticArray]):
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
        publisher: Publisher[DiagnosticArray],
        node: str,
        joints: tuple[str, ...],
        frame: str,
    ) -> None:
        super().__init__(publisher)
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
        if self._last is not None and self.is_heard:
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
