"""Text of a log message with the reason why a node has no usable joint state."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from rbd_control.joint_states.intake import JointStateIntake
from rbd_control.wording import listed, quoted

WITHOUT_SHARED_MEMORY = "FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
"""Environment variable that makes Fast DDS send without shared memory.

A receiver that is too busy to answer a check of its shared memory within a second never receives
by shared memory again. The nodes of this package use no shared memory unless the user selects it,
see :mod:`rbd_control.ros.transports`.
"""


def advice(
    topic: str, publishers: int, intake: JointStateIntake, others: Collection[str] = ()
) -> str:
    """Return the reason why there are no usable joint states, and the remedy, as text.

    Args:
        topic: name of the topic of the joint states.
        publishers: number of its publishers.
        intake: the intake that has processed the messages on the topic, none of them usable.
        others: joints of the robot description that the node does not use.
    """
    if not publishers:
        return f"no node publishes {topic}; remap joint_states to the topic of the robot's driver"
    if not intake.last_reason:
        return (
            f"no message arrives on {topic}, although it has {_count(publishers)}: the driver "
            f"sends none, is blocked by a stopped subscriber, or cannot reach this node (start "
            f"the driver with {WITHOUT_SHARED_MEMORY} to exclude its shared memory)"
        )
    if intake.last_reason == "missing joint":
        return f"joint states on {topic} {_lack(intake, others)}"
    reason = intake.last_reason
    if reason == "too large":
        reason += f" ({intake.too_large})"
    return f"joint states on {topic} cannot be used: {reason}"


def _lack(intake: JointStateIntake, others: Collection[str]) -> str:
    found: Sequence[str] = intake.refused_names
    missing = [name for name in intake.joint_names if name not in found]
    unknown = [name for name in found if name not in others]
    if found and not unknown:
        return f"lack {listed(missing)}; they have {listed(found)}, other joints of the description"
    nearest = get_close_matches(missing[0], unknown, n=1) if missing else []
    hint = f"; is {quoted(nearest[0])} the same joint as {quoted(missing[0])}?" if nearest else "."
    return (
        f"lack {listed(missing)}; they have {listed(found)}{hint} The names must be those of the "
        f"robot description"
    )


def _count(publishers: int) -> str:
    return "a publisher" if publishers == 1 else f"{publishers} publishers"
