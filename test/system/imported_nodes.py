"""What a process imports, and loads from the kernel cache, before nodes are forked from it.

See :mod:`.forked_nodes`. Only the process that nodes are forked from imports this module.
"""

from __future__ import annotations

import gc

from rbd_control.dynamics import gravity_torque
from rbd_control.nodes import (
    contact_aware_controller,
    contact_guard,
    demo_scenario,
    joint_state_player,
    simulated_arm,
)
from rbd_control.nodes.processes import ending_with_parent

from .controller_scenarios import MODEL, POSTURE

__all__ = [
    "contact_aware_controller",
    "contact_guard",
    "demo_scenario",
    "end_with_parent",
    "joint_state_player",
    "simulated_arm",
]

end_with_parent = ending_with_parent()
"""Called in a forked node, it ends the node with the process that it was forked from."""

gravity_torque(MODEL, POSTURE)  # the first call of a compiled function starts numba
gc.freeze()  # the garbage collector of a node does not visit, and so copy, what is shared
