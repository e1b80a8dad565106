"""MuJoCo called from Python for M, inverse and forward dynamics, without contacts.

MuJoCo keeps its own state, so each evaluation copies the state and calls the functions of the
stages. MuJoCo has no C, Cᵀ v and Christoffel symbols. It models rotors by n² I_R ("armature").
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from bench.speed.measure import from_python
from bench.speed.mechanisms import ROTOR, Mechanism
from bench.speed.quantities import Contestant, Quantity, Results


def model_of(mechanism: Mechanism) -> Any:
    """Return the mechanism as a model of MuJoCo.

    Raises:
        ValueError: if MuJoCo rejects the description, such as its inertias.
    """
    spec = mujoco.MjSpec.from_string(_description(mechanism))
    if mechanism.floating:
        spec.worldbody.first_body().add_freejoint()
    return spec.compile()


def contestant(mechanism: Mechanism, quantity: Quantity, model: Any) -> Contestant:
    """Return a contestant that calls the functions of MuJoCo for a quantity from Python.

    Args:
        mechanism: the mechanism, with its states.
        quantity: a key of :data:`FUNCTIONS`.
        model: result of :func:`model_of`.
    """
    joints = [model.joint(name) for name in mechanism.model.joint_names]
    # In MuJoCo the scalar part of a quaternion comes first.
    root_q, root_v = ([0, 1, 2, 4, 5, 6, 3], range(6)) if mechanism.floating else ([], range(0))
    rows_q = np.array([*root_q, *(joint.qposadr[0] for joint in joints)])
    rows = np.array([*root_v, *(joint.dofadr[0] for joint in joints)])
    if quantity is Quantity.ROTORS:
        model = copy(model)
        model.dof_armature[rows[len(root_v) :]] = ROTOR.gear_ratio**2 * np.asarray(ROTOR.inertia)
    data, output = mujoco.MjData(model), np.empty(model.nv)
    if quantity in (Quantity.MASS, Quantity.GDAHJ):
        output = np.empty((model.nv, model.nv))
    inputs = mechanism.states.inputs(quantity)
    ordered = [np.empty_like(array) for array in inputs]
    ordered[0][:, rows_q] = inputs[0]
    for array, values in zip(ordered[1:], inputs[1:], strict=True):
        array[:, rows] = values
    function = FUNCTIONS[quantity]

    def result() -> Results:
        function(model, data, output, *(array[0] for array in ordered))
        if mechanism.floating:
            return ()  # MuJoCo expresses the velocity of the base in other axes.
        return (output[np.ix_(*[rows] * output.ndim)],)

    return Contestant(from_python(function, (model, data, output), ordered), result)


def _mass_matrix(model: Any, data: Any, M: np.ndarray, q: np.ndarray) -> None:
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_crb(model, data)
    mujoco.mj_fullM(model, data, M)


def _inverse_dynamics(
    model: Any, data: Any, tau: np.ndarray, q: np.ndarray, v: np.ndarray, a: np.ndarray
) -> None:
    data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_comVel(model, data)
    mujoco.mj_rne(model, data, 1, tau)


def _forward_dynamics(
    model: Any, data: Any, a: np.ndarray, q: np.ndarray, v: np.ndarray, tau: np.ndarray
) -> None:
    data.qpos[:], data.qvel[:] = q, v
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_crb(model, data)
    mujoco.mj_factorM(model, data)
    mujoco.mj_comVel(model, data)
    mujoco.mj_rne(model, data, 0, a)
    mujoco.mj_solveM(model, data, a[None], (tau - a)[None])


def _description(mechanism: Mechanism) -> str:
    """Return the URDF with MuJoCo's options: inertias are taken as they are."""
    robot = ElementTree.fromstring(mechanism.bare_urdf)
    extension = ElementTree.SubElement(robot, "mujoco")
    ElementTree.SubElement(extension, "compiler", balanceinertia="false", inertiafromgeom="false")
    return ElementTree.tostring(robot, encoding="unicode")


FUNCTIONS: dict[Quantity, Callable[..., Any]] = {
    Quantity.MASS: _mass_matrix,
    Quantity.INVERSE: _inverse_dynamics,
    Quantity.FORWARD: _forward_dynamics,
    Quantity.ROTORS: _forward_dynamics,
    Quantity.GDAHJ: _mass_matrix,
}
