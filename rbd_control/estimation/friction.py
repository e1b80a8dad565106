"""Joint friction models: the part of the measured torque that never reaches the links.

The measured torque of a joint is ``tau = M a + C v + g + tau_friction - tau_ext``. A friction
model gives ``tau_friction(v)``, of the sign of the velocity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Friction(Protocol):
    """What the observer asks of a friction model."""

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
