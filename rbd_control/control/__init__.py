"""Torque control of an arm: trajectories, Slotine-Li control law, modes, limits and faults.

:class:`PassivityController` combines all of them: joint states go in, torque commands come out.
"""

from rbd_control.control.adaptive import AdaptiveSlotineLiController
from rbd_control.control.command import Command
from rbd_control.control.controller_parameters import (
    AdaptationParameters,
    ControllerParameters,
    EnergyParameters,
)
from rbd_control.control.energy import EnergyBalance, EnergyMonitor, EnergyTank
from rbd_control.control.estimates import Estimates, FrictionEstimate, LinkEstimate
from rbd_control.control.limits import SoftLimits
from rbd_control.control.passivity_controller import PassivityController
from rbd_control.control.planner import PlannedTrajectory
from rbd_control.control.slotine_li import SlotineLiController
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.control.waypoints import TrajectoryArrays, TrajectoryPoint

__all__ = [
    "AdaptationParameters",
    "AdaptiveSlotineLiController",
    "Command",
    "ControllerParameters",
    "DesiredState",
    "EnergyBalance",
    "EnergyMonitor",
    "EnergyParameters",
    "EnergyTank",
    "Estimates",
    "FrictionEstimate",
    "LinkEstimate",
    "PassivityController",
    "PlannedTrajectory",
    "SlotineLiController",
    "SoftLimits",
    "Trajectory",
    "TrajectoryArrays",
    "TrajectoryPoint",
]
