"""What can be set about the controller: described once for node, config file and law."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.energy_parameters import EnergyParameters
from rbd_control.errors import ParameterError
from rbd_control.friction import FrictionParameters
from rbd_control.parameters import parameter


@dataclass(frozen=True)
class ControllerParameters(FrictionParameters, AdaptationParameters, EnergyParameters):
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
    torque_share: tuple[float, ...] = parameter(
        (1.0,),
        "share of the description's effort limit that may be commanded",
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
    stop_time: float = parameter(
        0.1,
        "time in which a moving arm is brought to rest where it was told to hold",
        unit="s",
        above=0.0,
        upper=10.0,
    )
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
        "brings it to rest, 'zero' is for arms that do that themselves; without good joint "
        "states it is zero either way",
        choices=("damping", "zero"),
    )
    safe_damping: float = parameter(
        10.0,
        "rate at which the safe torque brings the arm to rest",
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
        0.25,
        "time for which joint states may repeat to the last digit, with a velocity that is not "
        "zero, before they are taken for frozen, which is told of while torque is sent",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    repeated_time_at_rest: float = parameter(
        5.0,
        "the same for velocities that are all exactly zero, as of a simulated arm at rest",
        unit="s",
        above=0.0,
        upper=3600.0,
    )
    speed_factor: float = parameter(
        5.0,
        "multiple of the description's velocity limit above which a sample is implausible",
        lower=1.0,
        upper=1000.0,
    )
    jump_tolerance: float = parameter(
        0.02,
        "jump of position between samples that is plausible at any speed",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
    )
    contact_reaction: str = parameter(
        "hold",
        "what a rising contact flag does until resumed: 'none', 'hold' (stay here), 'float' "
        "(gravity compensation only), 'retract' (stop, move off along the estimated force, stay) "
        "or 'slow' (go on at slow_factor)",
        choices=("none", "hold", "float", "retract", "slow"),
    )
    retract_distance: float = parameter(
        0.05, "how far the touched link moves to retract", unit="m", above=0.0, upper=0.5
    )
    retract_time: float = parameter(
        0.5,
        "least time that takes; more where the speed limits need it",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    slow_factor: float = parameter(
        0.2, "share of its speed at which a trajectory goes on when slowed", lower=0.01, upper=1.0
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
    allow_partial_joints_goal: bool = parameter(
        False, "take trajectories that name some of the joints; the others stay where they are"
    )
    angle_wraparound: bool = parameter(
        False,
        "shift continuous joints of a trajectory by the whole turns that bring its first point "
        "nearest",
    )
    stretch_to_limits: bool = parameter(
        False,
        "slow a trajectory that is over the speed or effort limits down until it is not, instead "
        "of refusing it; only speed is looked at otherwise",
    )
    stream_horizon: float = parameter(
        0.25,
        "one-point trajectories due within this time that follow each other are a stream, whose "
        "points are passed without a stop; 0: none are",
        unit="s",
        lower=0.0,
        upper=2.0,
    )
    path_tolerance: tuple[float, ...] = parameter(
        (0.0,),
        "distance from the desired position beyond which a trajectory is aborted; 0: none",
        unit="rad or m",
        lower=0.0,
        upper=10.0,
        per_joint=True,
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
    )
    goal_time: float = parameter(
        1.0,
        "time after the last point within which the goal must be reached",
        unit="s",
        lower=0.0,
        upper=60.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping_rate == 0.0 and min(self.damping) == 0.0:
            raise ParameterError(
                f"damping is {self.damping} and damping_rate 0: K_D must be positive definite"
            )
