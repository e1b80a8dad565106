"""The parameters of the contact detector, the same for the node, ``replay`` and the library."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbd_control.errors import ParameterError
from rbd_control.friction import FrictionParameters
from rbd_control.parameters import parameter

_TORQUE = "N·m or N"


@dataclass(frozen=True)
class DetectorParameters(FrictionParameters):
    """Observer, friction, thresholds and timing of the contact detector.

    Per-joint parameters hold one value for all joints or one for each, in the order of the joints.
    The default thresholds suit no arm in particular: take them from contact-free recordings of
    yours.

    Raises:
        ParameterError: for a value out of bounds, or a collision threshold that does not lie
            above the contact threshold of its joint.
    """

    observer_gain: tuple[float, ...] = parameter(
        (50.0,),
        "Gain K_O of the momentum observer; 1 / K_O is its time constant",
        unit="1/s",
        above=0.0,
        upper=5000.0,
        per_joint=True,
    )
    contact_threshold: tuple[float, ...] = parameter(
        (10.0,),
        "Residual above which a joint reports contact",
        unit=_TORQUE,
        above=0.0,
        per_joint=True,
    )
    collision_threshold: tuple[float, ...] = parameter(
        (40.0,),
        "Residual above which a contact is a collision",
        unit=_TORQUE,
        above=0.0,
        per_joint=True,
    )
    release_ratio: float = parameter(
        0.7,
        "Hysteresis: a contact can end once every residual is below this part of its threshold",
        lower=0.05,
        upper=1.0,
    )
    onset_debounce: float = parameter(
        0.002,
        "Time the residual must stay above a threshold before contact is reported",
        unit="s",
        lower=0.0,
        upper=1.0,
    )
    release_debounce: float = parameter(
        0.15,
        "Time the residuals must stay below their release levels before the contact ends",
        unit="s",
        lower=0.0,
        upper=10.0,
    )
    settling_time: float = parameter(
        0.1,
        "Time after a start or restart of the observer before its verdict is valid",
        unit="s",
        lower=0.0,
        upper=10.0,
    )
    maximum_gap: float = parameter(
        0.1,
        "Longest time between samples that is bridged; after a longer one the observer restarts",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    force_uncertainty: float = parameter(
        20.0,
        "Largest standard deviation of an estimated force; above it the force is not observable",
        unit="N",
        above=0.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        n = max(len(self.contact_threshold), len(self.collision_threshold))
        contact = self.for_joints("contact_threshold", n)
        collision = self.for_joints("collision_threshold", n)
        for i in np.flatnonzero(collision <= contact):
            raise ParameterError(
                f"collision_threshold[{i}] is {collision[i]} but contact_threshold[{i}] is "
                f"{contact[i]} {_TORQUE}; a collision must lie above a contact"
            )
