"""Regression of friction, masses and rotor inertias, and the residual that they leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf
from scipy.optimize import lsq_linear

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion
from rbd_control.identification.regression import (
    LEAST_MASS,
    Identification,
    _Factors,
    _friction_alone,
    _triangular,
    filtered_columns,
    identify,
)
from rbd_control.robot.friction import MOST_EXCESS, StribeckFriction
from rbd_control.robot.inertial_corrections import (
    InertialCorrections,
    corrected_model,
    variations,
    without_payload,
)
from rbd_control.simulation import arm7_urdf

COLUMNS, LOWER = len(StribeckFriction.linear), np.array(StribeckFriction.lowest)


def test_friction_alone_is_the_bounded_solution_of_scipy() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(300, 30, COLUMNS + 1))
    A[:, :, 1] = A[:, :, 0] + rng.choice([1e-3, 1.0], (300, 1)) * A[:, :, 1]  # some nearly alike
    A[::3, :, 3] = 0.0  # as without a Stribeck effect
    A *= 10.0 ** rng.uniform(-4.0, 2.0, (300, 1, COLUMNS + 1))  # as of slow joints
    factors = _Factors(_triangular(A), np.full(300, 30))
    found = _friction_alone(factors, LOWER)
    exact = np.array(
        [
            lsq_linear(R[:, :-1], -R[:, -1], bounds=(LOWER, np.inf), method="bvls").x
            for R in factors.R
        ]
    )
    at_bound = np.isfinite(LOWER) & (found == 0.0)
    assert (found >= LOWER).all()
    assert {tuple(row) for row in at_bound[:, [0, 1, 3]]} == {
        (a, b, c) for a in (True, False) for b in (True, False) for c in (True, False)
    }
    # Only columns that are nearly alike are sensitive to rounding, and the residual is not.
    np.testing.assert_allclose(factors.squares(found), factors.squares(exact), rtol=1e-9)


DT = 0.002


J = np.array([0.5, 0.9, 0.3, 0.4, 0.1, 0.15, 0.05])


def sines(n: int, seconds: float = 3.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return times, positions, velocities and accelerations."""
    t = DT * np.arange(1, round(seconds / DT))
    w = np.linspace(1.3, 3.7, n)
    angle = w * t[:, None]
    rest = np.resize([0.1, 0.4, -0.2, -1.2], n)
    return (
        t,
        rest + 0.4 * np.sin(angle),
        0.4 * w * np.cos(angle),
        -0.4 * w**2 * np.sin(angle),
    )


@pytest.mark.parametrize("urdf", [arm7_urdf(), random_tree_urdf(3, 5, prismatic=0.4)])
def test_acceleration_torque_of_motors_is_no_contact(urdf: str) -> None:
    """``J a`` on top of inverse dynamics; without the parameter it is the residual."""
    model = Model.from_urdf(urdf)
    t, q, v, a = sines(model.nv)
    inertia = J[: model.nv]
    tau = inverse_dynamics(model, q, v, a) + inertia * a
    parameters = DetectorParameters(observer_gain=(100.0,))
    geared = InertialCorrections(rotor_inertia=tuple(inertia)).corrected(model)
    settled = t > 1.0
    without, left = (
        np.abs(ContactDetector(m, parameters).update_block(t, q, v, tau).residual[settled]).max(0)
        for m in (model, geared)
    )
    # The filters are late, which takes a little off; the trapezoidal rule leaves dt² / 12 times a
    # second derivative, some 500 N·m/s².
    assert (without > 0.8 * np.abs(inertia * a).max(axis=0)).all()
    assert left.max() < 1e-3


def test_it_is_what_mujoco_calls_armature(model: Model) -> None:
    mujoco: Any = pytest.importorskip("mujoco")
    theirs = mujoco.MjModel.from_xml_string(arm7_urdf())
    theirs.dof_armature[:] = J
    data = mujoco.MjData(theirs)
    t, q, v, a = sines(model.nv, 1.0)
    tau = np.empty_like(v)
    for k in range(len(t)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], v[k], a[k]
        mujoco.mj_inverse(theirs, data)
        tau[k] = data.qfrc_inverse
    corrected = InertialCorrections(rotor_inertia=tuple(J)).corrected(model)
    # Torques of some 100 N·m; MuJoCo turns inertias into principal axes first.
    np.testing.assert_allclose(inverse_dynamics(corrected, q, v, a), tau, atol=1e-9)


