"""Blocks of samples: however a recording is cut, the verdicts are the same to the last bit."""

from dataclasses import replace

import numpy as np
import pytest
from robots import urdf_path

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.errors import InputError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.robot.inertial_corrections import InertialCorrections

COUNT = 1500
PARAMETERS = DetectorParameters(
    contact_threshold=(1.0,),
    collision_threshold=(6.0,),
    friction_model="stribeck",
    friction_coulomb=(0.3,),
    friction_stribeck=(0.1,),
    threshold_speed=(0.1,),
    moving_ratio=(0.6,),
    threshold_acceleration=(0.01,),
    residual_covariance=tuple(0.04 * np.eye(7).ravel()),
    release_debounce=0.05,
)


@pytest.fixture(scope="module")
def model() -> Model:
    locked = {"panda_finger_joint1": 0.0, "panda_finger_joint2": 0.0}
    described = Model.from_urdf(urdf_path("panda"), locked=locked)
    return InertialCorrections(rotor_inertia=(0.02,)).corrected(described)


@pytest.fixture(scope="module")
def recording(model: Model) -> tuple[np.ndarray, ...]:
    """Return a motion with two contacts, a gap, a jump, frozen and saturated samples."""
    rng = np.random.default_rng(7)
    t = 0.002 * np.arange(COUNT) + rng.uniform(-4e-4, 4e-4, COUNT)
    t[900:] += 0.5
    w = np.arange(1, 8)[None, :] * 0.9
    rest = np.array([0.1, -0.4, 0.2, -1.8, 0.3, 1.7, 0.6])
    q = rest + 0.2 * np.sin(w * t[:, None])
    v = 0.2 * w * np.cos(w * t[:, None])
    tau = inverse_dynamics(model, q, v, -0.2 * w**2 * np.sin(w * t[:, None]))
    tau += rng.normal(0.0, 0.02, tau.shape)
    tau[200:300, 1] -= 4.0
    tau[620:760, 3] += 9.0
    tau[850:1000, 2] -= 3.0  # still open at the gap
    q[1100] += 0.5
    q[1200:1360], v[1200:1360], tau[1200:1360] = q[1200], v[1200], tau[1200]
    tau[1450:1460, 6] = 12.0
    return t, q, v, tau


def test_the_thresholds_of_a_block_are_those_that_decide(
    model: Model, recording: tuple[np.ndarray, ...]
) -> None:
    t, q, v, tau = (column[:850] for column in recording)  # before the gap
    parameters = replace(PARAMETERS, residual_covariance=(), onset_debounce=0.0)
    found = ContactDetector(model, parameters).update_block(t, q, v, tau)
    above = (np.abs(found.residual) > found.threshold).any(axis=1)
    begun = np.flatnonzero(np.diff(found.contact.astype(int), prepend=0) == 1)
    assert begun.size >= 2
    assert above[begun].all()
    assert not above[found.valid & ~found.contact].any()
    # The share for friction applies at reversals only; speed and acceleration add to it.
    assert found.threshold[found.valid].min() < 0.75
    assert found.threshold[found.valid].max() > 1.05


def test_a_refused_block_leaves_no_trace(model: Model, recording: tuple[np.ndarray, ...]) -> None:
    t, q, v, tau = (column[:100] for column in recording)
    detector, other = (ContactDetector(model, PARAMETERS) for _ in range(2))
    for d in (detector, other):
        d.update_block(t[:50], q[:50], v[:50], tau[:50])
    late, bad = t[50:].copy(), tau[50:].copy()
    late[7] = late[6]
    bad[3, 2] = np.nan
    for args, match in (
        ((late, q[50:], v[50:], tau[50:]), "stamp"),
        ((t[50:], q[50:], v[50:], bad), "tau"),
        ((t[50:], q[49:], v[49:], tau[49:]), "stamps"),
        ((t[49:], q[49:], v[49:], tau[49:]), "stamp"),
    ):
        with pytest.raises(InputError, match=match):
            detector.update_block(*args)
    for one, match in (
        ((q[50], v[50], bad[3]), r"tau\[2\] is nan"),
        ((q[50:52], v[50:52], tau[50:52]), "update_block takes many"),
        ((q[50, :6], v[50], tau[50]), r"q has shape \(6,\)"),
        ((q[50], v[50], ["a"] * 7), "tau is not an array of numbers"),
    ):
        with pytest.raises(InputError, match=match):
            detector.update(t[50], *one)
    rest = (t[50:], q[50:], v[50:], tau[50:])
    np.testing.assert_array_equal(
        detector.update_block(*rest).residual, other.update_block(*rest).residual
    )
