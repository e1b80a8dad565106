"""What can be set about learning: described once for node, config file and law."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.parameters import Parameters, parameter

ALL = "all"
"""Stands for all links in ``adapted_links``."""


@dataclass(frozen=True)
class AdaptationParameters(Parameters):
    """Parameters of :class:`~rbd_control.control.AdaptiveSlotineLiController`.

    ``largest_payload_mass`` and ``largest_payload_reach`` say how large an unknown payload may be.
    They are the scale of the estimates, so that one learning rate serves masses, centres and
    inertias alike, and they bound them. Friction errors are small beside weights and have a rate of
    their own; what is to be learned of them must be larger than the dead zone.
    """

    adapted_links: tuple[str, ...] = parameter(
        (),
        "links whose mass, centre of mass and inertia are learned, with what is fixed to them: "
        "none for the last link alone, which is the one with the payload; 'all' for all",
    )
    adapt_friction: bool = parameter(
        False,
        "learn Coulomb and viscous friction of the joints, from the values given, which must be "
        "positive (friction_model coulomb_viscous)",
    )
    friction_learning_rate: float = parameter(
        200.0,
        "speed of learning friction; its inverse is the energy that friction as wrong as the "
        "value given may bring into the motion before it is learned",
        unit="1/J",
        above=0.0,
        upper=1e5,
    )
    learning_rate: float = parameter(
        5.0,
        "speed of learning masses; its inverse is the energy that an error as large as the "
        "expected payload may bring into the motion before it is learned",
        unit="1/J",
        above=0.0,
        upper=1000.0,
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
    )
    adaptation_dead_zone: tuple[float, ...] = parameter(
        (0.3,),
        "torque error that is not learned from, for it may be friction or noise; at rest what "
        "stays unlearned is about this",
        unit="N·m or N",
        lower=0.0,
        upper=1000.0,
        per_joint=True,
    )
