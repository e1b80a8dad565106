"""Expressions of the exported functions, by running the kernels on recorded scalars.

**Scalar type that records the operations on it.**

Kernels compute with scalars, so they also run on objects of this type; their results then are
expressions. A result that does not depend on an input is an ordinary float.

**Regrouping of inertial parameters, which reduces the operations of the exported code.**

Two changes of the model do not affect torques, mass matrix or Christoffel symbols, but remove many
products from the exported code.

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

**Results of each exported function as expressions, by running the kernels on expressions.**

The first argument ``t`` of every function is the :class:`Tracing` that collects the expressions.
``q`` is (nq,); velocities, accelerations and torques are (nv,). Units and frames are those of the
function of the same name in :mod:`rbd_control.dynamics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.articulated_body import articulated_body_sweep, new_articulated
from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.constants import Constants, constants_of
from rbd_control.dynamics.coriolis import coriolis_sweep, mass_matrix_sweep
from rbd_control.dynamics.kinematics import _body_placements, _frame_jacobians
from rbd_control.dynamics.model_arrays import FLOATING, PRISMATIC, Array, ModelArrays
from rbd_control.dynamics.momentum import gravity_sweep, momentum_sweep
from rbd_control.dynamics.newton_euler import new_forces, newton_euler_sweep, slotine_li_sweep
from rbd_control.dynamics.papers.symbolic import uncompiled
from rbd_control.dynamics.spatial import quaternion_rotation
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import RbdControlError
from rbd_control.estimation.observers import FIRST_ORDER, observe
from rbd_control.export.expression_graph import CALLS, WHOLE, Graph
from rbd_control.robot.friction import Friction, joint_friction


class TracingError(RbdControlError, TypeError):
    """Raised when a kernel does something that straight-line C code cannot express."""


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
            raise TracingError(f"a kernel takes the power {exponent}; only squares are exported")
        return self * self

    def _binary(self, operation: Any, a: object, b: object) -> Any:
        x, y = _node(self.graph, a), _node(self.graph, b)
        if x is None or y is None:
            return NotImplemented
        return _number(self.graph, operation(x, y))

    def _refuse(self, *_: object) -> NoReturn:
        raise TracingError(
            "a kernel compares, converts or branches on a value that depends on its inputs; "
            "exported code has no branches, so such a kernel cannot be exported"
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

    Attributes:
        model: the robot.
        graph: graph of the expressions that were collected so far.
        constants: constants of the model, the first argument of kernels.
        rows: number of bodies and rotors, which is the size of workspaces.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = Graph()
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


def dynamics_terms(t: Tracing, q: Expressions, v: Expressions) -> Results:
    """Return the expressions of M, C (nv, nv each), Cᵀv and g (nv,) in ``M a + C v + g = tau``."""
    n = t.model.nv
    model, q = t.from_root(q)
    results = t.zeros(n, n), t.zeros(n, n), t.zeros(n), t.zeros(n)
    s, memory = t.run(new_sweep)(t.rows), t.zeros(12 * t.rows)
    t.run(coriolis_sweep)(model, q, v, s, memory, *results)
    return results


def mass_matrix(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the mass matrix, (nv, nv), in a tuple of one."""
    M = t.zeros(t.model.nv, t.model.nv)
    model, q = t.from_root(q)
    t.run(mass_matrix_sweep)(model, q, t.run(new_sweep)(t.rows), M)
    return (M,)


