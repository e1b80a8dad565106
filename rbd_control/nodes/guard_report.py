"""Report of the contact guard: durations of the last stop, motion, and a missing detector."""

from __future__ import annotations

from math import isfinite, isnan

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from rbd_control.contact_stop import ArmMotion, StopParameters, StopTimes
from rbd_control.contact_stop.contact_stop import State
from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.wording import listed


def durations(times: StopTimes | None) -> dict[str, float]:
    """Return the known durations of a stop by name [s].

    They begin with the decision to stop (``flag``, also if a collision event or silence led to it)
    or with the estimated onset of the contact, and end when the requests are sent, when all servers
    have answered, or at standstill.

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
    """Return the known durations of a stop as text, see :func:`durations`."""
    return ", ".join(f"{what} {value:.3f} s" for what, value in durations(times).items())


def is_unsent(times: StopTimes | None) -> bool:
    """Return whether requests of the last stop are still to be sent; False before the first."""
    return times is not None and isnan(times.sent)


def report_motion(
    motion: ArmMotion, parameters: StopParameters, state: State, now: float, status: Status
) -> None:
    """Warn of a joint that moves while a stop is in progress, and of an unknown standstill.

    Only the fastest joint is named. Joints without recent joint states are a warning as well.

    A joint state is recent for 0.5 s
    (:data:`~rbd_control.contact_stop.arm_motion.JOINT_STATE_TIMEOUT`).

    Args:
        motion: the monitored joints.
        parameters: the parameters of the guard.
        state: state of the guard; ``stopping`` while a stop is in progress.
        now: time on the steady clock [s].
        status: the status to fill in.
    """
    missing = motion.missing(now)
    joint, speed = motion.fastest()
    if state == "stopping" and speed > parameters.standstill_speed:
        moves = f"moves at {speed:.3g} rad/s or m/s"
        if joint in missing:
            moves = (
                f"moved at {speed:.3g} rad/s or m/s in its last joint state, "
                f"{motion.age(joint, now):.1f} s ago"
            )
        status.raise_to(WARN, f"{joint} {moves}")
    is_unknown = motion.still_since(now) is None
    if missing or is_unknown:
        which = f" of {listed(missing)}" if missing else ""
        result = ": standstill is unknown" if is_unknown else ""
        advice = "" if parameters.joints or not missing else "; name the arm's joints in joints"
        status.raise_to(WARN, f"no joint states{which}{result}{advice}")


def report_detector(node: Node, topic: str, qos: QoSProfile, missing: str, status: Status) -> None:
    """Report the number of detectors, a missing detector and its possible causes.

    More than one publisher is a warning. Without a recent flag, a further warning names each
    publisher of an incompatible quality of service.

    Args:
        node: the node.
        topic: topic of the contact flag.
        qos: quality of service of the subscription.
        missing: the reason why there is no recent flag; an empty text if there is one.
        status: the status to fill in.
    """
    publishers = node.get_publishers_info_by_topic(topic)
    status.add("detectors", len(publishers))
    if len(publishers) > 1:
        status.raise_to(WARN, f"{topic} has {len(publishers)} publishers")
    if not missing:
        return
    status.raise_to(WARN, f"{missing}: no stop on contact; start a detector that publishes {topic}")
    for publisher in publishers:
        fits, reason = qos_check_compatible(publisher.qos_profile, qos)
        if fits == QoSCompatibility.ERROR:
            why = f"cannot be received: {reason}"
            status.raise_to(WARN, f"{topic} of {publisher.node_name} {why}")
