"""The system as a whole and composite bodies: J24's identities, conservation, Pinocchio, rotors.

Tolerances are those of ``test_spatial_operators.py``; against Pinocchio the documented 1e-10.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from robots import LOCKED, PinocchioTwin, random_tree_urdf, urdf_path

from rbd_control import dynamics
from rbd_control.dynamics import Model, with_rotors
from rbd_control.errors import InputError

from .helpers import DIFFERENCE, Array, advance, cross_matrix, derivative, random_q, relative
from .test_rotors import Mechanism
from .test_spatial_operators import ROUNDOFF, Sample, law, samples

PROMISED = 1e-10


def moved_to(point: Array) -> Array:
    """Return the 6x6 matrix that takes a force about the origin to one about ``point``."""
    result = np.eye(6)
    result[:3, 3:] = -cross_matrix(point)
    return result


def base_position(model: Model, q: Array) -> Array:
    """Return the origin of the operators' inertial frame."""
    return q[:3] if model.floating_base else np.zeros(3)


# --- J24: system inertia and momentum ------------------------------------------------------------


@law
@given(samples())
def test_system_inertia_is_the_composite_of_the_base(sample: Sample) -> None:
    """M_S = E R Eᵀ; its first moment is the centre of mass."""
    model, q, s = sample.model, sample.q, sample.s
    M_S = (s.E @ s.R @ s.E.T).dense()
    mass = model.mass
    c = np.array([M_S[2, 4], M_S[0, 5], M_S[1, 3]]) / mass
    assert relative(M_S[3:, 3:], mass * np.eye(3)) < ROUNDOFF
    assert relative(dynamics.center_of_mass(model, q), c + base_position(model, q)) < ROUNDOFF
    central = moved_to(c) @ M_S @ moved_to(c).T
    assert relative(dynamics.system_inertia(model, q), central, M_S) < ROUNDOFF


@law
@given(samples())
def test_system_momentum_needs_composites_only(sample: Sample) -> None:
    """h_S = E phi M V = E phi R Hᵀ v, and A v about the centre of mass."""
    model, q, v, s = sample.model, sample.q, sample.v, sample.s
    h_S = s.E(s.phi(s.M(s.phi.T(s.H.T(v)))))
    matrix = s.E @ s.phi @ s.R @ s.H.T
    assert relative(matrix(v), h_S) < ROUNDOFF
    to_center = moved_to(dynamics.center_of_mass(model, q) - base_position(model, q))
    A = dynamics.centroidal_momentum_matrix(model, q)
    assert relative(A, to_center @ matrix.dense()) < ROUNDOFF
    momentum = dynamics.centroidal_momentum(model, q, v)
    assert relative(momentum, to_center @ h_S, h_S) < ROUNDOFF
    assert relative(A @ v, momentum, h_S) < ROUNDOFF
    # V_C = M_S⁻¹ h_S moves the centre of mass with the velocity it has.
    V_C = np.linalg.solve(dynamics.system_inertia(model, q), momentum)
    J = dynamics.center_of_mass_jacobian(model, q)
    assert relative(V_C[3:], J @ v) < ROUNDOFF


@law
@given(samples(floating=True))
def test_momentum_of_a_floating_base(sample: Sample) -> None:
    """h_S = R(n) V(n) + sum of phi(n, k) R(k) H(k)ᵀ v(k), taken away by V(n) -= R(n)⁻¹ h_S."""
    model, q, v, s = sample.model, sample.q, sample.v, sample.s
    locked = s.composites[5]
    twist = v[:6]
    internal = np.concatenate([np.zeros(6), v[6:]])
    of_joints = s.phi(s.R(s.H.T(internal)))[5]
    h_S = locked @ twist + of_joints
    # The first rows of M v are the same momentum.
    assert relative(dynamics.momentum(model, q, v)[:6], h_S) < ROUNDOFF
    still = dynamics.nullify_momentum(model, q, v)
    assert np.array_equal(still[6:], v[6:])
    V_C = twist + np.linalg.solve(locked, of_joints)
    # A solve with the condition number of an inertia, some 1e3.
    assert relative(still[:6], twist - V_C, twist) < 1e3 * ROUNDOFF
    left = dynamics.centroidal_momentum(model, q, still)
    assert np.abs(left).max() < 1e3 * ROUNDOFF * np.abs(h_S).max()


# --- Laws of mechanics ---------------------------------------------------------------------------