@pytest.fixture(scope="module")
def geared_motion(model: Model) -> RecordedMotion:
    t, q, v, a = sines(7, 40.0)
    noise = np.random.default_rng(5).normal(0.0, 0.05, v.shape)
    tau = inverse_dynamics(model, q, v, a) + J * a + 0.5 * np.tanh(v / 0.01) + noise
    return RecordedMotion("geared", t, q, v, tau)


def identified(motion: RecordedMotion, model: Model) -> Identification:
    return identify(filtered_columns([motion], model, 0.1, variations(model)), model)


def test_calibration_finds_it(model: Model, geared_motion: RecordedMotion) -> None:
    found = identified(geared_motion, model)
    # Masses may stand in for a part of it.
    np.testing.assert_allclose(found.corrections[:, 4], J, rtol=0.1)
    bare = replace(geared_motion, tau=geared_motion.tau - J * sines(7, 40.0)[3])
    assert not identified(bare, model).corrections.any()


@pytest.mark.parametrize(("share", "found_share"), [(0.3, 0.3), (5.0, MOST_EXCESS)])
def test_the_excess_near_standstill_is_at_most_a_share_of_the_friction(
    model: Model, share: float, found_share: float
) -> None:
    """60 N·m on 11 N·m were an error of the masses of an arm that rests in between."""
    t, q, v, a = sines(7, 40.0)
    step = 0.5 * np.tanh(v / 0.01)
    noise = np.random.default_rng(5).normal(0.0, 0.02, v.shape)
    tau = inverse_dynamics(model, q, v, a) + step * (1.0 + share * np.exp(-((v / 0.15) ** 2)))
    friction = identified(RecordedMotion("", t, q, v, tau + noise), model).friction
    assert isinstance(friction, StribeckFriction)
    assert (friction.excess <= MOST_EXCESS * friction.coulomb).all()
    ratio = friction.excess / friction.coulomb
    # Beyond the bound, Coulomb friction takes a part of the excess.
    assert np.median(ratio) == pytest.approx(found_share, rel=0.1)


def test_a_joint_that_sticks_says_nothing_about_its_friction(model: Model) -> None:
    """Its static friction carries what the description lacks, which is no friction in motion."""
    t, q, v, a = sines(7, 60.0)
    # Every other second all joints rest, and their static friction carries a wrong torque.
    share = np.clip(2.0 * np.sin(np.pi * t), 0.0, 1.0)[:, None]
    q = q[0] + DT * np.cumsum(share * v, axis=0)
    v, a = share * v, np.gradient(share * v, DT, axis=0)
    stuck = np.where(share > 0.0, 0.0, np.random.default_rng(3).uniform(-0.5, 0.5, 7))
    noise = np.random.default_rng(5).normal(0.0, 0.05, v.shape)
    tau = inverse_dynamics(model, q, v, a) + 0.5 * np.tanh(v / 0.003) + stuck
    found = identified(RecordedMotion("", t, q, v, tau + noise), model).friction
    assert isinstance(found, StribeckFriction)
    np.testing.assert_allclose(found.coulomb, 0.5, atol=0.03)
    assert np.abs(found.offset).max() < 0.03


def test_a_payload_that_is_too_heavy_leaves_its_link_with_mass(model: Model) -> None:
    """The link lost more than it has, and the arm file could not be loaded."""
    t, q, v, a = sines(7, 40.0)
    link, com = model.joint_links[-1], np.array([0.0, 0.02, 0.1])
    true, declared = (model.with_payload(link, mass, com, np.zeros((3, 3))) for mass in (2.0, 4.0))
    noise = np.random.default_rng(5).normal(0.0, 0.05, v.shape)
    motion = RecordedMotion("", t, q, v, inverse_dynamics(true, q, v, a) + noise)
    columns = filtered_columns([motion], declared, 0.1, variations(declared), alone=model)
    corrections = identify(columns, model).corrections
    own = model.arrays.mass[model.dof_row[-1]]
    assert own + corrections[-1, 0] == pytest.approx(LEAST_MASS * own)
    corrected_model(model, without_payload(corrections, declared, model))
