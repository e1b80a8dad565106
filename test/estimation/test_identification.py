"""Parts of the identification of friction and masses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from free_motion import lively_motion
from scipy.optimize import lsq_linear

from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.identification.regression import (
    COLUMNS,
    LOWER,
    _Factors,
    _friction_alone,
    _triangular,
    filtered_columns,
    filtered_external,
)
from rbd_control.simulation import arm7_urdf


def test_friction_alone_is_the_bounded_solution_of_scipy() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(300, 30, COLUMNS + 1))
    A[:, :, 1] = A[:, :, 0] + rng.choice([1e-3, 1.0], (300, 1)) * A[:, :, 1]  # some nearly alike
    A[::3, :, 3] = 0.0  # as without a Stribeck effect
    A *= 10.0 ** rng.uniform(-4.0, 2.0, (300, 1, COLUMNS + 1))  # as of slow joints
    factors = _Factors(_triangular(A), 30)
    found = _friction_alone(factors)
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


def test_the_external_torque_alone_is_that_of_the_columns() -> None:
    model = Model.from_urdf(arm7_urdf())
    motion = lively_motion(model, 4.0)
    halves = [motion.only(motion.t < 2.0), motion.only(motion.t > 2.5)]
    columns = filtered_columns(halves, model, 0.1)
    assert (filtered_external(halves, model, 0.1) == columns.x).all()
    # The delay of a velocity changes only the measured torque.
    other = [replace(half, tau=half.tau + 1.0) for half in halves]
    changed = filtered_columns(other, model, 0.1)
    assert (changed.friction == columns.friction).all()
    assert (changed.x != columns.x).all()
    with pytest.raises(RecordingError, match="no stretch of .* is long enough"):
        filtered_external([motion.only(motion.t < 0.1)], model, 0.1)
