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
from rbd_control.errors import InputError

from .helpers import DIFFERENCE, Array, advance, derivative, random_q, relative, units

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


def blocks(matrix: Array) -> Array:
    """Return a (6n, 6n) matrix as (n, n, 6, 6)."""
    n = matrix.shape[0] // 6
    return matrix.reshape(n, 6, n, 6).swapaxes(1, 2)


def ancestors(parent: Array) -> Array:
    """related[i, j]: j is i or hangs from it."""
    related = np.eye(parent.size, dtype=bool)
    for j in range(parent.size):
        i = parent[j]
        while i >= 0:
            related[i, j] = True
            i = parent[i]
    return related


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


@law
@given(samples())
def test_phi_is_the_product_of_the_hops_along_each_chain(sample: Sample) -> None:
    """phi(i, j) = phi(i, .) ... phi(., j), the identity on the diagonal, zero off the chain."""
    s = sample.s
    phi = blocks(s.phi.dense())
    related = ancestors(s.parent)
    for j in range(s.parent.size):
        expected, i = np.eye(6), j
        assert np.array_equal(phi[j, j], expected)
        while s.parent[i] >= 0:
            expected, i = s.hops[i] @ expected, s.parent[i]
            assert relative(phi[i, j], expected) < ROUNDOFF
    assert not phi[~related].any()


@law
@given(samples())
def test_gather_and_scatter_solve_the_implicit_equations(sample: Sample) -> None:
    """y = E_phi y + x and y = E_phiᵀ y + x."""
    s = sample.s
    x = sample.rng.normal(size=(s.parent.size, 6))
    E_phi = s.E_phi.dense()
    y = soa.gather(s.parent, s.hops, x)
    assert relative(y.ravel(), E_phi @ y.ravel() + x.ravel()) < ROUNDOFF
    y = soa.scatter(s.parent, s.hops, x)
    assert relative(y.ravel(), E_phi.T @ y.ravel() + x.ravel()) < ROUNDOFF


@law
@given(samples())
def test_operators_apply_as_their_matrices_do(sample: Sample) -> None:
    # Sums over entries of some 1e3, inertias about far origins among them: 1e-9 is 1e-12 of that.
    for letter in LETTERS:
        A = getattr(sample.s, letter)
        x, y = sample.rng.normal(size=A.columns), sample.rng.normal(size=A.rows)
        assert np.allclose(A(x).ravel(), A.dense() @ x.ravel(), rtol=0.0, atol=1e-9)
        assert np.isclose(np.sum(A(x) * y), np.sum(x * A.T(y)), rtol=0.0, atol=1e-9)
        assert np.array_equal(A.T.T.dense(), A.dense())


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


@law
@given(samples())
def test_forward_lyapunov_equation(sample: Sample) -> None:
    """M = R - E_phi R E_phiᵀ."""
    E_phi, M, R = (getattr(sample.s, x).dense() for x in ("E_phi", "M", "R"))
    assert relative(M, R - E_phi @ R @ E_phi.T, R) < ROUNDOFF


@law
@given(samples())
def test_decomposition_of_phi_M_phi(sample: Sample) -> None:
    """phi M phiᵀ = R + phi~ R + R phi~ᵀ = phi R phiᵀ - phi~ R phi~ᵀ, three disjoint parts."""
    s = sample.s
    phi, phi_tilde, M, R = (getattr(s, x).dense() for x in ("phi", "phi_tilde", "M", "R"))
    whole = phi @ M @ phi.T
    assert relative((s.R + s.phi_tilde @ s.R + s.R @ s.phi_tilde.T).dense(), whole) < ROUNDOFF
    assert relative(phi @ R @ phi.T - phi_tilde @ R @ phi_tilde.T, whole) < ROUNDOFF
    # So R(k) is the covariance of x = phi w for white noise w of covariance M (why "Lyapunov").
    diagonal = np.einsum("kkij->kij", blocks(whole))
    assert relative(diagonal, s.composites) < ROUNDOFF
    above = blocks(phi_tilde @ R)
    below = np.tril(np.ones((len(above), len(above)), dtype=bool))
    assert not above[below].any()


@law
@given(samples(rotors=False))
def test_elements_of_the_mass_matrix(sample: Sample) -> None:
    """M(i, j) = H(i) phi(i, j) R(j) H(j)ᵀ for j beyond i; zero where neither carries the other."""
    model, q, s = sample.model, sample.q, sample.s
    M = dynamics.mass_matrix(model, q)
    _, square = units(M)
    H = s.joint_maps
    upper = np.einsum("ia,ijab,jbc,jc->ij", H, blocks(s.phi.dense()), s.composites, H)
    parts = np.triu(upper, 1)
    assert relative((np.diag(np.diag(upper)) + parts + parts.T) / square, M / square) < ROUNDOFF
    related = ancestors(s.parent)
    assert not M[~(related | related.T)].any()


@law
@given(samples())
def test_decomposition_and_trace_of_the_mass_matrix(sample: Sample) -> None:
    """M = H R Hᵀ + H phi~ R Hᵀ + H R phi~ᵀ Hᵀ, and only the first has a trace."""
    model, q, s = sample.model, sample.q, sample.s
    M = dynamics.mass_matrix(model, q)
    _, square = units(M)
    first, second = s.H @ s.R @ s.H.T, s.H @ s.phi_tilde @ s.R @ s.H.T
    assert relative((first + second + second.T).dense() / square, M / square) < ROUNDOFF
    assert not np.diag(second.dense()).any()
    trace = dynamics.mass_matrix_trace(model, q)
    assert relative(trace, np.trace(first.dense())) < ROUNDOFF
    assert relative(trace, np.trace(M)) < ROUNDOFF


