"""The comparison of observers: noise estimates, and thresholds with equal false-alarm rate."""

from itertools import islice

import numpy as np
import pytest

pytest.importorskip("mujoco")

from bench.observers.study import interval_noises, study


def test_noises_are_told_apart() -> None:
    """Torque and momentum noise of known size, in the means of 20 s."""
    rng = np.random.default_rng(1)
    dt, torque, momentum = 0.001, np.array([0.05, 0.5]), np.array([1e-3, 2e-4])
    n = momentum * rng.normal(size=(20001, 2))
    x = torque / np.sqrt(2.0) * rng.normal(size=(20000, 2)) + np.diff(n, axis=0) / dt
    found = interval_noises(x, dt)
    # A covariance of 20 000 samples is good to 1 %, of which the difference makes more for the
    # smaller of the two noises.
    np.testing.assert_allclose(found[1], momentum, rtol=0.05)
    np.testing.assert_allclose(found[0][1], torque[1], rtol=0.1)


def test_contacts_are_noticed_and_free_motion_hardly_ever() -> None:
    for outcome in islice(study("panda", seed=2, rounds=2, free_time=22.0), 2):
        # Thresholds lie 5 % above the largest residual of a minute of other motions, which leaves
        # the contact-free seconds here a chance of one.
        assert outcome.false_alarms <= 1
        assert sum(len(delays) for delays in outcome.delays.values()) >= 4
        assert all(0.0 <= d < 0.3 for delays in outcome.delays.values() for d in delays)
