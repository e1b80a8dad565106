"""Parameters of limits, plausibility, faults and the safe torque."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rbd_control.joint_states.plausibility import PlausibilityParameters
from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class LimitParameters(Parameters):
    """Limits on torque, speed and position."""

    effort_limit: tuple[float, ...] = parameter(
        (0.0,),
        "largest torque of the motors; 0: the effort limit of the robot description, without "
        "which the controller does not start",
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
        "largest rate of change of the commanded torque; as it is a lag, it must be able to cross "
        "the effort limits in a fraction of 1 / bandwidth",
        unit="N·m/s or N/s",
        above=0.0,
        upper=1e9,
        per_joint=True,
    )
    gravity_compensated: bool = parameter(
        False,
        "the arm adds its own weight to the commanded torque (Franka, KUKA FRI): send the torque "
        "without it",
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
        "share of the effort limit with which the spring at a position limit pushes back there",
        lower=0.0,
        upper=1.0,
        per_joint=True,
    )
    limit_approach: float = parameter(
        10.0,
        "the reference nears a soft limit no faster than this times the distance left",
        unit="1/s",
        above=0.0,
        upper=1000.0,
    )


@dataclass(frozen=True)
class FaultParameters(PlausibilityParameters):
    """What counts as a fault, and the torque that follows.

    Measured efforts do not count: the law does not use them, and drivers publish them in any unit.
    """

    FORMER_NAMES: ClassVar[dict[str, str]] = {
        "speed_factor": "implausible_speed",
        "jump_tolerance": "implausible_jump",
    }

    timeout: float = parameter(
        0.05,
        "silence on joint_states, or a gap between stamps, after which the torque is safe",
        unit="s",
        above=0.0,
        upper=1.0,
    )
    safe_torque: str = parameter(
        "damping",
        "torque after a fault while joint states are good: 'damping' carries the arm's weight and "
        "brakes each joint, 'zero' sends zero, for arms that hold themselves; without good joint "
        "states it is zero either way",
        choices=("damping", "zero"),
    )
    safe_damping: float = parameter(
        10.0,
        "rate at which the safe torque brakes a joint; less where the rate of the joint states "
        "does not allow it",
        unit="1/s",
        lower=0.0,
        upper=100.0,
    )
    bad_samples: int = parameter(
        5,
        "successive unusable samples (no velocity, not finite, implausible) that are a fault; "
        "until then the last torque stands",
        lower=1,
        upper=1000,
    )
    repeated_time: float = parameter(
        0.015,
        "time for which three joint states or more may repeat to the last digit with a velocity "
        "that is not zero; then they are frozen, which is a fault. Must exceed the period at which "
        "the hardware updates",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    repeated_torque_share: float = parameter(
        0.05,
        "share of the effort limit by which the torque may change while joint states at rest "
        "repeat to the last digit; then they are frozen, too. Must exceed dry friction; a fifth of "
        "it counts where measured efforts repeat as well. 2: never",
        above=0.0,
        upper=2.0,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "time after which joint states at rest that repeat to the last digit are reported as "
        "frozen while torque is sent",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    implausible_speed: float = parameter(
        5.0,
        "multiple of a joint's velocity limit above which its speed, or the way from one sample to "
        "the next, is taken for an error; above overspeed_factor, which brakes instead",
        lower=1.0,
        upper=1000.0,
    )
    default_velocity_limit: float = parameter(
        10.0,
        "velocity limit that implausible_speed and overspeed_factor multiply for a revolute joint "
        "that has none; a fifth of it, in m/s, for a prismatic joint",
        unit="rad/s",
        above=0.0,
        upper=1e4,
    )
    overspeed_factor: float = parameter(
        2.0,
        "multiple of the velocity limit at which a measured speed is a fault if it lasts for 20 ms",
        lower=1.0,
        upper=1000.0,
    )
    implausible_jump: float = parameter(
        0.02,
        "jump of a position between two samples that is plausible at any speed",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
    )
    tracking_limit: tuple[float, ...] = parameter(
        (0.5,),
        "distance from the desired position that is a fault in hold and follow; 0: none",
        unit="rad or m",
        lower=0.0,
        upper=100.0,
        per_joint=True,
    )
