"""Parameters of the controller for node, parameter file and Python."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.motion_parameters import ReactionParameters, TrajectoryParameters
from rbd_control.control.safety_parameters import FaultParameters, LimitParameters
from rbd_control.errors import ParameterError
from rbd_control.parameters import parameter
from rbd_control.robot.friction import FrictionParameters

_UNSTABLE = 2.0
"""Least ``bandwidth + damping_rate`` per period of the joint states with which no loop is stable.

:meth:`ControllerParameters.rate_warning` has the derivation.
"""


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

    The torque contains ``-K_D s`` with the velocity error ``s = v - v_r`` and the reference
    velocity ``v_r = v_d - bandwidth (q - q_d)``. The gain is
    ``K_D(q) = diag(damping) + damping_rate M(q)``, which is positive definite, as the passivity
    proof requires. The second part is proportional to the inertia in every direction, so that one
    number fits any arm in any posture: with it alone s decays as exp(-damping_rate t). A loop with
    a total delay T (including filters) needs damping_rate T and bandwidth T below about 0.5; the
    defaults tolerate 6 ms. The first part adds stiffness to joints whose friction is large compared
    with their inertia, mainly wrists. The delay limits this part too: its largest stable value
    falls with the smallest inertia of the joint. Set ``damping_rate`` to zero for the K_D of the
    textbooks, which is constant.

    Known joint friction is added at the reference velocity. A wide ``friction_velocity_scale``
    (0.1 rad/s) prevents its sign from switching while the arm is at rest.

    Raises:
        ParameterError: for a value outside its bounds, if ``damping_rate`` and the smallest
            ``damping`` are both zero, or if ``implausible_speed`` does not exceed
            ``overspeed_factor``.
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
        False, "learn masses and joint friction from the tracking error, while the arm moves"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping_rate == 0.0 and min(self.damping) == 0.0:
            raise ParameterError(
                f"damping is {self.damping} and damping_rate 0: K_D must be positive definite"
            )

    def rate_warning(self, period: float) -> str:
        """Return a warning if the loop cannot be stable at a period of the joint states, or "".

        The error e of each joint obeys ``e'' = -(bandwidth + damping_rate) e' - bandwidth
        damping_rate e``. With a right side that is held for each period T, this is stable only if
        ``(bandwidth + damping_rate) T < 2``. A delay and the constant ``damping`` lower this bound.
        Friction, and inertia that the model lacks, raise it, so that such gains are no error.

        Args:
            period: mean period of the joint states [s]; NaN if it is unknown.
        """
        gains = self.damping_rate + max(self.bandwidth)
        if not gains * period >= _UNSTABLE:
            return ""
        return (
            f"joint states at {1.0 / period:.3g} Hz are too slow for the gains: bandwidth + "
            f"damping_rate is {gains:.4g} 1/s, and the loop is unstable above "
            f"{_UNSTABLE / period:.4g} 1/s, twice the rate; lower the gains"
        )
