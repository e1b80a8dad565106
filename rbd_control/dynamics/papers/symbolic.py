"""M, C, g and the Christoffel symbols of small arms as expressions.

**Run the source of a kernel as plain Python on any objects that can be added and multiplied.**

The kernels compute with scalars. With symbols in place of floats the same source yields expressions
(``symbolic.py``, and ``tracing.py`` for machine code and C); with objects that count their
operations it yields operation counts (``bench/counting.py``).

**M, C, g and the Christoffel symbols of small arms as expressions, by the numeric algorithms.**

As in EW21 Table 2, Algorithms 1 and 2 run "with symbolic inputs": the kernels of ``coriolis.py``
and ``christoffel.py`` run uncompiled on sympy expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rbd_control.dynamics.christoffel import christoffel_sweep
from rbd_control.dynamics.constants import constants_of, unpacked
from rbd_control.dynamics.coriolis import coriolis_sweep
from rbd_control.dynamics.fused import fma
from rbd_control.dynamics.memory import numbers, scratch
from rbd_control.dynamics.model import Model
from rbd_control.dynamics.model_arrays import ModelArrays
from rbd_control.dynamics.papers.normal_form import NormalForm
from rbd_control.dynamics.small_systems import cos_sin
from rbd_control.dynamics.spatial import quaternion_rotation
from rbd_control.dynamics.sweep import new_sweep
from rbd_control.errors import InputError

if TYPE_CHECKING:
    import sympy


def _empty(shape: int | tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, dtype=object)


def _numbers(array: np.ndarray, first: int, shape: tuple[int, ...]) -> np.ndarray:
    return array[first : first + int(np.prod(shape))].reshape(shape)


_IN_PYTHON: dict[int, Callable[..., Any]] = {
    id(scratch): _empty,
    id(numbers): _numbers,
    id(fma): lambda a, b, c: a * b + c,
    id(unpacked): lambda constants: constants,
}
"""Python functions that replace the functions which exist in compiled code only."""

_NUMPY = SimpleNamespace(empty=_empty)


def uncompiled(
    kernel: Any, math: Any, constant: Callable[[float], Any] = float
) -> Callable[..., Any]:
    """Return the source of a compiled kernel as a plain Python function.

    The helpers that the kernel calls run as Python functions as well. The result takes the
    arguments of the kernel, with arrays of any objects that can be added and multiplied.

    Args:
        kernel: a function made by ``compiled`` or ``inlined``. The only function of numpy that it
            may use is ``empty``, which makes arrays of objects here, as does ``scratch``.
        math: module or object that replaces ``math``; it has ``cos``, ``sin`` and every other
            function of ``math`` that the kernel calls.
        constant: converts floats in the source, such as 0.5.
    """
    function = kernel.py_func
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        part = _IN_PYTHON.get(id(names.get(name)))
        if part:
            names[name] = part
        elif names.get(name) is cos_sin:
            names[name] = lambda x: (math.cos(x), math.sin(x))
        elif hasattr(names.get(name), "py_func"):
            names[name] = uncompiled(names[name], math, constant)
        elif name == "math":
            names[name] = math
        elif name == "np":
            names[name] = _NUMPY

    def replaced(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(replaced, value))
        return constant(value) if isinstance(value, float) else value

    code = function.__code__.replace(co_consts=replaced(function.__code__.co_consts))
    return FunctionType(code, names, function.__name__)


_NONE: Mapping[str, Any] = MappingProxyType({})


class SymbolicTerms(NamedTuple):
    """The terms of ``M a + C v + g = tau`` as expressions in the entries of ``q`` and ``v``."""

    q: tuple[sympy.Expr, ...]
    """Joint positions, nq expressions."""
    v: tuple[sympy.Expr, ...]
    """Joint velocities, nv expressions."""
    M: sympy.Matrix
    """Mass matrix, (nv, nv)."""
    C: sympy.Matrix
    """Christoffel-consistent Coriolis matrix, (nv, nv)."""
    CTv: sympy.Matrix
    """Cᵀ v, (nv, 1)."""
    g: sympy.Matrix
    """Gravity torque, (nv, 1)."""
    Gamma: sympy.NDimArray
    """Christoffel symbols of the first kind, (nv, nv, nv): ``C_ij = sum_k Gamma_ijk v_k``."""


def symbolic_dynamics(
    model: Model,
    *,
    q: Sequence[Any] | None = None,
    v: Sequence[Any] | None = None,
    bodies: Mapping[str, tuple[Any, Any, Any]] = _NONE,
    origins: Mapping[str, Sequence[Any]] = _NONE,
    gravity: Sequence[Any] | None = None,
    simplify: bool = True,
) -> SymbolicTerms:
    """Return the terms of the equation of motion of a small robot as sympy expressions.

    Quantities that are not given as expressions are the numbers of the model, as fractions with
    their first 15 digits (0.31 becomes 31/100). Rotations are exact, so that terms which cancel
    leave no remainder. ``terms.C.evalf()`` converts to floats, and
    ``sympy.lambdify([*terms.q, *terms.v], terms.C)`` returns a numeric function.

    Args:
        model: the robot.
        q: joint positions, nq expressions; by default the real symbols q1, q2, ...
        v: joint velocities, nv expressions; by default the real symbols v1, v2, ...
        bodies: mass [kg], centre of mass (3,) [m] and rotational inertia about the centre of mass
            (3, 3) [kg·m²], in the axes of the link, by name of a link that a joint moves or of the
            root of a floating base. They replace the values of the whole body, including the links
            fixed to it.
        origins: origin of a joint in the frame of its parent body (3,) [m], by name of the joint,
            which must not mimic another; the rotor of the joint moves with it.
        gravity: acceleration of gravity (3,), world axes [m/s²].
        simplify: whether every entry is brought to the normal form of ``normal_form.py``: a
            polynomial in the sines and cosines of q without squared sines, so that equal entries
            are equal expressions (``sympy.trigsimp`` also makes sums of angles). If the quaternion
            of a floating base consists of symbols, it is assumed to have unit length. The normal
            form takes a minute for the six joints of a UR5 and ten seconds for five joints.

    Raises:
        ImportError: without sympy.
        InputError: for an unknown link or joint, the wrong number of expressions, a value that is
            neither an expression nor a finite number, or an inertia that is not symmetric.

    Source: EW21 Algorithms 1 and 2.
    """
    try:
        import sympy
    except ImportError as error:
        raise ImportError("symbolic_dynamics needs sympy: pip install sympy") from error
    n = model.nv
    positions = _joint_vector("q", q, "nq", model.nq)
    velocities = _joint_vector("v", v, "nv", n)
    constants = constants_of(symbolic_arrays(model, bodies, origins, gravity))
    rows = constants.parent.size
    shapes = {"M": (n, n), "C": (n, n), "CTv": (n,), "g": (n,), "Gamma": (n, n, n)}
    terms = {name: np.empty(shape, dtype=object) for name, shape in shapes.items()}
    *of_state, Gamma = terms.values()
    s, factor = on_expressions(new_sweep)(rows), np.empty(12 * rows, dtype=object)
    on_expressions(coriolis_sweep)(constants, positions, velocities, s, factor, *of_state)
    on_expressions(christoffel_sweep)(constants, positions, s, Gamma)
    if simplify:
        base = positions[3:7] if model.floating_base else ()
        quaternion = tuple(base) if all(x.is_Symbol for x in base) else ()
        normal = NormalForm([x for term in terms.values() for x in term.flat], quaternion)
        for term in terms.values():
            term.flat[:] = [normal(x) for x in term.flat]
    matrices = {name: sympy.Matrix(terms[name]) for name in ("M", "C", "CTv", "g")}
    return SymbolicTerms(
        tuple(positions), tuple(velocities), **matrices, Gamma=sympy.Array(Gamma.tolist())
    )


def on_expressions(kernel: Any) -> Callable[..., Any]:
    """Return a kernel as a Python function of sympy expressions, with its constants as fractions.

    Arguments are those of the kernel, with arrays of expressions in place of floats.
    """
    import sympy

    return uncompiled(kernel, math=sympy, constant=sympy.Rational)


def symbolic_arrays(
    model: Model,
    bodies: Mapping[str, tuple[Any, Any, Any]] = _NONE,
    origins: Mapping[str, Sequence[Any]] = _NONE,
    gravity: Sequence[Any] | None = None,
) -> ModelArrays:
    """Return the arrays of a model with expressions in place of floats.

    Args:
        model: the robot; its other numbers become fractions with 15 digits.
        bodies, origins, gravity: expressions that replace numbers, see :func:`symbolic_dynamics`.

    Raises:
        InputError: as :func:`symbolic_dynamics`.
    """
    numbers = model.arrays
    S = numbers.second_moment
    # Exactly symmetric, orthonormal and of unit length, or terms that cancel would leave a rest.
    arrays = ModelArrays(*map(_exact, numbers))._replace(
        rotation=np.array([_rotation(R) for R in numbers.rotation], dtype=object),
        axis=np.array([_unit(a) for a in numbers.axis], dtype=object),
        second_moment=_exact(0.5 * (S + S.swapaxes(1, 2))),
    )
    first = model.nv - len(model.joint_names)
    rows = {link: first + i for i, link in enumerate(model.body_links)}
    if model.floating_base:
        rows[model.root_link] = first - 1
    for link, body in bodies.items():
        if link not in rows:
            raise InputError(f"bodies: no joint moves {link!r}; links are {', '.join(rows)}")
        try:
            mass, com, inertia = body
        except (TypeError, ValueError):
            raise InputError(f"bodies: {link!r} is {body!r}; give mass, com, inertia") from None
        m = _expressions(f"{link!r}: mass", mass, ())[()]
        c = _expressions(f"{link!r}: com", com, (3,))
        I_c = _expressions(f"{link!r}: inertia", inertia, (3, 3))
        if (I_c != I_c.T).any():
            raise InputError(f"{link!r}: inertia is not symmetric")
        row = rows[link]
        arrays.mass[row] = m
        arrays.first_moment[row] = m * c
        # Second moment: 1/2 tr(I) 1 - I about the centre of mass, plus m c cᵀ.
        arrays.second_moment[row] = np.diag([I_c.trace() / 2] * 3) - I_c + m * np.outer(c, c)
    for joint, origin in origins.items():
        model.joint_index(joint)  # raises InputError for an unknown joint
        row = model.joint_row[joint]
        moved = _expressions(f"{joint!r}: origin", origin, (3,)) - arrays.translation[row]
        arrays.translation[row] += moved
        if arrays.rotor[row] >= 0:
            arrays.translation[arrays.rotor[row]] += moved
    if gravity is not None:
        arrays.gravity[:] = _expressions("gravity", gravity, (3,))
    return arrays


def _exact(array: np.ndarray) -> np.ndarray:
    """Return floats as fractions with 15 digits; integer arrays are returned unchanged.

    Entries below 1e-15 of the largest become zero, such as the 6e-17 that a right angle leaves.
    """
    if array.dtype != np.float64:
        return array
    size = np.abs(array).max(axis=tuple(range(1, array.ndim)), keepdims=True)
    array = np.where(np.abs(array) <= 1e-15 * size, 0.0, array)
    fractions = [_fraction(x) for x in array.flat]
    return np.array(fractions, dtype=object).reshape(array.shape)


def _rotation(R: np.ndarray) -> Any:
    """Return the rotation of a quaternion of fractions: an exact rotation within 1e-15 of ``R``."""
    x, y, z = R
    # Four times the quaternion times each of its entries.
    products = np.array(
        [
            [1.0 + x[0] - y[1] - z[2], x[1] + y[0], x[2] + z[0], z[1] - y[2]],
            [x[1] + y[0], 1.0 - x[0] + y[1] - z[2], y[2] + z[1], x[2] - z[0]],
            [x[2] + z[0], y[2] + z[1], 1.0 - x[0] - y[1] + z[2], y[0] - x[1]],
            [z[1] - y[2], x[2] - z[0], y[0] - x[1], 1.0 + x[0] + y[1] + z[2]],
        ]
    )
    largest = int(products.diagonal().argmax())
    quaternion = _exact(products[largest : largest + 1] / products[largest, largest])[0]
    return on_expressions(quaternion_rotation)(*quaternion)


def _unit(a: np.ndarray) -> np.ndarray:
    """Return a rational unit vector near ``a``, by stereographic projection from near ``-a``."""
    k = int(np.abs(a).argmax())
    sign = 1 if a[k] > 0.0 else -1
    t = _exact(np.delete(a, k)[None] / (1.0 + abs(a[k])))[0]
    square = t @ t
    return np.insert(2 * t / (1 + square), k, sign * (1 - square) / (1 + square))


def _fraction(x: Any) -> sympy.Rational:
    import sympy

    return sympy.Rational(f"{float(x):.15g}")


def _expressions(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``value`` as an array of ``shape`` of expressions, with floats as exact fractions."""
    import sympy

    array = np.array(value, dtype=object)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; it must be {shape}")
    entries = []
    for entry in array.flat:
        try:
            expression = sympy.sympify(entry, strict=True)
        except sympy.SympifyError as error:
            raise InputError(f"{name} is {value!r}; give expressions or numbers") from error
        if not isinstance(expression, sympy.Expr) or expression.has(
            sympy.nan, sympy.oo, -sympy.oo, sympy.zoo
        ):
            raise InputError(f"{name} is {value!r}; give expressions or finite numbers")
        floats = expression.atoms(sympy.Float)
        entries.append(expression.xreplace({x: _fraction(x) for x in floats}))
    return np.array(entries, dtype=object).reshape(shape)


def _joint_vector(name: str, value: Sequence[Any] | None, size_name: str, size: int) -> np.ndarray:
    import sympy

    if value is None:
        value = sympy.symbols(f"{name}1:{size + 1}", real=True)
    shape = np.array(value, dtype=object).shape
    if shape != (size,):
        raise InputError(f"{name} has shape {shape} but the model has {size_name} = {size}")
    return _expressions(name, value, (size,))
