"""Energy: the balance the law promises in discrete time, loops that are not passive, the tank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from control_loop import IDEAL, Loop, rigid

from rbd_control.control import (
    Command,
    ControllerParameters,
    EnergyBalance,
    EnergyMonitor,
    EnergyParameters,
    EnergyTank,
    PassivityController,
    SlotineLiController,
    SoftLimits,
)
from rbd_control.control.torque_path import TorqueLimits
from rbd_control.dynamics import Model, dynamics_terms, gravity_torque, kinetic_energy
from rbd_control.errors import InputError, ParameterError
from rbd_control.simulation import HalfSpace, SimulatedArm, SimulationParameters, arm7_urdf

DT = 1e-3
LAW = ControllerParameters(bandwidth=(20.0,), damping_rate=30.0, damping=(2.0,))
START_OFF = replace(IDEAL, initial_position=(0.03, -0.02, 0.03, 0.04, -0.03, 0.02, 0.03))
DEFAULT = EnergyParameters()


def arm7() -> Model:
    return Model.from_urdf(arm7_urdf())


def balances(
    parameters: ControllerParameters,
    plant: SimulationParameters,
    *,
    energy: EnergyParameters = DEFAULT,
    push: float = 0.0,
    cut: float = np.inf,
    seconds: float = 1.5,
) -> Iterator[tuple[EnergyBalance, SimulatedArm, np.ndarray]]:
    """Each period's balance, the arm and s, tracking sines from a start away from them.

    ``push`` [N] on the tool along y from 0.5 to 0.7 s; torques are cut at ``cut`` [N·m].
    """
    model = arm7()
    arm, law = SimulatedArm(model, plant), SlotineLiController(model, parameters)
    monitor = EnergyMonitor(model, parameters, energy)
    w, Lambda = np.linspace(1.0, 3.0, 7), parameters.for_joints("bandwidth", 7)
    for k in range(round(seconds / DT)):
        t = k * DT
        q_d, v_d, a_d = 0.5 * (1 - np.cos(w * t)), 0.5 * w * np.sin(w * t), w**2 * np.cos(w * t)
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        tau = law.torque(sample.q, sample.v, q_d, v_d, 0.5 * a_d)
        state = (sample.q, sample.v, q_d, v_d)
        yield (
            monitor.update(*state, tau, arm.torque, DT),
            arm,
            state[1] - v_d + Lambda * (sample.q - q_d),
        )
        if push and k == 500:
            arm.push("tool", (0.0, push, 0.0), duration=0.2)
        arm.step(np.clip(tau, -cut, cut))


# --- The balance ---------------------------------------------------------------------------------


def test_storage_and_dissipation_are_those_of_the_matrices() -> None:
    model = arm7()
    parameters = ControllerParameters(
        bandwidth=tuple(np.linspace(10.0, 40.0, 7)), damping=tuple(np.linspace(1.0, 4.0, 7))
    )
    monitor = EnergyMonitor(model, parameters, DEFAULT)
    Lambda, D = np.diag(parameters.bandwidth), np.diag(parameters.damping)
    q, v, q_d, v_d, law, acting = np.random.default_rng(0).normal(size=(6, 7))
    monitor.update(q, v, q_d, v_d, law, acting, 0.0)
    e, e_dot = q - q_d, v - v_d
    s = e_dot + Lambda @ e
    M = dynamics_terms(model, q, v).M
    K_D = D + parameters.damping_rate * M
    balance = monitor.update(q, v, q_d, v_d, law, acting, DT)
    K = 2.0 * Lambda @ D
    assert balance.storage == pytest.approx(0.5 * s @ M @ s + 0.5 * e @ K @ e, rel=1e-12)
    # The same state again: nothing more is stored, and K_D dissipates what it takes.
    assert balance.dissipated == pytest.approx(DT * s @ K_D @ s, rel=1e-12)
    assert balance.injected == pytest.approx(DT * s @ (acting - law), rel=1e-12)
    assert balance.rise == 0.0
    assert balance.supplied == pytest.approx(balance.dissipated - balance.injected, rel=1e-12)


def test_the_controller_stores_what_the_docs_promise() -> None:
    """V = ½ sᵀ M s + ½ eᵀ K e of the desired motion; the second term was always zero once."""
    model, q = arm7(), START + np.array([0.01, -0.02, 0.01, 0.02, 0.03, -0.02, 0.01])
    parameters = rigid(damping=(3.0,), tracking_limit=(100.0,), velocity_mismatch=0.0)
    controller = PassivityController(model, parameters)
    controller.start(0.0, START, np.zeros(7))
    rng = np.random.default_rng(0)
    for k in range(1, 120):
        v = 0.05 * rng.normal(size=7)
        command = controller.update(0.001 * k, q, v)
        balance = controller.energy.balance()
    assert balance is not None
    e = q - command.q_d
    assert np.abs(e).max() > 0.01
    s = v - command.v_d + 40.0 * e
    M = dynamics_terms(model, q, v).M
    elastic = 40.0 * 3.0 * e @ e
    assert elastic > 0.1
    assert balance.storage == pytest.approx(0.5 * s @ M @ s + elastic, rel=1e-9)


def test_where_references_are_bounded_no_more_is_stored_than_was_put_in() -> None:
    """Pushed far off and led back: dissipation is never negative, and V stays a storage."""
    model = arm7()
    parameters = replace(LAW, damping=(5.0,))
    soft = SoftLimits(model, parameters)
    law = SlotineLiController(model, parameters, soft)
    monitor = EnergyMonitor(model, parameters, DEFAULT, soft)
    bounded, zero, taken, first = 0, np.zeros(7), 0.0, None
    for k in range(4000):
        t = k * DT
        q = START + 1.2 * np.sin(1.5 * t) * np.array([1.0, 0.3, 1.0, 0.2, 1.0, 0.3, 1.0])
        v = 1.8 * np.cos(1.5 * t) * np.array([1.0, 0.3, 1.0, 0.2, 1.0, 0.3, 1.0])
        asked = law.step(q, v, START, zero, zero)
        balance = monitor.update(q, v, START, zero, asked.torque, asked.torque, DT, v_r=asked.v_r)
        e, M = q - START, dynamics_terms(model, q, v).M
        bounded += bool((asked.v_r != -20.0 * e).any())
        full = 0.5 * asked.s @ M @ asked.s + 100.0 * e @ e
        depth = np.maximum(soft.lower_limit - q, 0.0) + np.maximum(q - soft.upper_limit, 0.0)
        full += 0.5 * soft.stiffness @ depth**2
        assert balance.dissipated >= 0.0
        assert 0.0 <= balance.storage <= full + 1e-9
        first = balance.storage if first is None else first
        taken += balance.rise + balance.dissipated
        # Along s the surroundings have supplied whatever V holds more, and what was dissipated.
        assert balance.supplied == pytest.approx(
            balance.rise + balance.dissipated - balance.injected, abs=1e-9
        )
    assert bounded > 1000
    assert taken > 0.0


def test_sampled_law_on_an_exact_model_keeps_to_the_bound() -> None:
    """V rises by at most the bound minus the dissipation in every period, and decreases overall.

    The remaining error is mostly that of the plant, whose implicit steps of 0.125 ms have an error
    of a per cent at rates of 50 1/s and more. The curvature of powers within a period is 2e-4 of
    them, (50 dt)² / 12.
    """
    seen = list(balances(LAW, START_OFF))[1:]
    for balance, _, _ in seen:
        slack = 2e-2 * balance.dissipated + 1e-9
        assert balance.rise <= balance.bound - balance.dissipated + slack
        assert abs(balance.supplied) <= slack
        assert balance.injected <= balance.bound + 1e-12
        assert balance.passive
        assert balance.rise <= balance.bound
    first, last = seen[0][0].storage, seen[-1][0].storage
    assert last < 1e-5 * first


def test_the_bound_is_of_second_order() -> None:
    """Half the period: a quarter of the bound of each, for the same motion at the same time."""
    model, law = arm7(), SlotineLiController(arm7(), LAW)
    bounds = []
    for dt in (2.5e-4, 1.25e-4):
        arm = SimulatedArm(model, replace(START_OFF, rate=1.0 / dt))
        monitor = EnergyMonitor(model, LAW, DEFAULT)
        zero, total = np.zeros(7), 0.0
        for _ in range(2):
            state = (arm.q, arm.v, zero, zero)
            tau = law.torque(*state, zero)
            total = monitor.update(*state, tau, arm.torque, dt).bound
            arm.step(tau)
        bounds.append(total)
    assert bounds[0] == pytest.approx(4.0 * bounds[1], rel=0.1)


def test_a_push_is_found_as_supplied_energy() -> None:
    """The estimate, which measures no push, equals the true energy of the simulation."""
    supplied, truth, last = 0.0, 0.0, np.zeros(7)
    for balance, arm, s in balances(LAW, IDEAL, push=30.0):
        supplied += balance.supplied
        truth += 0.5 * DT * float(arm.external_torque @ (s + last))
        last = s
        assert balance.passive
    assert truth > 0.01
    # The push begins and ends within a period, where the trapezoid of s is off by a few per cent.
    assert supplied == pytest.approx(truth, rel=0.05)


# --- Loops that are not passive ------------------------------------------------------------------


@pytest.mark.parametrize("plant", [IDEAL, SimulationParameters()], ids=["ideal", "real"])
def test_delay_is_added_until_storage_grows_and_the_monitor_says_so(
    plant: SimulationParameters,
) -> None:
    """With growing delay the monitor reports passive until V grows, and not passive then."""
    parameters = rigid()
    quiet = None
    for delay in range(0, 20, 2):
        seen = list(balances(parameters, replace(plant, command_delay=delay), seconds=1.0))
        settled = seen[delay + 100 :]  # The arm waits with closed brakes for the first command.
        highest = max(balance.storage for balance, _, _ in settled)
        said = not all(balance.passive for balance, _, _ in settled)
        quiet = highest if quiet is None else quiet
        grown = highest > 10.0 * quiet and highest > 1.0
        assert said == grown, f"delay {delay}: V up to {highest:g} J, reported: {said}"
        if grown:
            return
    pytest.fail("no delay made the loop unstable")


def test_saturation_is_reported() -> None:
    """Half of the torque that the motion needs is not to be had."""
    assert all(balance.passive for balance, _, _ in balances(LAW, IDEAL))
    assert not all(balance.passive for balance, _, _ in balances(LAW, IDEAL, cut=10.0))


# --- The tank ------------------------------------------------------------------------------------

START = np.array([-0.6, 1.0, 0.0, -0.6, 0.0, 0.5, 0.0])
GOAL = np.array([0.9, 1.0, 0.0, -0.6, 0.0, 0.5, 0.0])
WALL = HalfSpace((0.0, 0.1, 0.0), (0.0, -1.0, 0.0), stiffness=3000.0, damping=20.0)
TANK = EnergyParameters(tank_capacity=2.0, tank_refill=1.0)


def collision(energy: EnergyParameters) -> tuple[float, float]:
    """Return the largest work on a wall in the path of a trajectory, and the tank's bound [J]."""
    model, parameters = arm7(), rigid()
    noisy = SimulationParameters(initial_position=tuple(START))
    arm = SimulatedArm(model, noisy, [WALL])
    law, limits = SlotineLiController(model, parameters), TorqueLimits(model, parameters)
    tank = EnergyTank(model, parameters, energy)
    work, most, promise, zero = 0.0, 0.0, None, np.zeros(7)
    for k in range(2500):
        x = min(k * DT, 1.0)
        q_d = START + (10.0 * x**3 - 15.0 * x**4 + 6.0 * x**5) * (GOAL - START)
        v_d = (30.0 * x**2 - 60.0 * x**3 + 30.0 * x**4) * (GOAL - START)
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        q, v = sample.q, sample.v
        asked = law.step(q, v, q_d, v_d, zero)
        wanted = limits.cut(asked.torque, model.packed, q, v, asked.s, DT)
        limited = tank.limit(q, v, wanted, DT)
        sent = tank.sent(limited, limits.cut(limited, model.packed, q, v, v, DT))
        before = arm.q
        arm.step(sent)
        if arm.in_contact and promise is None:
            promise = float(kinetic_energy(model, arm.q, arm.v)) + max(tank.level, 0.0)
        if promise is not None:
            work -= float(arm.external_torque @ (arm.q - before))
            most = max(most, work)
            promise += energy.tank_refill * DT
    assert promise is not None
    return most, promise


