"""The safe torque: exactly zero, or a brake on every joint."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from control_loop import HOME, NO_RATE, SCRIPTED, STILL, Loop, started
from hypothesis import given, settings
from hypothesis import strategies as st

from rbd_control.control import Command, ControllerParameters, PassivityController
from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.dynamics import Model, gravity_torque, kinetic_energy, mass_matrix
from rbd_control.simulation import SimulatedArm, SimulationParameters, arm7_urdf

V = np.array([-1.5, 1.0, 0.5, -0.5, 1.0, -1.0, 1.0])

ROUNDING = 1e-10
"""Error of a torque of 1e2 N·m times a speed of 10 rad/s."""


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


# --- Zero ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("compensated", [False, True])
def test_zero_is_exactly_zero_at_once(model: Model, compensated: bool) -> None:
    """[49] Whatever was sent before, and whatever the arm adds by itself: never -g."""
    parameters = ControllerParameters(
        safe_torque="zero", gravity_compensated=compensated, torque_rate=(50.0,)
    )
    controller = started(model, parameters)
    for k in range(1, 400):
        command = controller.update(0.001 * k, HOME + 1e-6 * k, (0.1 + 1e-6 * k) * V)
    assert command.mode == "hold"
    assert np.abs(command.torque).max() > 1.0
    controller.fault("test")
    for k in range(400, 410):
        command = controller.update(0.001 * k, HOME, 0.1 * V + 1e-6 * k)
        assert command.mode == "safe"
        assert not command.torque.any()


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


def test_a_bad_sample_in_safe_is_zero_at_once(model: Model) -> None:
    """Outside of safe the last torque stands for a few; a brake must not outlive its speed."""
    controller = started(model)
    controller.fault("test")
    assert controller.update(0.001, HOME, V).torque.any()
    for bad in (None, np.full(7, np.nan)):
        command = controller.update(0.002, HOME, bad)
        assert command.mode == "safe"
        assert command.reason.startswith("test; zero torque now: joint states ")
        assert not command.torque.any()
        assert controller.update(0.003, HOME, V).torque.any()


# --- Damping -------------------------------------------------------------------------------------


def power(model: Model, q: np.ndarray, v: np.ndarray, command: Command, own: bool) -> np.ndarray:
    """Return the power of the motors at each joint, without gravity torque [W]."""
    weight = np.zeros(7) if own else gravity_torque(model, q)
    return np.asarray(v * (command.torque - weight))


def test_it_carries_the_weight_and_brakes_each_joint(model: Model) -> None:
    controller = started(model, replace(NO_RATE, safe_damping=7.0))
    for k in range(1, 300):
        controller.update(0.001 * k, HOME, STILL)
    controller.fault("test")
    command = controller.update(0.3, HOME, V)
    brake = command.torque - gravity_torque(model, HOME)
    M = mass_matrix(model, HOME)
    D = 7.0 * np.diag(M)
    assert 0.001 * np.trace(np.linalg.solve(M, np.diag(D))) < 0.5
    assert np.allclose(brake, -D * V, rtol=1e-9)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([1.0, 0.4, 0.2]),
    rate=st.sampled_from([1e9, 20000.0, 900.0, 10.0]),
    period=st.sampled_from([0.001, 0.004, 0.03]),
    own=st.booleans(),
    damping=st.sampled_from([0.0, 10.0, 100.0]),
)
def test_it_never_pushes_a_joint_along_its_motion(
    model: Model, seed: int, share: float, rate: float, period: float, own: bool, damping: float
) -> None:
    """[54] This holds in every sample, for every previous torque and all limits.

    Joints whose gravity torque exceeds the limit are excluded: no torque can hold them.
    """
    random = np.random.default_rng(seed)
    parameters = ControllerParameters(
        torque_share=(share,),
        torque_rate=(rate,),
        gravity_compensated=own,
        safe_damping=damping,
        implausible_jump=10.0,
        **SCRIPTED,
    )
    # A start requires enough torque for the weight.
    controller = started(model, replace(parameters, torque_share=(1.0,)))
    controller.set_parameters(parameters)
    q = HOME + random.uniform(-1.0, 1.0, 7)
    for k in range(1, 6):
        q = np.clip(q + random.uniform(-0.1, 0.1, 7), model.lower_limit, model.upper_limit)
        controller.update(period * k, q, random.uniform(-2.0, 2.0, 7))
    controller.fault("test")
    for k in range(6, 20):
        q = q + random.uniform(-0.05, 0.05, 7)
        v = random.uniform(-2.0, 2.0, 7) * (random.random(7) < 0.9)
        command = controller.update(period * k, q, v)
        assert command.mode == "safe"
        weight = gravity_torque(model, q)
        held = np.abs(weight) <= share * model.effort_limit
        assert (power(model, q, v, command, own)[held] <= ROUNDING).all()
        motors = command.torque + (weight if own else 0.0)
        assert (np.abs(motors)[held] <= (share * model.effort_limit)[held] + ROUNDING).all()
        still = held & (v == 0.0)
        assert np.allclose(motors[still], weight[still], atol=ROUNDING)


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
    controller.fault("test")
    torque = controller.update(0.001, HOME, v).torque[1]
    held = np.sign(weight[1]) * limit[1]
    if speed * weight[1] < 0.0:  # it sinks
        assert torque == pytest.approx(held)
    else:
        assert abs(torque) < 0.999 * abs(held)


def test_a_brake_grows_at_the_torque_rate(model: Model) -> None:
    """The brake starts at zero, as after a torque along the motion; it is removed at once."""
    controller = PassivityController(model, ControllerParameters(torque_rate=(100.0,), **SCRIPTED))
    controller.start(-0.301, HOME, STILL)
    for k in range(-300, 2):  # as long as it takes to know the period of the samples
        controller.update(0.001 * k, HOME, STILL)
    controller.fault("test")
    weight, v = gravity_torque(model, HOME), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    brakes = []
    for k in range(2, 150):
        command = controller.update(0.001 * k, HOME, v)
        assert command.mode == "safe"
        brakes.append(np.abs(command.torque - weight)[:4])
    grown = np.diff(brakes, axis=0)
    assert (grown < 0.1 + 1e-9).all()
    assert np.isclose(grown[0], 0.1).all()
    assert (brakes[-1] > 1.0).all()
    command = controller.update(0.15, HOME, 0.01 * v)
    assert (np.abs(command.torque - weight)[:4] < 0.02 * brakes[-1]).all()


def test_learned_masses_take_nothing_from_the_brake_of_an_arm_that_carries_itself(
    model: Model,
) -> None:
    """The brake grows from its last value, whatever weight the controller has learned beside it."""
    link = model.joint_links[-1]
    learned = model.with_payload(link, 3.0, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    parameters = ControllerParameters(torque_rate=(100.0,), gravity_compensated=True)
    safe = SafeTorque(model, ArmLimits.of(model, parameters), parameters)
    v = np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0])
    motors = gravity_torque(model, HOME)
    for _ in range(1000):
        sent, motors, _ = safe.torque(learned.packed, HOME, v, motors, 0.001, 0.001)
    wanted = -parameters.safe_damping * np.diag(mass_matrix(model, HOME)) * v
    assert np.allclose(sent, wanted, rtol=1e-9)
    assert np.allclose(motors, sent + gravity_torque(model, HOME), rtol=1e-12)


@pytest.mark.parametrize(("rate", "delay"), [(1000.0, 0), (1000.0, 2), (200.0, 1), (50.0, 0)])
@pytest.mark.parametrize("damping", [10.0, 100.0])
def test_it_brings_a_moving_arm_to_rest_at_any_rate(
    model: Model, rate: float, delay: int, damping: float
) -> None:
    """Without friction and with delayed commands no joint oscillates, and energy decreases."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        simulation = SimulationParameters(
            initial_position=tuple(HOME + random.uniform(-0.5, 0.5, 7)),
            rate=rate,
            coulomb=(0.0,),
            viscous=(0.0,),
            encoder_resolution=0.0,
            velocity_from_encoder=False,
            substeps=max(8, round(4000 / rate)),
            command_delay=delay,
        )
        arm = SimulatedArm(model, simulation)
        controller = PassivityController(
            model, ControllerParameters(safe_damping=damping, timeout=0.1)
        )
        controller.start(0.0, arm.q, STILL)
        controller.fault("test")
        arm.step(gravity_torque(model, arm.q))
        arm._v = random.uniform(-1.0, 1.0, 7)
        energies = []
        for _ in range(round(3.0 * rate)):
            sample = arm.reading()
            assert sample is not None
            command = controller.update(sample.stamp, sample.q, arm.v, effort=sample.tau)
            assert command.mode == "safe"
            arm.step(command.torque)
            energies.append(float(kinetic_energy(model, arm.q, arm.v)))
        # The weight is that of the posture a period ago or more; it is what rises a little.
        assert max(energies[delay + 1 :]) < 1.1 * energies[0]
        # At 50 Hz the brake is as weak as its stability demands.
        assert energies[-1] < (0.3 if rate < 100.0 else 0.05) * energies[0]


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
    controller.fault("first")
    k = 0
    for order in ("hold", "float_", "retract", "slow", "cancel", "contact", "release", "fault"):
        try:
            if order in ("contact", "release"):
                controller.contact(order == "contact")
            elif order == "fault":
                controller.fault("second")
            else:
                getattr(controller, order)()
        except ValueError:
            pass
        k += 1
        command = controller.update(0.001 * k, HOME, STILL)
        assert (command.mode, command.reason) == ("safe", "first")
    controller.clock_went_back()
    assert controller.update(-5.0, HOME, STILL, now=0.001 * k).mode == "safe"
    controller.set_parameters(replace(NO_RATE, safe_damping=3.0))
    assert controller.update(-4.999, HOME, STILL, now=0.001 * k).mode == "safe"
    assert controller.resume() == "holding here"
    assert controller.update(-4.998, HOME, STILL, now=0.001 * k).mode == "hold"
