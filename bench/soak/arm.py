"""The simulated arm of the package, with faults in its joint states on request."""

from __future__ import annotations

import sys

from rclpy.qos import QoSProfile
from std_msgs.msg import String

from bench.soak.faults import FaultyWriter, Order
from rbd_control.nodes.simulated_arm import SimulatedArmNode
from rbd_control.ros.run import run


class SoakArm(SimulatedArmNode):
    """The simulated arm, whose joint states are published through a :class:`FaultyWriter`.

    Each message (std_msgs/String) on ``~/fault`` is an :class:`~bench.soak.faults.Order` as text.
    """

    def configure(self) -> None:
        """Create the arm, and insert the faults between its sensors and the published messages."""
        super().configure()
        self._faulty = FaultyWriter(self._state_writer)
        self._state_writer = self._faulty  # type: ignore[assignment]
        self.create_subscription(String, "~/fault", self._on_fault, QoSProfile(depth=10))

    def _on_fault(self, message: String) -> None:
        self._faulty.obey(Order.from_text(message.data))


if __name__ == "__main__":
    sys.exit(run(SoakArm))
