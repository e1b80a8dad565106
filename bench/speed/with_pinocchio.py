"""Pinocchio called from Python with the same mechanisms and outputs.

Outputs for which Pinocchio has no function are composed: M, C and g by three functions; the
Christoffel symbols by the Coriolis matrices of unit velocities; the Slotine-Li torque by M, C, g
and two products. Pinocchio models rotors by the approximation n² I_R only ("armature"). M and ABA
are computed with the faster of Pinocchio's two conventions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
import pinocchio as pin

from bench.speed.measure import from_python
from bench.speed.mechanisms import ROTOR, Mechanism
from bench.speed.quantities import Contestant, Quantity, Results, States


class Twin:
    """A mechanism in Pinocchio, with conversion between Pinocchio's order of joints and ours.

    Attributes:
        mechanism: the mechanism.
        model: model of Pinocchio.
        geared: model of Pinocchio with rotors, approximated by n² I_R on the diagonal of M.
        rows: Pinocchio's rows of v in our order, (nv,).
    """

    def __init__(self, mechanism: Mechanism) -> None:
        root = (pin.JointModelFreeFlyer(),) if mechanism.floating else ()
        whole = pin.buildModelFromXML(mechanism.urdf, *root)
        locked = [whole.getJointId(name) for name in mechanism.locked]
        self.model = pin.buildReducedModel(whole, locked, pin.neutral(whole))
        self.geared = pin.Model(self.model)
        self.mechanism = mechanism
        names = mechanism.model.joint_names
        self._joints = [self.model.joints[self.model.getJointId(name)] for name in names]
        # In Pinocchio the linear part of a free body's velocity comes first.
        first = [3, 4, 5, 0, 1, 2] if mechanism.floating else []
        self.rows = np.array(first + [joint.idx_v for joint in self._joints])
        armature = np.zeros(self.model.nv)
        armature[[joint.idx_v for joint in self._joints]] = ROTOR.gear_ratio**2 * np.asarray(
            ROTOR.inertia
        )
        self.geared.armature = armature

    @cached_property
    def states(self) -> States:
        """The states of the mechanism in Pinocchio's order."""
        ours = self.mechanism.states
        q = np.zeros((ours.q.shape[0], self.model.nq))
        root = 7 if self.mechanism.floating else 0
        q[:, :root] = ours.q[:, :root]
        for joint, angle in zip(self._joints, ours.q[:, root:].T, strict=True):
            if joint.nq == 1:
                q[:, joint.idx_q] = angle
            else:  # joints without limits have cosine and sine
                q[:, joint.idx_q], q[:, joint.idx_q + 1] = np.cos(angle), np.sin(angle)
        vectors = np.zeros((3, ours.v.shape[0], self.model.nv))
        vectors[:, :, self.rows] = ours.v, ours.x, ours.y
        return States(q, *vectors)

    def ours(self, *values: np.ndarray) -> Results:
        """Return vectors and square matrices of Pinocchio in our order of joints."""
        return tuple(value[np.ix_(*[self.rows] * value.ndim)] for value in values)


def contestant(twin: Twin, quantity: Quantity) -> Contestant:
    """Return a contestant that calls Pinocchio from Python."""
    model = twin.geared if quantity is Quantity.ROTORS else twin.model
    data = model.createData()
    function = _FUNCTIONS[quantity]
    inputs = twin.states.inputs(quantity)

    def result() -> Results:
        if quantity is Quantity.CHRISTOFFEL:
            columns = [
                pin.computeCoriolisMatrix(model, data, inputs[0][0], unit).copy()
                for unit in np.eye(model.nv)
            ]
            return twin.ours(np.stack(columns, axis=2))
        value = function(model, data, *(array[0] for array in inputs))
        return twin.ours(*(value if isinstance(value, tuple) else (value,)))

    return Contestant(from_python(function, (model, data), inputs), result)


def _terms(model: Any, data: Any, q: np.ndarray, v: np.ndarray) -> Results:
    return (
        pin.crba(model, data, q),
        pin.computeCoriolisMatrix(model, data, q, v),
        pin.computeGeneralizedGravity(model, data, q),
    )


def _forward_dynamics(
    model: Any, data: Any, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> np.ndarray:
    return pin.aba(model, data, q, v, tau, pin.Convention.WORLD)


def _coriolis_matrices(model: Any, data: Any, q: np.ndarray) -> None:
    for unit in _units(model.nv):
        pin.computeCoriolisMatrix(model, data, q, unit)


def _slotine_li_torque(
    model: Any, data: Any, q: np.ndarray, v: np.ndarray, v_r: np.ndarray, a_r: np.ndarray
) -> np.ndarray:
    M, C, g = _terms(model, data, q, v)
    return M @ a_r + C @ v_r + g


@cache
def _units(n: int) -> list[np.ndarray]:
    return list(np.eye(n))


_FUNCTIONS: dict[Quantity, Callable[..., Any]] = {
    Quantity.MASS: pin.crba,
    Quantity.CORIOLIS: pin.computeCoriolisMatrix,
    Quantity.TERMS: _terms,
    Quantity.CHRISTOFFEL: _coriolis_matrices,
    Quantity.INVERSE: pin.rnea,
    Quantity.FORWARD: _forward_dynamics,
    Quantity.ROTORS: _forward_dynamics,
    Quantity.SLOTINE_LI: _slotine_li_torque,
    Quantity.GDAHJ: pin.crba,
}
