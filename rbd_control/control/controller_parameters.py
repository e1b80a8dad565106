"""What can be set about the controller: described once for node, config file and law."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.motion_parameters import ReactionParameters, TrajectoryParameters
from rbd_control.control.safety_parameters import FaultParameters, LimitParameters
from rbd_control.errors import ParameterError
from rbd_control.parameters import parameter
from rbd_control.robot.friction import FrictionParameters


@dataclass(frozen=True)
class ControllerParameters(
    FrictionParameters,
    LimitParameters,
    TrajectoryParameters,
    ReactionParameters,
    FaultParameters,
    AdaptationParameters,
    EnergyParameters,
):
    """Parameters of :class:`SlotineLiController` and :class:`PassivityController`.

    The gain on s is ``K_D(q) = diag(damping) + damping_rate M(q)``, which is positive definite;
    the proof asks no more. The second part is as strong in every direction as the arm is heavy
    there, so that one number fits any arm in any posture: with it alone s decays as
    exp(-damping_rate t). A loop that is late by T (delays and filters summed) wants
    damping_rate T and bandwidth T below about 0.5; the defaults bear 6 ms. The first part adds
    stiffness where friction is large beside inertia, in wrists above all; the delay bounds it by
    the least inertia its joint can have. Set ``damping_rate`` to zero for the textbook's K_D.

    The friction of the joints, where it is known, is added at the reference velocity. A wide
    ``friction_velocity_scale`` (0.1 rad/s) keeps it from switching while the arm stands still.
    """

    bandwidth: tuple[float, ...] = parameter(
        (40.0,),
        "Lambda: rate at which the position error decays once s = 0",
        unit="1/s",
        above=0.0,
        upper=500.0,
        per_joint=True,
    )
    damping_rate: float = parameter(
        80.0,
        "part of K_D that is proportional to the mass matrix: rate at which s decays",
        unit="1/s",
        lower=0.0,
        upper=2000.0,
    )
    damping: tuple[float, ...] = parameter(
        (0.3,),
        "constant part of K_D",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        upper=10000.0,
        per_joint=True,
    )
    adaptive: bool = parameter(
        False, "learn masses (and friction, if told to) while moving, from the errors of tracking"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping_rate == 0.0 and min(self.damping) == 0.0:
            raise ParameterError(
                f"damping is {self.damping} and damping_rate 0: K_D must be positive definite"
            )
