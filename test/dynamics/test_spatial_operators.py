"""Every identity of J24 on random trees with all joint types, floating bases and rotors.

The right-hand sides are dense matrices and other algorithms of the library that do not use
operators. Tolerances: :data:`ROUNDOFF` for identities, in the units of ``helpers.py`` (1e-13 is the
largest error in a hundred trees, rotors included); ``DIFFERENCE`` against numerical derivatives.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from robots import random_tree_urdf

from rbd_control import dynamics
from rbd_control.dynamics import Model, Rotor, soa, with_rotors

from .helpers import Array, random_q, relative, units

ROUNDOFF = 1e-12

LETTERS = ("E_phi", "phi", "phi_tilde", "H", "M", "R", "E")


class Sample(NamedTuple):
    """A random robot and state, with its operators in body frames."""

    model: Model
    q: Array
    v: Array
    a: Array
    s: soa.SpatialOperators
    rng: np.random.Generator

    @property
    def upward(self) -> Array:
        """The pseudo-acceleration of the base, world axes."""
        return np.concatenate([np.zeros(3), -self.model.gravity])

    @property
    def torque_unit(self) -> Array:
        return units(dynamics.mass_matrix(self.model, self.q))[0]


@st.composite
def samples(draw: st.DrawFn, *, floating: bool | None = None, rotors: bool = True) -> Sample:
    seed = draw(st.integers(0, 2**32 - 1), label="seed")
    rng = np.random.default_rng(seed)
    urdf = random_tree_urdf(
        seed,
        draw(st.integers(1, 6), label="joints"),
        branching=draw(st.sampled_from([0.0, 0.3, 1.0]), label="branching"),
        prismatic=draw(st.sampled_from([0.0, 0.3, 1.0]), label="prismatic"),
    )
    floating_base = draw(st.booleans(), label="floating base") if floating is None else floating
    model = Model.from_urdf(urdf, floating_base=floating_base, gravity=rng.uniform(-10, 10, 3))
    kind = draw(st.sampled_from(["none", "geared", "reflected"]), label="rotors")
    if rotors and kind != "none":
        model = with_rotors(model, random_rotors(model, rng), reflected=kind == "reflected")
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    return Sample(model, q, v, a, soa.spatial_operators(model, q), rng)


def random_rotors(model: Model, rng: np.random.Generator) -> dict[str, Rotor]:
    return {
        name: Rotor(
            rng.uniform(2.0, 50.0),
            np.diag(rng.uniform(0.005, 0.01, 3)),
            axis=rng.normal(size=3),
            mass=rng.uniform(0.1, 0.5),
            com=rng.normal(size=3) * 0.1,
        )
        for name in model.joint_names
        if rng.random() < 0.75
    }


law = settings(max_examples=25, deadline=None, derandomize=True)


# --- The operators -------------------------------------------------------------------------------


@law
@given(samples())
def test_phi_is_the_resolvent_of_the_hops(sample: Sample) -> None:
    """phi = (1 - E_phi)⁻¹ and phi~ = phi - 1 = E_phi phi = phi E_phi."""
    E_phi, phi, phi_tilde = (getattr(sample.s, x).dense() for x in LETTERS[:3])
    one = np.eye(len(phi))
    assert relative(phi, np.linalg.inv(one - E_phi)) < ROUNDOFF
    for expected in (phi - one, E_phi @ phi, phi @ E_phi):
        assert np.abs(phi_tilde - expected).max() < ROUNDOFF


# --- The mass matrix -----------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["body", "inertial"])
@law
@given(sample=samples())
def test_newton_euler_factorization(frame: str, sample: Sample) -> None:
    """M = H phi M phiᵀ Hᵀ, ½ Vᵀ M V = T, and M v as scatter, product, gather."""
    model, q, v = sample[:3]
    s = soa.spatial_operators(model, q, frame)
    M = s.H @ s.phi @ s.M @ s.phi.T @ s.H.T
    unit, square = units(dynamics.mass_matrix(model, q))
    assert relative(M.dense() / square, dynamics.mass_matrix(model, q) / square) < ROUNDOFF
    product = s.H.dense() @ s.phi.dense() @ s.M.dense() @ s.phi.dense().T @ s.H.dense().T
    assert relative(product / square, dynamics.mass_matrix(model, q) / square) < ROUNDOFF
    assert relative(M(v) / unit, dynamics.momentum(model, q, v) / unit) < ROUNDOFF
    V = s.phi.T(s.H.T(v))
    assert relative(0.5 * np.sum(V * s.M(V)), dynamics.kinetic_energy(model, q, v)) < ROUNDOFF


# --- Equations of motion -------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["body", "inertial"])
@law
@given(sample=samples())
def test_equations_of_motion(frame: str, sample: Sample) -> None:
    """T = H phi [M phiᵀ (Hᵀ a + coriolis + Eᵀ g) + b - B f_ext], explicit and implicit."""
    model, q, v, a = sample[:4]
    s = soa.spatial_operators(model, q, frame)
    link = model.joint_links[-1]
    wrench = sample.rng.normal(size=6)
    B = soa.link_operator(model, q, link, frame)
    step = s.H.T(a) + s.coriolis_acceleration(v) + s.E.T(sample.upward)
    alpha = s.phi.T(step)
    bias = s.gyroscopic_force(v) - B(wrench)
    f = s.phi(s.M(alpha) + bias)
    assert relative(alpha, s.E_phi.T(alpha) + step) < ROUNDOFF
    assert relative(f, s.E_phi(f) + s.M(alpha) + bias) < ROUNDOFF
    expected = dynamics.inverse_dynamics(model, q, v, a, {link: wrench})
    unit = sample.torque_unit
    assert relative(s.H(f) / unit, expected / unit) < ROUNDOFF
    # The same by composites: f = R alpha + y, y = phi [b + E_phi R (Hᵀ a + coriolis)].
    y = s.phi(bias + s.E_phi(s.R(step)))
    assert relative(s.R(alpha) + y, f) < ROUNDOFF


@pytest.mark.parametrize("frame", ["body", "inertial"])
@law
@given(sample=samples())
def test_jacobian_of_a_link(frame: str, sample: Sample) -> None:
    """J = Bᵀ phiᵀ Hᵀ: the elements of phiᵀ Hᵀ are Kane's partial velocities."""
    model, q = sample.model, sample.q
    s = soa.spatial_operators(model, q, frame)
    for link in model.joint_links:
        J = (soa.link_operator(model, q, link, frame).T @ s.phi.T @ s.H.T).dense()
        assert relative(J, dynamics.frame_jacobian(model, q, link)) < ROUNDOFF
