"""The factor B(v, I) in twelve numbers against the 6x6 product it stands for (EW21 eq. 10)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import njit

from rbd_control.dynamics import spatial as parts

from .helpers import cross_matrix, relative


def callable_from_python(part: Any) -> Any:
    return njit(lambda *arguments: part(*arguments))


spatial = SimpleNamespace(
    **{
        name: callable_from_python(getattr(parts, name))
        for name in (
            *("coriolis_factor", "factor_times", "factor_transpose_times", "add_coriolis_force"),
            *("inertia_times", "cross_motion", "cross_force"),
        )
    }
)

# A dozen products and sums of numbers of order one.
ROUNDOFF = 1e-14


def cross_motion(v: np.ndarray) -> np.ndarray:
    """v x, the 6x6 matrix."""
    w, u = cross_matrix(v[:3]), cross_matrix(v[3:])
    return np.block([[w, np.zeros((3, 3))], [u, w]])


def cross_force(v: np.ndarray) -> np.ndarray:
    """v x*, the 6x6 matrix."""
    return -cross_motion(v).T


def cross_bar(force: np.ndarray) -> np.ndarray:
    """f x̄*, the 6x6 matrix with (f x̄*) v = v x* f."""
    n, f = cross_matrix(force[:3]), cross_matrix(force[3:])
    return np.block([[-n, -f], [-f, np.zeros((3, 3))]])


def pair(x: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x[:3].tolist()), tuple(x[3:].tolist())


def dense(factor: tuple[Any, Any]) -> np.ndarray:
    """Return the 6x6 matrix [A, 0 ; -S(f), 0] that ``(A, f)`` stands for."""
    A, f = factor
    zero = np.zeros((3, 3))
    return np.block([[np.array(A), zero], [-cross_matrix(np.array(f)), zero]])


class Body:
    """A random inertia, as the kernels hold it and as a 6x6 matrix, and a random velocity."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(5, 3))
        masses = rng.uniform(0.1, 1.0, 5)
        m, h = masses.sum(), masses @ points
        S = (masses * points.T) @ points
        self.inertia = (float(m), tuple(h.tolist()), tuple(S[np.triu_indices(3)].tolist()))
        self.I6 = np.block(
            [
                [np.trace(S) * np.eye(3) - S, cross_matrix(h)],
                [-cross_matrix(h), m * np.eye(3)],
            ]
        )
        self.v, self.x = rng.normal(size=(2, 6))


@pytest.fixture(params=range(5))
def body(request: pytest.FixtureRequest) -> Body:
    return Body(request.param)


def test_compact_factor(body: Body) -> None:
    I6, v, x = body.I6, body.v, body.x
    B = 0.5 * (cross_force(v) @ I6 + cross_bar(I6 @ v) - I6 @ cross_motion(v))
    factor = spatial.coriolis_factor(pair(v), body.inertia)
    assert relative(dense(factor), B) < ROUNDOFF
    assert relative(np.concatenate(spatial.factor_times(factor, pair(x))), B @ x) < ROUNDOFF
    angular = spatial.factor_transpose_times(factor, pair(x))
    assert relative(np.concatenate([angular, np.zeros(3)]), B.T @ x) < ROUNDOFF
    nothing = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    force = spatial.add_coriolis_force(nothing, pair(v), body.inertia, pair(x))
    force = np.concatenate(force)
    assert relative(force, B @ x) < ROUNDOFF


def test_factor_is_admissible(body: Body) -> None:
    """B v = v x* I v, so C v is right; B + Bᵀ = I_dot, so M_dot = C + Cᵀ; hence Bᵀ v = 0."""
    I6, v = body.I6, body.v
    B = dense(spatial.coriolis_factor(pair(v), body.inertia))
    assert relative(B @ v, cross_force(v) @ I6 @ v) < ROUNDOFF
    assert relative(B + B.T, cross_force(v) @ I6 - I6 @ cross_motion(v)) < ROUNDOFF
    assert relative(B.T @ v, np.zeros(6), B @ v) < ROUNDOFF


def test_inertia_times_and_crosses(body: Body) -> None:
    v, x = body.v, body.x
    momentum = np.concatenate(spatial.inertia_times(body.inertia, pair(v)))
    assert relative(momentum, body.I6 @ v) < ROUNDOFF
    carried = np.concatenate(spatial.cross_motion(pair(v), pair(x)))
    assert relative(carried, cross_motion(v) @ x) < ROUNDOFF
    carried = np.concatenate(spatial.cross_force(pair(v), pair(x)))
    assert relative(carried, cross_force(v) @ x) < ROUNDOFF
