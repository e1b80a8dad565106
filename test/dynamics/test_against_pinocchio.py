"""Every quantity against Pinocchio, on published robots and on random trees, to 1e-10 relative.

Roundoff of either library is some 1e-13 in the measure that ``helpers.py`` defines, also on chains
of 60 joints; the documented bound is 1e-10. Forward dynamics keeps this bound, too: the mass
matrices here have condition numbers up to 1e6 in these units, but articulated bodies lose far fewer
digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from robots import LOCKED, ROBOTS, PinocchioTwin, random_tree_urdf, urdf_path

from rbd_control import dynamics
from rbd_control.dynamics import Model

from .helpers import random_q, relative, units

pin: Any = pytest.importorskip("pinocchio")

PROMISED = 1e-10

TREES: dict[str, dict[str, Any]] = {
    "mixed": {"seed": 1, "n": 12, "prismatic": 0.3, "continuous": 0.3, "fixed": 0.4},
    "bushy": {"seed": 3, "n": 20, "branching": 1.0},
    "chain60 sliding": {"seed": 6, "n": 60, "branching": 0.0, "prismatic": 0.3},
    "tree60": {"seed": 7, "n": 60, "continuous": 0.2},
}

CASES = [(name, floating) for name in (*ROBOTS, *TREES) for floating in (False, True)]
# The inertia of its antenna is that of no body; it counts only where the base moves.
CASES.remove(("tiago", True))


@dataclass(frozen=True)
class Pair:
    """A robot in both libraries."""

    model: Model
    twin: PinocchioTwin


class State(NamedTuple):
    """One state; ``q_`` and ``v_`` are the same in Pinocchio's order."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    q_: np.ndarray
    v_: np.ndarray


@pytest.fixture(
    scope="module",
    params=CASES,
    ids=[f"{name} {'floating' if floating else 'fixed'}" for name, floating in CASES],
)
def pair(request: pytest.FixtureRequest) -> Pair:
    name, floating = request.param
    source: str | Path = random_tree_urdf(**TREES[name]) if name in TREES else urdf_path(name)
    locked = LOCKED.get(name, {})
    gravity = np.array([1.0, -2.0, -9.0])
    model = Model.from_urdf(source, locked=locked, floating_base=floating, gravity=gravity)
    twin = PinocchioTwin(source, model.joint_names, locked=locked, floating_base=floating)
    twin.model.gravity.linear = gravity
    return Pair(model, twin)


def states(pair: Pair) -> list[State]:
    rng = np.random.default_rng(8)
    result = []
    for _ in range(2):
        q = random_q(pair.model, rng)
        v, a = rng.uniform(-2.0, 2.0, (2, pair.model.nv))
        result.append(State(q, v, a, pair.twin.q(q), pair.twin.v(v)))
    return result


def mass_matrix(twin: PinocchioTwin, q_: np.ndarray) -> np.ndarray:
    upper = np.triu(pin.crba(twin.model, twin.data, q_))
    return (upper + np.triu(upper, 1).T)[np.ix_(twin.rows, twin.rows)]


def test_mass_coriolis_gravity(pair: Pair) -> None:
    model, twin = pair.model, pair.twin
    block = np.ix_(twin.rows, twin.rows)
    for q, v, _, q_, v_ in states(pair):
        M = mass_matrix(twin, q_)
        C = pin.computeCoriolisMatrix(twin.model, twin.data, q_, v_)[block]
        M_dot, CTv = C + C.T, C.T @ v
        g = pin.computeGeneralizedGravity(twin.model, twin.data, q_)[twin.rows]
        unit, square = units(M)
        terms = dynamics.dynamics_terms(model, q, v)
        for mine in (terms.M, dynamics.mass_matrix(model, q)):
            assert relative(mine / square, M / square) < PROMISED
        for mine in (terms.C, dynamics.coriolis_matrix(model, q, v)):
            assert relative(mine / square, C / square) < PROMISED
        for mine in (terms.CTv, dynamics.coriolis_transpose_product(model, q, v)):
            assert relative(mine / unit, CTv / unit) < PROMISED
        for mine in (terms.g, dynamics.gravity_torque(model, q)):
            assert relative(mine / unit, g / unit) < PROMISED
        rate = dynamics.mass_matrix_rate(model, q, v)
        assert relative(rate / square, M_dot / square) < PROMISED