@law
@given(samples())
def test_columns_of_the_mass_matrix_by_inverse_dynamics(sample: Sample) -> None:
    """Column k is the torque of a unit acceleration, without velocity and gravity."""
    model, q, zero = sample.model, sample.q, np.zeros(sample.model.nv)
    _, square = units(dynamics.mass_matrix(model, q))
    columns = dynamics.composite_inverse_dynamics(model, q, zero, np.eye(model.nv))
    rows = columns - dynamics.composite_inverse_dynamics(model, q, zero, zero)
    # Gravity of some 10 m/s² is there in both and cancels.
    assert relative(rows / square, dynamics.mass_matrix(model, q) / square) < 10.0 * ROUNDOFF


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


@law
@given(samples())
def test_alpha_is_the_rate_of_the_velocity(sample: Sample) -> None:
    """alpha(k) = dV(k)/dt in the axes of the body, which determines the Coriolis acceleration."""
    model, q, s = sample.model, sample.q, sample.s
    v = sample.v / np.abs(sample.v).sum()
    a = sample.a / np.abs(sample.a).sum()

    def velocity(t: float) -> Array:
        moved = soa.spatial_operators(model, advance(model, q, v, t))
        return moved.phi.T(moved.H.T(v + t * a))

    alpha = s.phi.T(s.H.T(a) + s.coriolis_acceleration(v))
    # The five rows without mass of a floating root move by part of its twist only.
    bodies = s.carriers == np.arange(s.parent.size)
    # Rotors turn by 50 times the angle, the derivative's error grows with the fourth power.
    bodies &= model.arrays.ratio == 1.0
    assert np.abs(alpha - derivative(velocity))[bodies].max() < DIFFERENCE
    along = s.H.T(v)
    V = s.phi.T(along)
    hinge = V - along  # J24: for one degree of freedom V and V(parent) give the same a(k)
    expected = np.cross(hinge[:, :3], along[:, :3])
    assert np.abs(s.coriolis_acceleration(v)[bodies, :3] - expected[bodies]).max() < ROUNDOFF


@law
@given(samples(floating=False, rotors=False))
def test_inertial_frame_equations_of_motion(sample: Sample) -> None:
    """phi_I holds ones and zeros; M is the same; C = H_I phi_I d[M_I phi_Iᵀ H_Iᵀ]/dt v."""
    model, q = sample.model, sample.q
    v = sample.v / np.abs(sample.v).sum()
    s = soa.spatial_operators(model, q, "inertial")
    assert np.array_equal(blocks(s.phi.dense()), ancestors(s.parent)[..., None, None] * np.eye(6))
    assert np.array_equal(s.E.dense()[0, ::6], 1.0 * (s.parent < 0))

    def momenta(t: float) -> Array:
        moved = soa.spatial_operators(model, q + t * v, "inertial")
        return (moved.M @ moved.phi.T @ moved.H.T).dense()

    C = (s.H @ s.phi)((derivative(momenta) @ v).reshape(-1, 6))
    expected = dynamics.coriolis_matrix(model, q, v) @ v
    size = s.phi.T(s.H.T(np.ones(model.nv))).max()
    assert np.abs((C - expected) / sample.torque_unit).max() < DIFFERENCE * max(1.0, size**2)


# --- Leading axes and bad input ------------------------------------------------------------------


def test_operators_have_leading_axes() -> None:
    model = Model.from_urdf(random_tree_urdf(21, 4), floating_base=True)
    rng = np.random.default_rng(22)
    q = np.array([random_q(model, rng) for _ in range(6)]).reshape(2, 3, -1)
    v = rng.normal(size=(2, 3, model.nv))
    for frame in ("body", "inertial"):
        many = soa.spatial_operators(model, q, frame)
        M = many.H @ many.phi @ many.M @ many.phi.T @ many.H.T
        bias = many.coriolis_acceleration(v)
        assert np.allclose(M.dense(), dynamics.mass_matrix(model, q), rtol=0.0, atol=1e-10)
        for index in np.ndindex(2, 3):
            one = soa.spatial_operators(model, q[index], frame)
            for letter in LETTERS:
                x = rng.normal(size=getattr(one, letter).columns)
                assert np.allclose(getattr(many, letter)(x)[index], getattr(one, letter)(x))
            assert np.allclose(bias[index], one.coriolis_acceleration(v[index]))
            assert np.allclose(M(v)[index], dynamics.momentum(model, q[index], v[index]))


def test_bad_input_is_refused() -> None:
    model = Model.from_urdf(random_tree_urdf(23, 3))
    q = np.zeros(3)
    s = soa.spatial_operators(model, q)
    calls = {
        "no frame 'world'; choices are body, inertial": [
            lambda: soa.spatial_operators(model, q, "world"),
            lambda: soa.link_operator(model, q, "link1", "world"),
        ],
        "link 'link0' is fixed to the world: no body takes up its force": [
            lambda: soa.link_operator(model, q, "link0")
        ],
        "no link 'elbw'; links are": [lambda: soa.link_operator(model, q, "elbw")],
        "q has shape (2,) but the model has nq = 3": [lambda: soa.spatial_operators(model, q[:2])],
        "x has shape (2, 3, 1); the operator takes (..., 3)": [
            lambda: s.H.T(np.zeros((2, 3, 1))),
        ],
        "operator on (3, 6) cannot follow one to (3,)": [lambda: s.phi @ s.H],
        "operators from (3, 6) to (3, 6) and from (3, 6) to (3,) have no sum": [
            lambda: s.phi + s.H
        ],
    }
    for message, refused in calls.items():
        for call in refused:
            with pytest.raises(InputError) as caught:
                call()
            assert message in str(caught.value)
