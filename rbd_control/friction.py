"""Joint friction: the part of the motor's torque that never reaches the links.

The torque of a joint is ``tau = M a + C v + g + tau_friction - tau_ext``. A friction model gives
``tau_friction(v)``, of the sign of the velocity. The detector takes it off what it measures, the
controller adds it to what it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rbd_control.parameters import Parameters, parameter

_TORQUE = "N·m or N"


class Friction(Protocol):
    """What a law asks of a friction model."""

    def torque(self, v: np.ndarray) -> np.ndarray:
        """tau_friction for joint velocities ``v``, (..., nv) [rad/s or m/s] to [N·m or N]."""
        ...


@dataclass(frozen=True, eq=False)
class NoFriction:
    """tau_friction = 0, for ideal joints or torques that have it compensated already."""

    def torque(self, v: np.ndarray) -> np.ndarray:
        """Zeros of the shape of ``v``."""
        return np.zeros_like(v)


@dataclass(frozen=True, eq=False)
class CoulombViscousFriction:
    """tau_friction = coulomb tanh(v / velocity_scale) + viscous v + offset, joint by joint.

    The hyperbolic tangent stands for the sign: measured velocities pass through zero in noise, and
    a switching sign would put the whole Coulomb torque into the residual at each crossing.
    """

    coulomb: np.ndarray
    """(nv,) [N·m or N]."""
    viscous: np.ndarray
    """(nv,) [N·m·s/rad or N·s/m]."""
    offset: np.ndarray
    """(nv,) [N·m or N]."""
    velocity_scale: np.ndarray
    """(nv,) speed at which 76 % of the Coulomb torque is reached [rad/s or m/s]."""

    def torque(self, v: np.ndarray) -> np.ndarray:
        """tau_friction, (..., nv) [N·m or N]."""
        return self.coulomb * np.tanh(v / self.velocity_scale) + self.viscous * v + self.offset


@dataclass(frozen=True, eq=False)
class SigmoidFriction:
    """tau_friction = F1 / (1 + exp(-F2 (v + F3))) - F1 / (1 + exp(-F2 F3)), joint by joint.

    Source: Gaz, Cognetti, Oliva, Robuffo Giordano & De Luca, *Dynamic Identification of the Franka
    Emika Panda Robot*, IEEE RA-L 2019, eq. (25) in the form identified there.
    """

    F1: np.ndarray
    """(nv,) height of the step [N·m or N]."""
    F2: np.ndarray
    """(nv,) steepness [s/rad or s/m]."""
    F3: np.ndarray
    """(nv,) velocity offset [rad/s or m/s]."""

    def torque(self, v: np.ndarray) -> np.ndarray:
        """tau_friction, (..., nv) [N·m or N]."""
        return self.F1 * (_sigmoid(self.F2 * (v + self.F3)) - _sigmoid(self.F2 * self.F3))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    # The half-angle form of 1 / (1 + exp(-x)); it cannot overflow.
    return 0.5 * (1.0 + np.tanh(0.5 * x))


@dataclass(frozen=True)
class FrictionParameters(Parameters):
    """Joint friction, the same parameters for the detector and the controller."""

    friction_model: str = parameter(
        "none",
        "Joint friction model; tau_friction is part of the measured and of the commanded torque",
        choices=("none", "coulomb_viscous", "sigmoid"),
    )
    friction_coulomb: tuple[float, ...] = parameter(
        (0.0,), "Coulomb friction (coulomb_viscous)", unit=_TORQUE, lower=0.0, per_joint=True
    )
    friction_viscous: tuple[float, ...] = parameter(
        (0.0,),
        "Viscous friction (coulomb_viscous)",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        per_joint=True,
    )
    friction_offset: tuple[float, ...] = parameter(
        (0.0,), "Constant torque offset (coulomb_viscous)", unit=_TORQUE, per_joint=True
    )
    friction_velocity_scale: tuple[float, ...] = parameter(
        (0.01,),
        "Speed at which 76 % of the Coulomb friction is reached (coulomb_viscous)",
        unit="rad/s or m/s",
        above=0.0,
        per_joint=True,
    )
    friction_f1: tuple[float, ...] = parameter(
        (0.0,), "Height F1 of the friction step (sigmoid)", unit=_TORQUE, per_joint=True
    )
    friction_f2: tuple[float, ...] = parameter(
        (10.0,), "Steepness F2 of the friction step (sigmoid)", unit="s/rad or s/m", per_joint=True
    )
    friction_f3: tuple[float, ...] = parameter(
        (0.0,), "Velocity offset F3 of the friction step (sigmoid)", unit="rad/s", per_joint=True
    )

    def friction(self, n: int) -> Friction:
        """The friction model of ``n`` joints that ``friction_model`` names.

        Raises:
            ParameterError: when a parameter of that model has neither one value nor ``n``.
        """
        if self.friction_model == "coulomb_viscous":
            return CoulombViscousFriction(
                coulomb=self.for_joints("friction_coulomb", n),
                viscous=self.for_joints("friction_viscous", n),
                offset=self.for_joints("friction_offset", n),
                velocity_scale=self.for_joints("friction_velocity_scale", n),
            )
        if self.friction_model == "sigmoid":
            return SigmoidFriction(
                F1=self.for_joints("friction_f1", n),
                F2=self.for_joints("friction_f2", n),
                F3=self.for_joints("friction_f3", n),
            )
        return NoFriction()
