"""Energies of the controller: published while the topic has subscribers, and in diagnostics."""

from __future__ import annotations

from rclpy.node import Node
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from rbd_control.control import PassivityController
from rbd_control.control.energy import EnergyBalance
from rbd_control.nodes.diagnostics import WARN, Status
from rbd_control.nodes.messages import EVERY_SAMPLE

ENERGIES = ("storage", "dissipated", "injected", "supplied", "bound", "tank")
"""Entries of ``~/energy``, in this order [J].

``tank`` is the level of the energy tank, the others are fields of :class:`EnergyBalance`.
"""


class EnergyOutput:
    """Publishes ``~/energy`` and counts the samples in which the control loop was not passive.

    :attr:`EnergyBalance.passive` decides whether it was passive.

    Args:
        node: the node.
    """

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(Float64MultiArray, "~/energy", EVERY_SAMPLE)
        self._message = Float64MultiArray()
        self._message.layout.dim = [
            MultiArrayDimension(
                label=", ".join(f"{name} [J]" for name in ENERGIES),
                size=len(ENERGIES),
                stride=len(ENERGIES),
            )
        ]
        self._is_heard = False
        self._last: EnergyBalance | None = None
        self._not_passive = 0

    def look_for_readers(self) -> None:
        """Check for subscribers, without which nothing is published. Call it periodically."""
        self._is_heard = self._publisher.get_subscription_count() > 0

    def add(self, energy: EnergyBalance | None, tank: float) -> None:
        """Publish the energies of one sample if the topic has subscribers.

        Args:
            energy: balance of the period that ends with the sample; None if there is none, for
                which nothing is published.
            tank: level of the energy tank [J].
        """
        self._last = energy
        if energy is None:
            return
        self._not_passive += not energy.passive
        if self._is_heard:
            values = [getattr(energy, name) for name in ENERGIES[:-1]]
            self._message.data = [float(x) for x in (*values, tank)]
            self._publisher.publish(self._message)

    def report(self, status: Status, controller: PassivityController) -> None:
        """Add energies and learned masses to the diagnostics of an active controller.

        Samples since the last report in which the control loop was not passive are a warning.
        """
        law = controller.law
        if self._last is not None:
            status.add("storage [J]", self._last.storage)
        status.add("samples not passive", self._not_passive)
        if self._not_passive:
            self._not_passive = 0
            status.raise_to(
                WARN,
                "the control loop injects more energy than K_D dissipates, because of delay or "
                "saturation; lower the gains or the delay",
            )
        if controller.parameters.tank_capacity:
            status.add("tank [J]", law.tank.level)
        if law.adaptive is not None:
            status.add("payload learned [kg]", law.adaptive.payload)
            for estimate in law.adaptive.estimates.links:
                status.add(f"{estimate.link} mass [kg]", estimate.mass)
