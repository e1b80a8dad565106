"""Quality of service of a flag that is repeated while it is valid, and expires otherwise."""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

REPEAT_PERIOD = 0.02
"""Period at which a valid verdict is repeated [s]."""

LIFESPAN = 2.5 * REPEAT_PERIOD
"""Age at which the middleware discards a verdict stored for late subscribers [s]."""

LIFESPAN_KEEPERS = ("rmw_fastrtps", "rmw_cyclonedds", "rmw_connextdds")
"""Beginnings of the names of middlewares that discard expired messages."""


def verdict_qos(middleware: str) -> QoSProfile:
    """Return the quality of service of ``~/contact`` and of other flags that are repeated.

    A late subscriber must not receive an outdated verdict, but subscriptions that request
    transient-local durability must still match. Therefore the middleware stores the last verdict
    for late subscribers with a limited lifespan. If the middleware does not support lifespans,
    the durability is volatile.

    Args:
        middleware: name of the ROS middleware implementation.
    """
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    if middleware.startswith(LIFESPAN_KEEPERS):
        qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        qos.lifespan = Duration(seconds=LIFESPAN)
    else:
        qos.durability = DurabilityPolicy.VOLATILE
    return qos
