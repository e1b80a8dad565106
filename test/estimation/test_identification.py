"""Parts of the identification of friction and masses."""

from __future__ import annotations

import numpy as np
from scipy.optimize import lsq_linear

from rbd_control.identification.regression import (
    COLUMNS,
    LOWER,
    _Factors,
    _friction_alone,
    _triangular,
)


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
