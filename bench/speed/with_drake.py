"""Drake called from Python, for the quantities that it has: M, inverse and forward dynamics.

A call sets the state in Drake's context, which invalidates its cache, and evaluates the quantity.
Drake has neither C nor Cᵀ v, and computes C v and g as vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from xml.etree import ElementTree

import numpy as np

from bench.speed.measure import from_python
from bench.speed.mechanisms import Mechanism
from bench.speed.quantities import Contestant, Quantity, Results

QUANTITIES = (Quantity.MASS, Quantity.INVERSE, Quantity.FORWARD)


def problem() -> str:
    """Return why Drake does not take part; empty if it is installed."""
    return "" if find_spec("pydrake") else "install drake"


@dataclass(frozen=True)
class Robot:
    """A mechanism in Drake.

    Attributes:
        plant: the model, with continuous time.
        context: state of the model.
        forces: workspace for the force of gravity.
        applied: input of joint torques in the context.
        rows: Drake's rows of v in our order of joints, (nv,).
    """

    plant: Any
    context: Any
    forces: Any
    applied: Any
    rows: np.ndarray


def robot_of(mechanism: Mechanism) -> Robot:
    """Return a mechanism with a fixed base in Drake, its root link welded to the world."""
    from pydrake.multibody.parsing import Parser
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import MultibodyForces

    plant = MultibodyPlant(time_step=0.0)
    Parser(plant).AddModelsFromString(mechanism.bare_urdf, "urdf")
    root = _root(mechanism)
    if root != "world":  # Drake's own name for it
        plant.WeldFrames(plant.world_frame(), plant.GetBodyByName(root).body_frame())
    plant.Finalize()
    context = plant.CreateDefaultContext()
    torques = plant.get_applied_generalized_force_input_port()
    applied = torques.FixValue(context, np.zeros(plant.num_velocities()))
    joints = [plant.GetJointByName(name) for name in mechanism.model.joint_names]
    rows = np.array([joint.velocity_start() for joint in joints])
    return Robot(plant, context, MultibodyForces(plant), applied, rows)


def _root(mechanism: Mechanism) -> str:
    """Return the link that no joint moves."""
    description = ElementTree.fromstring(mechanism.bare_urdf)
    children = {element.get("link") for element in description.iterfind("joint/child")}
    names = [str(link.get("name")) for link in description.iterfind("link")]
    return next(name for name in names if name not in children)


def contestant(mechanism: Mechanism, robot: Robot, quantity: Quantity) -> Contestant:
    """Return a contestant that calls Drake from Python; ``quantity`` is one of the QUANTITIES."""
    function, rows = _FUNCTIONS[quantity], robot.rows
    inputs = mechanism.states.inputs(quantity)
    ordered = [np.empty_like(array) for array in inputs]
    for array, values in zip(ordered, inputs, strict=True):
        array[:, rows] = values

    def result() -> Results:
        value = function(robot, *(array[0] for array in ordered))
        return (np.array(value)[np.ix_(*[rows] * value.ndim)],)

    return Contestant(from_python(function, (robot,), ordered), result)


def _mass_matrix(robot: Robot, q: np.ndarray) -> np.ndarray:
    robot.plant.SetPositions(robot.context, q)
    return robot.plant.CalcMassMatrix(robot.context)


def _inverse_dynamics(robot: Robot, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    plant, context = robot.plant, robot.context
    plant.SetPositions(context, q)
    plant.SetVelocities(context, v)
    plant.CalcForceElementsContribution(context, robot.forces)
    return plant.CalcInverseDynamics(context, a, robot.forces)


def _forward_dynamics(robot: Robot, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> np.ndarray:
    plant, context = robot.plant, robot.context
    plant.SetPositions(context, q)
    plant.SetVelocities(context, v)
    robot.applied.GetMutableData().get_mutable_value().SetFromVector(tau)
    return plant.EvalTimeDerivatives(context).get_generalized_velocity().CopyToVector()


_FUNCTIONS: dict[Quantity, Callable[..., np.ndarray]] = {
    Quantity.MASS: _mass_matrix,
    Quantity.INVERSE: _inverse_dynamics,
    Quantity.FORWARD: _forward_dynamics,
}
