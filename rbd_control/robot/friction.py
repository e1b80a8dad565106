"""Joint friction models.

The torque of a joint is ``tau = M a + C v + g + tau_friction - tau_ext``. A friction model gives
``tau_friction(v)``, with the sign of the velocity. The detector subtracts it from the measured
torque, the controller adds it to the commanded torque, and the simulated arm has it.

A model is a class in :data:`MODELS`, with its equation in :func:`joint_friction` and its parameters
in :class:`FrictionParameters`. The choices of ``friction_model``, what ``rbd-control calibrate``
identifies and writes, what the adaptive law learns and the exported C follow from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rbd_control.dynamics.compiled import compiled, inlined
from rbd_control.parameters import Parameters, parameter

_TORQUE = "N·m or N"

_LARGEST = 1e4
"""Bound on the friction torques of the parameters [N·m or N]."""
_LEAST_F2 = 1e-3
"""Steepness below which a sigmoid counts as a step of this steepness [s/rad or s/m]."""

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
def friction_slope(kind, coefficients, i, speed):
    """Return ``(tau_friction(v) - tau_friction(0)) / v`` of joint ``i``, the secant slope.

    Args:
        kind, coefficients, i: as of :func:`joint_friction`.
        speed: magnitude of v, positive [rad/s or m/s].
    """
    if kind == STEP and coefficients[4, i] == 0.0:
        c = coefficients
        return c[1, i] + c[0, i] * math.tanh(speed / c[3, i]) / speed
    rest = joint_friction(kind, coefficients, i, 0.0)
    return (joint_friction(kind, coefficients, i, speed) - rest) / speed


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
    """Interface of friction models; each model is a dataclass of (nv,) arrays.

    Attributes:
        name: value of the parameter ``friction_model``.
        kind: kind of the equation in :func:`joint_friction`.
        parameters: the parameter of each field.
        linear: fields on which the torque depends linearly, which ``calibrate`` solves for; empty
            for a model that it does not identify. The coefficient 0 of the others must not matter.
        lowest: lower bound of each of their coefficients, zero or minus infinity.
        shapes: values of the other fields that ``calibrate`` tries, simplest shapes first; a NaN
            means that the field has no effect.
        simple: number of simple shapes; another one must fit clearly better.
        dry_row: row of the coefficients with the friction at any speed; -1 for none.
    """

    name: ClassVar[str] = "none"
    kind: ClassVar[int] = NONE
    parameters: ClassVar[Mapping[str, str]] = {}
    linear: ClassVar[tuple[str, ...]] = ()
    lowest: ClassVar[tuple[float, ...]] = ()
    shapes: ClassVar[tuple[Mapping[str, float], ...]] = ()
    simple: ClassVar[int] = 0
    dry_row: ClassVar[int] = -1

    @classmethod
    def columns(
        cls,
        v: np.ndarray,
        shape: Mapping[str, float],
    ) -> Iterator[np.ndarray | float]:
        """Yield the torque per unit of each coefficient of ``linear``, a number if it is constant.

        Args:
            v: velocities [rad/s or m/s].
            shape: an element of ``shapes``.
        """
        raise NotImplementedError

    @classmethod
    def identified(cls, coefficients: np.ndarray, shape: Mapping[str, np.ndarray]) -> Friction:
        """Return the friction with the coefficients of :meth:`columns`, (n, c).

        Args:
            coefficients: one for each field of ``linear``.
            shape: the other fields, (n,) each.
        """
        return cls(**dict(zip(cls.linear, coefficients.T, strict=True)), **shape)

    def named(self) -> tuple[str, dict[str, np.ndarray]]:
        """Return the value of ``friction_model``, and the values (nv,) of its parameters."""
        return self.name, {name: getattr(self, key) for key, name in self.parameters.items()}

    def learned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return Coulomb and viscous friction and velocity scale, (nv,) each; None for others.

        The adaptive law corrects these coefficients; beside another model it learns Coulomb and
        viscous friction from zero.
        """
        return None

    def followed(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Coulomb and viscous friction and velocity scale, (n,) each; zero for no friction.

        The detector follows changes of these coefficients, see
        :mod:`~rbd_control.estimation.drift`.
        """
        return np.zeros(n), np.zeros(n), np.ones(n)

    def constant(self, n: int) -> np.ndarray:
        """Return the offset, which does not depend on the velocity, (n,) [N·m or N]."""
        return np.zeros(n)

    def with_change(
        self,
        coulomb: np.ndarray,  # noqa: ARG002
        viscous: np.ndarray,  # noqa: ARG002
        offset: np.ndarray,  # noqa: ARG002
    ) -> Friction:
        """Return the model with changes of the coefficients of :meth:`followed` and of the offset.

        A model without these coefficients stays as it is.

        Args:
            coulomb, viscous, offset: changes, (nv,) each [N·m or N, N·m·s/rad or N·s/m, N·m or N].
        """
        return self

    def dry(self, n: int) -> np.ndarray:
        """Return the part that reverses with the motion at any speed, (n,) [N·m or N]."""
        return self.coefficients(n)[self.dry_row] if self.dry_row >= 0 else np.zeros(n)

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

    name, kind = "coulomb_viscous", STEP
    parameters = {
        "coulomb": "friction_coulomb",
        "viscous": "friction_viscous",
        "offset": "friction_offset",
        "velocity_scale": "friction_velocity_scale",
    }
    dry_row = 0

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

    def learned(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return Coulomb friction, viscous friction and velocity scale, (nv,) each."""
        return self.coulomb, self.viscous, self.velocity_scale

    def followed(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # noqa: ARG002
        """Return Coulomb and viscous friction and velocity scale, (nv,) each."""
        return self.coulomb, self.viscous, self.velocity_scale

    def constant(self, n: int) -> np.ndarray:  # noqa: ARG002
        """Return the offset, (nv,) [N·m or N]."""
        return self.offset

    def with_change(self, coulomb: np.ndarray, viscous: np.ndarray, offset: np.ndarray) -> Friction:
        """Return the model with changed Coulomb and viscous friction and offset."""
        return replace(
            self,
            coulomb=np.maximum(self.coulomb + coulomb, 0.0),
            viscous=np.maximum(self.viscous + viscous, 0.0),
            offset=self.offset + offset,
        )


MOST_EXCESS = 0.5
"""Largest excess near standstill that is identified, as a share of the Coulomb friction."""


@dataclass(frozen=True, eq=False)
class StribeckFriction(CoulombViscousFriction):
    """Coulomb and viscous friction, and an excess near standstill that fades with speed.

    tau_friction = (coulomb + excess exp(-(v / stribeck_velocity)²)) tanh(v / velocity_scale)
    + viscous v + offset, joint by joint.

    Source: Armstrong-Hélouvry, Dupont & Canudas de Wit, *A Survey of Models, Analysis Tools and
    Compensation Methods for the Control of Machines with Friction*, Automatica 30(7), 1994.
    """

    name = "stribeck"
    parameters = CoulombViscousFriction.parameters | {
        "excess": "friction_stribeck",
        "stribeck_velocity": "friction_stribeck_velocity",
    }
    linear = ("coulomb", "viscous", "offset", "excess")
    lowest = (0.0, 0.0, -math.inf, 0.0)
    shapes = (
        *(
            {"velocity_scale": scale, "stribeck_velocity": math.nan}
            for scale in (0.003, 0.006, 0.01, 0.02, 0.05, 0.1, 0.2)
        ),
        *(
            {"velocity_scale": scale, "stribeck_velocity": stribeck}
            for scale in (0.003, 0.01, 0.02)
            for stribeck in (0.05, 0.15)
        ),
    )
    simple = 7

    excess: np.ndarray
    """(nv,) excess over the Coulomb torque near standstill [N·m or N]."""
    stribeck_velocity: np.ndarray
    """(nv,) speed at which 37 % of the excess is left [rad/s or m/s]."""

    def coefficients(self, n: int) -> np.ndarray:
        """Return the rows Coulomb, viscous, offset, scale, excess, Stribeck velocity, (ROWS, n)."""
        rows = super().coefficients(n)
        rows[4], rows[5] = self.excess, self.stribeck_velocity
        return rows

    @classmethod
    def columns(cls, v: np.ndarray, shape: Mapping[str, float]) -> Iterator[np.ndarray | float]:
        """Yield the torque per unit of Coulomb and viscous friction, of the offset, and of both.

        The last is that of Coulomb friction with the excess :data:`MOST_EXCESS`. In a fit whose
        coefficients are not negative no excess is larger: motions show little of it, and it would
        be anything that the model lacks near standstill.
        """
        step, fading = np.tanh(v / shape["velocity_scale"]), shape["stribeck_velocity"]
        yield step
        yield v
        yield 1.0
        yield (
            0.0
            if math.isnan(fading)
            else step + MOST_EXCESS * step * np.exp(-np.square(v / fading))
        )

    @classmethod
    def identified(cls, coefficients: np.ndarray, shape: Mapping[str, np.ndarray]) -> Friction:
        """Return the friction with the coefficients of :meth:`columns`, (n, 4)."""
        coulomb, viscous, offset, both = coefficients.T
        excess = MOST_EXCESS * both
        return cls(coulomb=coulomb + both, viscous=viscous, offset=offset, excess=excess, **shape)

    def named(self) -> tuple[str, dict[str, np.ndarray]]:
        """Return the name and the parameters; Coulomb and viscous friction without an excess."""
        name, values = super().named()
        return name if self.excess.any() else CoulombViscousFriction.name, values

    def learned(self) -> None:
        """Return None: the law learns beside the model, whose excess it does not compensate."""

    def monotone(self) -> Friction:
        """Return Coulomb and viscous friction with the offset, without the excess."""
        return CoulombViscousFriction(self.coulomb, self.viscous, self.offset, self.velocity_scale)


@dataclass(frozen=True, eq=False)
class SigmoidFriction(Friction):
    """tau_friction = F1 / (1 + exp(-F2 (v + F3))) - F1 / (1 + exp(-F2 F3)), joint by joint.

    Source: Gaz, Cognetti, Oliva, Robuffo Giordano & De Luca, *Dynamic Identification of the Franka
    Emika Panda Robot*, IEEE RA-L 2019, eq. (25) in the form identified there.
    """

    name, kind = "sigmoid", SIGMOID
    parameters = {"F1": "friction_f1", "F2": "friction_f2", "F3": "friction_f3"}

    F1: np.ndarray
    """(nv,) height of the step [N·m or N]."""
    F2: np.ndarray
    """(nv,) steepness [s/rad or s/m]."""
    F3: np.ndarray
    """(nv,) velocity offset [rad/s or m/s]."""

    def followed(self, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # noqa: ARG002
        """Return half of the step, no viscous friction, and the scale 2 / F2, (nv,) each.

        The model is a step of tanh(v / scale) with F3 = 0.
        """
        return 0.5 * self.F1, np.zeros_like(self.F1), 2.0 / np.maximum(self.F2, _LEAST_F2)

    def with_change(
        self,
        coulomb: np.ndarray,
        viscous: np.ndarray,  # noqa: ARG002
        offset: np.ndarray,  # noqa: ARG002
    ) -> Friction:
        """Return the model with a changed step; it has no coefficient for the other changes."""
        return replace(self, F1=np.maximum(self.F1 + 2.0 * coulomb, 0.0))

    def coefficients(self, n: int) -> np.ndarray:
        """Return the rows F1, F2, F3 and zeros, (ROWS, n)."""
        return _rows(n, self.F1, self.F2, self.F3)


def _rows(n: int, *values: np.ndarray) -> np.ndarray:
    rows = np.zeros((ROWS, n))
    for row, value in zip(rows[: len(values)], values, strict=True):
        row[:] = value
    return rows


MODELS: dict[str, type[Friction]] = {
    model.name: model
    for model in (NoFriction, CoulombViscousFriction, StribeckFriction, SigmoidFriction)
}
"""The friction models by the value of the parameter ``friction_model``."""

IDENTIFIED = tuple(model for model in MODELS.values() if model.linear)
"""The models that ``calibrate`` fits; a later one must predict the motion clearly better."""


@dataclass(frozen=True)
class FrictionParameters(Parameters):
    """Parameters of the joint friction, which detector and controller share."""

    HEADING = "Joint friction"

    friction_model: str = parameter(
        "none",
        "Joint friction model; tau_friction is part of the measured and of the commanded torque",
        choices=tuple(MODELS),
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
        model = MODELS[self.friction_model]
        return model(**{key: self.for_joints(name, n) for key, name in model.parameters.items()})