def gravity_torque(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the gravity torque, (nv,), in a tuple of one."""
    g = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    t.run(gravity_sweep)(model, q, t.run(new_sweep)(t.rows), g)
    return (g,)


def momentum_terms(t: Tracing, q: Expressions, v: Expressions) -> Results:
    """Return the expressions of the momentum p = M v, of Cᵀv and of the gravity torque, (nv,)."""
    results = t.zeros(v.size), t.zeros(v.size), t.zeros(v.size)
    model, q = t.from_root(q)
    t.run(momentum_sweep)(model, q, v, t.run(new_sweep)(t.rows), *results)
    return results


def inverse_dynamics(t: Tracing, q: Expressions, v: Expressions, a: Expressions) -> Results:
    """Return the expressions of the torque M a + C v + g, (nv,), in a tuple of one."""
    tau = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(newton_euler_sweep)(model, q, v, a, s, f, tau)
    return (tau,)


def forward_dynamics(t: Tracing, q: Expressions, v: Expressions, tau: Expressions) -> Results:
    """Return the expressions of the acceleration that ``tau`` causes, (nv,), in a tuple of one."""
    a = t.zeros(t.model.nv)
    model, q = t.from_root(q)
    s, x = t.run(new_sweep)(t.rows), t.run(new_articulated)(t.rows)
    t.run(articulated_body_sweep)(model, q, v, tau, s, x, a)
    return (a,)


def christoffel_symbols(t: Tracing, q: Expressions) -> Results:
    """Return the expressions of the Christoffel symbols Gamma, (nv, nv, nv), in a tuple of one."""
    n = t.model.nv
    Gamma = t.zeros(n, n, n)
    model, q = t.from_root(q)
    t.run(christoffel_sweep)(model, q, t.run(new_sweep)(t.rows), Gamma)
    return (Gamma,)


def slotine_li_torque(t: Tracing, q: Expressions, *motion: Expressions) -> Results:
    """Return the expressions of the torque M a_r + C v_r + g, (nv,), in a tuple of one.

    ``motion`` is v and the reference velocity v_r and acceleration a_r, (nv,) each.
    """
    model, q = t.from_root(q)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def regressor_product(t: Tracing, q: Expressions, *more: Expressions) -> Results:
    """Return the expressions of the torque Y pi, (nv,), in a tuple of one.

    ``more`` is v, v_r, a_r, (nv,) each, and the inertial parameters pi, ten for each body, see
    :func:`~rbd_control.dynamics.inertial_parameters`. The Slotine-Li torque is linear in pi.
    Computed with pi as the inertial parameters it equals Y pi with the regressor Y, at a tenth of
    the cost of Y.
    """
    *motion, pi = more
    model, q = t.with_parameters(q, pi)
    tau = t.zeros(t.model.nv)
    s, f = t.run(new_sweep)(t.rows), t.run(new_forces)(t.rows)
    t.run(slotine_li_sweep)(model, q, *motion, s, f, tau)
    return (tau,)


def friction_torque(t: Tracing, friction: Friction, v: Expressions) -> Results:
    """Return the expressions of the friction torques, (nv,), with the sign of v, in a tuple."""
    coefficients = friction.coefficients(v.size).astype(object)
    run = t.run(joint_friction)
    torques = [run(friction.kind, coefficients, i, v[i]) for i in range(v.size)]
    return (np.array(torques, dtype=object),)


def frame_placement(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the homogeneous transform (4, 4) from a frame to the world, in a tuple of one.

    ``placement`` is the frame in its body, (4, 4); body -1 is the world.
    """
    T = t.zeros(1, 4, 4)
    T[0] = np.eye(4).astype(object)
    if body >= 0:
        t.run(_body_placements)(t.constants, q[None], body, T)
    return (T[0] @ t.exact(placement),)


def frame_jacobian(t: Tracing, body: int, placement: np.ndarray, q: Expressions) -> Results:
    """Return the Jacobian (6, nv) of a frame, angular rows first, in a tuple of one.

    It is world-aligned at the origin of the frame. ``placement`` is the frame in its body, (4, 4);
    body -1 is the world.
    """
    J = t.zeros(1, 6, t.model.nv)
    if body >= 0:
        origin = tuple(t.exact(placement[:3, 3]))
        t.run(_frame_jacobians)(t.constants, q[None], body, origin, J)
    return (J[0],)


def momentum_observer(t: Tracing, friction: Friction, *given: Expressions) -> Results:
    """Return the momentum p, its rate tau - friction + Cᵀv - g, and the residual, (nv,) each.

    The residual is the estimate of the external joint torque by the first-order momentum observer.
    ``given`` holds q, v, tau, dt [s], gain [1/s], and p, rate and residual of the previous sample.
    The velocity is taken without delay against the torque.
    """
    q, v, tau, dt, gain, last_p, last_rate, last_r = given
    p, CTv, g = momentum_terms(t, q, v)
    (losses,) = friction_torque(t, friction, v)
    rate = tau - losses + CTv - g
    r = t.zeros(v.size)
    for i in range(r.size):
        state = SimpleNamespace(p=last_p[i], rate=last_rate[i], drive=0.0, residual=last_r[i])
        design = SimpleNamespace(gain=gain[i], delay=0.0)
        t.run(observe)(FIRST_ORDER, design, state, dt[()], p[i], rate[i], 0.0, 0.0)
        r[i] = state.residual
    return p, rate, r
