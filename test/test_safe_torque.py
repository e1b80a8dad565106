"""The safe torque: a brake of all joints that drives no arm, or exactly zero."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, SCRIPTED, STILL, Loop, give, started
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from rbd_control.control import ControllerParameters, PassivityController, kernels
from rbd_control.control.gains import HELD
from rbd_control.control.kernels import LARGEST_STEP
from rbd_control.control.limits import ArmLimits
from rbd_control.control.safe_torque import STILL as STANDING
from rbd_control.control.safe_torque import Overshoot, SafeTorque
from rbd_control.control.torque_path import LEAST_BRAKE
from rbd_control.dynamics import Model, gravity_torque, kinetic_energy, mass_matrix
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

_apart = kernels.apart_momentum


@njit
def apart_momentum(M, apart, v, p):  # type: ignore[no-untyped-def]
    _apart(M, apart, v, p)


V = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, -1.0, 1.0])

ROUNDING = 1e-10
"""Error of a torque of 1e2 N·m times a speed of 10 rad/s."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# --- Zero ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compensated", [False, True])
def test_zero_is_the_brake_alone_and_exactly_zero_at_rest(model: Model, compensated: bool) -> None:
    """Whatever was sent before, and whatever the arm adds by itself: never -g."""
    parameters = replace(NO_RATE, safe_torque="zero", gravity_compensated=compensated)
    controller = started(model, parameters)
    # A joint that no torque brakes while it moves has a dead drive, so it is slow until the fault.
    for k in range(1, 400):
        command = controller.update(0.001 * k, HOME + 1e-6 * k, (0.01 + 1e-6 * k) * V)
    assert command.mode == "hold"
    controller.modes.fault("test")
    M, rate = mass_matrix(model, HOME), parameters.damping_rate
    for k in range(400, 410):
        v = 0.1 * V + 1e-6 * k
        command = controller.update(0.001 * k, HOME, v)
        assert np.allclose(command.torque, -rate * M @ v, rtol=1e-9)
    still = 0.99 * STANDING * np.sign(V)
    # A joint that stands does not end the brake of the others.
    one_stands = np.where(np.arange(7) == 3, 0.0, 1.02 * still)
    for k, v in enumerate((still, 1.02 * still, still, one_stands, still)):
        command = controller.update(0.41 + 0.001 * k, HOME, v)
        assert command.mode == "safe"
        assert bool(command.torque.any()) == (k in (1, 3))


@pytest.mark.parametrize("compensated", [False, True])
@pytest.mark.parametrize("way", ["silence", "nan", "no velocity", "jump", "frozen", "raises"])
def test_without_good_joint_states_it_is_exactly_zero(
    model: Model, monkeypatch: pytest.MonkeyPatch, compensated: bool, way: str
) -> None:
    parameters = replace(NO_RATE, gravity_compensated=compensated, bad_samples=2)
    if way == "frozen":
        parameters = replace(parameters, repeated_time=0.015)
    controller = started(model, parameters)
    controller.update(0.001, HOME, V)
    if way == "silence":
        command = controller.silence(1.0)
        assert command is not None
    elif way == "raises":
        monkeypatch.setattr(controller.law, "torque", None)
        command = controller.update(0.002, HOME, V + 1e-6)
    else:
        q = np.full(7, np.nan) if way == "nan" else HOME + (0.5 if way == "jump" else 0.0)
        for k in range(2, 30):
            v = None if way == "no velocity" else V
            command = controller.update(0.001 * k, q, v)
            if command.mode == "safe":
                break
    assert command.mode == "safe"
    assert not command.torque.any()


def test_a_stamp_that_is_no_number_is_unusable_although_the_rest_repeats(model: Model) -> None:
    controller = started(model, NO_RATE)
    before = controller.update(0.001, HOME, STILL)
    for k in range(2, 2 + NO_RATE.bad_samples):
        assert controller.mode == "hold"
        command = controller.update(float("nan"), HOME, STILL, now=0.001 * k)
    assert (before.mode, command.mode) == ("hold", "safe")
    assert not command.torque.any()


