"""Base parameters: the combinations of inertial parameters that torques depend on.

The columns of the regressor are linearly dependent: no motion tells the mass of a link from the
inertia of the one before. Which ones are is read off the regressors of many random states, stacked
(Gautier, *Numerical Calculation of the Base Inertial Parameters of Robots*, ICRA 1990). Going from
the root outward, a column is kept if it is independent of those before; with W_b the columns kept::

    W = W_b K      so      Y pi = Y_b (K pi)      for every motion and every pi
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.model import Model
from rbd_control.dynamics.regressor import regressor
from rbd_control.errors import InputError


class BaseParameters(NamedTuple):
    """Which inertial parameters can be told apart, and what is lumped into them."""

    columns: np.ndarray
    """(p,) independent columns of the regressor, ascending."""
    mapping: np.ndarray
    """(p, 10 bodies) K: the base parameters are K pi; K[:, columns] = 1."""


def base_parameters(
    model: Model, *, samples: int = 100, seed: int = 0, tolerance: float = 1e-8
) -> BaseParameters:
    """Return the base parameters of a robot, by the numeric rank of its regressor.

    ``regressor(...) @ pi == regressor(...)[..., columns] @ (mapping @ pi)`` whatever the motion,
    also with reference velocities. They depend on the direction of gravity: a first joint with a
    vertical axis hides what a tilted one shows.

    Args:
        model: the robot; what it says of masses and inertias is not used.
        samples: number of random states; a few dozen see all there is.
        seed: of their random numbers.
        tolerance: a column is dependent if no more than this part of it is left outside the space
            of those before.

    Raises:
        InputError: for a number of samples or a tolerance that makes no sense.
    """
    if samples < 1 or not 0.0 < tolerance < 1.0:
        raise InputError(
            f"samples is {samples} and tolerance {tolerance}; give at least 1, and between 0 and 1"
        )
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, samples, model.nv))
    W = regressor(model, _positions(model, samples, rng), v, v, a)
    # Each entry of Y by the size of its row, so that no joint drowns another; the triangular
    # factor has the same dependent columns as W.
    W /= np.abs(W).max(axis=(0, 2), keepdims=True)
    _, R = np.linalg.qr(W.reshape(-1, W.shape[-1]))
    columns = _independent_columns(R, tolerance)
    mapping = np.linalg.lstsq(R[:, columns], R, rcond=None)[0]
    mapping[:, columns] = np.eye(columns.size)
    return BaseParameters(columns, mapping)


def _positions(model: Model, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return random positions: revolute joints and base at any angle, prismatic within 1 m."""
    q = rng.uniform(-1.0, 1.0, (samples, model.nv)) * np.where(model.prismatic, 1.0, np.pi)
    if model.floating_base:
        q = np.concatenate([q[:, :3], rng.normal(size=(samples, 4)), q[:, 6:]], axis=1)
    return q


def _independent_columns(R: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the columns independent of previous ones, by twice-iterated Gram-Schmidt."""
    length = np.linalg.norm(R, axis=0)
    basis = np.empty((R.shape[0], 0))
    columns = []
    for j in np.flatnonzero(length > tolerance * length.max()):
        rest = R[:, j] / length[j]
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > tolerance:
            columns.append(j)
            basis = np.column_stack([basis, rest / size])
    return np.array(columns, dtype=np.int64)