def test_energy_injected_after_a_collision_is_bounded() -> None:
    most, promise = collision(TANK)
    unbounded, _ = collision(DEFAULT)
    # Kinetic energy of the first contact, content and refill of the tank: what the wall may get.
    assert 0.5 < most <= promise
    assert most < 0.5 * unbounded


def test_level_is_the_work_that_was_done() -> None:
    """The account against the simulation: work of the torque beyond gravity, exactly as held."""
    model, parameters = arm7(), rigid()
    arm = SimulatedArm(model, replace(IDEAL, initial_position=tuple(START)))
    law = SlotineLiController(model, parameters)
    tank = EnergyTank(model, parameters, replace(TANK, tank_capacity=50.0, tank_refill=0.0))
    work, lowest = 0.0, 50.0
    for _ in range(300):
        tau = law.torque(arm.q, arm.v, GOAL, np.zeros(7), np.zeros(7))
        tau = tank.limit(arm.q, arm.v, 0.1 * tau, DT)
        lowest = min(lowest, tank.level)
        if tank.level < 50.0:
            assert tank.level == pytest.approx(50.0 - work, abs=1e-9)
        before, weight = arm.q, gravity_torque(model, arm.q)
        arm.step(tau)
        # At the capacity energy is thrown away, and the account begins anew.
        work = max(0.0, work + float((tau - weight) @ (arm.q - before)))
    assert lowest < 49.0