def test_a_bad_sample_in_safe_is_zero_at_once(model: Model) -> None:
    """Outside of safe the last torque stands for a few; a brake must not outlive its speed."""
    controller = started(model)
    controller.modes.fault("test")
    assert controller.update(0.001, HOME, V).torque.any()
    for bad in (None, np.full(7, np.nan)):
        command = controller.update(0.002, HOME, bad)
        assert command.mode == "safe"
        assert command.reason.startswith("test; zero torque now: joint states ")
        assert not command.torque.any()
        assert controller.update(0.003, HOME, V).torque.any()


# --- Damping -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_it_carries_the_weight_and_slows_all_joints_at_one_rate(model: Model, seed: int) -> None:
    """In any posture ``v_dot = -damping_rate v``, apart from the Coriolis acceleration."""
    random = np.random.default_rng(seed)
    q = random.uniform(0.9 * model.lower_limit, 0.9 * model.upper_limit)
    rate = random.uniform(5.0, 50.0)
    v = random.uniform(-0.3, 0.3, 7)
    controller = started(model, replace(NO_RATE, damping_rate=rate), q)
    for k in range(1, 300):
        controller.update(0.001 * k, q, STILL)
    controller.modes.fault("test")
    command = controller.update(0.3, q, v)
    brake = command.torque - gravity_torque(model, q)
    assert np.allclose(np.linalg.solve(mass_matrix(model, q), brake), -rate * v, rtol=1e-6)


def test_its_rate_is_limited_by_period_and_delay(model: Model) -> None:
    """At 50 Hz, with a ``loop_delay`` of 10 ms."""
    controller = started(model, replace(NO_RATE, loop_delay=0.01, timeout=0.1, damping_rate=2.0))
    for k in range(1, 300):  # as long as it takes to know the period of the samples
        controller.update(0.02 * k, HOME, STILL)
    controller.set_parameters(replace(controller.parameters, damping_rate=80.0))
    controller.modes.fault("test")
    command = controller.update(6.0, HOME, 0.1 * V)
    brake = command.torque - gravity_torque(model, HOME)
    rate = LARGEST_STEP / (HELD * 0.02 + 0.01)
    M = mass_matrix(model, HOME)
    assert np.allclose(np.linalg.solve(M, brake), -rate * 0.1 * V, rtol=1e-4)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([1.0, 0.4, 0.2]),
    rate=st.sampled_from([1e9, 20000.0, 900.0, 10.0]),
    period=st.sampled_from([0.001, 0.004, 0.03]),
    own=st.booleans(),
    resonance=st.sampled_from([0.0, 30.0]),
    damping_rate=st.sampled_from([0.0, 12.0, 100.0]),
)
def test_its_power_is_never_positive(
    model: Model,
    seed: int,
    share: float,
    rate: float,
    period: float,
    own: bool,
    resonance: float,
    damping_rate: float,
) -> None:
    """In every sample, for every last torque and all limits, at the measured velocities.

    The gravity torque of a weak joint is limited; the brake is the remainder.
    """
    random = np.random.default_rng(seed)
    given: dict[str, Any] = {
        **SCRIPTED,
        "torque_share": (share,),
        "torque_rate": (rate,),
        "gravity_compensated": own,
        "resonance": resonance,
        "implausible_jump": 10.0,
    }
    # A start requires enough torque for the weight, and stable gains.
    ready = {**given, "torque_share": (1.0,), "bandwidth": (3.0,), "damping_rate": 6.0}
    controller = started(model, ControllerParameters(**ready))
    controller.set_parameters(ControllerParameters(**{**given, "damping_rate": damping_rate}))
    q = HOME + random.uniform(-1.0, 1.0, 7)
    for k in range(1, 6):
        q = np.clip(q + random.uniform(-0.1, 0.1, 7), model.lower_limit, model.upper_limit)
        controller.update(period * k, q, random.uniform(-2.0, 2.0, 7))
    controller.modes.fault("test")
    limit = share * model.effort_limit
    for k in range(6, 20):
        q = q + random.uniform(-0.05, 0.05, 7)
        v = random.uniform(-2.0, 2.0, 7) * (random.random(7) < 0.9)
        command = controller.update(period * k, q, v)
        assert command.mode == "safe"
        if "drive" in command.reason or "swapped" in command.reason:
            return  # random joint states look like those of drives that are wired wrong
        weight = gravity_torque(model, q)
        carried = np.clip(weight, -limit, limit)
        brake = command.torque - (0.0 if own else carried)
        assert (np.abs(carried + brake) <= limit + ROUNDING).all()
        assert v @ brake <= ROUNDING


