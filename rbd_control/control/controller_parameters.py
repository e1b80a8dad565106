"""Parameters of the controller for node, parameter file and Python."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.drive_parameters import DriveParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.control.loop import Loop
from rbd_control.control.motion_parameters import TrajectoryParameters
from rbd_control.control.reactions import ReactionParameters
from rbd_control.control.safety_parameters import FaultParameters, LimitParameters
from rbd_control.parameters import parameter
from rbd_control.robot.friction import Friction, FrictionParameters, NoFriction


@dataclass(frozen=True)
class ControllerParameters(
    FrictionParameters,
    DriveParameters,
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
    number fits any arm in any posture: with it alone s decays as exp(-damping_rate t). The delay of
    the loop and the elasticity of the gears limit both gains, see
    :mod:`~rbd_control.control.loop`: the defaults are stable, with a factor of two, on arms whose
    lowest resonance is 40 Hz and whose loop is late by 15 ms at 1 kHz, or 5 ms at 100 Hz. The first
    part adds stiffness to joints whose friction is large compared with their inertia, mainly
    wrists; friction or the inertia of the motor must keep it stable. Set ``damping_rate`` to zero
    for the K_D of the textbooks, which is constant.

    Known joint friction is added at the reference velocity, unless the arm compensates it by itself
    (``friction_compensated``). A wide ``friction_velocity_scale`` (0.1 rad/s) prevents its sign
    from switching while the arm is at rest.

    Raises:
        ParameterError: for a value outside its bounds, or if ``implausible_speed`` does not exceed
            ``overspeed_factor``.
    """

    HEADING = "Gains and loop"

    bandwidth: tuple[float, ...] = parameter(
        (0.0,),
        "Lambda: rate at which the position error decays once s = 0; 0: at most half the rate at "
        "which s decays",
        unit="1/s",
        lower=0.0,
        upper=500.0,
        per_joint=True,
    )
    damping_rate: float = parameter(
        12.0,
        "part of K_D that is proportional to the mass matrix: rate at which s decays, and at which "
        "the safe torque brakes",
        unit="1/s",
        lower=0.0,
        upper=2000.0,
    )
    resonance: float = parameter(
        30.0,
        "lowest resonance of the arm, from the springs of its gears: the feedback fades towards "
        "it; 0 for a rigid arm, mostly a simulated one",
        unit="Hz",
        lower=0.0,
        upper=1000.0,
    )
    loop_delay: float = parameter(
        0.005,
        "delay from a torque command to its effect in the joint states, beyond one and a half "
        "periods of the joint states; limits the gains. rbd-control check --loop measures it",
        unit="s",
        lower=0.0,
        upper=0.2,
    )
    damping: tuple[float, ...] = parameter(
        (0.0,),
        "constant part of K_D; 0: from the effort limit, at most 0.03 s of it",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        upper=10000.0,
        per_joint=True,
        expert=True,
    )
    bias_rate: float = parameter(
        3.0,
        "rate at which a constant torque that the model lacks is learned, up to 15 % of the "
        "effort limit; 0: not learned",
        unit="1/s",
        lower=0.0,
        upper=20.0,
        expert=True,
    )
    adaptive: bool = parameter(
        False, "learn masses and joint friction from the tracking error, while the arm moves"
    )

    def friction(self, n: int) -> Friction:
        """Return the joint friction that the controller compensates and counts as loss.

        It is none for an arm that compensates its friction by itself: the drives then supply these
        losses, not the command.

        Args:
            n: number of joints.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        return NoFriction() if self.friction_compensated else super().friction(n)

    def require_stable(self, period: float) -> None:
        """Raise an error if the gains are too high for the loop, see :meth:`Loop.require`.

        The constant part ``damping`` is not examined: its limit depends on the friction.

        Args:
            period: mean period of the joint states [s]; NaN if it is unknown: no error then.

        Raises:
            InputError: naming the gains, the loop and the largest gains.
        """
        if period >= 0.0 and self.damping_rate > 0.0:
            loop = Loop(period, self.loop_delay, self.resonance)
            loop.require(self.damping_rate, min(self.bandwidth) or 0.5 * self.damping_rate)
