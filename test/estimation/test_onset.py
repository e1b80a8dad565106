"""Back-dating of contacts: the onset has no bias, and its stated uncertainty is correct."""

import numpy as np
import pytest

from rbd_control.dynamics import Model
from rbd_control.estimation import KalmanObserver, MomentumObserver, Observer, SecondOrderObserver
from rbd_control.estimation.contact_events import estimate_onset

DT, COUNT = 0.001, 100
NOISE = 0.3


def onsets(observer: Observer, size: float, runs: int = 60, seed: int = 9) -> np.ndarray:
    """Errors and uncertainties of steps of ``size`` seen for 4 to 14 ms, in white noise."""
    rng = np.random.default_rng(seed)
    n = observer.model.nv
    found = []
    for _ in range(runs):
        x = rng.normal(0.0, NOISE, (1000 + COUNT, n))
        begin = len(x) - int(rng.integers(4, 15))
        x[begin:] += size * rng.normal(size=n)
        r = observer.filter(np.full(len(x), DT), x)[-COUNT:]
        t = DT * np.arange(len(x))[-COUNT:]
        onset = estimate_onset(t, r, observer, np.ones(n))
        # The torque acts from the end of the last interval without it.
        found.append((onset.stamp - (begin - 1) * DT, onset.uncertainty))
    return np.array(found).T


@pytest.mark.parametrize("kind", ["momentum", "second_order", "kalman"])
def test_estimates_the_onset_and_its_uncertainty(model: Model, kind: str) -> None:
    observer = {
        "momentum": MomentumObserver(model, 50.0),
        "second_order": SecondOrderObserver(model, 200.0),
        "kalman": KalmanObserver(model, NOISE, 1e-5, 6.0),
    }[kind]
    strong_error, strong = onsets(observer, 10.0)
    weak_error, weak = onsets(observer, 1.0)
    assert np.median(np.abs(strong_error)) < 1.5 * DT
    assert np.median(strong) < np.median(weak)
    for error, uncertainty in ((strong_error, strong), (weak_error, weak)):
        # 68 % and 95 % for a normal distribution; 60 runs leave 6 % and 3 %.
        assert (np.abs(error) < uncertainty + 0.5 * DT).mean() > 0.6
        assert (np.abs(error) < 2.0 * uncertainty + 0.5 * DT).mean() > 0.85
