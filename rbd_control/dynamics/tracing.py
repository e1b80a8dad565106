"""Expressions of the functions of one model, by running the kernels on recorded scalars.

The expressions become C code (``rbd_control.export``) and machine code (:func:`freeze`).

**Scalar type that records the operations on it.**

Kernels compute with scalars, so they also run on objects of this type; their results then are
expressions. A result that does not depend on an input is an ordinary float.

**Regrouping of inertial parameters, which reduces the operations of the exported code.**

Two changes of the model do not affect torques, mass matrix or Christoffel symbols, but remove many
products from the expressions.

**Mass on the axis of a joint.** Mass on the axis of a revolute joint moves with the body before the
joint. Therefore mass, the first moment along the axis and the second moment along the axis are
moved to that body; for a prismatic joint the whole second moment is moved. Parameters that reach
the world are dropped. The remaining numbers do not describe a possible body, but the sums of the
recursions are the same. They are the base parameters of Gautier & Khalil, *Direct calculation of
minimum set of inertial parameters of serial robots*, IEEE Trans. Robotics and Automation 6(3),
1990.

**Pose of the root.** The sweeps work in one inertial frame at one instant. In the frame of the
first moving body instead of the world frame, the pose of that body matters only for the direction
of gravity, and its own rotation matrix is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from rbd_control.dynamics.articulated_body import (
    _FORWARD_DYNAMICS,
    articulated_body_sweep,
    new_articulated,
)
from rbd_control.dynamics.batches import Kernels
from rbd_control.dynamics.christoffel import _CHRISTOFFEL_SYMBOLS, christoffel_sweep
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.constants import Constants, constants_of
from rbd_control.dynamics.coriolis import (
    _DYNAMICS_TERMS,
    _MASS_MATRIX,
    coriolis_sweep,
    mass_matrix_sweep,
)
from rbd_control.dynamics.expression_graph import CALLS, WHOLE, Graph
from rbd_control.dynamics.memory import scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC, Array, ModelArrays
from rbd_control.dynamics.momentum import (
    _GRAVITY_TORQUE,
    _MOMENTUM_TERMS,
    gravity_sweep,
    momentum_sweep,
)
from rbd_control.dynamics.newton_euler import (
    _INVERSE_DYNAMICS,
    _SLOTINE_LI_TORQUE,
    new_forces,
    newton_euler_sweep,
    slotine_li_sweep,
)
from rbd_control.dynamics.papers.symbolic import uncompiled
from rbd_control.dynamics.spatial import quaternion_rotation
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import RbdControlError


class TracingError(RbdControlError, TypeError):
    """Raised when a kernel does something that straight-line code cannot express."""


class Scalar:
    """A number in a kernel that stands for one expression: node ``node`` of ``graph``.

    Sums, differences, products, quotients, negation and squares give expressions. Comparisons,
    conversions, branches, ``abs``, ``round`` and other powers raise a :class:`TracingError`.
    """

    __slots__ = ("graph", "node")
    # Otherwise the product of a numpy float with an object of this class would be an array.
    __array_ufunc__ = None

    def __init__(self, graph: Graph, node: int) -> None:
        self.graph = graph
        self.node = node

    def __repr__(self) -> str:
        return f"<Scalar {self.graph.nodes[self.node]}>"

    def __add__(self, other: object) -> Number:
        return self._binary(self.graph.add, self, other)

    def __radd__(self, other: object) -> Number:
        return self._binary(self.graph.add, other, self)

    def __sub__(self, other: object) -> Number:
        return self._binary(self.graph.subtract, self, other)

    def __rsub__(self, other: object) -> Number:
        return self._binary(self.graph.subtract, other, self)

    def __mul__(self, other: object) -> Number:
        return self._binary(self.graph.multiply, self, other)

    def __rmul__(self, other: object) -> Number:
        return self._binary(self.graph.multiply, other, self)

    def __truediv__(self, other: object) -> Number:
        return self._binary(self.graph.divide, self, other)

    def __rtruediv__(self, other: object) -> Number:
        return self._binary(self.graph.divide, other, self)

    def __neg__(self) -> Number:
        return _number(self.graph, self.graph.negate(self.node))

    def __pos__(self) -> Number:
        return self

    def __pow__(self, exponent: object) -> Number:
        if exponent != 2:
            raise TracingError(f"a kernel takes the power {exponent}; only squares are traced")
        return self * self

    def _binary(self, operation: Any, a: object, b: object) -> Any:
        x, y = _node(self.graph, a), _node(self.graph, b)
        if x is None or y is None:
            return NotImplemented
        return _number(self.graph, operation(x, y))

    def _refuse(self, *_: object) -> NoReturn:
        raise TracingError(
            "a kernel compares, converts or branches on a value that depends on its inputs; "
            "straight-line code has no branches, so such a kernel cannot be traced"
        )

    __bool__ = __float__ = __int__ = __index__ = __abs__ = __round__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]


Number: TypeAlias = Scalar | float


def _node(graph: Graph, x: object) -> int | None:
    """Return the node of a number; None for any other object."""
    if isinstance(x, Scalar):
        return x.node
    if isinstance(x, (float, int, np.integer, np.floating)):
        return graph.constant(float(x))
    return None


def _number(graph: Graph, node: int) -> Number:
    value = graph.value(node)
    return Scalar(graph, node) if value is None else value


def node_of(graph: Graph, x: Number) -> int:
    """Return the index of the node of a traced number, or of the constant node of a float."""
    return x.node if isinstance(x, Scalar) else graph.constant(float(x))


def inputs(graph: Graph, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of scalars: a new input of the graph for each number of an argument.

    ``name`` and ``shape`` are those of the argument in C. With the shape () it is a single number.
    """
    array = np.empty(shape, dtype=object)
    positions = range(array.size) if shape else [WHOLE]
    array.flat[:] = [Scalar(graph, graph.input(name, i)) for i in positions]
    return array


