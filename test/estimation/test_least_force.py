"""The least force at which the statistic passes its threshold, beside a search by small steps."""

from __future__ import annotations

import numpy as np
import pytest

from rbd_control.estimation.isolation_kernel import least_forces_by_statistic

SAMPLES, JOINTS = 400, 5
MOST = 20.0


def statistic(case: dict[str, np.ndarray], force: np.ndarray) -> np.ndarray:
    """Return the statistic at one force for each sample, (k,)."""
    r = case["residual"] + force[:, None] * case["torque"]
    r -= np.clip(r, -case["allowance"], case["allowance"])
    return np.asarray(np.linalg.norm(r @ case["whitening"].T, axis=1))


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["without friction", "with friction"])
def case(request: pytest.FixtureRequest) -> dict[str, np.ndarray]:
    """Return random arguments; residuals add to the torque of the force, or oppose it."""
    random = np.random.default_rng(3)
    spread = random.normal(size=(JOINTS, JOINTS))
    covariance = spread @ spread.T + 0.1 * np.eye(JOINTS)
    torque = random.normal(scale=0.3, size=(SAMPLES, JOINTS))
    torque[:50, 0] = 0.0  # a joint that the force does not load
    torque[50] = 0.0
    return {
        "torque": torque,
        "residual": random.normal(scale=0.7, size=(SAMPLES, JOINTS)),
        "allowance": request.param * random.random((SAMPLES, JOINTS)),
        "whitening": np.linalg.inv(np.linalg.cholesky(covariance)),
        "statistic": random.uniform(1.0, 6.0, SAMPLES),
        "most": np.full(SAMPLES, MOST),
    }


def test_it_is_the_first_force_at_which_the_statistic_passes(case: dict[str, np.ndarray]) -> None:
    """At none of 4,000 smaller forces does it pass; at the force it equals its threshold."""
    least = np.full(SAMPLES, np.nan)
    least_forces_by_statistic(*case.values(), least)
    # A tenth of a millionth leaves room for rounding at the root itself.
    below = [statistic(case, part * least) for part in np.linspace(0.0, 1.0 - 1e-7, 4000)]
    assert np.all(np.max(below, axis=0)[least > 0.0] <= (case["statistic"] + 1e-5)[least > 0.0])
    inside = (least > 0.0) & (least < MOST)
    assert inside.sum() > SAMPLES / 2
    at = statistic(case, least)
    np.testing.assert_allclose(at[inside], case["statistic"][inside], rtol=1e-9)
    assert np.all(at[least == 0.0] > case["statistic"][least == 0.0])
    assert np.all(at[least == MOST] <= case["statistic"][least == MOST])
    assert least[50] in {0.0, MOST}
    assert (least == 0.0).any()
