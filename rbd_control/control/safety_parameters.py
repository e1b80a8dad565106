"""Parameters of limits, plausibility, faults and the safe torque."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rbd_control.errors import ParameterError
from rbd_control.joint_states.plausibility import PlausibilityParameters
from rbd_control.parameters import Parameters, parameter


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
