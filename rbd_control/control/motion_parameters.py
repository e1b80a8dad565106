"""Parameters of trajectories, stops and reactions to contact."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.parameters import Parameters, parameter


@dataclass(frozen=True)
class TrajectoryParameters(Parameters):
    """Which trajectories are accepted, and when their goal is reached."""

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


@dataclass(frozen=True)
class ReactionParameters(Parameters):
    """Stops and reactions to contact."""

    stop_time: float = parameter(
        0.1,
        "time in which a moving arm is brought to rest where it was told to hold",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    contact_reaction: str = parameter(
        "hold",
        "what a rising contact flag does until resumed: 'none', 'hold' (stay here), 'float' "
        "(gravity compensation only), 'retract' (stop, move off along the estimated force, stay) "
        "or 'slow' (go on at slow_factor)",
        choices=("none", "hold", "float", "retract", "slow"),
    )
    require_detector: bool = parameter(
        False,
        "start and resume only while a contact detector publishes verdicts, and hold the arm when "
        "they stop",
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