@pytest.mark.parametrize("rate", [300.0, 1000.0])
def test_the_rate_limit_does_not_overdraw_the_tank(rate: float) -> None:
    """The torque falls slowly, and the tank takes what drives the arm at once: 20 J were missing.

    The account is kept here from the torques that were sent and the motion of the arm.
    """
    capacity, refill = 0.5, 1.0
    loop = Loop(
        arm7(),
        torque_rate=(rate,),
        tank_capacity=capacity,
        tank_refill=refill,
        tracking_limit=(100.0,),
        overspeed_factor=4.9,
    )
    loop.run(0.2)
    loop.follow(loop.arm.q + np.array([1.2, 0.0, 0.0, 0.7, 0.0, 0.0, 0.0]), 1.0)
    # The arm has moved already: the lag of such a rate makes it swing at rest.
    level = lowest = loop.controller.law.tank.level
    unforeseen, limited = 0.0, 0

    def account(command: Command) -> None:
        """Account for the period that the torque was held: the arm has moved on by it."""
        nonlocal level, lowest, unforeseen, limited, q, v
        pushing = command.torque - gravity_torque(loop.controller.model, q)
        level = min(level + refill * DT - float(pushing @ (loop.arm.q - q)), capacity)
        lowest = min(lowest, level)
        # What a change of speed adds within a period cannot be foreseen.
        unforeseen = max(unforeseen, 2.0 * DT * float(np.abs(pushing) @ np.abs(loop.arm.v - v)))
        limited += command.rate_limited
        q, v = loop.arm.q.copy(), loop.arm.v.copy()

    q, v = loop.arm.q.copy(), loop.arm.v.copy()
    loop.run(1.0, account)
    assert limited > 100
    assert lowest < 0.1 * capacity  # the tank was needed
    assert lowest > -unforeseen - 0.01
    assert unforeseen < 0.5 * capacity


