"""Gains and resonances that follow from the arm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbd_control.control import ControllerParameters
from rbd_control.control.gains import (
    DAMPING_SHARE,
    FASTEST_DAMPING,
    LARGEST_BANDWIDTH,
    LIGHTEST,
    ROTOR,
    largest_inertia,
    law_gains,
    least_inertia,
    resonances,
)
from rbd_control.control.slotine_li import RollOff, SlotineLiController
from rbd_control.control.trajectory import DesiredState
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.simulation import arm7_urdf

MIDDLE = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.9, 0.0])
EFFORT = np.array([180.0, 180.0, 110.0, 110.0, 60.0, 35.0, 35.0])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def test_the_largest_inertia_is_reached_and_exceeded_by_little(model: Model) -> None:
    """Over 300 postures the largest inertia is at most 15 % above that over 32 of them."""
    q = np.random.default_rng(5).uniform(model.lower_limit, model.upper_limit, (300, 7))
    most = np.diagonal(mass_matrix(model, q), axis1=1, axis2=2).max(axis=0)
    found = largest_inertia(model)
    assert (found <= 1.01 * most).all()
    assert (most < 1.15 * found).all()


def test_an_arm_without_limits_or_mass_has_a_finite_inertia(model: Model) -> None:
    endless = np.full(7, np.inf)
    turning = replace(model, lower_limit=-endless, upper_limit=endless)
    assert np.isfinite(largest_inertia(turning)).all()
    light = replace(model, arrays=model.arrays._replace(mass=1e-9 * model.arrays.mass))
    assert (largest_inertia(light) >= LIGHTEST).all()


def test_gains_of_zero_follow_from_inertia_and_effort(model: Model) -> None:
    m, rate = largest_inertia(model), ControllerParameters().damping_rate
    gains = law_gains(ControllerParameters(), model)
    fastest = FASTEST_DAMPING * least_inertia(model)
    assert (gains.damping == np.minimum(DAMPING_SHARE * EFFORT, fastest)).all()
    slow = (gains.damping + rate * m) / (2.0 * m)
    assert np.allclose(gains.Lambda, np.minimum(slow, LARGEST_BANDWIDTH), rtol=1e-12)
    # Both bounds are reached by some joint, and by some not.
    for reached in (gains.damping == DAMPING_SHARE * EFFORT, gains.Lambda == LARGEST_BANDWIDTH):
        assert reached.any()
        assert not reached.all()
    # The error decays at most as fast as half of s, in every posture.
    assert (gains.Lambda <= 0.5 * (gains.damping / m + rate) + 1e-12).all()


def test_the_least_inertia_is_that_of_a_joint_whose_neighbours_give_way(model: Model) -> None:
    """Torque on one joint accelerates it by (M⁻¹)_ii, with the assumed rotors of all joints."""
    q = np.random.default_rng(0).uniform(model.lower_limit, model.upper_limit, (32, 7))
    M = mass_matrix(model, q) + LIGHTEST * np.eye(7)
    accelerations = np.linalg.solve(M, np.broadcast_to(np.eye(7), M.shape))
    least = [1.0 / max(a[i, i] for a in accelerations) for i in range(7)]
    assert np.allclose(least_inertia(model), least, rtol=1e-9)
    # Parallel axes: the neighbours of joint 3 take most of its inertia.
    assert least_inertia(model)[2] < 0.03 * largest_inertia(model)[2]


@pytest.mark.parametrize(("late", "is_stable"), [(5, True), (40, False)])
def test_an_arm_without_friction_is_stable_in_any_posture(
    model: Model, late: int, is_stable: bool
) -> None:
    """The linear loop at 1 kHz, ``late`` ms late, swings less and less from a random velocity.

    The time constants of its slowest swings are below 0.5 s, so that in 1 s they decay well.
    """
    rng = np.random.default_rng(3)
    q = rng.uniform(model.lower_limit, model.upper_limit, (30, 7))
    M = mass_matrix(model, q)
    gains, rest = law_gains(ControllerParameters(), model), DesiredState.at_rest(np.zeros(7))
    decays = []
    for inertia in M:
        filters = RollOff(7)
        filters.set_resonances(resonances(30.0, model))
        e, e_dot, speeds = np.zeros(7), rng.normal(size=7), []
        sent = [np.zeros(7)] * (late + 1)
        K_D = np.diag(gains.damping) + gains.damping_rate * inertia
        with_rotors = inertia + LIGHTEST * np.eye(7)
        for _ in range(1500):
            errors = filters.track(e, e_dot, 1e-3, rest)
            assert errors is not None
            sent.append(K_D @ (errors.v + gains.Lambda * errors.q))
            e_dot = e_dot - 1e-3 * np.linalg.solve(with_rotors, sent.pop(0))
            e = e + 1e-3 * e_dot
            speeds.append(np.abs(e_dot).max())
        decays.append(max(speeds[-400:]) <= max(speeds[700:1100]))
    assert all(decays) == is_stable


def test_given_gains_are_kept_joint_by_joint(model: Model) -> None:
    usual = law_gains(ControllerParameters(), model)
    one = (0.0, 3.0, *5 * (0.0,))
    gains = law_gains(ControllerParameters(bandwidth=one, damping=one, damping_rate=5.0), model)
    assert gains.Lambda[1] == gains.damping[1] == 3.0
    others = np.arange(7) != 1
    assert (gains.damping[others] == usual.damping[others]).all()
    assert (gains.Lambda[others] <= usual.Lambda[others]).all()
    given = ControllerParameters(bandwidth=(7.0,), damping=(0.4,))
    assert (law_gains(given, model).Lambda == 7.0).all()
    assert (law_gains(given, model).damping == 0.4).all()


def test_a_given_effort_limit_replaces_that_of_the_description(model: Model) -> None:
    weak = law_gains(ControllerParameters(effort_limit=(10.0, *6 * (0.0,))), model)
    usual = law_gains(ControllerParameters(), model)
    assert weak.damping[0] == DAMPING_SHARE * 10.0
    assert (weak.damping[1:] == usual.damping[1:]).all()


def test_without_an_effort_limit_the_inertia_bounds_the_damping(model: Model) -> None:
    endless = replace(model, effort_limit=np.full(7, np.inf))
    gains = law_gains(ControllerParameters(), endless)
    assert (gains.damping == FASTEST_DAMPING * least_inertia(model)).all()
    assert np.isfinite(gains.Lambda).all()


def test_the_law_uses_them(model: Model) -> None:
    gains = law_gains(ControllerParameters(), model)
    law = SlotineLiController(model, ControllerParameters())
    q, still = MIDDLE, np.zeros(7)
    error = np.linspace(0.01, 0.07, 7)
    M = mass_matrix(model, q)
    K_D = np.diag(gains.damping) + gains.damping_rate * M
    expected = -K_D @ (gains.Lambda * error) + law.torque(q, still, q, still, still)
    assert np.allclose(law.torque(q, still, q - error, still, still), expected, rtol=1e-9)


def test_light_joints_resonate_higher(model: Model) -> None:
    m = largest_inertia(model)
    assert np.allclose(resonances(30.0, model), 30.0 * np.sqrt(1.0 + ROTOR / m), rtol=1e-12)
    assert (resonances(0.0, model) == 0.0).all()
