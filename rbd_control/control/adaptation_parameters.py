"""Parameters of the adaptive control law, for the ROS node, parameter files and Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rbd_control.parameters import Parameters, parameter

ALL = "all"
"""Entry of ``adapted_links`` that selects all links."""


@dataclass(frozen=True)
class AdaptationParameters(Parameters):
    """Parameters of :class:`~rbd_control.control.AdaptiveSlotineLiController`.

    This control law learns mass, centre of mass and inertia of links, and the friction of all
    joints, from the tracking error.

    ``largest_payload_mass`` and ``largest_payload_reach`` describe the largest unknown payload.
    They scale the estimates, so that a single learning rate applies to masses, centres and
    inertias, and they bound the estimates. The scale of friction is 5 % of the effort limit.
    """

    HEADING = "Adaptive law"

    REMOVED_NAMES: ClassVar[Mapping[str, str]] = {
        "adapt_friction": "the adaptive law always learns friction",
        "friction_learning_rate": "learning_rate applies to friction too",
        "adaptation_dead_zone": "the adaptive law learns friction, and nothing at rest",
    }

    adapted_links: tuple[str, ...] = parameter(
        (),
        "links whose mass, centre of mass and inertia are learned, including everything fixed to "
        "them; empty: the last link alone, which carries the payload; 'all': all links",
        in_description=True,
        keywords=(ALL,),
    )
    learning_rate: float = parameter(
        5.0,
        "learning rate of masses and friction; its inverse is the energy that an error as large as "
        "the expected payload may add to the motion before it is learned",
        unit="1/J",
        above=0.0,
        upper=1000.0,
        expert=True,
    )
    largest_payload_mass: float = parameter(
        3.0, "largest mass that is expected on an adapted link", unit="kg", above=0.0, upper=1e4
    )
    largest_payload_reach: float = parameter(
        0.2,
        "distance from the origin of an adapted link within which that mass lies",
        unit="m",
        above=0.0,
        upper=10.0,
        expert=True,
    )