def test_a_motor_too_weak_for_its_weight_keeps_its_limit() -> None:
    """The joint falls, which the empty tank cannot prevent by more than the motor has."""
    tank = EnergyTank(arm7(), LAW, replace(TANK, tank_capacity=1e-6))
    weight = gravity_torque(arm7(), START)
    largest = 0.5 * np.abs(weight) + 0.1
    asked = np.clip(weight, -largest, largest)
    limited = tank.limit(START, -5.0 * np.sign(weight), asked, DT)
    sent = tank.sent(limited, asked.copy(), (-largest, largest))
    assert (np.abs(sent) <= largest).all()


def test_without_capacity_torques_pass() -> None:
    tank = EnergyTank(arm7(), LAW, DEFAULT)
    tau = np.arange(7.0)
    assert tank.limit(START, START, tau, DT) is tau
    assert tank.share == 1.0


def test_friction_is_no_injection() -> None:
    """Known friction of a moving joint is made good without draining the tank."""
    friction: dict[str, Any] = {
        "friction_model": "coulomb_viscous",
        "friction_coulomb": (5.0,),
        "friction_viscous": (2.0,),
    }
    levels = []
    for parameters in (LAW, replace(LAW, **friction)):
        tank = EnergyTank(arm7(), parameters, replace(TANK, tank_refill=0.0))
        v = np.full(7, 0.1)
        for k in range(3):
            q = START + v * DT * k
            tank.limit(q, v, gravity_torque(arm7(), q) + 5.2, DT)
        levels.append(tank.level)
    assert levels[0] == pytest.approx(2.0 - 2 * 7 * 5.2 * 0.1 * DT, rel=1e-6)
    assert levels[1] == pytest.approx(2.0, abs=1e-9)


