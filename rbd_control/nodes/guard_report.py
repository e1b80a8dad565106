"""Report of the contact guard: durations of the last stop, and a missing detector."""

from __future__ import annotations

from math import isfinite, isnan

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from rbd_control.contact_stop import StopTimes
from rbd_control.nodes.diagnostics import WARN, Status


def durations(times: StopTimes | None) -> dict[str, float]:
    """Return the known durations of a stop by name [s].

    Args:
        times: times of the stop; None before the first stop, which has no durations.
    """
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


def summary(times: StopTimes | None) -> str:
    """Return the known durations of a stop as text."""
    return ", ".join(f"{what} {value:.3f} s" for what, value in durations(times).items())


def is_unsent(times: StopTimes | None) -> bool:
    """Return whether requests of a stop are still to be sent."""
    return times is not None and isnan(times.sent)


def report_detector(node: Node, topic: str, qos: QoSProfile, missing: str, status: Status) -> None:
    """Report a missing detector and its possible causes.

    Args:
        node: the node.
        topic: topic of the verdict.
        qos: quality of service of the subscription.
        missing: the reason why there is no verdict; an empty text if there is a verdict.
        status: the status to fill in.
    """
    publishers = node.get_publishers_info_by_topic(topic)
    status.add("detectors", len(publishers))
    if len(publishers) > 1:
        status.raise_to(WARN, f"{topic} has {len(publishers)} publishers")
    if not missing:
        return
    status.raise_to(WARN, f"{missing}: no stop on contact; start a detector of {topic}")
    for publisher in publishers:
        fits, reason = qos_check_compatible(publisher.qos_profile, qos)
        if fits == QoSCompatibility.ERROR:
            why = f"cannot be received: {reason}"
            status.raise_to(WARN, f"{topic} of {publisher.node_name} {why}")