def _traced(name: str) -> Any:
    def function(x: Number) -> Number:
        if isinstance(x, Scalar):
            return _number(x.graph, x.graph.call(name, x.node))
        return CALLS[name](x)

    return function


def _finite(x: Number) -> bool:
    return x.__bool__() if isinstance(x, Scalar) else math.isfinite(x)


MATH = SimpleNamespace(**{name: _traced(name) for name in CALLS}, isfinite=_finite)
"""Replacement of the module ``math`` in traced kernels."""


ROUNDOFF = 1e-15
"""Fraction of the largest entry below which a difference counts as roundoff."""


def regrouped(arrays: ModelArrays) -> ModelArrays:
    """Return the arrays of a model with all inertia moved as close to the root as possible.

    Torques, mass matrix and Christoffel symbols do not change, but the numbers of a row no longer
    describe a possible body.
    """
    mass, first = arrays.mass.copy(), arrays.first_moment.copy()
    second = 0.5 * (arrays.second_moment + arrays.second_moment.swapaxes(1, 2))
    for i in range(arrays.parent.size - 1, -1, -1):
        if arrays.joint_type[i] == FLOATING:
            continue
        axis, R, p = arrays.axis[i], arrays.rotation[i], arrays.translation[i]
        m, h, S = 0.0, np.zeros(3), second[i].copy()
        if arrays.joint_type[i] != PRISMATIC:
            m, h = float(mass[i]), axis * (axis @ first[i])
            S = np.outer(axis, axis) * (axis @ second[i] @ axis)
        mass[i] -= m
        first[i] = _difference(first[i], h)
        second[i] = _difference(second[i], S)
        parent = arrays.parent[i]
        if parent >= 0:
            # A point y of the moved mass is at x = p + R y in the frame of the parent.
            along = R @ h
            cross = np.outer(p, along)
            mass[parent] += m
            first[parent] += along + m * p
            second[parent] += R @ S @ R.T + cross + cross.T + m * np.outer(p, p)
    return arrays._replace(mass=mass, first_moment=first, second_moment=second)


def _difference(a: Array, b: Array) -> Array:
    """Return a - b, with entries that are only roundoff set to zero."""
    result = a - b
    result[np.abs(result) <= ROUNDOFF * np.abs(a).max()] = 0.0
    return result


def seen_from_root(
    constants: Constants, q: np.ndarray, run: Callable[[Any], Callable[..., Any]]
) -> tuple[Constants, np.ndarray]:
    """Return constants and positions with the root at zero and gravity rotated instead.

    They give the same torques and joint-space matrices as the arguments, with fewer operations.

    Args:
        constants: the regrouped model, as numbers.
        q: joint positions, (nq,) expressions.
        run: function that converts a kernel to a function on expressions.

    Returns:
        Constants and positions (nq,). With a prismatic root only its position changes. Both are
        unchanged if several bodies have the world as parent, because each of them would need a
        gravity vector of its own, and if another joint mimics the joint of the root.
    """
    gamma, zero = constants.gravity, 0.0
    if constants.parent.size and constants.joint_type[0] == FLOATING:
        R = np.array(run(quaternion_rotation)(*q[3:7]), dtype=object)
        at_zero = np.array([zero] * 6 + [1.0] + list(q[7:]), dtype=object)
        return constants._replace(gravity=R.T @ gamma), at_zero
    root = _only_root(constants)
    if root < 0:
        return constants, q
    at_zero = q.copy()
    at_zero[constants.dof[root]] = zero
    if constants.joint_type[root] == PRISMATIC:
        return constants, at_zero
    angle = constants.ratio[root] * q[constants.dof[root]]
    cosine, sine = MATH.cos(angle), MATH.sin(angle)
    e = constants.axis[root]
    along = e * (e @ gamma)
    # Gravity, rotated about the axis by minus the angle.
    turned = [
        a + cosine * (g - a) - sine * c
        for a, g, c in zip(along, gamma, np.cross(e, gamma), strict=True)
    ]
    return constants._replace(gravity=np.array(turned, dtype=object)), at_zero


