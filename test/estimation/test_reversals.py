"""Reversals of the velocity: detection, decay, and use in calibration and detector."""

import numpy as np

from rbd_control.estimation.thresholds import less_friction, reversals

SLOW, POLE = np.array([0.02]), np.array([50.0])


def traces(v: np.ndarray, dt: float = 0.001) -> np.ndarray:
    v = np.asarray(v, dtype=float)[:, None]
    return reversals(np.full(len(v) - 1, dt), v, SLOW, POLE)[:, 0]


def test_fades_with_the_time_constant_whatever_the_step() -> None:
    fine = traces(np.full(101, 0.5))
    np.testing.assert_allclose(fine, np.exp(-50.0 * 0.001 * np.arange(1, 101)), rtol=1e-12)
    coarse = traces(np.full(11, 0.5), dt=0.01)
    np.testing.assert_allclose(coarse, fine[9::10], rtol=1e-12)


def test_slow_joints_and_changes_of_sign_are_reversals() -> None:
    moving = [0.5] * 50
    assert traces([*moving, 0.01])[-1] == 1.0
    assert traces([*moving, -0.5])[-1] == 1.0
    assert traces([*moving, 0.5])[-1] < 0.1


def test_friction_explains_no_more_than_its_allowance() -> None:
    found = [less_friction.py_func(r, 1.0) for r in (-3.0, -1.0, 0.4, 2.5)]
    np.testing.assert_allclose(found, [-2.0, 0.0, 0.0, 1.5], atol=1e-15)
