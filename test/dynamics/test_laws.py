"""Laws of mechanics that hold for every robot, on random trees with fixed and floating bases.

Tolerances: :data:`ROUNDOFF` for identities between results, which are some hundred products of
numbers of the size of the natural units of ``helpers.py`` (2e-13 at most in a thousand trees);
:data:`~.helpers.DIFFERENCE` where one side is a numerical derivative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model

from .helpers import DIFFERENCE, Array, advance, cross_matrix, derivative, random_q, relative, units

ROUNDOFF = 1e-12


class Sample(NamedTuple):
    """A random robot and state, with a generator ``rng`` for further random numbers."""

    model: Model
    q: Array
    v: Array
    rng: np.random.Generator

    @property
    def slow(self) -> Array:
        """``v`` scaled to sum |v_i| = 1, for numerical derivatives along it."""
        return self.v / np.abs(self.v).sum()


@st.composite
def samples(draw: st.DrawFn, *, floating: bool | None = None) -> Sample:
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    urdf = random_tree_urdf(
        seed,
        draw(st.integers(1, 8), label="joints"),
        branching=draw(st.sampled_from([0.0, 0.3, 1.0]), label="branching"),
        prismatic=draw(st.sampled_from([0.0, 0.3, 1.0]), label="prismatic"),
        continuous=0.2,
    )
    rng = np.random.default_rng(seed)
    floating_base = draw(st.booleans(), label="floating base") if floating is None else floating
    model = Model.from_urdf(urdf, floating_base=floating_base, gravity=rng.uniform(-10, 10, 3))
    return Sample(model, random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv), rng)


law = settings(max_examples=50, deadline=None, derandomize=True)


def sliding(model: Model, q: Array) -> Array:
    """``q`` displaced along every unit velocity in turn, as a function for :func:`derivative`."""
    return lambda t: advance(model, q, np.eye(model.nv), t)


# --- The mass matrix and its rate ----------------------------------------------------------------


@law
@given(samples())
def test_rate_of_mass_matrix(sample: Sample) -> None:
    """M_dot = C + Cᵀ, hence sᵀ (M_dot - 2 C) s = 0 for every s."""
    model, q, v = sample.model, sample.q, sample.slow
    unit, square = units(dynamics.mass_matrix(model, q))
    C = dynamics.coriolis_matrix(model, q, v)
    M_dot = derivative(lambda t: dynamics.mass_matrix(model, advance(model, q, v, t)))
    assert np.abs((C + C.T - M_dot) / square).max() < DIFFERENCE
    assert np.abs((dynamics.mass_matrix_rate(model, q, v) - M_dot) / square).max() < DIFFERENCE
    s = sample.rng.uniform(-1.0, 1.0, model.nv) / unit
    assert abs(s @ (M_dot - 2.0 * C) @ s) < DIFFERENCE


# --- The Coriolis matrix -------------------------------------------------------------------------


@law
@given(samples())
def test_transpose_product_is_the_gradient_of_kinetic_energy(sample: Sample) -> None:
    """(Cᵀ v)_i = ∂T/∂q_i; for the base, which T does not depend on, -(v x* p)."""
    model, q, v = sample.model, sample.q, sample.slow
    unit, _ = units(dynamics.mass_matrix(model, q))
    CTv = dynamics.coriolis_transpose_product(model, q, v)
    moved = sliding(model, q)
    gradient = derivative(lambda t: dynamics.kinetic_energy(model, moved(t), v))
    if model.floating_base:
        w, u = cross_matrix(v[:3]), cross_matrix(v[3:6])
        p = dynamics.momentum(model, q, v)
        assert np.abs(gradient[:6] / unit[:6]).max() < DIFFERENCE
        gradient[:6] = -np.concatenate([w @ p[:3] + u @ p[3:6], w @ p[3:6]])
    assert np.abs((CTv - gradient) / unit).max() < DIFFERENCE
    C = dynamics.coriolis_matrix(model, q, v)
    assert np.abs((CTv - C.T @ v) / unit).max() < ROUNDOFF


# --- One result against another ------------------------------------------------------------------


@law
@given(samples())
def test_forward_undoes_inverse(sample: Sample) -> None:
    model, q, v, rng = sample
    unit, _ = units(dynamics.mass_matrix(model, q))
    a = rng.uniform(-2.0, 2.0, model.nv)
    wrenches = {link: rng.normal(size=6) for link in (model.link_names[-1], model.link_names[0])}
    for pushed in (None, wrenches):
        tau = dynamics.inverse_dynamics(model, q, v, a, pushed)
        again = dynamics.forward_dynamics(model, q, v, tau, pushed)
        # The mass matrix may be ill-conditioned: one or two digits.
        assert relative(again * unit, a * unit) < 100.0 * ROUNDOFF


@law
@given(samples())
def test_torques_are_sums_of_the_terms(sample: Sample) -> None:
    model, q, v, rng = sample
    v_r, a_r = rng.uniform(-2.0, 2.0, (2, model.nv))
    M, C, CTv, g = dynamics.dynamics_terms(model, q, v)
    unit, _ = units(M)
    p = M @ v
    sums = [
        (dynamics.slotine_li_torque(model, q, v, v_r, a_r), M @ a_r + C @ v_r + g),
        (dynamics.inverse_dynamics(model, q, v, a_r), M @ a_r + C @ v + g),
        (dynamics.momentum(model, q, v), p),
        *zip(dynamics.momentum_terms(model, q, v), (p, CTv, g), strict=True),
    ]
    for value, expected in sums:
        assert relative(value / unit, expected / unit) < ROUNDOFF
    assert relative(dynamics.kinetic_energy(model, q, v), 0.5 * v @ p) < ROUNDOFF


@law
@given(samples())
def test_wrenches_act_through_the_jacobian(sample: Sample) -> None:
    """tau = M a + C v + g - sum of Jᵀ w, on every link and on several at once."""
    model, q, v, rng = sample
    unit, _ = units(dynamics.mass_matrix(model, q))
    a = rng.uniform(-2.0, 2.0, model.nv)
    wrenches = {link: rng.normal(size=6) for link in model.link_names}
    free = dynamics.inverse_dynamics(model, q, v, a)
    pushed = sum(dynamics.frame_jacobian(model, q, link).T @ w for link, w in wrenches.items())
    tau = dynamics.inverse_dynamics(model, q, v, a, wrenches)
    assert relative((free - tau) / unit, pushed / unit, (np.abs(free) + np.abs(tau)) / unit) < (
        ROUNDOFF
    )
