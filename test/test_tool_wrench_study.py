"""The wrench at the tool compared with the true wrench, on arms in MuJoCo."""

from __future__ import annotations

import numpy as np
import pytest
from robots import urdf_path

pytest.importorskip("mujoco")

from bench.contacts.tool_wrench import band, is_accurate, judge_tool, tool_row


@pytest.mark.parametrize(("name", "seed"), [("panda", 21), ("ur5", 21)])
def test_wrenches_are_found_and_their_covariance_is_honest(name: str, seed: int) -> None:
    """After calibration, in motion, with friction, noise and masses 2 to 5 % off."""
    urdf_path(name)
    result = judge_tool(name, seed, 30, free=30.0)
    assert len(result.truth) == 30, "there was a verdict at each wrench"
    # Force within 10 % or 2 N and moment within 10 % or 0.5 N·m.
    assert is_accurate(result)
    assert np.median(result.force_error) < 0.7
    assert np.median(result.moment_error) < 0.15
    low, high = band(result)
    assert low < result.nees.mean() / 6.0 < high
    assert tool_row(result)[0] == "30"