# --- Parameters and bad input --------------------------------------------------------------------


def monitored(energy: EnergyParameters) -> int:
    """Periods not passive on a loop that is late."""
    late = replace(IDEAL, command_delay=8)
    parameters = rigid()
    return sum(not b.passive for b, _, _ in balances(parameters, late, energy=energy, seconds=0.4))


def drained(energy: EnergyParameters) -> np.ndarray:
    """Return the torque after half a second of pushing."""
    tank, v = EnergyTank(arm7(), LAW, energy), np.full(7, 0.3)
    wanted = gravity_torque(arm7(), START) + 4.0
    return [tank.limit(START + v * DT * k, v, wanted, DT) for k in range(500)][-1]


OTHER = {
    "passivity_margin": 1.0,
    "passivity_tolerance": 20.0,
    "passivity_window": 0.5,
    "tank_capacity": 4.0,
    "tank_refill": 5.0,
    "tank_valve": 1.0,
}


@pytest.mark.parametrize("name", [item.name for item in fields(EnergyParameters)])
def test_every_parameter_counts(name: str) -> None:
    changed = replace(TANK, **{name: OTHER[name]})
    if name.startswith("tank"):
        assert abs(drained(changed) - drained(TANK)).max() > 1e-3
    else:
        assert monitored(changed) != monitored(TANK)


