"""What a process imports, and loads from the kernel cache, before nodes are forked from it.

See :mod:`.forked_nodes`. Only the process that nodes are forked from imports this module.
"""

from __future__ import annotations

import gc
from typing import Any

from rclpy.node import Node

from rbd_control.dynamics import gravity_torque
from rbd_control.nodes import (
    contact_aware_controller,
    contact_guard,
    demo_scenario,
    joint_state_player,
    managed_node,
    simulated_arm,
)
from rbd_control.nodes.diagnostics import Diagnostics
from rbd_control.nodes.processes import ending_with_parent

from .bringup import REPORT_PERIOD
from .controller_scenarios import MODEL, POSTURE

__all__ = [
    "contact_aware_controller",
    "contact_guard",
    "demo_scenario",
    "end_with_parent",
    "joint_state_player",
    "simulated_arm",
]


class FrequentDiagnostics(Diagnostics):
    """Diagnostics that are published every :data:`~.bringup.REPORT_PERIOD`."""

    def __init__(self, node: Node, *arguments: Any, **options: Any) -> None:
        before = set(node.timers)
        super().__init__(node, *arguments, **options)
        if isinstance(node, contact_guard.ContactGuard):
            return  # its tests count the reports of a second
        (timer,) = set(node.timers) - before
        timer.timer_period_ns = round(1e9 * REPORT_PERIOD)


managed_node.Diagnostics = FrequentDiagnostics  # type: ignore[attr-defined]

end_with_parent = ending_with_parent()
"""Called in a forked node, it ends the node with the process that it was forked from."""

gravity_torque(MODEL, POSTURE)  # the first call of a compiled function starts numba
gc.freeze()  # the garbage collector of a node does not visit, and so copy, what is shared