@pytest.mark.parametrize("speed", [-0.1, 0.1])
def test_a_motor_too_weak_for_the_weight_gives_all_its_torque(model: Model, speed: float) -> None:
    """It cannot brake a sinking joint; a motion against gravity is still damped."""
    weight = gravity_torque(model, HOME)
    limit = np.full(7, 87.0)
    limit[1] = 0.5 * abs(weight[1])
    v = np.zeros(7)
    v[1] = speed
    controller = started(model, NO_RATE)
    controller.set_parameters(
        replace(NO_RATE, effort_limit=tuple(limit), torque_share=(1.0,))  # not enough for a start
    )
    controller.modes.fault("test")
    torque = controller.update(0.001, HOME, v).torque[1]
    held = np.sign(weight[1]) * limit[1]
    if speed * weight[1] < 0.0:  # it sinks
        assert torque == pytest.approx(held)
    else:
        assert abs(torque) < 0.999 * abs(held)


def test_a_joint_without_torque_to_spare_is_left_out_of_the_brake_of_the_others(
    model: Model,
) -> None:
    """The brake of all joints together contains its velocity, which no torque brakes."""
    limit = np.array(model.effort_limit)
    limit[1] = 0.5 * abs(gravity_torque(model, HOME)[1])
    controller = started(model, NO_RATE)
    controller.set_parameters(replace(NO_RATE, effort_limit=tuple(limit), torque_share=(1.0,)))
    controller.modes.fault("test")
    v = np.zeros(7)
    v[1] = -np.sign(gravity_torque(model, HOME)[1])  # it sinks, and no other joint moves
    command = controller.update(0.001, HOME, v)
    weight = np.clip(gravity_torque(model, HOME), -limit, limit)
    assert command.torque == pytest.approx(weight, abs=1e-9)


def test_a_brake_grows_at_the_torque_rate(model: Model) -> None:
    """The brake starts at zero, as after a torque along the motion; it is removed at once."""
    controller = PassivityController(model, ControllerParameters(torque_rate=(100.0,), **SCRIPTED))
    controller.start(-0.301, HOME, STILL)
    for k in range(-300, 2):  # as long as it takes to know the period of the samples
        controller.update(0.001 * k, HOME, STILL)
    controller.modes.fault("test")
    weight, v = gravity_torque(model, HOME), 0.5 * V
    wanted = np.abs(SCRIPTED["damping_rate"] * mass_matrix(model, HOME) @ v)
    brakes = []
    for k in range(2, 150):
        command = controller.update(0.001 * k, HOME, v)
        assert command.mode == "safe"
        brakes.append(np.abs(command.torque - weight))
    grown = np.diff(brakes, axis=0)
    assert (grown < 0.1 + 1e-9).all()
    assert np.isclose(grown[0], np.minimum(0.1, wanted - brakes[0])).all()
    assert np.allclose(brakes[-1], np.minimum(wanted, brakes[0] + 0.1 * len(grown)))
    command = controller.update(0.15, HOME, 0.01 * v)
    assert (np.abs(command.torque - weight) < 0.011 * wanted).all()


