"""Parameters of trajectories."""

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
