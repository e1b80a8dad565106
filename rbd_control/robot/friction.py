"""Joint friction models.

The torque of a joint is ``tau = M a + C v + g + tau_friction - tau_ext``. A friction model gives
``tau_friction(v)``, with the sign of the velocity. The detector subtracts it from the measured
torque, the controller adds it to the commanded torque.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.parameters import Parameters, parameter

_TORQUE = "N·m or N"

_LARGEST = 1e4
"""Bound on the friction torques of the parameters [N·m or N]."""

FRICTION_MODELS = ("none", "coulomb_viscous", "stribeck", "sigmoid")
"""Values of the parameter ``friction_model``."""

NONE, STEP, SIGMOID = 0, 1, 2
"""Kinds of friction models in compiled code; ``STEP`` is Coulomb, viscous and Stribeck friction."""
ROWS = 6
"""Number of coefficients of a joint for every kind of model; a model may use fewer."""


@inlined
def joint_friction(kind, coefficients, i, v):
    """Return tau_friction of joint ``i`` at velocity ``v`` [N·m or N].

    The export to C runs this kernel with symbols, so it must not branch on ``v`` or compare it.

    Args:
        kind: kind of the friction model: ``NONE``, ``STEP`` or ``SIGMOID``.
        coefficients: (ROWS, nv); the method ``coefficients`` of each class lists its rows.
        i: index of the joint in v.
        v: velocity of the joint [rad/s or m/s].
    """
    c = coefficients
    if kind == STEP:
        step = c[0, i]
        if c[4, i] != 0.0:
            step += c[4, i] * math.exp(-((v / c[5, i]) ** 2))
        return step * math.tanh(v / c[3, i]) + c[1, i] * v + c[2, i]
    if kind == SIGMOID:
        return c[0, i] * (_sigmoid(c[1, i] * (v + c[2, i])) - _sigmoid(c[1, i] * c[2, i]))
    return 0.0


@inlined
def _sigmoid(x):
    # The half-angle form of 1 / (1 + exp(-x)); it cannot overflow.
    return 0.5 * (1.0 + math.tanh(0.5 * x))


@compiled
def _torques(kind, coefficients, v, out):
    for k in range(v.shape[0]):
        for i in range(v.shape[1]):
            out[k, i] = joint_friction(kind, coefficients, i, v[k, i])


class Friction:
    """Interface of friction models; each model is a dataclass of (nv,) arrays."""

    kind: ClassVar[int] = NONE

    def coefficients(self, n: int) -> np.ndarray:
        """Return the coefficients of n joints as :func:`joint_friction` reads them, (ROWS, n).

        Each friction model documents its rows in this method; this class returns zeros.
        """
        return np.zeros((ROWS, n))

    def torque(self, v: np.ndarray) -> np.ndarray:
        """Return tau_friction [N·m or N] for velocities ``v`` [rad/s or m/s], (..., nv) each."""
        velocities = np.array(v, dtype=float, ndmin=1)
        flat = velocities.reshape(-1, velocities.shape[-1])
        out = np.empty_like(flat)
        _torques(self.kind, self.coefficients(flat.shape[1]), flat, out)
        return out.reshape(velocities.shape)

    def monotone(self) -> Friction:
        """Return a model of the part of the friction that does not decrease with velocity.

        It is the model itself, except for :class:`StribeckFriction`. A controller that compensates
        the other part as well is not passive.
        """
        return self


@dataclass(frozen=True, eq=False)
class NoFriction(Friction):
    """tau_friction = 0, for joints without friction or measured torques without friction."""


@dataclass(frozen=True, eq=False)
class CoulombViscousFriction(Friction):
    """tau_friction = coulomb tanh(v / velocity_scale) + viscous v + offset, joint by joint.

    The hyperbolic tangent replaces the sign function: noise makes measured velocities cross zero,
    and a switching sign would add the whole Coulomb torque to the residual at each crossing.
    """

    kind = STEP

    coulomb: np.ndarray
    """(nv,) Coulomb torque [N·m or N]."""
    viscous: np.ndarray
    """(nv,) viscous coefficient [N·m·s/rad or N·s/m]."""
    offset: np.ndarray
    """(nv,) constant torque, which may be negative [N·m or N]."""
    velocity_scale: np.ndarray
    """(nv,) speed at which 76 % of the Coulomb torque is reached [rad/s or m/s]."""

    def coefficients(self, n: int) -> np.ndarray:
        """Return the rows Coulomb, viscous, offset, velocity scale and zero excess, (ROWS, n)."""
        return _rows(
            n, self.coulomb, self.viscous, self.offset, self.velocity_scale, 0.0 * self.coulomb
        )


@dataclass(frozen=True, eq=False)
class StribeckFriction(CoulombViscousFriction):
    """Coulomb and viscous friction, and an excess near standstill that fades with speed.

    tau_friction = (coulomb + excess exp(-(v / stribeck_velocity)²)) tanh(v / velocity_scale)
    + viscous v + offset, joint by joint.

    Source: Armstrong-Hélouvry, Dupont & Canudas de Wit, *A Survey of Models, Analysis Tools and
    Compensation Methods for the Control of Machines with Friction*, Automatica 30(7), 1994.
    """

    excess: np.ndarray
    """(nv,) excess over the Coulomb torque near standstill [N·m or N]."""
    stribeck_velocity: np.ndarray
    """(nv,) speed at which 37 % of the excess is left [rad/s or m/s]."""

    def coefficients(self, n: int) -> np.ndarray:
        """Return the rows Coulomb, viscous, offset, scale, excess, Stribeck velocity, (ROWS, n)."""
        rows = super().coefficients(n)
        rows[4], rows[5] = self.excess, self.stribeck_velocity
        return rows

    def monotone(self) -> Friction:
        """Return Coulomb and viscous friction with the offset, without the excess."""
        return CoulombViscousFriction(self.coulomb, self.viscous, self.offset, self.velocity_scale)


@dataclass(frozen=True, eq=False)
class SigmoidFriction(Friction):
    """tau_friction = F1 / (1 + exp(-F2 (v + F3))) - F1 / (1 + exp(-F2 F3)), joint by joint.

    Source: Gaz, Cognetti, Oliva, Robuffo Giordano & De Luca, *Dynamic Identification of the Franka
    Emika Panda Robot*, IEEE RA-L 2019, eq. (25) in the form identified there.
    """

    kind = SIGMOID

    F1: np.ndarray
    """(nv,) height of the step [N·m or N]."""
    F2: np.ndarray
    """(nv,) steepness [s/rad or s/m]."""
    F3: np.ndarray
    """(nv,) velocity offset [rad/s or m/s]."""

    def coefficients(self, n: int) -> np.ndarray:
        """Return the rows F1, F2, F3 and zeros, (ROWS, n)."""
        return _rows(n, self.F1, self.F2, self.F3)


def _rows(n: int, *values: np.ndarray) -> np.ndarray:
    rows = np.zeros((ROWS, n))
    for row, value in zip(rows[: len(values)], values, strict=True):
        row[:] = value
    return rows


@dataclass(frozen=True)
class FrictionParameters(Parameters):
    """Parameters of the joint friction, which detector and controller share."""

    HEADING = "Joint friction"

    friction_model: str = parameter(
        "none",
        "Joint friction model; tau_friction is part of the measured and of the commanded torque",
        choices=FRICTION_MODELS,
        found_by_calibrate=True,
    )
    friction_coulomb: tuple[float, ...] = parameter(
        (0.0,),
        "Coulomb friction (coulomb_viscous, stribeck)",
        unit=_TORQUE,
        lower=0.0,
        upper=_LARGEST,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_viscous: tuple[float, ...] = parameter(
        (0.0,),
        "Viscous friction (coulomb_viscous, stribeck)",
        unit="N·m·s/rad or N·s/m",
        lower=0.0,
        upper=1e5,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_offset: tuple[float, ...] = parameter(
        (0.0,),
        "Constant torque offset (coulomb_viscous, stribeck)",
        unit=_TORQUE,
        lower=-_LARGEST,
        upper=_LARGEST,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_velocity_scale: tuple[float, ...] = parameter(
        (0.01,),
        "Speed at which 76 % of the Coulomb friction is reached (coulomb_viscous, stribeck)",
        unit="rad/s or m/s",
        lower=1e-6,
        upper=100.0,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_stribeck: tuple[float, ...] = parameter(
        (0.0,),
        "Excess of friction over Coulomb friction at standstill (stribeck)",
        unit=_TORQUE,
        lower=-_LARGEST,
        upper=_LARGEST,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_stribeck_velocity: tuple[float, ...] = parameter(
        (0.1,),
        "Speed at which 37 % of friction_stribeck is left (stribeck)",
        unit="rad/s or m/s",
        lower=1e-6,
        upper=100.0,
        per_joint=True,
        found_by_calibrate=True,
    )
    friction_f1: tuple[float, ...] = parameter(
        (0.0,),
        "Height F1 of the friction step (sigmoid)",
        unit=_TORQUE,
        lower=0.0,
        upper=_LARGEST,
        per_joint=True,
        expert=True,
    )
    friction_f2: tuple[float, ...] = parameter(
        (10.0,),
        "Steepness F2 of the friction step (sigmoid)",
        unit="s/rad or s/m",
        lower=0.0,
        upper=1e6,
        per_joint=True,
        expert=True,
    )
    friction_f3: tuple[float, ...] = parameter(
        (0.0,),
        "Velocity offset F3 of the friction step (sigmoid)",
        unit="rad/s or m/s",
        lower=-100.0,
        upper=100.0,
        per_joint=True,
        expert=True,
    )

    def friction(self, n: int) -> Friction:
        """Return the friction model that ``friction_model`` names, for ``n`` joints.

        Raises:
            ParameterError: if a parameter of that model has neither one value nor ``n`` values.
        """
        if self.friction_model in ("coulomb_viscous", "stribeck"):
            step = CoulombViscousFriction(
                coulomb=self.for_joints("friction_coulomb", n),
                viscous=self.for_joints("friction_viscous", n),
                offset=self.for_joints("friction_offset", n),
                velocity_scale=self.for_joints("friction_velocity_scale", n),
            )
            if self.friction_model == "coulomb_viscous":
                return step
            return StribeckFriction(
                **vars(step),
                excess=self.for_joints("friction_stribeck", n),
                stribeck_velocity=self.for_joints("friction_stribeck_velocity", n),
            )
        if self.friction_model == "sigmoid":
            return SigmoidFriction(
                F1=self.for_joints("friction_f1", n),
                F2=self.for_joints("friction_f2", n),
                F3=self.for_joints("friction_f3", n),
            )
        return NoFriction()
