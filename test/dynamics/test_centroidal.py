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
from rbd_control.dynamics import Model
from rbd_control.errors import InputError

from .helpers import random_q, relative
from .test_rotors import Mechanism
from .test_spatial_operators import ROUNDOFF, Sample, law, samples

PROMISED = 1e-10


# --- J24: system inertia and momentum ------------------------------------------------------------


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
