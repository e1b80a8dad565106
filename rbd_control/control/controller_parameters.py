"""Parameters of the controller for node, parameter file and Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rbd_control.control.gains import Loop
from rbd_control.control.reactions import ReactionParameters
from rbd_control.dynamics import Model
from rbd_control.errors import ParameterError
from rbd_control.joint_states.plausibility import PlausibilityParameters
from rbd_control.parameters import Parameters, parameter
from rbd_control.robot.friction import Friction, FrictionParameters, NoFriction

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


@dataclass(frozen=True)
class DriveParameters(Parameters):
    """Parameters of the gravity and friction that the drives of an arm compensate by themselves.

    Raises:
        ParameterError: for ``compensated_gravity`` without three values, or without
            ``gravity_compensated``.
    """

    HEADING = "What the drives compensate"

    gravity_compensated: bool = parameter(
        False,
        "the arm adds its gravity torque to the command (Franka, UR, KUKA FRI): send the torque "
        "without gravity",
        live=False,
    )
    compensated_gravity: tuple[float, ...] = parameter(
        (),
        "gravity that the arm assumes in its own compensation, in the frame of the root link: "
        "x y z; empty: the parameter gravity, because the arm knows its mounting. Give it for a "
        "tilted arm that assumes an upright base: the controller then sends the difference",
        unit="m/s²",
        lower=-100.0,
        upper=100.0,
        live=False,
    )
    friction_compensated: bool = parameter(
        False,
        "the arm compensates its joint friction by itself (Franka, UR): send the torque without "
        "friction; friction_* then apply to detector and calibration only",
        live=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.compensated_gravity) not in (0, 3):
            raise ParameterError(
                f"compensated_gravity has {len(self.compensated_gravity)} values; give x y z, or "
                f"none for an arm that knows its mounting"
            )
        if self.compensated_gravity and not self.gravity_compensated:
            raise ParameterError(
                f"compensated_gravity is {list(self.compensated_gravity)} but gravity_compensated "
                f"is false; set it to true, or remove compensated_gravity"
            )

    def compensated(self, model: Model) -> Model | None:
        """Return the arm with the gravity that it compensates by itself, ``compensated_gravity``.

        Args:
            model: the arm with its payload. The payload is assumed to be set in the arm as well.

        Returns:
            The arm; None if it does not compensate gravity.
        """
        if not self.gravity_compensated:
            return None
        if not self.compensated_gravity:
            return model
        return _under(model, np.array(self.compensated_gravity))

    def uncompensated(self, model: Model) -> Model | None:
        """Return the arm under the part of gravity that an arm with own compensation leaves over.

        The gravity torque is linear in gravity, so that the gravity torque of the result is
        ``g(q; gravity) - g(q; compensated_gravity)``.

        Args:
            model: the arm with its payload.

        Returns:
            The arm; None if nothing is left, or if the arm does not compensate gravity.
        """
        if not self.compensated_gravity:
            return None
        rest = model.gravity - np.array(self.compensated_gravity)
        return _under(model, rest) if rest.any() else None


def commanded(parameters: DriveParameters, model: Model) -> Model:
    """Return the arm under the part of gravity that its commands contain.

    It is the arm itself, or for an arm that compensates gravity the result of
    :meth:`DriveParameters.uncompensated`, without gravity if nothing is left over.
    """
    if not parameters.gravity_compensated:
        return model
    return parameters.uncompensated(model) or _under(model, np.zeros(3))


def _under(model: Model, gravity: np.ndarray) -> Model:
    """Return the arm under another gravity, (3,) [m/s²]."""
    return replace(model, gravity=gravity, arrays=model.arrays._replace(gravity=gravity))


@dataclass(frozen=True)
class EnergyParameters(Parameters):
    """Parameters of the energy monitor and the energy tank.

    The monitor reports whether the control loop is passive; the tank bounds the injected energy.
    See :class:`~rbd_control.control.EnergyMonitor` and :class:`~rbd_control.control.EnergyTank`.
    """

    HEADING = "Passivity monitor and energy tank"

    passivity_margin: float = parameter(
        0.1,
        "share of the dissipation by K_D that must remain after subtraction of the energy that the "
        "loop injects (delay, saturation); otherwise the loop is reported as not passive",
        lower=0.0,
        upper=1.0,
        expert=True,
    )
    passivity_tolerance: float = parameter(
        0.5,
        "largest injected power that is not reported",
        unit="W",
        lower=0.0,
        upper=1e4,
        expert=True,
    )
    passivity_window: float = parameter(
        0.1,
        "time constant of the average powers in the passivity check",
        unit="s",
        above=0.0,
        upper=60.0,
        expert=True,
    )
    tank_capacity: float = parameter(
        0.0,
        "capacity of the energy tank: energy that the controller may inject into the arm; 0 for no "
        "bound",
        unit="J",
        lower=0.0,
        upper=1e6,
    )
    tank_refill: float = parameter(
        1.0,
        "constant power that refills the tank, for losses that the friction model does not cover",
        unit="W",
        lower=0.0,
        upper=1e5,
        expert=True,
    )
    tank_valve: float = parameter(
        0.2,
        "level, as a share of the capacity, below which the active torque fades with the level",
        above=0.0,
        upper=1.0,
        expert=True,
    )


@dataclass(frozen=True)
class TrajectoryParameters(Parameters):
    """Parameters for the acceptance of trajectories, and their tolerances."""

    HEADING = "Trajectories"

    allow_partial_joints_goal: bool = parameter(
        False, "accept trajectories that name some of the joints; the other joints stay at rest"
    )
    angle_wraparound: bool = parameter(
        False,
        "shift continuous joints of a trajectory by the whole turns that bring its first point "
        "nearest",
    )
    stretch_to_limits: bool = parameter(
        False,
        "slow down a trajectory above the speed or effort limits until it keeps them, instead of "
        "refusing it; otherwise only speed limits are checked",
    )
    stream_horizon: float = parameter(
        0.25,
        "successive one-point trajectories due within this time are a stream, whose points are "
        "passed without a stop; 0: no streams",
        unit="s",
        lower=0.0,
        upper=2.0,
        expert=True,
    )
    path_tolerance: tuple[float, ...] = parameter(
        (0.0,),
        "distance from the desired position above which a trajectory is aborted; 0: no limit",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        per_joint=True,
        expert=True,
    )
    goal_tolerance: tuple[float, ...] = parameter(
        (0.02,),
        "distance from the last point at which a trajectory's goal is reached",
        unit="rad or m",
        above=0.0,
        upper=10.0,
        per_joint=True,
    )
    stopped_velocity_tolerance: float = parameter(
        0.1,
        "speed of every joint below which the goal is reached",
        unit="rad/s or m/s",
        above=0.0,
        upper=10.0,
        expert=True,
    )
    goal_time: float = parameter(
        1.0,
        "time after the last point within which the goal must be reached",
        unit="s",
        lower=0.0,
        upper=60.0,
        expert=True,
    )


@dataclass(frozen=True)
class LimitParameters(Parameters):
    """Parameters of limits on torque, speed and position."""

    HEADING = "Limits"

    effort_limit: tuple[float, ...] = parameter(
        (0.0,),
        "largest torque of the motors; 0: the effort limit of the robot description. Without any "
        "limit the controller does not start",
        unit="N·m or N",
        lower=0.0,
        upper=1e5,
        per_joint=True,
    )
    velocity_limit: tuple[float, ...] = parameter(
        (0.0,),
        "largest speed of planned motions; 0: the velocity limit of the robot description, if it "
        "has one",
        unit="rad/s or m/s",
        lower=0.0,
        upper=1000.0,
        per_joint=True,
    )
    torque_share: tuple[float, ...] = parameter(
        (1.0,),
        "share of the effort limit that may be commanded",
        above=0.0,
        upper=1.0,
        per_joint=True,
    )
    torque_rate: tuple[float, ...] = parameter(
        (20000.0,),
        "largest rate of the commanded torque; a low value adds delay: the torque must be able to "
        "change from one effort limit to the opposite one in a fraction of 1 / bandwidth",
        unit="N·m/s or N/s",
        above=0.0,
        upper=1e9,
        per_joint=True,
        expert=True,
    )
    limit_margin: tuple[float, ...] = parameter(
        (0.05,),
        "distance of the soft limits from the description's position limits (at most a tenth of "
        "the range); trajectories must keep within; 0: the limits themselves, and no spring",
        unit="rad or m",
        lower=0.0,
        upper=1.0,
        per_joint=True,
    )
    limit_torque_share: tuple[float, ...] = parameter(
        (0.5,),
        "torque of the spring at a position limit, as a share of the effort limit",
        lower=0.0,
        upper=1.0,
        per_joint=True,
        expert=True,
    )
    limit_approach: float = parameter(
        10.0,
        "largest reference speed towards a soft limit, per remaining distance",
        unit="1/s",
        above=0.0,
        upper=1000.0,
        expert=True,
    )


@dataclass(frozen=True)
class FaultParameters(PlausibilityParameters):
    """Parameters of faults and of the torque after a fault.

    Implausible measured efforts are not a fault: the law computes without measured efforts, and
    drivers publish efforts in any unit.

    Raises:
        ParameterError: unless ``implausible_speed`` is larger than ``overspeed_factor``.
    """

    HEADING = "Faults, and the torque after a fault"

    FORMER_NAMES: ClassVar[dict[str, str]] = {
        "speed_factor": "implausible_speed",
        "jump_tolerance": "implausible_jump",
    }
    REMOVED_NAMES: ClassVar[Mapping[str, str]] = {
        "safe_damping": "the safe torque brakes with damping_rate",
    }

    timeout: float = parameter(
        0.05,
        "time without joint states or without a published torque, gap between stamps, or growth of "
        "the delay of joint states, that is a fault",
        unit="s",
        above=0.0,
        upper=1.0,
    )
    safe_torque: str = parameter(
        "damping",
        "torque after a fault while joint states are valid: 'damping' brakes the arm with "
        "damping_rate and compensates gravity, unless the model is known to be wrong; 'zero', for "
        "arms that hold themselves, brakes only, and is zero once the arm stands; without valid "
        "joint states it is always zero",
        choices=("damping", "zero"),
    )
    bad_samples: int = parameter(
        5,
        "number of consecutive unusable samples (no velocity, not finite, implausible, delayed) "
        "that is a fault, also among valid samples if more than one in 17 is unusable; until then "
        "the last torque is held",
        lower=1,
        upper=1000,
        expert=True,
    )
    repeated_time: float = parameter(
        0.015,
        "time of identical joint states, beyond 1.5 of the periods at which the hardware has shown "
        "updates, after which they count as frozen if their velocity contradicts standing "
        "positions, and in which a joint must begin to move under repeated_torque_share",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
    )
    repeated_torque_share: float = parameter(
        0.25,
        "change of the feedback torque of a joint, as a share of its effort limit, under which "
        "identical joint states of this joint are a fault: frozen, braked or blocked. Must exceed "
        "twice the static friction. 2: never",
        above=0.0,
        upper=2.0,
        expert=True,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "time of identical joint states at rest, while torque is sent, after which to warn",
        unit="s",
        above=0.0,
        upper=3600.0,
        expert=True,
    )
    implausible_speed: float = parameter(
        5.0,
        "multiple of a joint's velocity limit above which its speed, or its motion between two "
        "samples, is a sensor error; must be above overspeed_factor, which leads to damping",
        lower=1.0,
        upper=1000.0,
        expert=True,
    )
    default_velocity_limit: float = parameter(
        10.0,
        "velocity limit assumed by implausible_speed and overspeed_factor for a revolute joint "
        "without limit; a fifth of it, in m/s, for a prismatic joint",
        unit="rad/s",
        above=0.0,
        upper=1e4,
        expert=True,
    )
    overspeed_factor: float = parameter(
        2.0,
        "multiple of the velocity limit at which a measured speed is a fault if it lasts for 20 ms",
        lower=1.0,
        upper=500.0,
        expert=True,
    )
    implausible_jump: float = parameter(
        0.02,
        "change of a position between two samples that is accepted at any speed",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        expert=True,
    )
    velocity_mismatch: float = parameter(
        0.005,
        "difference between the motion of a joint and the integral of its velocity, beyond three "
        "tenths of that motion, that is a fault: the velocity has the wrong sign, unit or order; "
        "0: never",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        expert=True,
    )
    delay_growth: float = parameter(
        0.0,
        "growth of the delay from the stamp of a joint state to its arrival that makes the joint "
        "state unusable, for a robot whose stamps are of real time; in a simulation, whose time "
        "may pass more slowly, 0: never",
        unit="s",
        lower=0.0,
        upper=10.0,
    )
    tracking_limit: tuple[float, ...] = parameter(
        (0.0,),
        "distance from the desired position that is a fault in hold and follow; 0: 0.5, for light "
        "joints, which a hand turns, 1.5",
        unit="rad or m",
        lower=0.0,
        upper=100.0,
        per_joint=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.implausible_speed <= self.overspeed_factor:
            raise ParameterError(
                f"implausible_speed is {self.implausible_speed:g} but overspeed_factor "
                f"{self.overspeed_factor:g}; it must be larger: samples of an arm that is too fast "
                f"must be usable, or the arm gets zero torque instead of damping"
            )


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
    :mod:`~rbd_control.control.gains`: the defaults are stable, with a factor of two, on arms whose
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
