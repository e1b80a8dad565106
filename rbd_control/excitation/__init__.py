"""The motion that calibrates an arm: its design, the space it needs, and what it will determine."""

from rbd_control.excitation.design import FULL, QUICK, Design, Designer, Request, limits_of
from rbd_control.excitation.motion import (
    Motion,
    Rounds,
    at_speed,
    read_trajectory_file,
    rests,
    resumed,
    trajectory_yaml,
)
from rbd_control.excitation.observability import Limits, Observability
from rbd_control.excitation.space import Capsules, Space, capsules_of, space_of

__all__ = [
    "FULL",
    "QUICK",
    "Capsules",
    "Design",
    "Designer",
    "Limits",
    "Motion",
    "Observability",
    "Request",
    "Rounds",
    "Space",
    "at_speed",
    "capsules_of",
    "limits_of",
    "read_trajectory_file",
    "rests",
    "resumed",
    "space_of",
    "trajectory_yaml",
]
