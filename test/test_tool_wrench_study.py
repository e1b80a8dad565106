"""The wrench at the tool against the truth, on arms that MuJoCo moves."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.contacts.tool_wrench import judge_tool


@pytest.mark.parametrize(("name", "seed"), [("panda", 21), ("ur5", 21)])
def test_wrenches_are_found_and_their_covariance_is_honest(name: str, seed: int) -> None:
    """After calibration, in motion, with friction, noise and masses 2 to 5 % off."""
    stats = pytest.importorskip("scipy.stats")
    urdf_path(name)
    result = judge_tool(name, seed, 30, free=30.0)
    assert len(result.truth) == 30, "there was a verdict at each wrench"
    # Force within 10 % or 2 N and moment within 10 % or 0.5 N·m.
    assert result.within.mean() >= 0.95
    assert np.median(result.force_error) < 0.7
    assert np.median(result.moment_error) < 0.15
    low, high = stats.chi2.ppf([0.025, 0.975], 6 * len(result.truth)) / len(result.truth)
    assert low < result.nees.mean() < high
