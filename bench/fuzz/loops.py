"""The nodes that are fuzzed: two closed loops, a contact guard, a separate arm, and a player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.rig import NodeSpec


@dataclass(frozen=True)
class Loop:
    """Names of the nodes of a closed loop: simulated arm, controller and detector.

    Attributes:
        namespace: namespace of the three nodes.
    """

    namespace: str

    @property
    def arm(self) -> str:
        """Full name of the simulated arm."""
        return f"{self.namespace}/simulated_arm"

    @property
    def controller(self) -> str:
        """Full name of the controller."""
        return f"{self.namespace}/passivity_controller"

    @property
    def detector(self) -> str:
        """Full name of the detector."""
        return f"{self.namespace}/contact_detector"

    @property
    def nodes(self) -> tuple[str, str, str]:
        """Full names in the order in which the nodes can be activated."""
        return (self.arm, self.controller, self.detector)


SEPARATE, TOGETHER = Loop("loop"), Loop("together")
"""Loops with controller and detector in separate processes, and in ``contact_aware_controller``."""

LOOPS = (SEPARATE, TOGETHER)


def specs(recording: Path) -> Sequence[NodeSpec]:
    """Return the specifications of all nodes that are fuzzed.

    Args:
        recording: recording for the player.
    """
    both, process = "contact_aware_controller", f"{TOGETHER.namespace}.contact_aware_controller"
    return [
        NodeSpec("simulated_arm", SEPARATE.arm),
        NodeSpec("passivity_controller", SEPARATE.controller),
        NodeSpec("contact_detector", SEPARATE.detector),
        NodeSpec("simulated_arm", TOGETHER.arm),
        NodeSpec(both, TOGETHER.controller, process=process),
        NodeSpec(both, TOGETHER.detector, process=process),
        NodeSpec("contact_guard", "guard/contact_guard"),
        NodeSpec("simulated_arm", "alone/simulated_arm"),
        NodeSpec(
            "joint_state_player", "play/joint_state_player", ("-p", f"recording:={recording}")
        ),
    ]