@law
@given(samples())
def test_jacobian_is_the_rate_of_the_center_of_mass(sample: Sample) -> None:
    model, q = sample.model, sample.q
    # Rotors turn about their centre of mass, so 50 turns do no harm here.
    v = sample.v / np.abs(sample.v).sum()
    rate = derivative(lambda t: dynamics.center_of_mass(model, advance(model, q, v, t)))
    assert np.abs(dynamics.center_of_mass_jacobian(model, q) @ v - rate).max() < DIFFERENCE
    g = dynamics.gravity_torque(model, q)
    weight = -model.mass * model.gravity @ dynamics.center_of_mass_jacobian(model, q)
    assert relative(weight, g, np.abs(g).max() + model.mass * np.abs(model.gravity).max()) < (
        ROUNDOFF
    )


@law
@given(samples(floating=True, rotors=False))
def test_momentum_changes_by_external_wrenches(sample: Sample) -> None:
    """d/dt h = [0 ; m g] + wrenches about the centre of mass, whatever the joints do."""
    model, q, a, rng = sample.model, sample.q, sample.a, sample.rng
    v = sample.v / np.abs(sample.v).sum()
    link, wrench = model.link_names[-1], rng.normal(size=6)
    free = dynamics.inverse_dynamics(model, q, v, a)
    free[:6] = 0.0
    a = dynamics.forward_dynamics(model, q, v, free, {link: wrench})
    size = 1.0 + np.abs(a).max()
    h_dot = derivative(
        lambda t: dynamics.centroidal_momentum(
            model, advance(model, q, v, t / size), v + (t / size) * a
        )
    )
    point = dynamics.frame_placement(model, q, link)[:3, 3] - dynamics.center_of_mass(model, q)
    outside = wrench + np.concatenate([np.cross(point, wrench[3:]), model.mass * model.gravity])
    scale = np.abs(dynamics.centroidal_momentum(model, q, a)).max() + np.abs(outside).max()
    assert np.abs(size * h_dot - outside).max() < 100.0 * DIFFERENCE * (scale + size * model.mass)


# --- Rotors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("floating", [False, True])
def test_rotors_are_bodies_of_the_full_mechanism(floating: bool) -> None:
    mechanism = Mechanism(31, floating_base=floating)
    geared, full, S = mechanism.geared, mechanism.full, mechanism.S
    q, q_full = mechanism.q, mechanism.full_q()
    v, a = mechanism.v, mechanism.a
    assert len(mechanism.rotors) > 1
    for function in (dynamics.center_of_mass, dynamics.system_inertia):
        assert relative(function(geared, q), function(full, q_full)) < ROUNDOFF
    for function in (dynamics.centroidal_momentum_matrix, dynamics.center_of_mass_jacobian):
        assert relative(function(geared, q), function(full, q_full) @ S) < ROUNDOFF
    momentum = dynamics.centroidal_momentum(full, q_full, S @ v)
    assert relative(dynamics.centroidal_momentum(geared, q, v), momentum) < ROUNDOFF
    rows = [full.joint_index(name) for name in geared.joint_names]
    rows = [*range(6 if floating else 0), *rows]
    R = dynamics.composite_inertias(full, q_full)[rows]
    assert relative(dynamics.composite_inertias(geared, q), R) < ROUNDOFF
    parts = dynamics.interbody_forces(geared, q, v, a)
    expected = dynamics.interbody_forces(full, q_full, S @ v, S @ a)
    for value, reference in zip(parts, expected, strict=True):
        assert relative(value, reference[rows], expected.force) < ROUNDOFF


def test_reflected_rotors_carry_no_momentum() -> None:
    mechanism = Mechanism(32, floating_base=True)
    reflected = with_rotors(mechanism.bare, mechanism.rotors, reflected=True)
    for function in (
        dynamics.center_of_mass,
        dynamics.system_inertia,
        dynamics.composite_inertias,
        dynamics.centroidal_momentum_matrix,
    ):
        assert np.array_equal(
            function(reflected, mechanism.q), function(mechanism.bare, mechanism.q)
        )
    more = dynamics.mass_matrix_trace(reflected, mechanism.q)
    assert more > dynamics.mass_matrix_trace(mechanism.bare, mechanism.q)


# --- Pinocchio -----------------------------------------------------------------------------------

