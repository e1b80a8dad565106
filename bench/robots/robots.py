"""The robots of the study: arms with their drives, sensors and drivers.

Figures without a source are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rbd_control.control import ControllerParameters
from rbd_control.dynamics import Model
from rbd_control.node_parameters import law_parameters
from rbd_control.parameters import read_parameter_file
from rbd_control.robot.inertial_corrections import CORRECTIONS, InertialCorrections

CONFIG = Path(__file__).parents[2] / "config"

Effort = Literal["torque", "current", "none"]
Side = Literal["link", "motor"]


@dataclass(frozen=True)
class Robot:
    """An arm as its driver is; defaults are the ideal arm of a simulator at 1 kHz."""

    name: str
    arm: str
    """Name of the description, see :func:`bench.robots.descriptions.describe`."""
    config: str = ""
    """Parameter file in ``config``; empty for the defaults of the package."""
    adaptive: bool = False
    """Whether the controller learns (``adaptive``)."""
    repeated_time: float = 0.0
    """The parameter of this name [s]; 0: as the file or the defaults have it."""

    # Joint states
    period: float = 0.001
    """Period of the joint states [s]; a multiple of 1 ms."""
    repeats: int = 1
    """Number of joint states after which the hardware has new values; it repeats in between."""
    encoder_bits: int = 19
    """Resolution of positions, in bits per turn of the joint."""
    velocity_cutoff: float = 0.0
    """Cutoff frequency of the first-order filter of the velocities [Hz]; 0: none."""
    velocity_delay: float = 0.0
    """Pure delay of the velocities beyond the filter [s]."""
    velocity_noise: float = 0.0005
    """Standard deviation of the noise of the velocities [rad/s]."""
    velocity_step: float = 0.0
    """Resolution of the velocities [rad/s]; 0: none."""
    velocity_bias: float = 0.0
    """Constant error of every velocity [rad/s]."""
    effort: Effort = "torque"
    """Meaning of the efforts: torque of the joint sensors, of the motor currents, or no effort."""
    side: Side = "link"
    """Side of the springs on which positions and velocities are measured."""

    # Drives
    command_delay: float = 0.001
    """Time from a command to its torque [s]; a multiple of 1 ms."""
    compensates_gravity: bool = False
    """Whether the drive adds the gravity torque of the described arm."""
    compensated_friction: tuple[float, float] = (0.0, 0.0)
    """Shares of the Coulomb and of the viscous friction that the drive compensates."""
    torque_rate: float = 0.0
    """Largest rate of the torque that the drive follows [N·m/s]; 0: no limit."""

    # Mechanics
    coulomb: tuple[float, float] = (0.0, 0.0)
    """Coulomb friction as a share of the effort limit, lowest and highest; 0: the typical friction
    of :func:`bench.contacts.plant.typical_friction` within 30 %."""
    viscous: float = 1.0
    """Viscous friction as a multiple of the typical friction."""
    mass_error: tuple[float, float] = (0.03, 0.05)
    """Smallest and largest relative error of each mass."""
    rotor: tuple[float, ...] = ()
    """Inertia of each rotor, reflected [kg·m²]; empty: 0.003 less the link's, for light wrists."""
    stiffness: float = 0.0
    """Stiffness of each joint [N·m/rad]; 0: rigid joints."""
    damping_ratio: float = 0.02
    """Damping ratio of a joint's own resonance: its rotor against its link inertia."""
    acceleration: float = 5.0
    """Largest acceleration of the trajectories of the study [rad/s²]."""

    def model(self, described: Model) -> Model:
        """Return the described arm with the corrections of the shipped file."""
        if not self.config:
            return described
        values = read_parameter_file(CONFIG / self.config, "passivity_controller")
        own = {name: values[name] for name in CORRECTIONS if name in values}
        return InertialCorrections.from_mapping(own).corrected(described)

    def parameters(self) -> ControllerParameters:
        """Return the parameters of the controller, from the shipped file or the defaults."""
        if self.config:
            values = read_parameter_file(CONFIG / self.config, "passivity_controller")
            found = law_parameters(ControllerParameters, values)
        else:
            found = ControllerParameters(gravity_compensated=self.compensates_gravity)
        if self.repeated_time:
            found = replace(found, repeated_time=self.repeated_time)
        return replace(found, adaptive=True) if self.adaptive else found


_PANDA = Robot("panda", "panda")