def test_learned_masses_take_nothing_from_the_brake_of_an_arm_that_carries_itself(
    model: Model,
) -> None:
    """The brake grows from its last value, whatever weight the controller has learned beside it."""
    link = model.joint_links[-1]
    learned = model.with_payload(link, 3.0, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    parameters = ControllerParameters(torque_rate=(100.0,), gravity_compensated=True)
    rate = parameters.damping_rate
    safe = SafeTorque(model, ArmLimits.of(model, parameters), parameters)
    v = np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0])
    motors = gravity_torque(model, HOME)
    for _ in range(1000):
        together, times = np.zeros(7, np.bool_), (0.001, 0.001)
        sent, motors, _ = safe.torque(learned.packed, HOME, v, v, together, motors, times)
    wanted = -rate * mass_matrix(model, HOME) @ v
    assert np.allclose(sent, wanted, rtol=1e-9)
    assert np.allclose(motors, sent + gravity_torque(model, HOME), rtol=1e-12)


@pytest.mark.parametrize(
    ("rate", "delay"),
    [(1000.0, 3), (1000.0, 8), (1000.0, 15), (250.0, 2), (100.0, 1), (50.0, 0)],
)
def test_it_brings_a_moving_arm_to_rest_in_a_late_loop(
    model: Model, rate: float, delay: int
) -> None:
    """With the default gains and little friction, from half of the velocity limits.

    At 50 Hz, from a fifth: light joints change their velocity too much between two samples.
    Coriolis torques exchange energy between the joints. No joint becomes faster than 1.2 times the
    fastest at the fault.
    """
    share = 0.5 if rate > 50.0 else 0.2
    for seed in range(3):
        random = np.random.default_rng(seed)
        q = random.uniform(0.6 * model.lower_limit, 0.6 * model.upper_limit)
        simulation = SimulationParameters(
            initial_position=tuple(q),
            rate=rate,
            coulomb=(0.3,),
            viscous=(0.3,),
            velocity_from_encoder=False,
            substeps=max(2, round(2000 / rate)),
            command_delay=delay,
        )
        arm = SimulatedArm(model, simulation)
        controller = PassivityController(model, ControllerParameters(timeout=0.1))
        controller.start(0.0, arm.q, STILL)
        controller.modes.fault("test")

        def step(
            arm: SimulatedArm = arm, controller: PassivityController = controller
        ) -> tuple[float, float]:
            """Advance by one period; return the kinetic energy and the largest speed."""
            sample = arm.reading()
            assert sample is not None
            command = controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
            assert command.mode == "safe"
            arm.step(command.torque)
            return float(kinetic_energy(model, arm.q, arm.v)), float(np.abs(arm.v).max())

        for _ in range(delay + 3):  # until gravity is compensated
            step()
        arm._v = share * random.uniform(-1.0, 1.0, 7) * model.velocity_limit
        energy, fastest = float(kinetic_energy(model, arm.q, arm.v)), np.abs(arm.v).max()
        steps = np.array([step() for _ in range(round(0.8 * rate))])
        assert steps[:, 0].max() <= energy
        assert steps[:, 1].max() <= 1.2 * fastest
        assert steps[-1, 0] < 0.01 * energy


def test_a_brake_that_is_too_late_is_halved_until_it_does_not_overshoot(model: Model) -> None:
    """A rate of 80 1/s in a loop that is late by 40 ms, which ``loop_delay`` does not know."""
    loop = Loop(model, simulated={"rate": 500.0, "command_delay": 20, "coulomb": (0.0,)})
    loop.controller.modes.fault("test")
    loop.run(0.1)
    loop.arm._v = np.array([1.0, *6 * (0.0,)])
    command = loop.run(1.5)
    assert "test; the brake of the safe torque overshot" in command.reason
    assert LEAST_BRAKE <= loop.controller.path.brake_share <= 0.5
    assert np.abs(loop.arm.v).max() < 0.1
    sample = loop.arm.reading()
    assert sample is not None
    loop.controller.start(sample.stamp, sample.q, sample.v)
    assert loop.controller.path.brake_share == 1.0


