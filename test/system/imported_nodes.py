"""What a process imports, and loads from the kernel cache, before nodes are forked from it.

See :mod:`.forked_nodes`. Only the process that nodes are forked from imports this module.
"""

from __future__ import annotations

import gc
import inspect
import sys
from typing import Any

import scipy.spatial  # noqa: F401
from rclpy.node import Node

from rbd_control.estimation import DetectorParameters
from rbd_control.nodes import (
    contact_aware_controller,
    contact_guard,
    demo_scenario,
    hand_guide,
    joint_state_player,
    simulated_arm,
)
from rbd_control.ros import managed_node
from rbd_control.ros.diagnostics import Diagnostics
from rbd_control.ros.processes import ending_with_parent
from rbd_control.simulation import SimulatedArm, Sphere
from rbd_control.startup.compilation import (
    rehearse_arm,
    rehearse_controller,
    rehearse_detector,
    rehearse_intake,
)

from .bringup import REPORT_PERIOD
from .controller_setting import MODEL

__all__ = [
    "contact_aware_controller",
    "contact_guard",
    "demo_scenario",
    "end_with_parent",
    "hand_guide",
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


def rehearse() -> None:
    """Load what each node rehearses before its activation, as most of its start would be that.

    The nodes rehearse all the same, and load what is missing here.
    """
    rehearse_intake()
    for parameters in (DetectorParameters(), DetectorParameters(tool_frame="tool")):
        rehearse_detector(MODEL, parameters)
    rehearse_controller(MODEL)
    rehearse_arm(SimulatedArm(MODEL, obstacles=(Sphere((9.0, 0.0, 0.0), 0.1),)))
    # The first line that a node logs would look through all modules for the one that logs it.
    inspect.getframeinfo(sys._getframe())


rehearse()
gc.freeze()  # the garbage collector of a node does not visit, and so copy, what is shared
