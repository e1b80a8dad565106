"""Composite bodies of J24: their inertias, inverse dynamics by them, forces across the joints.

Samples and tolerances as in ``test_spatial_operators.py``.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given

from rbd_control import dynamics
from rbd_control.dynamics import soa

from .helpers import Array, cross_matrix, random_q, relative
from .test_spatial_operators import ROUNDOFF, Sample, ancestors, law, samples


def vee(S: Array) -> Array:
    """x of the matrix of x cross."""
    return np.array([S[2, 1], S[0, 2], S[1, 0]])


# --- Inertias ------------------------------------------------------------------------------------


@law
@given(samples())
def test_composites_are_inertias_of_subtrees(sample: Sample) -> None:
    """R(k) = [I, S(h) ; -S(h), m 1] of the subtree; it does not depend on joints before k."""
    model, q, s = sample.model, sample.q, sample.s
    R = dynamics.composite_inertias(model, q)
    assert relative(R, s.composites[: model.nv]) < ROUNDOFF
    mass = ancestors(s.parent) @ model.arrays.mass
    for k in range(model.nv):
        h = vee(R[k, :3, 3:])
        assert relative(R[k, :3, 3:], cross_matrix(h)) < ROUNDOFF
        assert relative(R[k, 3:, :3], -cross_matrix(h)) < ROUNDOFF
        assert relative(R[k, 3:, 3:], mass[k] * np.eye(3)) < ROUNDOFF
        assert relative(R[k, :3, :3], R[k, :3, :3].T) < ROUNDOFF
    extra = model.nq - model.nv
    for k in range(6 if model.floating_base else 0, model.nv):
        beyond = ancestors(s.parent)[k, : model.nv].copy()
        beyond[k] = False
        moved = random_q(model, sample.rng)
        moved[extra:][beyond] = q[extra:][beyond]
        assert relative(dynamics.composite_inertias(model, moved)[k], R[k]) < ROUNDOFF


@law
@given(samples(rotors=False, floating=False))
def test_walker_and_orin_by_components(sample: Sample) -> None:
    """Masses, first moments and rotational inertias by the parallel axis theorem, link by link."""
    s = sample.s

    def parallel(mass: float, r: Array) -> Array:
        return mass * (r @ r * np.eye(3) - np.outer(r, r))

    for k in range(s.parent.size):
        own = s.inertias[k]
        rho, moment, J = own[3, 3], vee(own[:3, 3:]), own[:3, :3]
        for child in np.flatnonzero(s.parent == k):
            R, turn = s.composites[child], s.hops[child, :3, :3]
            mass, c = R[3, 3], vee(R[:3, 3:]) / R[3, 3]
            at_k = vee(s.hops[child, :3, 3:] @ turn.T) + turn @ c
            rho, moment = rho + mass, moment + mass * at_k
            J = J + parallel(mass, at_k) + turn @ (R[:3, :3] - parallel(mass, c)) @ turn.T
        assert relative(rho, s.composites[k, 3, 3]) < ROUNDOFF
        assert relative(moment, vee(s.composites[k, :3, 3:])) < ROUNDOFF
        assert relative(J, s.composites[k, :3, :3]) < ROUNDOFF


# --- Inverse dynamics, forces --------------------------------------------------------------------


@law
@given(samples())
def test_composite_inverse_dynamics_is_newton_euler(sample: Sample) -> None:
    model, q, v, a = sample[:4]
    wrenches = {link: sample.rng.normal(size=6) for link in model.link_names}
    for pushed in (None, wrenches):
        expected = dynamics.inverse_dynamics(model, q, v, a, pushed)
        tau = dynamics.composite_inverse_dynamics(model, q, v, a, pushed)
        unit = sample.torque_unit
        assert relative(tau / unit, expected / unit) < ROUNDOFF


@law
@given(samples())
def test_interbody_forces_split_both_ways(sample: Sample) -> None:
    """force = own + outboard = composite + residual, each as the operators have it."""
    model, q, v, a, s, rng = sample
    link, wrench = model.joint_links[0], rng.normal(size=6)
    parts = dynamics.interbody_forces(model, q, v, a, {link: wrench})
    step = s.H.T(a) + s.coriolis_acceleration(v) + s.E.T(sample.upward)
    alpha = s.phi.T(step)
    bias = s.gyroscopic_force(v) - soa.link_operator(model, q, link)(wrench)
    own = s.M(alpha) + bias
    f = s.phi(own)
    residual = s.phi(bias + s.E_phi(s.R(step)))
    expected = (f, own, s.E_phi(f), s.R(alpha), residual)
    for value, reference in zip(parts, expected, strict=True):
        assert relative(value, reference[: model.nv], s.R(alpha)) < ROUNDOFF
    for first, second in ((parts.own, parts.outboard), (parts.composite, parts.residual)):
        assert relative(first + second, parts.force, s.R(alpha)) < ROUNDOFF


@law
@given(samples(rotors=False))
def test_forces_do_the_work_of_the_joints(sample: Sample) -> None:
    """H f = tau, and the force on a floating base without torque is zero."""
    model, q, v, a, s, _ = sample
    force = dynamics.interbody_forces(model, q, v, a).force
    unit, tau = sample.torque_unit, dynamics.inverse_dynamics(model, q, v, a)
    assert relative(np.sum(s.joint_maps * force, axis=-1) / unit, tau / unit) < ROUNDOFF
    if model.floating_base:
        tau[:6] = 0.0
        free = dynamics.forward_dynamics(model, q, v, tau)
        free_force = dynamics.interbody_forces(model, q, v, free).force
        # Forward dynamics loses a digit or two where M is ill-conditioned.
        assert np.abs(free_force[:6]).max() < 100.0 * ROUNDOFF * np.abs(force).max()


@law
@given(samples())
def test_the_residual_depends_on_accelerations_of_the_subtree_only(sample: Sample) -> None:
    """y(k) depends on the joints beyond k, alpha(k) on k and those before: J24's decomposition."""
    model, q, v, a, s, rng = sample
    related = ancestors(s.parent)[: model.nv, : model.nv]
    before = dynamics.interbody_forces(model, q, v, a)
    for k in range(model.nv):
        beyond = related[k].copy()
        beyond[k] = False
        moved = np.where(beyond, a, rng.uniform(-2.0, 2.0, model.nv))
        # A rotor turns with its joint but rides before it: it pushes the body it rides on.
        riders = [d for r, d in enumerate(model.arrays.dof) if r >= model.nv and related[k, d]]
        moved[riders] = a[riders]
        outside = dynamics.interbody_forces(model, q, v, moved)
        scale = np.abs(before.composite[k]).max() + np.abs(outside.composite[k]).max()
        assert np.abs(outside.residual[k] - before.residual[k]).max() <= ROUNDOFF * scale
        moved = np.where(beyond, rng.uniform(-2.0, 2.0, model.nv), a)
        inside = dynamics.interbody_forces(model, q, v, moved)
        assert np.array_equal(inside.composite[k], before.composite[k])
