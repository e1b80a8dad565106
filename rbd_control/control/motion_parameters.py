"""Parameters of trajectories, stops and reactions to contact."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.parameters import Parameters, parameter


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
class ReactionParameters(Parameters):
    """Parameters of stops and of reactions to contact."""

    HEADING = "Stops and reactions to contact"

    stop_time: float = parameter(
        0.1,
        "duration of a stop; a stream may change a joint's speed by its limit in this time",
        unit="s",
        above=0.0,
        upper=10.0,
    )
    contact_reaction: str = parameter(
        "hold",
        "reaction to a rising contact flag, until resumed: 'none', 'hold' (stop and stay), 'float' "
        "(gravity compensation only), 'retract' (stop, move along the estimated force, stay) "
        "or 'slow' (continue at slow_factor)",
        choices=("none", "hold", "float", "retract", "slow"),
    )
    require_detector: bool = parameter(
        False,
        "start and resume only while a contact detector publishes verdicts, and hold the arm when "
        "they stop",
    )
    retract_distance: float = parameter(
        0.05, "distance by which the touched link retracts", unit="m", above=0.0, upper=0.5
    )
    retract_time: float = parameter(
        0.5,
        "shortest duration of a retraction; longer if the speed limits require it",
        unit="s",
        above=0.0,
        upper=10.0,
        expert=True,
    )
    slow_factor: float = parameter(
        0.2, "speed factor of trajectories in the reaction slow", lower=0.01, upper=1.0
    )
