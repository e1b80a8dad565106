"""Spatial operators, composite bodies and the whole system: J24's identities, Pinocchio, rotors.

The right-hand sides are dense matrices and other algorithms of the library that do not use
operators. Tolerances: :data:`ROUNDOFF` for identities, in the units of ``helpers.py``, of which
fast rotors cost two digits; against Pinocchio the documented 1e-10.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from robots import LOCKED, PinocchioTwin, random_tree_urdf, urdf_path

from rbd_control import dynamics
from rbd_control.dynamics import Model, soa
from rbd_control.errors import InputError

from .helpers import Array, random_q, relative, tree, units

ROUNDOFF = 1e-11


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


def sample_of(seed: int, floating: bool, rotors: str) -> Sample:
    model, rng = tree(seed, floating=floating, rotors=rotors, joints=6), np.random.default_rng(seed)
    q = random_q(model, rng)
    v, a = rng.uniform(-2.0, 2.0, (2, model.nv))
    return Sample(model, q, v, a, soa.spatial_operators(model, q), rng)


@pytest.fixture(params=["", "geared", "reflected"])
def rotors(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["fixed", "floating"])
def sample(request: pytest.FixtureRequest, rotors: str) -> Sample:
    return sample_of(2, request.param, rotors)


# --- The mass matrix -----------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["body", "inertial"])
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
def test_jacobian_of_a_link(frame: str, sample: Sample) -> None:
    """J = Bᵀ phiᵀ Hᵀ: the elements of phiᵀ Hᵀ are Kane's partial velocities."""
    model, q = sample.model, sample.q
    s = soa.spatial_operators(model, q, frame)
    for link in model.joint_links:
        J = (soa.link_operator(model, q, link, frame).T @ s.phi.T @ s.H.T).dense()
        assert relative(J, dynamics.frame_jacobian(model, q, link)) < ROUNDOFF


def test_composite_inverse_dynamics_is_newton_euler(sample: Sample) -> None:
    model, q, v, a = sample[:4]
    wrenches = {link: sample.rng.normal(size=6) for link in model.link_names}
    for pushed in (None, wrenches):
        expected = dynamics.inverse_dynamics(model, q, v, a, pushed)
        tau = dynamics.composite_inverse_dynamics(model, q, v, a, pushed)
        unit = sample.torque_unit
        assert relative(tau / unit, expected / unit) < ROUNDOFF


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


PROMISED = 1e-10


# --- J24: system inertia and momentum ------------------------------------------------------------


def test_momentum_of_a_floating_base(rotors: str) -> None:
    """h_S = R(n) V(n) + sum of phi(n, k) R(k) H(k)ᵀ v(k), taken away by V(n) -= R(n)⁻¹ h_S."""
    model, q, v, _, s, _ = sample_of(2, True, rotors)
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


# --- Pinocchio -----------------------------------------------------------------------------------

TREES: dict[str, dict[str, Any]] = {
    "tree": {"seed": 41, "n": 15, "prismatic": 0.3, "continuous": 0.3, "fixed": 0.4},
    "chain60": {"seed": 42, "n": 60, "branching": 0.0},
}


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("name", ["panda", "talos", *TREES])
def test_against_pinocchio(name: str, floating: bool) -> None:
    pin: Any = pytest.importorskip("pinocchio")
    source: str | Path = random_tree_urdf(**TREES[name]) if name in TREES else urdf_path(name)
    locked = LOCKED.get(name, {})
    model = Model.from_urdf(source, locked=locked, floating_base=floating)
    twin = PinocchioTwin(source, model.joint_names, locked=locked, floating_base=floating)
    angular_first = [3, 4, 5, 0, 1, 2]
    rng = np.random.default_rng(43)
    for _ in range(1):
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
