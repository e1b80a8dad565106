"""Gain margin of the position loop, against a simulation of the sampled loop."""

from __future__ import annotations

from collections import deque
from math import inf, pi

import numpy as np
import pytest

from rbd_control.control import ControllerParameters
from rbd_control.control.gains import (
    LEAST_MARGIN,
    RATIO,
    SHALLOW,
    WIDE,
    Loop,
    filter_response,
)
from rbd_control.control.slotine_li import filtered
from rbd_control.errors import InputError

LOOPS = [
    Loop(0.001, 0.0, 0.0),
    Loop(0.001, 0.008, 0.0),
    Loop(0.004, 0.012, 0.0),
    Loop(0.001, 0.005, 30.0),
    Loop(0.001, 0.002, 60.0),
]
"""Loops whose delay is a number of sample periods, as in the simulation."""

EXACT = 0.09
"""Bound of the error of a margin; holding is only nearly a delay, and the filter is sampled."""


def growth(loop: Loop, rate: float, bandwidth: float) -> float:
    """Return the ratio of the largest errors in the last and the second third of 3 s.

    A unit mass is at rest with the error 1. The acceleration that follows from a sample acts one
    period and ``loop.delay`` later, for one period.
    """
    h = loop.period
    e, e_dot = np.array([1.0]), np.array([0.0])
    w = np.array([2.0 * pi * loop.resonance])
    memories = np.zeros((2, 4, 1))
    queue = deque(np.zeros((round(loop.delay / h) + 1, 1)))
    errors = []
    for k in range(round(3.0 / h)):
        e_f, e_f_dot = e, e_dot
        if loop.resonance > 0.0:
            dt = h if k else 0.0
            e_f, e_f_dot = filtered(e, w, dt, memories[0]), filtered(e_dot, w, dt, memories[1])
        queue.append(-(rate + bandwidth) * e_f_dot - rate * bandwidth * e_f)
        a = queue.popleft()
        e, e_dot = e + h * e_dot + 0.5 * h * h * a, e_dot + h * a
        errors.append(abs(e[0]))
        if errors[-1] > 1e6:
            return inf
    third = len(errors) // 3
    return float(max(errors[-third:]) / max(errors[third : 2 * third]))


@pytest.mark.parametrize("loop", LOOPS, ids=str)
@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0])
def test_the_loop_oscillates_above_a_margin_of_one(loop: Loop, ratio: float) -> None:
    rate = loop.largest_rate(ratio, margin=1.0)
    stable, unstable = (1.0 - EXACT) * rate, (1.0 + EXACT) * rate
    assert growth(loop, stable, ratio * stable) < 1.0
    assert growth(loop, unstable, ratio * unstable) > 1.0


@pytest.mark.parametrize("loop", [Loop(0.01, 0.0, 30.0), Loop(0.004, 0.004, 30.0)], ids=str)
def test_with_slow_samples_the_margin_is_on_the_safe_side(loop: Loop) -> None:
    """The sampled filter leads the filter of the equations by about half a period."""
    rate = loop.largest_rate(margin=1.0)
    assert growth(loop, rate, 0.5 * rate) < 1.0
    assert growth(loop, 1.25 * rate, 0.625 * rate) > 1.0


@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_the_margin_is_the_factor_of_both_gains_in_the_feedback(loop: Loop) -> None:
    """With the feedback ``(Lambda + r) e' + Lambda r e``, whose sum and product grow alike."""
    rate, bandwidth = 0.3 * loop.largest_rate(), 0.15 * loop.largest_rate()
    margin = loop.margin(rate, bandwidth)
    assert LEAST_MARGIN < margin < inf
    for share, is_stable in ((1.0 - EXACT, True), (1.0 + EXACT, False)):
        total, product = share * margin * (rate + bandwidth), share * margin * rate * bandwidth
        root = np.sqrt(total * total - 4.0 * product)
        assert (growth(loop, 0.5 * (total + root), 0.5 * (total - root)) < 1.0) == is_stable


@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_the_largest_rate_has_the_margin(loop: Loop) -> None:
    rate = loop.largest_rate(0.5, LEAST_MARGIN)
    # The margin is evaluated at steps of 0.5 % of the frequency.
    assert loop.margin(rate, 0.5 * rate) == pytest.approx(LEAST_MARGIN, rel=0.02)
    loop.require(0.99 * rate, 0.495 * rate)
    with pytest.raises(InputError, match=f"at most {rate:.3g} and {0.5 * rate:.3g} are allowed"):
        loop.require(1.01 * rate, 0.505 * rate)


