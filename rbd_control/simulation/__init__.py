"""A simulated arm for tests of estimation and control, and the URDF of a 7-joint arm."""

from rbd_control.robot.arm7 import arm7_urdf
from rbd_control.simulation.arm import Contact, SimulatedArm
from rbd_control.simulation.plant import HalfSpace, Obstacle, Sphere
from rbd_control.simulation.simulation_parameters import SimulationParameters

__all__ = [
    "Contact",
    "HalfSpace",
    "Obstacle",
    "SimulatedArm",
    "SimulationParameters",
    "Sphere",
    "arm7_urdf",
]
