"""Base parameters: the combinations of inertial parameters that torques depend on.

The columns of the regressor are linearly dependent: for example, no motion separates the mass of a
link from the inertia of its parent link. The dependent columns are found in W, the stacked
regressors of many random states (Gautier, *Numerical Calculation of the Base Inertial Parameters of
Robots*, ICRA 1990). From the root outward, a column is kept if it is linearly independent of the
previous columns. With W_b the matrix of the kept columns::

    W = W_b K      so      Y pi = Y_b (K pi)      for every motion and every pi
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rbd_control.dynamics.model import Model
from rbd_control.dynamics.regressor import regressor
from rbd_control.errors import InputError


class BaseParameters(NamedTuple):
    """The identifiable linear combinations of the inertial parameters pi."""

    columns: np.ndarray
    """(p,) indices of the independent columns of the regressor, ascending."""
    mapping: np.ndarray
    """(p, 10 bodies) matrix K: the base parameters are K pi; K[:, columns] is the identity."""


def base_parameters(
    model: Model, *, samples: int = 100, seed: int = 0, tolerance: float = 1e-8
) -> BaseParameters:
    """Return the base parameters of a robot, by the numeric rank of its regressor.

    The base parameters are the linear combinations of the inertial parameters ``pi``
    (:func:`~rbd_control.dynamics.inertial_parameters`) on which torques depend.
    ``regressor(...) @ pi == regressor(...)[..., columns] @ (mapping @ pi)`` holds for every motion
    and for reference velocities. The base parameters depend on the direction of gravity: a first
    joint with a vertical axis has fewer base parameters than a joint with a tilted axis.

    Args:
        model: the robot; its masses and inertias are not used.
        samples: number of random states; a few dozen suffice.
        seed: seed of the random states.
        tolerance: a column counts as dependent if the norm of its component outside the span of the
            previous columns is at most this fraction of its own norm, and as zero if its norm is at
            most this fraction of the largest norm.

    Raises:
        InputError: if ``samples`` is below 1 or ``tolerance`` is not between 0 and 1.
    """
    if samples < 1 or not 0.0 < tolerance < 1.0:
        raise InputError(
            f"samples is {samples} and tolerance {tolerance}; give at least 1, and between 0 and 1"
        )
    rng = np.random.default_rng(seed)
    v, a = rng.normal(size=(2, samples, model.nv))
    W = regressor(model, _positions(model, samples, rng), v, v, a)
    # The rows of each joint are scaled by their largest entry, so that all joints have the same
    # weight. The triangular factor has the same dependent columns as W.
    W /= np.abs(W).max(axis=(0, 2), keepdims=True)
    _, R = np.linalg.qr(W.reshape(-1, W.shape[-1]))
    columns = _independent_columns(R, tolerance)
    mapping = np.linalg.lstsq(R[:, columns], R, rcond=None)[0]
    mapping[:, columns] = np.eye(columns.size)
    return BaseParameters(columns, mapping)


def _positions(model: Model, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Return random positions: any angle for revolute joints and base, up to 1 m if prismatic."""
    q = rng.uniform(-1.0, 1.0, (samples, model.nv)) * np.where(model.prismatic, 1.0, np.pi)
    if model.floating_base:
        q = np.concatenate([q[:, :3], rng.normal(size=(samples, 4)), q[:, 6:]], axis=1)
    return q


def _independent_columns(R: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the columns that are independent of the previous ones, by Gram-Schmidt done twice."""
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
