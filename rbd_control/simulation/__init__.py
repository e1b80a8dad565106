"""A simulated arm to try estimation and control on, and the robot that ships with it."""

from importlib.resources import files

from rbd_control.simulation.arm import Contact, SimulatedArm
from rbd_control.simulation.obstacles import HalfSpace, Obstacle, Sphere
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


def arm7_urdf() -> str:
    """The description of the 7-joint arm that ships with the package, as URDF text."""
    return files(__name__).joinpath("arm7.urdf").read_text(encoding="utf-8")