def test_a_slow_joint_that_swings_with_all_its_torque_is_an_overshoot(model: Model) -> None:
    """The same loop; the first joint is heavy for its motor, and swings at less than 0.1 rad/s."""
    share = (0.005, *6 * (1.0,))
    simulated = {"rate": 500.0, "command_delay": 20, "coulomb": (0.0,)}
    loop = Loop(model, simulated=simulated, torque_share=share)
    loop.controller.modes.fault("test")
    loop.run(0.1)
    loop.arm._v = np.array([0.09, *6 * (0.0,)])
    loop.run(1.5)
    assert loop.controller.path.brake_share <= 0.5
    torques = np.array([loop.run(0.002).torque[0] for _ in range(250)])
    assert np.abs(torques).max() < 0.5 * 0.005 * model.effort_limit[0]


@pytest.mark.parametrize(
    ("frequency", "full", "is_found"), [(9.0, 0.5, True), (9.0, 50.0, False), (4.0, 0.5, False)]
)
def test_the_weakest_brake_is_weakened_by_hard_and_fast_overshoots_only(
    frequency: float, full: float, is_found: bool
) -> None:
    """At 0.6 rad/s a brake that needs its torque limit at 0.5 rad/s is hard."""
    overshoot, found = Overshoot(1), False
    for k in range(200):
        v = 0.6 * np.sin([2.0 * np.pi * frequency * 0.005 * k])
        found |= overshoot.found(0.005, np.eye(1), v, np.array([full]), is_weakest=True)
    assert found == is_found


def test_hard_overshoots_of_the_weakest_brake_halve_it(model: Model) -> None:
    path = Loop(model).controller.path
    shares = []
    for factor in (0.5, 0.0, 0.5, 0.5):
        path.weaken_brake(factor)
        shares.append(path.brake_share / LEAST_BRAKE)
    assert shares == [8.0, 1.0, 0.5, 0.25]


def test_a_fault_in_motion_ends_at_rest(model: Model) -> None:
    loop = Loop(model)
    loop.follow(HOME + 0.5, 0.6)
    loop.run(0.3)
    assert np.abs(loop.arm.v).max() > 0.5
    assert loop.controller.silence(9.0) is not None
    assert loop.run(1.0).mode == "safe"
    assert np.abs(loop.arm.v).max() < 0.02


def test_from_safe_only_resume_leads_out(model: Model) -> None:
    controller = started(model)
    controller.modes.fault("first")
    k = 0
    for order in ("hold", "float", "retract", "slow", "cancel", "contact", "release", "fault"):
        try:
            if order in ("contact", "release"):
                controller.contact(order == "contact")
            elif order == "fault":
                controller.modes.fault("second")
            else:
                give(controller, order)
        except ValueError:
            pass
        k += 1
        command = controller.update(0.001 * k, HOME, STILL)
        assert (command.mode, command.reason) == ("safe", "first")
    controller.clock_went_back()
    assert controller.update(-5.0, HOME, STILL, now=0.001 * k).mode == "safe"
    controller.set_parameters(replace(NO_RATE, damping_rate=30.0))
    assert controller.update(-4.999, HOME, STILL, now=0.001 * k).mode == "safe"
    assert controller.resume() == "holding here"
    assert controller.update(-4.998, HOME, STILL, now=0.001 * k).mode == "hold"


@pytest.mark.parametrize("apart", [(1,), (0,), (1, 3), (4, 5, 6), tuple(range(7))])
def test_a_joint_that_is_braked_apart_is_braked_no_faster_than_the_loop_bears(
    model: Model, apart: tuple[int, ...]
) -> None:
    """Its own inertia M_ii may be thirty times the one that its torque meets."""
    chosen, random = np.isin(np.arange(7), apart), np.random.default_rng(0)
    for _ in range(20):
        M = mass_matrix(model, random.uniform(model.lower_limit, model.upper_limit))
        D, p = np.zeros((7, 7)), np.zeros(7)
        for j in range(7):
            apart_momentum(M, chosen, np.eye(7)[j], p)
            D[:, j] = p
        rates = np.sort(np.linalg.eigvals(np.linalg.solve(M, D)).real)
        assert 0.8 < rates[-1] <= 1.0 + 1e-9
        assert np.allclose(D, D.T, atol=1e-9)
        assert not D[np.ix_(chosen, ~chosen)].any()
