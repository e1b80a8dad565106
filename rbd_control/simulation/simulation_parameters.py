"""Parameters of the simulated arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbd_control.parameters import Parameters, parameter
from rbd_control.robot.friction import CoulombViscousFriction


@dataclass(frozen=True)
class SimulationParameters(Parameters):
    """Parameters of :class:`SimulatedArm`, which reads them when it is created.

    The friction of the parameter ``friction_model`` replaces ``coulomb``, ``viscous`` and
    ``friction_smoothing`` in the node ``simulated_arm``.
    """

    HEADING = "Arm, sensors and motors"

    initial_position: tuple[float, ...] = parameter(
        (0.0,),
        "initial joint positions",
        unit="rad or m",
        lower=-1e4,
        upper=1e4,
        per_joint=True,
        live=False,
    )
    rate: float = parameter(
        1000.0,
        "joint states per second",
        unit="Hz",
        lower=1.0,
        upper=20000.0,
        live=False,
    )
    substeps: int = parameter(
        4, "integration steps per joint state", lower=1, upper=1000, live=False
    )
    coulomb: tuple[float, ...] = parameter(
        (0.5,),
        "Coulomb friction, unless friction_model is set",
        unit="N·m or N",
        lower=0.0,
        upper=1e4,
        per_joint=True,
        live=False,
    )
    viscous: tuple[float, ...] = parameter(
        (0.5,),
        "viscous friction, unless friction_model is set",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        upper=1e4,
        per_joint=True,
        live=False,
    )
    friction_smoothing: float = parameter(
        0.01,
        "speed v_s in the Coulomb friction's tanh(v / v_s)",
        unit="rad/s or m/s",
        above=0.0,
        upper=10.0,
        live=False,
    )
    mass_error: float = parameter(
        0.0,
        "largest relative error of a link's mass: mass and inertia of each link of the true arm "
        "are scaled by a random factor",
        lower=0.0,
        upper=0.5,
        live=False,
    )
    link_radius: float = parameter(
        0.06,
        "radius of the capsules that obstacles touch, from each joint to the next",
        unit="m",
        above=0.0,
        upper=1.0,
        live=False,
    )
    command_delay: int = parameter(
        0, "delay of a command in joint-state periods", lower=0, upper=1000, live=False
    )
    command_timeout: float = parameter(
        0.1,
        "time without a command after which the motors are switched off and the joint brakes close",
        unit="s",
        above=0.0,
        upper=60.0,
        live=False,
    )
    encoder_resolution: float = parameter(
        1.2e-5,
        "step of the measured position (19 bit: 1.2e-5); 0: no rounding",
        unit="rad or m",
        lower=0.0,
        upper=0.1,
        live=False,
    )
    velocity_from_encoder: bool = parameter(
        True,
        "measure velocity by differences of the measured position; false: the true velocity",
        live=False,
    )
    velocity_cutoff: float = parameter(
        100.0,
        "cut-off of the first-order filter on differentiated velocity",
        unit="Hz",
        above=0.0,
        upper=1e5,
        live=False,
    )
    effort_noise: float = parameter(
        0.05,
        "standard deviation of the measured torque's noise",
        unit="N·m or N",
        lower=0.0,
        upper=1e3,
        live=False,
    )
    dropout: float = parameter(
        0.0, "probability that a joint state is lost", lower=0.0, upper=1.0, live=False
    )
    seed: int = parameter(
        0,
        "seed of the random numbers: noise, wrong masses, dropouts",
        lower=0,
        upper=2**32 - 1,
        live=False,
    )

    def coulomb_viscous(self, n: int) -> CoulombViscousFriction:
        """Return the Coulomb and viscous friction of ``n`` joints.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        return CoulombViscousFriction(
            coulomb=self.for_joints("coulomb", n),
            viscous=self.for_joints("viscous", n),
            offset=np.zeros(n),
            velocity_scale=np.full(n, self.friction_smoothing),
        )
