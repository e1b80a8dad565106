"""Run kernels of the package on expressions, with the model as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.constants import Constants, constants_of
from rbd_control.dynamics.papers.uncompiled import uncompiled
from rbd_control.export.expression_graph import Graph
from rbd_control.export.regrouping import regrouped, seen_from_root
from rbd_control.export.tracing_scalar import MATH, inputs

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
