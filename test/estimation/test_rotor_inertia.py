"""Rotor inertia: as a parameter it leaves no residual, and the calibration identifies it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from robots import random_tree_urdf

from rbd_control.dynamics import Model, Rotor, inverse_dynamics, mass_matrix, with_rotors
from rbd_control.errors import ParameterError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import Motion, find_mismatches
from rbd_control.identification.regression import Identification, filtered_columns, identify
from rbd_control.robot.inertial_corrections import InertialCorrections, variations
from rbd_control.robot.robot import Robot
from rbd_control.robot.robot_parameters import RobotParameters
from rbd_control.simulation import arm7_urdf

DT = 0.002
J = np.array([0.5, 0.9, 0.3, 0.4, 0.1, 0.15, 0.05])
OBSERVERS = ["momentum", "second_order", "kalman"]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


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


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("urdf", [arm7_urdf(), random_tree_urdf(3, 5, prismatic=0.4)])
def test_acceleration_torque_of_motors_is_no_contact(urdf: str, observer: str) -> None:
    """``J a`` on top of inverse dynamics; without the parameter it is the residual."""
    model = Model.from_urdf(urdf)
    t, q, v, a = sines(model.nv)
    inertia = J[: model.nv]
    tau = inverse_dynamics(model, q, v, a) + inertia * a
    parameters = DetectorParameters(observer=observer, observer_gain=(100.0,))
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


def test_zero_changes_nothing(model: Model) -> None:
    assert InertialCorrections(rotor_inertia=(0.0,) * 7).corrected(model) is model


def test_beside_corrections_of_bodies(model: Model) -> None:
    parameters = InertialCorrections(mass_correction=(0.2,), rotor_inertia=tuple(J))
    bodies = replace(parameters, rotor_inertia=(0.0,)).corrected(model)
    q = sines(7)[1][0]
    added = mass_matrix(parameters.corrected(model), q) - mass_matrix(bodies, q)
    np.testing.assert_allclose(added, np.diag(J), atol=1e-12)


@pytest.mark.parametrize("observer", OBSERVERS)
def test_sample_by_sample_is_the_block(model: Model, observer: str) -> None:
    t, q, v, a = sines(7)
    tau = inverse_dynamics(model, q, v, a)
    parameters = DetectorParameters(observer=observer)
    model = InertialCorrections(rotor_inertia=tuple(J)).corrected(model)
    block = ContactDetector(model, parameters).update_block(t, q, v, tau).residual
    detector = ContactDetector(model, parameters)
    samples = [detector.update(*row).residual for row in zip(t, q, v, tau, strict=True)]
    np.testing.assert_array_equal(samples, block)


def test_goes_with_its_joint(model: Model) -> None:
    names = model.joint_names[::-1]
    told = RobotParameters(urdf="arm7", joints=names, rotor_inertia=tuple(J[::-1]))
    robot = Robot.of(told)
    assert robot.parameters.rotor_inertia == tuple(J)
    q = np.zeros(model.nv)
    added = mass_matrix(robot.model, q) - mass_matrix(robot.description, q)
    np.testing.assert_allclose(added, np.diag(J), atol=1e-12)


def test_impossible_inertias_are_refused(model: Model) -> None:
    with pytest.raises(ParameterError, match=r"rotor_inertia\[1\] is -0.1 kg·m² or kg"):
        InertialCorrections(rotor_inertia=(0.1, -0.1))
    with pytest.raises(ParameterError, match="rotor_inertia has 2 values .* 7 joints"):
        InertialCorrections(rotor_inertia=(0.1, 0.1)).corrected(model)
    geared = with_rotors(model, {"joint_2": Rotor(50.0, 1e-4)})
    with pytest.raises(ParameterError, match="'joint_3' is given, but the model has rotors"):
        InertialCorrections(rotor_inertia=(0, 0, 0.1, 0, 0, 0, 0)).corrected(geared)


@pytest.fixture(scope="module")
def geared_motion(model: Model) -> Motion:
    t, q, v, a = sines(7, 40.0)
    noise = np.random.default_rng(5).normal(0.0, 0.05, v.shape)
    tau = inverse_dynamics(model, q, v, a) + J * a + 0.5 * np.tanh(v / 0.01) + noise
    return Motion("geared", t, q, v, tau)


def identified(motion: Motion, model: Model) -> Identification:
    return identify(filtered_columns([motion], model, 0.1, variations(model)), model)


def test_calibration_finds_it(model: Model, geared_motion: Motion) -> None:
    found = identified(geared_motion, model)
    # Masses may stand in for a part of it.
    np.testing.assert_allclose(found.corrections[:, 4], J, rtol=0.1)
    bare = replace(geared_motion, tau=geared_motion.tau - J * sines(7, 40.0)[3])
    assert not identified(bare, model).corrections.any()


def test_a_model_with_rotors_of_its_own_takes_no_others(
    model: Model, geared_motion: Motion
) -> None:
    names = model.joint_names
    rotors = {name: Rotor(1.0, float(x)) for name, x in zip(names, J, strict=True)}
    geared = with_rotors(model, rotors, reflected=True)
    assert not identified(geared_motion, geared).corrections.any()


def test_a_mismatch_is_found_beneath_it(model: Model) -> None:
    """A constant torque, under a motor that takes ten times as much."""
    t, q, v, a = sines(7, 20.0)
    inertia = np.zeros(7)
    inertia[6] = 5.0
    tau = inverse_dynamics(model, q, v, a) + inertia * a
    tau[:, 6] -= 2.0
    motion = Motion("geared", t, q, v, tau)
    parameters = DetectorParameters(contact_threshold=(1.0,), collision_threshold=(9.0,))
    assert find_mismatches(motion, model, parameters) == ()
    geared = InertialCorrections(rotor_inertia=tuple(inertia)).corrected(model)
    (found,) = find_mismatches(motion, geared, parameters)
    assert (found.kind, found.joint) == ("offset", "joint_7")
