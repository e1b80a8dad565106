"""The wrench at the tool: formula, singular postures, and output of the detector."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dynamics.test_mimic_joints import MIMICS, with_mimics
from robots import random_tree_urdf

from rbd_control.dynamics import Model, frame_jacobian, frame_placement, gravity_torque
from rbd_control.errors import InputError
from rbd_control.estimation import ContactDetector, DetectorParameters, ToolWrenchEstimator
from rbd_control.estimation.isolation_kernel import PROPORTIONAL
from rbd_control.estimation.thresholds import with_default_thresholds
from rbd_control.estimation.tool_wrench import LARGEST_DAMPING
from rbd_control.simulation import arm7_urdf

DT = 0.001
PRIOR = np.repeat([10.0, 50.0], 3)
POSTURE = np.array([0.1, 0.4, -0.2, -1.4, 0.3, 0.9, 0.2])
WRENCH = np.array([1.0, -0.5, 0.8, 12.0, -7.0, 20.0])
PARAMETERS = DetectorParameters(
    tool_frame="tool",
    contact_threshold=(2.0,),
    observer_gain=(100.0,),
    maximum_gap=1.0,
    repeated_time_at_rest=3600.0,
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


@pytest.fixture(scope="module")
def estimator(model: Model) -> ToolWrenchEstimator:
    return ToolWrenchEstimator(model, "tool", 0.2**2 * np.eye(7), 50.0, 10.0)


def jacobian(model: Model, q: np.ndarray, frame: str) -> np.ndarray:
    """J (6, nv) of a frame, in the axes of the frame."""
    rotation = frame_placement(model, q, frame)[:3, :3]
    return np.kron(np.eye(2), rotation.T) @ frame_jacobian(model, q, frame)


def covariance(rng: np.random.Generator, n: int) -> np.ndarray:
    root = 0.1 * rng.normal(size=(n, n))
    return root @ root.T + 0.01 * np.eye(n)


def assert_expected_under_the_prior(model: Model, frame: str, rng: np.random.Generator) -> None:
    """Compare the estimate with dense algebra, for three samples at once."""
    n = model.nv
    R0 = covariance(rng, n)
    q, r = rng.normal(size=(3, model.nq)), rng.normal(size=(3, n))
    doubt = rng.uniform(0.0, 0.5, (3, n))
    found = ToolWrenchEstimator(model, frame, R0, 50.0, 10.0).estimate(q, r, doubt)
    for k in range(3):
        J = jacobian(model, q[k], frame)
        R = R0 + np.diag(doubt[k] ** 2 + (PROPORTIONAL * r[k]) ** 2)
        S = np.linalg.inv(np.diag(PRIOR**-2) + J @ np.linalg.solve(R, J.T))
        # The rounding term of the kernel is 1e-13 of precisions up to 1e6.
        np.testing.assert_allclose(found.covariance[k], S, rtol=1e-5, atol=1e-6)
        expected = S @ J @ np.linalg.solve(R, r[k])
        np.testing.assert_allclose(found.wrench[k], expected, rtol=1e-5, atol=1e-6)
        damping = np.linalg.eigvalsh(S / np.outer(PRIOR, PRIOR))
        np.testing.assert_allclose(found.damping[k], damping, atol=1e-6)
        assert found.observable[k] == (damping <= LARGEST_DAMPING).sum()


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_expected_wrench_under_the_prior(seed: int) -> None:
    """The estimate equals dense algebra on branched arms."""
    model = Model.from_urdf(random_tree_urdf(seed, 8))
    assert_expected_under_the_prior(model, model.joint_links[-1], np.random.default_rng(seed))


@pytest.mark.parametrize("branching", [0.0, 0.6])
@pytest.mark.parametrize("link", range(9))
def test_mimic_joints_share_the_row_of_their_leader(branching: float, link: int) -> None:
    """The tool frame may be at a link beyond mimic joints, or at one that a mimic joint moves.

    There are more bodies than degrees of freedom, so that the row of a body may not exist in Jᵀ.
    """
    text = with_mimics(random_tree_urdf(21, 9, branching=branching, prismatic=0.3), MIMICS)
    model = Model.from_urdf(text)
    assert model.bodies == model.nv + len(MIMICS) == 9
    assert_expected_under_the_prior(model, model.body_links[link], np.random.default_rng(link))


def test_an_applied_wrench_is_estimated_in_the_axes_of_the_frame(
    model: Model, estimator: ToolWrenchEstimator
) -> None:
    r = jacobian(model, POSTURE, "tool").T @ WRENCH
    found = estimator.estimate(POSTURE, r)
    assert found.observable == 6
    np.testing.assert_allclose(found.force, WRENCH[3:], atol=0.1)
    np.testing.assert_allclose(found.moment, WRENCH[:3], atol=0.1)
    # A frame that is turned and shifted shows the same wrench in its own axes.
    other = ToolWrenchEstimator(model, "link_7", 0.2**2 * np.eye(7)).estimate(POSTURE, r)
    there, here = (frame_placement(model, POSTURE, name) for name in ("tool", "link_7"))
    force = there[:3, :3] @ WRENCH[3:]
    moment = there[:3, :3] @ WRENCH[:3] + np.cross(there[:3, 3] - here[:3, 3], force)
    np.testing.assert_allclose(here[:3, :3] @ other.force, force, atol=0.1)
    np.testing.assert_allclose(here[:3, :3] @ other.moment, moment, atol=0.1)


def test_the_covariance_is_that_of_the_error(model: Model, estimator: ToolWrenchEstimator) -> None:
    """The mean NEES of 2000 wrenches is within its 95 % band, also close to singularities."""
    stats = pytest.importorskip("scipy.stats")
    rng, count = np.random.default_rng(4), 2000
    q = rng.uniform(-1.5, 1.5, (count, 7))
    q[::2] = 0.02 * q[::2]  # about the stretched arm
    truth = PRIOR * rng.normal(size=(count, 6))
    r = np.array([jacobian(model, q[k], "tool").T @ truth[k] for k in range(count)])
    r += rng.normal(size=r.shape) * np.hypot(0.2, PROPORTIONAL * r)
    found = estimator.estimate(q, r)
    error = found.wrench - truth
    nees = np.einsum("ki,kij,kj->k", error, np.linalg.inv(found.covariance), error)
    low, high = stats.chi2.ppf([0.025, 0.975], 6 * count) / count
    assert low < nees.mean() < high


def test_singular_postures_are_damped_and_reported(
    model: Model, estimator: ToolWrenchEstimator
) -> None:
    """Through the stretched elbow the wrench is bounded and continuous; the covariance grows."""
    angle = np.linspace(0.4, -0.4, 801)
    q = np.array([0.0, 0.6, 0.0, 1.0, 0.0, 0.0, 0.0]) * np.where(np.arange(7) == 3, 0.0, 1.0)
    q = q + np.outer(angle, np.eye(7)[3])
    noise = 0.2 * np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0])
    r = np.array([jacobian(model, x, "tool").T @ WRENCH for x in q]) + noise
    found = estimator.estimate(q, r)
    singular = found.observable < 6
    assert singular[400]
    # All that a residual of one standard deviation can do is half a prior for each joint.
    assert (np.abs(found.wrench - WRENCH) < 2.0 * PRIOR).all()
    # A step of 1 mrad changes it by a small part of the prior, whatever is lost.
    assert (np.abs(np.diff(found.wrench, axis=0)) < 0.05 * PRIOR).all()
    # Along the lost direction nothing is known beyond the prior.
    assert found.damping[400, -1] > 0.9
    deviation = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    assert (deviation / PRIOR).max(axis=1)[400] > 0.5
    known = estimator.estimate(POSTURE, np.zeros(7))
    assert (np.sqrt(np.diagonal(known.covariance)) < 0.2 * PRIOR).all()


def test_an_arm_of_three_joints_leaves_three_directions_unknown() -> None:
    model = Model.from_urdf(random_tree_urdf(1, n=3))
    frame = model.joint_links[-1]
    estimator = ToolWrenchEstimator(model, frame, 0.1**2 * np.eye(3))
    found = estimator.estimate(np.full(3, 0.3), np.array([1.0, -2.0, 0.5]))
    assert found.observable <= 3
    np.testing.assert_allclose(found.damping[3:], 1.0, atol=1e-6)


@pytest.mark.parametrize("prior", [1e-3, 1e5])
@pytest.mark.parametrize("noise", [1e-15, 1e8])
def test_extreme_numbers_leave_it_finite(model: Model, prior: float, noise: float) -> None:
    estimator = ToolWrenchEstimator(model, "tool", noise * np.eye(7), prior, prior)
    for q in (POSTURE, np.zeros(7)):
        for size in (0.0, 1.0, 1e9):
            found = estimator.estimate(q, np.full(7, size))
            assert np.isfinite(found.wrench).all()
            assert (np.diagonal(found.covariance) >= 0.0).all()
            assert found.damping.max() < 1.0 + 1e-6


@pytest.mark.parametrize(("frame", "says"), [("hand", "no link 'hand'"), ("link_0", "fixed")])
def test_a_frame_that_cannot_be_estimated_is_refused(model: Model, frame: str, says: str) -> None:
    with pytest.raises(InputError, match=f"tool_frame: .*{says}"):
        ContactDetector(model, replace(PARAMETERS, tool_frame=frame))


class Held:
    """A detector of an arm held at rest in POSTURE, fed one sample a millisecond."""

    def __init__(self, model: Model, parameters: DetectorParameters) -> None:
        self.model, self.detector = model, ContactDetector(model, parameters)
        self._stamp = 0.0

    def run(self, seconds: float, wrench: np.ndarray, weight: Model | None = None) -> np.ndarray:
        """Apply a wrench at the tool; return the wrench that is found then."""
        effort = gravity_torque(weight or self.model, POSTURE)
        effort = effort - jacobian(self.model, POSTURE, "tool").T @ wrench
        for _ in range(round(seconds / DT)):
            self._stamp += DT
            self.detector.update(self._stamp, POSTURE, np.zeros(7), effort)
        found = self.detector.tool_wrench()
        return np.full(6, np.nan) if found is None else found.wrench


def test_the_detector_gives_it_with_the_lag_of_the_observer(model: Model) -> None:
    held = Held(model, PARAMETERS)
    held.run(0.3, np.zeros(6))
    # A first-order observer has 63.2 % of a step after 1/gain.
    np.testing.assert_allclose(held.run(0.01, WRENCH), 0.632 * WRENCH, rtol=0.03, atol=0.1)
    np.testing.assert_allclose(held.run(0.2, WRENCH), WRENCH, rtol=0.02, atol=0.1)


def test_for_a_recording_it_equals_that_of_the_detector(model: Model) -> None:
    """The wrench is computed from the residuals of a block, as docs/detection_how_to.md shows."""
    count = 300
    stamps, q = DT * np.arange(1, count + 1), np.tile(POSTURE, (count, 1))
    tau = gravity_torque(model, POSTURE) - jacobian(model, POSTURE, "tool").T @ WRENCH
    detector = ContactDetector(model, PARAMETERS)
    found = detector.update_block(stamps, q, np.zeros((count, 7)), np.tile(tau, (count, 1)))
    estimator = ToolWrenchEstimator.of(model, PARAMETERS)
    wrench = estimator.estimate(q[found.valid], found.residual[found.valid])
    assert wrench.wrench.shape == (found.valid.sum(), 6)
    latest = detector.tool_wrench()
    assert latest is not None
    np.testing.assert_array_equal(wrench.wrench[-1], latest.wrench)
    np.testing.assert_array_equal(wrench.covariance[-1], latest.covariance)


def test_without_thresholds_the_noise_is_that_of_the_default_thresholds(model: Model) -> None:
    # It was 1e-6 N·m, so that the wrench was not damped and its covariance meant nothing.
    plain = replace(PARAMETERS, contact_threshold=(0.0,))
    default = with_default_thresholds(plain, model)
    residual = np.ones(7)
    found, expected = (
        ToolWrenchEstimator.of(model, each).estimate(POSTURE, residual) for each in (plain, default)
    )
    np.testing.assert_array_equal(found.wrench, expected.wrench)
    np.testing.assert_array_equal(found.covariance, expected.covariance)
    assert np.sqrt(np.diag(found.covariance)).max() > 0.1


def test_without_a_verdict_there_is_no_wrench(model: Model) -> None:
    held = Held(model, PARAMETERS)
    assert held.detector.tool_wrench() is None
    assert np.isnan(held.run(0.05, WRENCH)).all(), "settling"
    assert np.isfinite(held.run(0.3, WRENCH)).all()
    held.detector.reset()
    assert held.detector.tool_wrench() is None
    assert np.isfinite(held.run(0.3, WRENCH)).all()
    held.detector.update(10.0, POSTURE, np.zeros(7), None)
    assert held.detector.tool_wrench() is None
    off = Held(model, replace(PARAMETERS, tool_frame=""))
    assert np.isnan(off.run(0.3, WRENCH)).all()


def test_tare_and_payload_act_on_it_as_on_the_residual(model: Model) -> None:
    held = Held(model, PARAMETERS)
    # Below the thresholds, as there is no tare in contact.
    small = 0.05 * WRENCH
    np.testing.assert_allclose(held.run(1.5, small), small, atol=0.1)
    held.detector.tare()
    np.testing.assert_allclose(held.run(DT, small), 0.0, atol=0.05)
    loaded = model.with_payload("link_7", 1.0, (0.0, 0.0, 0.05), np.zeros((3, 3)))
    before = held.run(0.5, small, loaded)
    # The weight of the payload, 9.8 N, is a wrench until the detector knows it.
    assert 9.0 < np.linalg.norm(before[3:]) < 10.5
    held.detector.set_model(loaded)
    after = held.run(DT, small, loaded)
    # 1 ms at 100/s takes a tenth off; nothing jumps.
    np.testing.assert_allclose(after, 0.9 * before, atol=0.15)
    np.testing.assert_allclose(held.run(0.3, small, loaded), 0.0, atol=0.05)


@pytest.mark.parametrize(
    "change",
    [
        {"tool_frame": "link_7"},
        {"tool_wrench_prior_force": 1.0},
        {"tool_wrench_prior_moment": 0.1},
        {"residual_covariance": tuple(4.0 * np.eye(7).ravel())},
    ],
)
def test_every_parameter_changes_it(model: Model, change: dict[str, Any]) -> None:
    plain, changed = Held(model, PARAMETERS), Held(model, replace(PARAMETERS, **change))
    assert np.abs(plain.run(0.3, WRENCH) - changed.run(0.3, WRENCH)).max() > 1e-3