SPRING_DAMPING = 0.02
"""Damping ratio of the spring between a rotor and a link at rest."""


def elastic_margin(loop: Loop, rate: float, rotor: float, on_motor: bool) -> float:
    """Return the gain margin with a link of inertia 1 on a spring, ``bandwidth`` half of ``rate``.

    The open loop crosses the negative real axis at points -x; the margin is 1 / max x.

    Args:
        loop: the loop, whose resonance is that of rotor and link.
        rate: ``damping_rate`` [1/s].
        rotor: inertia of the rotor, as a share of the link's. The gains follow from the link alone.
        on_motor: whether the rotor is measured, otherwise the link.
    """
    w = 2.0 * pi * loop.resonance
    omega = np.linspace(0.5, 600.0, 60_000)
    s = 1j * omega
    stiffness = w * w * rotor / (1.0 + rotor)
    spring = stiffness + 2.0 * SPRING_DAMPING * np.sqrt(stiffness * rotor) * s
    velocity = (s * s * on_motor + spring) / (s * (rotor * s * s + spring * (1.0 + rotor)))
    feedback = 1.5 * rate + 0.5 * rate * rate / s
    response = np.array([filter_response(x, w) for x in omega]) * np.exp(-s * loop.total_delay)
    L = response * feedback * velocity
    crossings = -L.real[:-1][np.diff(np.sign(L.imag)) != 0.0]
    return 1.0 / float(crossings.max(initial=1e-9))


@pytest.mark.parametrize("on_motor", [True, False], ids=["on motors", "on links"])
@pytest.mark.parametrize("resonance", [25.0, 40.0, 60.0])
@pytest.mark.parametrize("delay", [0.0, 0.005, 0.015])
@pytest.mark.parametrize("period", [0.001, 0.005])
def test_elastic_gears_leave_the_margin_unless_their_rotors_are_light(
    on_motor: bool, resonance: float, delay: float, period: float
) -> None:
    """The bound of a fifth in ``gains.py``, and the tenth of the drawn arms in ``stateful``."""
    loop = Loop(period, delay, resonance)
    rate = loop.largest_rate(0.5)
    assert elastic_margin(loop, rate, 0.2, on_motor) >= LEAST_MARGIN
    assert elastic_margin(loop, rate, 0.1, on_motor) >= 0.45 * LEAST_MARGIN


def test_a_light_rotor_that_is_measured_needs_lower_gains() -> None:
    loop = Loop(0.001, 0.005, 40.0)
    assert elastic_margin(loop, loop.largest_rate(0.5), 0.06, True) < 1.0


def test_no_gain_with_this_ratio_is_stable_if_the_filter_is_slow() -> None:
    """At low frequencies its phase then lags more than the feedback of velocity leads."""
    loop = Loop(0.0, 0.01, 30.0)
    late = loop.delay + (RATIO + 2.0 * (WIDE - SHALLOW)) / (2.0 * pi * 30.0)
    for share, is_possible in ((0.9, True), (1.1, False)):
        rate = 2.0 / (late / share)
        assert (loop.margin(rate, rate) > 0.0) == is_possible


def test_a_loop_without_delay_bears_all_gains() -> None:
    loop = Loop(0.0, 0.0, 0.0)
    assert loop.margin(2000.0, 500.0) == inf
    assert loop.largest_rate() == 2000.0


def test_the_error_names_gains_loop_and_command() -> None:
    with pytest.raises(InputError) as caught:
        ControllerParameters(damping_rate=80.0, bandwidth=(40.0,)).require_stable(0.002)
    text = str(caught.value)
    for part in ("damping_rate 80", "bandwidth 40", "500 Hz", "5 ms", "30 Hz", "check --loop"):
        assert part in text, part


def test_the_default_gains_are_stable_at_100_hz() -> None:
    """Also with twice the default ``loop_delay`` at 1 kHz, and for an unknown period."""
    ControllerParameters().require_stable(0.01)
    ControllerParameters(loop_delay=0.01).require_stable(0.001)
    ControllerParameters(damping_rate=2000.0).require_stable(float("nan"))
    with pytest.raises(InputError, match="loop at 20 Hz"):
        ControllerParameters().require_stable(0.05)