def test_bad_input_is_refused_and_changes_nothing() -> None:
    model = arm7()
    monitor, tank = EnergyMonitor(model, LAW, DEFAULT), EnergyTank(model, LAW, TANK)
    state = list(np.random.default_rng(0).normal(size=(6, 7)))
    monitor.update(*state, DT)
    tank.limit(*state[:3], DT)
    names = ("q", "v", "q_d", "v_d", "law", "acting")
    for i, name in enumerate(names):
        with pytest.raises(InputError, match=rf"{name} has shape \(6,\) but .* nv = 7"):
            monitor.update(*state[:i], np.zeros(6), *state[i + 1 :], DT)
        with pytest.raises(InputError, match="not finite"):
            monitor.update(*state[:i], np.full(7, np.nan), *state[i + 1 :], DT)
    for i, name in enumerate(("q", "v", "tau")):
        for bad in (np.zeros(6), np.full(7, np.nan)):
            with pytest.raises(InputError, match=f"^{name} "):
                tank.limit(*state[:i], bad, *state[i + 1 : 3], DT)
    for dt in (0.0, -DT, np.nan):
        with pytest.raises(InputError, match="dt is"):
            monitor.update(*state, dt)
        with pytest.raises(InputError, match="dt is"):
            tank.limit(*state[:3], dt)
    again = monitor.update(*state, DT)
    assert again.rise == 0.0
    assert tank.level == TANK.tank_capacity
    with pytest.raises(InputError, match="floating base"):
        EnergyMonitor(Model.from_urdf(arm7_urdf(), floating_base=True), LAW, DEFAULT)
    with pytest.raises(ParameterError, match="damping has 2 values"):
        EnergyTank(model, replace(LAW, damping=(1.0, 2.0)), TANK)


def test_a_tank_with_other_parameters_goes_on_with_the_present_period() -> None:
    """The weight of the period was lost, and its work counted gravity as injected."""
    model = arm7()
    q, v = START.copy(), np.full(7, -0.1)
    before = EnergyTank(model, LAW, TANK)
    after = EnergyTank(model, LAW, TANK)
    tau = gravity_torque(model, q) + 0.5
    before.limit(q, v, tau, DT)
    after.take_over(before)
    levels = []
    for tank in (before, after):
        tank.acts(gravity_torque(model, q))
        tank.limit(q + DT * v, v, tau, DT)
        levels.append(tank.level)
    assert levels[0] == levels[1]
    # Gravity compensation injects nothing.
    assert levels[0] == pytest.approx(TANK.tank_capacity, abs=1e-9)


def test_there_is_no_balance_before_the_first_torque_with_new_parameters() -> None:
    """It raised an AssertionError."""
    loop = Loop(arm7(), velocity_limit=(2.0,))
    loop.run(0.1)
    controller = loop.controller
    assert controller.energy.balance(None) is not None
    controller.set_parameters(replace(controller.parameters, tank_capacity=5.0))
    assert controller.energy.balance(None) is None
    loop.run(0.01)
    assert controller.energy.balance(None) is not None


def test_friction_that_is_not_known_any_more_is_no_loss() -> None:
    """The friction at the change was taken off the work for ever."""
    model = arm7()
    q, v = START.copy(), np.full(7, 0.2)
    rough = replace(LAW, friction_model="coulomb_viscous", friction_coulomb=(3.0,))
    tank = replace(TANK, tank_refill=0.0)
    before, after = EnergyTank(model, rough, tank), EnergyTank(model, LAW, tank)
    tau = gravity_torque(model, q) + 1.0
    before.limit(q, v, tau, DT)
    after.take_over(before)
    after.limit(q := q + DT * v, v, tau, DT)
    level, pushed = after.level, tau - gravity_torque(model, q)
    after.limit(q + DT * v, v, tau, DT)
    assert after.level == pytest.approx(level - DT * v @ pushed, rel=1e-9)


def test_an_empty_tank_does_not_damp_an_arm_that_floats() -> None:
    """Guiding the arm by hand after a collision had to overcome all of K_D."""
    loop = Loop(arm7(), tank_capacity=2.0, stop_time=0.01)
    loop.run(0.05)
    controller = loop.controller
    controller.law.tank._level = 0.0
    controller.modes.order("float")
    q, v = loop.arm.q, np.full(7, 0.2)
    controller.update(loop.arm.time + 0.0005, q, 0.0 * v)  # an arm in motion is braked first
    for k in range(1, 4):
        command = controller.update(loop.arm.time + 0.001 * k, q + 0.001 * k * v, v)
    weight = gravity_torque(controller.model, q + 0.003 * v)
    assert command.mode == "float"
    assert np.abs(command.torque - weight).max() < 0.01
