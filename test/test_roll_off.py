"""The filter of the feedback, against its equations."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest
from control_loop import HOME, STILL
from scipy.signal import TransferFunction, lsim

from rbd_control.control.gains import RATIO, SHALLOW, WIDE, filter_response
from rbd_control.control.slotine_li import RollOff, filtered
from rbd_control.control.trajectory import DesiredState

RESONANCE = 30.0
W = 2.0 * pi * RESONANCE


def output(x: np.ndarray, dt: float, resonance: float = RESONANCE) -> np.ndarray:
    """Return the filtered velocities for the samples ``x``, (k,), at a fixed period."""
    roll_off = RollOff(1)
    roll_off.set_resonances(np.array([resonance]))
    out = []
    for k, value in enumerate(x):
        roll_off.measure(np.array([value]), dt if k else 0.0)
        out.append(roll_off.v[0])
    return np.array(out)


def test_it_is_the_filter_of_the_equation() -> None:
    """The low-pass filter takes the newest sample, so that the error is proportional to dt."""
    denominator = np.polymul([1.0, W / RATIO], [1.0, 2.0 * WIDE * W, W * W])
    numerator = W / RATIO * np.array([1.0, 2.0 * SHALLOW * W, W * W])
    errors = []
    for dt in (2e-4, 1e-4):
        t = np.arange(0.0, 0.3, dt)
        x = np.sin(40.0 * t) - 0.5 * np.sin(170.0 * t) + 0.2 * np.sin(400.0 * t)
        _, expected, _ = lsim(TransferFunction(numerator, denominator), x, t)
        errors.append(np.abs(output(x, dt) - expected).max())
    assert errors[1] < 0.005
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("frequency", [1.0, 7.5, 22.5, 30.0, 45.0, 100.0])
def test_its_response_is_that_of_the_analysis(frequency: float) -> None:
    """:func:`filter_response` is used for the gain margin; compared at 10 kHz."""
    dt, omega = 1e-4, 2.0 * pi * frequency
    t = np.arange(0.0, 2.0, dt)
    settled = t >= 1.0  # whole periods of each frequency
    y, x = output(np.sin(omega * t), dt)[settled], np.exp(-1j * omega * t[settled])
    assert 2j * np.mean(y * x) == pytest.approx(filter_response(omega, W), abs=0.01)


def test_the_figures_of_the_documentation() -> None:
    shares = np.linspace(0.8, 1.5, 100)
    assert abs(filter_response(W, W)) == pytest.approx(0.03, abs=0.002)
    assert max(abs(filter_response(share * W, W)) for share in shares) < 0.1
    low = 0.01 * W
    assert -np.angle(filter_response(low, W)) / low == pytest.approx(0.029, abs=0.0005)
    assert filter_response(123.0, 0.0) == 1.0


@pytest.mark.parametrize(("bandwidth", "highest"), [(6.0, 0.368), (15.0, 0.321)])
def test_the_feedback_dissipates_at_low_frequencies(bandwidth: float, highest: float) -> None:
    """The real part of H = F (p + Lambda) / (p + Lambda F)."""

    def real(share: float) -> float:
        p, F = 1j * share * W, filter_response(share * W, W)
        return (F * (p + bandwidth) / (p + bandwidth * F)).real

    assert min(real(share) for share in np.linspace(0.001, highest, 400)) > 0.0
    assert real(highest + 0.002) < 0.0


def test_it_is_stable_at_any_period() -> None:
    """The output of the sampled notch exceeds its input by a half at most, at any periods."""
    random = np.random.default_rng(0)
    for resonance in (5.0, 30.0, 1000.0):
        w, memory = np.full(5, 2.0 * pi * resonance), np.zeros((4, 5))
        largest = 0.0
        for k in range(3000):
            dt = 10.0 ** random.uniform(-4.0, 0.0) if k else 0.0
            out = filtered(random.uniform(-1.0, 1.0, 5), w, dt, memory)
            largest = max(largest, np.abs(out).max())
        assert largest < 2.0, resonance


def test_a_constant_passes_and_a_restart_begins_at_the_input() -> None:
    assert (output(np.full(100, 0.7), 0.001) == 0.7).all()
    roll_off = RollOff(7)
    roll_off.set_resonances(np.full(7, RESONANCE))
    desired = DesiredState(HOME, 0.2 * np.ones(7), STILL)
    q, v = HOME + 0.1, np.full(7, 0.5)
    for dt in (0.0, 0.001):
        feedback = roll_off.track(q, v, dt, desired)
        assert feedback is not None
        assert np.allclose(feedback.q, q, rtol=1e-12)
        assert np.allclose(feedback.v, v, rtol=1e-12)
    roll_off.restart()
    feedback = roll_off.track(q + 0.1, -v, 0.001, desired)
    assert feedback is not None
    assert np.allclose(feedback.q, q + 0.1, rtol=1e-12)
    assert np.allclose(feedback.v, -v, rtol=1e-12)
    assert (roll_off.v > 0.0).all()  # the filter of the velocity continues


def test_the_motion_itself_is_not_filtered() -> None:
    """Without error the feedback is the desired state, however fast it changes."""
    roll_off = RollOff(7)
    roll_off.set_resonances(np.full(7, RESONANCE))
    random = np.random.default_rng(1)
    for k in range(20):
        q, v = random.uniform(-1.0, 1.0, (2, 7))
        feedback = roll_off.track(q, v, 0.001 * bool(k), DesiredState(q, v, STILL))
        assert feedback is not None
        assert (feedback.q == q).all()
        assert (feedback.v == v).all()


def test_a_rigid_arm_has_no_filter() -> None:
    roll_off = RollOff(7)
    v = np.ones(7)
    for _ in range(2):
        assert roll_off.track(HOME, v, 0.001, DesiredState.at_rest(HOME)) is None
        assert roll_off.v is v