def _only_root(constants: Constants) -> int:
    """Return the row of the only body (rotors left out) whose parent is the world.

    The result is -1 if there are several such bodies, if a rotor whose parent is the world has
    mass, or if a joint further out mimics the joint of the body.
    """
    weight = constants.mass.astype(bool) | constants.first_moment.astype(bool).any(axis=1)
    rotors = set(constants.rotor[constants.rotor >= 0].tolist())
    roots = [int(i) for i in np.flatnonzero(constants.parent < 0)]
    bodies = [i for i in roots if i not in rotors and constants.parent.size]
    if len(bodies) != 1 or any(weight[i] for i in roots if i != bodies[0]):
        return -1
    # Another joint that mimics the root's joint needs the position of the root's joint.
    follows = constants.dof == constants.dof[bodies[0]]
    return bodies[0] if bool((constants.parent[follows] < 0).all()) else -1


_EXACT = 1e-15
"""Tolerance for constants that are exact except for roundoff.

Entries of rotations within this distance of 0, 1 or -1 are set to that number, for example the
6e-17 that a right angle leaves. Other entries below this fraction of the largest are set to zero.
"""

_ROTATIONS = ("axis", "along", "cosine", "sine")


class Tracing:
    """Collects the expressions of one function and provides the arguments of kernels.

    Args:
        model: the robot.
        largest: number of nodes of the graph from which ``TooLargeError`` is raised.

    Attributes:
        model: the robot.
        graph: graph of the expressions that were collected so far.
        constants: constants of the model, the first argument of kernels.
        rows: number of bodies and rotors, which is the size of workspaces.
    """

    def __init__(self, model: Model, largest: float = math.inf) -> None:
        self.model = model
        self.graph = Graph(largest)
        self.constants = _exact(constants_of(model.arrays))
        self.rows = int(model.arrays.parent.size)

    def inputs(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return the argument ``name`` of the C function as an array of input expressions.

        The array has the given shape; () is a single number.
        """
        return inputs(self.graph, name, shape)

    def from_root(self, q: np.ndarray) -> tuple[Constants, np.ndarray]:
        """Return constants and positions that give the same dynamics with fewer operations.

        ``q`` is (nq,) expressions, as are the positions returned. Torques, mass matrix and
        Christoffel symbols are the same; the poses of the links in the world are not preserved.
        """
        constants = _exact(constants_of(regrouped(self.model.arrays)))
        return seen_from_root(constants, q, self.run)

    def with_parameters(self, q: np.ndarray, pi: np.ndarray) -> tuple[Constants, np.ndarray]:
        """Return constants with other inertial parameters, and the positions that belong to them.

        If the root is the only body or rotor that has the world as parent, both are those of
        :meth:`from_root`: the root is at zero and gravity is rotated instead. Otherwise the
        positions are ``q``, because ``pi`` may give mass to a reflected rotor, whose weight acts
        along the gravity of the world.

        Args:
            q: joint positions, (nq,) expressions.
            pi: ten expressions for each body, see
                :func:`~rbd_control.dynamics.inertial_parameters`.
        """
        constants = self.constants
        if np.count_nonzero(constants.parent < 0) == 1:
            constants, q = self.from_root(q)
        changed: dict[str, Any] = {
            name: np.full_like(getattr(constants, name), 0.0)
            for name in ("mass", "first_moment", "second_moment")
        }
        # Only the last of the six rows of a floating root has inertia.
        bodies = range(self.rows - pi.size // 10, self.rows)
        for row, parameters in zip(bodies, pi.reshape(-1, 10), strict=True):
            m, hx, hy, hz, xx, xy, xz, yy, yz, zz = parameters
            # The second moment is half the trace of the inertia times 1, minus the inertia.
            half = 0.5 * (xx + yy + zz)
            changed["mass"][row] = m
            changed["first_moment"][row] = [hx, hy, hz]
            changed["second_moment"][row] = [
                [half - xx, -xy, -xz],
                [-xy, half - yy, -yz],
                [-xz, -yz, half - zz],
            ]
        return constants._replace(**changed), q

    def exact(self, placement: np.ndarray) -> np.ndarray:
        """Return numbers as Python floats; entries within 1e-15 of -1, 0 or 1 become exactly that.

        Products of rotations by right angles miss these values by rounding. The exported code
        leaves out terms with exact zeros and ones.
        """
        return _snapped(placement).astype(object)

    def zeros(self, *shape: int) -> np.ndarray:
        """Return an array of zeros that can hold expressions."""
        return np.full(shape, 0.0, dtype=object)

    def run(self, kernel: Any) -> Callable[..., Any]:
        """Return a kernel as a Python function of expressions, without calling it.

        The function raises a TracingError if the kernel compares, converts or branches on an
        expression. Branches on numbers are allowed.
        """
        return uncompiled(kernel, MATH)


def _snapped(values: np.ndarray) -> np.ndarray:
    result = values.copy()
    for target in (-1.0, 0.0, 1.0):
        result[np.abs(result - target) <= _EXACT] = target
    return result


def _exact(constants: Constants) -> Constants:
    """Return the constants as Python floats, without the roundoff of :data:`_EXACT`."""
    exact: dict[str, Any] = {}
    for name, value in constants._asdict().items():
        if not isinstance(value, np.ndarray) or value.dtype != np.float64:
            continue
        cleaned = value.copy()
        if name in _ROTATIONS:
            cleaned = _snapped(value)
        elif value.ndim > 1:
            axes = tuple(range(1, value.ndim))
            size = np.abs(value).max(axis=axes, keepdims=True, initial=0.0)
            cleaned[np.abs(cleaned) <= _EXACT * size] = 0.0
        exact[name] = cleaned.astype(object)
    return constants._replace(**exact)


Expressions: TypeAlias = np.ndarray
"""An array of expressions and floats."""
Results: TypeAlias = Sequence[Expressions]


class Function(NamedTuple):
    """A function of the state that is traced and frozen."""

    kernel: Any
    """Kernel ``(model, q, *vectors, *results)``, which overwrites the results of one state."""
    plain: Kernels
    """Kernels of the public function, with the names of its vectors and the shapes of results."""


@inlined
def _dynamics_terms(model, q, v, M, C, CTv, g):
    n = model.parent.shape[0]
    coriolis_sweep(model, q, v, new_sweep(n), scratch(12 * n), M, C, CTv, g)


@inlined
def _mass_matrix(model, q, M):
    mass_matrix_sweep(model, q, new_sweep(model.parent.shape[0]), M)


@inlined
def _gravity_torque(model, q, g):
    gravity_sweep(model, q, new_sweep(model.parent.shape[0]), g)


@inlined
def _momentum_terms(model, q, v, p, CTv, g):
    momentum_sweep(model, q, v, new_sweep(model.parent.shape[0]), p, CTv, g)


@inlined
def _inverse_dynamics(model, q, v, a, tau):
    n = model.parent.shape[0]
    newton_euler_sweep(model, q, v, a, new_sweep(n), new_forces(n), tau)


@inlined
def _forward_dynamics(model, q, v, tau, a):
    n = model.parent.shape[0]
    articulated_body_sweep(model, q, v, tau, new_sweep(n), new_articulated(n), a)


@inlined
def _christoffel_symbols(model, q, Gamma):
    christoffel_sweep(model, q, new_sweep(model.parent.shape[0]), Gamma)


@inlined
def _slotine_li_torque(model, q, v, v_r, a_r, tau):
    n = model.parent.shape[0]
    slotine_li_sweep(model, q, v, v_r, a_r, new_sweep(n), new_forces(n), tau)


FUNCTIONS = {
    "dynamics_terms": Function(_dynamics_terms, _DYNAMICS_TERMS),
    "mass_matrix": Function(_mass_matrix, _MASS_MATRIX),
    "gravity_torque": Function(_gravity_torque, _GRAVITY_TORQUE),
    "momentum_terms": Function(_momentum_terms, _MOMENTUM_TERMS),
    "inverse_dynamics": Function(_inverse_dynamics, _INVERSE_DYNAMICS),
    "forward_dynamics": Function(_forward_dynamics, _FORWARD_DYNAMICS),
    "christoffel_symbols": Function(_christoffel_symbols, _CHRISTOFFEL_SYMBOLS),
    "slotine_li_torque": Function(_slotine_li_torque, _SLOTINE_LI_TORQUE),
}
"""The functions of the state by name; their equations, units and frames are in
:mod:`rbd_control.dynamics`."""


def traced(name: str, t: Tracing, q: Expressions, *vectors: Expressions) -> Results:
    """Return the results of the function ``name`` of :data:`FUNCTIONS` as expressions.

    Args:
        name: key of :data:`FUNCTIONS`.
        t: the tracing that collects the expressions.
        q: joint positions, (nq,).
        vectors: the other arguments, (nv,) each.
    """
    function = FUNCTIONS[name]
    results = [t.zeros(*x.shape) for x in function.plain.new_results(t.model)]
    model, q = t.from_root(q)
    t.run(function.kernel)(model, q, *vectors, *results)
    return results
