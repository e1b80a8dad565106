"""Quality of service of flags that are repeated while they are valid, and expire otherwise.

These are ``~/contact`` and ``~/contact_stamped`` of the detector and ``~/stopped`` of the guard.
"""

from __future__ import annotations

from rclpy.duration import Duration
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

REPEAT_PERIOD = 0.02
"""Period at which a valid flag is published again [s]."""

LIFESPAN = 2.5 * REPEAT_PERIOD
"""Age at which the middleware discards a flag that it stores for late subscribers [s]."""

LIFESPAN_KEEPERS = ("rmw_fastrtps", "rmw_cyclonedds", "rmw_connextdds")
"""Prefixes of the names of the middlewares that discard expired messages."""


def verdict_qos(middleware: str) -> QoSProfile:
    """Return the quality of service of ``~/contact`` and of other flags that are repeated.

    It is reliable with depth 1. A late subscriber must not receive an outdated flag, but
    subscriptions that request transient-local durability must still match. Therefore the middleware
    stores the last flag for late subscribers for :data:`LIFESPAN`. If the middleware does not
    support lifespans, the durability is volatile.

    Args:
        middleware: name of the ROS middleware implementation, such as ``rmw_fastrtps_cpp``.
    """
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    if middleware.startswith(LIFESPAN_KEEPERS):
        qos.durability = DurabilityPolicy.TRANSIENT_LOCAL
        qos.lifespan = Duration(seconds=LIFESPAN)
    else:
        qos.durability = DurabilityPolicy.VOLATILE
    return qos
