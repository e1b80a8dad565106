"""The robot description with its identified parameters, shared by all nodes and commands."""

from rbd_control.robot.arm7 import arm7_urdf
from rbd_control.robot.effort import EffortParameters
from rbd_control.robot.friction import (
    CoulombViscousFriction,
    Friction,
    FrictionParameters,
    NoFriction,
    SigmoidFriction,
    StribeckFriction,
)
from rbd_control.robot.inertial_corrections import InertialCorrections
from rbd_control.robot.payload import PayloadParameters
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters

__all__ = [
    "CoulombViscousFriction",
    "EffortParameters",
    "Friction",
    "FrictionParameters",
    "InertialCorrections",
    "NoFriction",
    "PayloadParameters",
    "Robot",
    "RobotParameters",
    "SigmoidFriction",
    "StribeckFriction",
    "arm7_urdf",
]