TREES: dict[str, dict[str, Any]] = {
    "tree": {"seed": 41, "n": 15, "prismatic": 0.3, "continuous": 0.3, "fixed": 0.4},
    "chain60": {"seed": 42, "n": 60, "branching": 0.0},
}


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", ["panda", "talos", "go2", *TREES])
def test_against_pinocchio(name: str, floating: bool) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    source: str | Path = random_tree_urdf(**TREES[name]) if name in TREES else urdf_path(name)
    locked = LOCKED.get(name, {})
    model = Model.from_urdf(source, locked=locked, floating_base=floating)
    twin = PinocchioTwin(source, model.joint_names, locked=locked, floating_base=floating)
    angular_first = [3, 4, 5, 0, 1, 2]
    rng = np.random.default_rng(43)
    for _ in range(3):
        q, v = random_q(model, rng), rng.uniform(-2.0, 2.0, model.nv)
        q_, v_ = twin.q(q), twin.v(v)
        data = twin.data
        com = pin.centerOfMass(twin.model, data, q_).copy()
        assert relative(dynamics.center_of_mass(model, q), com) < PROMISED
        J = pin.jacobianCenterOfMass(twin.model, data, q_)[:, twin.rows]
        assert relative(dynamics.center_of_mass_jacobian(model, q), J) < PROMISED
        pin.ccrba(twin.model, data, q_, v_)
        A = data.Ag[angular_first][:, twin.rows]
        assert relative(dynamics.centroidal_momentum_matrix(model, q), A) < PROMISED
        h = data.hg.vector[angular_first]
        assert relative(dynamics.centroidal_momentum(model, q, v), h) < PROMISED
        Ig = data.Ig.matrix()[np.ix_(angular_first, angular_first)]
        assert relative(dynamics.system_inertia(model, q), Ig) < PROMISED
        pin.crba(twin.model, data, q_, pin.Convention.LOCAL)
        R = dynamics.composite_inertias(model, q)
        ids = [1] * (model.nv - len(model.joint_names))
        ids += [twin.model.getJointId(joint) for joint in model.joint_names]
        for k, i in enumerate(ids):
            Y = data.Ycrb[i].matrix()[np.ix_(angular_first, angular_first)]
            assert relative(R[k], Y) < PROMISED
        trace = np.trace(data.M)
        assert relative(dynamics.mass_matrix_trace(model, q), trace) < PROMISED


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
def test_forces_across_joints_against_pinocchio(floating: bool) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    urdf = random_tree_urdf(44, 15, prismatic=0.3)
    model = Model.from_urdf(urdf, floating_base=floating)
    twin = PinocchioTwin(urdf, model.joint_names, floating_base=floating)
    rng = np.random.default_rng(45)
    q, (v, a) = random_q(model, rng), rng.uniform(-2.0, 2.0, (2, model.nv))
    pin.rnea(twin.model, twin.data, twin.q(q), twin.v(v), twin.v(a))
    force = dynamics.interbody_forces(model, q, v, a).force
    for name in model.joint_names:
        expected = twin.data.f[twin.model.getJointId(name)].vector[[3, 4, 5, 0, 1, 2]]
        assert relative(force[model.joint_index(name)], expected) < PROMISED


# --- Bad input -----------------------------------------------------------------------------------


def test_a_fixed_base_has_no_momentum_to_give_up() -> None:
    model = Model.from_urdf(random_tree_urdf(51, 2))
    with pytest.raises(InputError, match="'tree51' has a fixed base"):
        dynamics.nullify_momentum(model, np.zeros(2), np.zeros(2))


def test_a_robot_without_mass_has_no_center_of_mass() -> None:
    inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
    urdf = (
        '<robot name="hoop"><link name="a"/><link name="b"><inertial><mass value="0"/>'
        f'{inertia}</inertial></link><joint name="j" type="continuous"><parent link="a"/>'
        '<child link="b"/><axis xyz="0 0 1"/></joint></robot>'
    )
    model = Model.from_urdf(urdf)
    q = np.zeros(1)
    assert dynamics.mass_matrix_trace(model, q) == 1.0
    for function in (
        dynamics.center_of_mass,
        dynamics.center_of_mass_jacobian,
        dynamics.system_inertia,
        dynamics.centroidal_momentum_matrix,
        lambda model, q: dynamics.centroidal_momentum(model, q, q),
    ):
        with pytest.raises(InputError, match="nothing that moves in 'hoop' has mass"):
            function(model, q)