def test_christoffel_symbols(pair: Pair) -> None:
    """Gamma[:, :, k] is Pinocchio's C for the unit velocity k, the base's velocities included."""
    model, twin = pair.model, pair.twin
    block = np.ix_(twin.rows, twin.rows)
    for q, _, _, q_, _ in states(pair):
        unit, square = units(mass_matrix(twin, q_))
        columns = [
            pin.computeCoriolisMatrix(twin.model, twin.data, q_, twin.v(e))[block]
            for e in np.eye(model.nv)
        ]
        Gamma = np.stack(columns, axis=-1) / square[..., None] / unit
        mine = dynamics.christoffel_symbols(model, q) / square[..., None] / unit
        assert relative(mine, Gamma) < PROMISED


def test_inverse_and_forward_dynamics(pair: Pair) -> None:
    model, twin = pair.model, pair.twin
    for q, v, a, q_, v_ in states(pair):
        unit, _ = units(mass_matrix(twin, q_))
        tau = pin.rnea(twin.model, twin.data, q_, v_, twin.v(a))[twin.rows]
        assert relative(dynamics.inverse_dynamics(model, q, v, a) / unit, tau / unit) < PROMISED
        tau = a * unit
        expected = pin.aba(twin.model, twin.data, q_, v_, twin.v(tau))[twin.rows]
        mine = dynamics.forward_dynamics(model, q, v, tau)
        assert relative(mine * unit, expected * unit) < PROMISED


def test_momentum_and_energies(pair: Pair) -> None:
    model, twin = pair.model, pair.twin
    for q, v, _, q_, v_ in states(pair):
        M = mass_matrix(twin, q_)
        unit, _ = units(M)
        T = pin.computeKineticEnergy(twin.model, twin.data, q_, v_)
        V = pin.computePotentialEnergy(twin.model, twin.data, q_)
        assert relative(dynamics.momentum(model, q, v) / unit, M @ v / unit) < PROMISED
        assert relative(dynamics.kinetic_energy(model, q, v), T) < PROMISED
        assert relative(dynamics.potential_energy(model, q), V) < PROMISED


def test_frames_of_all_links(pair: Pair) -> None:
    model, twin = pair.model, pair.twin
    angular_first = [3, 4, 5, 0, 1, 2]
    for q, v, _, q_, v_ in states(pair)[:1]:
        unit, _ = units(mass_matrix(twin, q_))
        pin.computeJointJacobiansTimeVariation(twin.model, twin.data, q_, v_)
        pin.updateFramePlacements(twin.model, twin.data)
        for link in model.link_names:
            frame = twin.model.getFrameId(link, pin.BODY)
            J, J_dot = (
                of(twin.model, twin.data, frame, pin.LOCAL_WORLD_ALIGNED)[angular_first][
                    :, twin.rows
                ]
                for of in (pin.getFrameJacobian, pin.getFrameJacobianTimeVariation)
            )
            placement = twin.data.oMf[frame].homogeneous
            assert relative(dynamics.frame_placement(model, q, link), placement) < PROMISED
            assert relative(dynamics.frame_jacobian(model, q, link), J) < PROMISED
            # Measured by what it sums up: it is zero where the joints before do not turn.
            rate = dynamics.frame_jacobian_rate(model, q, v, link)
            assert relative(rate, J_dot, np.abs(J).max() * v) < PROMISED


def test_external_wrenches(pair: Pair) -> None:
    model, twin = pair.model, pair.twin
    rng = np.random.default_rng(9)
    wrenches = {str(link): rng.normal(size=6) for link in rng.choice(model.link_names, 2)}
    linear_first = [3, 4, 5, 0, 1, 2]
    for q, v, a, q_, v_ in states(pair):
        unit, _ = units(mass_matrix(twin, q_))
        pushed = np.zeros(twin.model.nv)
        for link, wrench in wrenches.items():
            frame = twin.model.getFrameId(link, pin.BODY)
            J = pin.computeFrameJacobian(twin.model, twin.data, q_, frame, pin.LOCAL_WORLD_ALIGNED)
            pushed += J.T @ wrench[linear_first]
        tau = pin.rnea(twin.model, twin.data, q_, v_, twin.v(a)) - pushed
        mine = dynamics.inverse_dynamics(model, q, v, a, wrenches)
        assert relative(mine / unit, tau[twin.rows] / unit) < PROMISED
        expected = pin.aba(twin.model, twin.data, q_, v_, twin.v(a * unit) + pushed)[twin.rows]
        mine = dynamics.forward_dynamics(model, q, v, a * unit, wrenches)
        assert relative(mine * unit, expected * unit) < PROMISED