_FRANKA = Robot(
    "panda_franka",
    "panda",
    config="franka.yaml",
    # Franka Control Interface: 1 kHz, commands are compensated for gravity and friction; libfranka,
    # kMaxTorqueRate: 1000 N·m/s. Shares of friction: assumed.
    torque_rate=1000.0,
    compensates_gravity=True,
    compensated_friction=(0.7, 0.5),
    # One cycle for the command and one for the state, and a filter of the velocities: assumed.
    command_delay=0.001,
    velocity_delay=0.001,
    velocity_cutoff=100.0,
    velocity_noise=0.001,
    # Below the lowest acceleration limit of libfranka for the Panda, 7.5 rad/s² of joint 2.
    acceleration=7.0,
)

_PANDA_ROTORS = (0.3, 0.3, 0.3, 0.3, 0.1, 0.1, 0.1)
"""Of the order of the reflected inertias of light arms; assumed [kg·m²]."""
_STIFFNESS = 10_000.0
"""Stiffness of the joints, of the order of light arms; assumed [N·m/rad]."""

_UR = Robot(
    "ur5",
    "ur5",
    config="universal_robots.yaml",
    # RTDE of the e-series: 500 Hz. Command through URScript and the driver: assumed.
    period=0.002,
    command_delay=0.004,
    velocity_delay=0.002,
    velocity_cutoff=80.0,
    velocity_noise=0.002,
    encoder_bits=17,
    effort="current",
    compensates_gravity=True,
    # ur_msgs/FrictionModelParameters: defaults of the scales of the controller's friction model.
    compensated_friction=(0.8, 0.9),
    coulomb=(0.06, 0.09),
    # Gears with a friction of some N·m have motors; their inertias, reflected, are assumed.
    rotor=(0.25, 0.25, 0.2, 0.05, 0.05, 0.05),
)

_GEN3 = Robot(
    "gen3",
    "gen3",
    # Kinova, low-level servoing of the Kortex API: 1 kHz; it adds no gravity torque to the command.
    # Delays: assumed.
    command_delay=0.002,
    velocity_delay=0.001,
    velocity_cutoff=60.0,
    velocity_step=0.001,
    encoder_bits=17,
    effort="torque",
    coulomb=(0.06, 0.09),
    rotor=(0.1, 0.1, 0.1, 0.1, 0.03, 0.03, 0.03),
)

_IIWA = Robot(
    "iiwa",
    "iiwa",
    # KUKA FRI: 1 kHz, overlaid torque, gravity is compensated. Delay of the command: two cycles
    # (assumed). FRI sends no velocities, so the driver differentiates and filters positions.
    command_delay=0.002,
    velocity_delay=0.001,
    velocity_cutoff=50.0,
    velocity_bias=0.001,
    compensates_gravity=True,
    encoder_bits=20,
)


def _elastic(robot: Robot, name: str, side: Side, config: str) -> Robot:
    return replace(
        robot, name=name, side=side, config=config, rotor=_PANDA_ROTORS, stiffness=_STIFFNESS
    )


_ALL = (
    _PANDA,
    replace(_PANDA, name="panda_adaptive", adaptive=True, coulomb=(0.02, 0.03), viscous=1.5),
    replace(_PANDA, name="panda_repeats10", repeats=10),
    replace(_PANDA, name="panda_repeats20", repeats=20, repeated_time=0.03),
    _FRANKA,
    _elastic(_FRANKA, "panda_elastic_link", "link", "franka.yaml"),
    _elastic(_FRANKA, "panda_elastic_motor", "motor", "franka.yaml"),
    _elastic(_FRANKA, "panda_elastic_link_default", "link", ""),
    _elastic(_FRANKA, "panda_elastic_motor_default", "motor", ""),
    _IIWA,
    _elastic(_IIWA, "iiwa_elastic_link", "link", ""),
    _elastic(_IIWA, "iiwa_elastic_motor", "motor", ""),
    _UR,
    replace(_UR, name="ur5_125", period=0.008, command_delay=0.008, velocity_delay=0.004),
    replace(_UR, name="ur10", arm="ur10", encoder_bits=19, rotor=(0.5, 0.5, 0.3, 0.1, 0.1, 0.1)),
    _GEN3,
    replace(
        _GEN3,
        name="gen3_100",
        period=0.01,
        command_delay=0.005,
        velocity_delay=0.005,
        effort="none",
    ),
)

ROBOTS = {robot.name: robot for robot in _ALL}
"""The robots by name."""
