"""The simulated arm: mechanics, sensors and true values, and the loop around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from control_loop import rigid

from rbd_control.control import ControllerParameters, SlotineLiController
from rbd_control.dynamics import (
    Model,
    Rotor,
    frame_jacobian,
    frame_placement,
    gravity_torque,
    kinetic_energy,
    potential_energy,
    with_rotors,
)
from rbd_control.errors import InputError, ParameterError
from rbd_control.simulation import (
    HalfSpace,
    SimulatedArm,
    SimulationParameters,
    Sphere,
    arm7_urdf,
)
from rbd_control.simulation.arm import HIGHEST_SPEED, LARGEST_PUSH

BENT = (0.3, 0.5, -0.2, -1.3, 0.4, 0.9, -0.5)
IDEAL = SimulationParameters(
    initial_position=BENT,
    coulomb=(0.0,),
    viscous=(0.0,),
    encoder_resolution=0.0,
    velocity_from_encoder=False,
    effort_noise=0.0,
)
ROUGH = SimulationParameters(
    initial_position=BENT,
    coulomb=(0.7, 0.7, 0.6, 0.6, 0.4, 0.3, 0.3),
    viscous=(1.0, 1.0, 0.8, 0.8, 0.5, 0.4, 0.3),
    mass_error=0.03,
    command_delay=1,
)


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


def energy(arm: SimulatedArm) -> float:
    q, v = arm.q, arm.v
    return float(kinetic_energy(arm.model, q, v) + potential_energy(arm.model, q))


def unlimited(model: Model) -> Model:
    endless = np.full(model.nv, np.inf)
    return replace(model, lower_limit=-endless, upper_limit=endless)


def hold(
    arm: SimulatedArm, steps: int, each: Callable[[], None] = lambda: None, **gains: Any
) -> None:
    """Keep the arm where it is by the Slotine-Li law."""
    law = SlotineLiController(arm.model, ControllerParameters(**gains))
    q_d, zero = arm.q, np.zeros(arm.model.nv)
    for _ in range(steps):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        arm.step(law.torque(sample.q, sample.v, q_d, zero, zero))
        each()


# --- Mechanics -----------------------------------------------------------------------------------


def test_free_swing_keeps_its_energy(model: Model) -> None:
    """The drift is that of a first-order integrator: small, and halved with the step."""
    drift = []
    for substeps in (10, 20):
        arm = SimulatedArm(unlimited(model), replace(IDEAL, substeps=substeps))
        before, kinetic = energy(arm), 0.0
        for _ in range(400):
            arm.step(np.zeros(7))
            kinetic = max(kinetic, float(kinetic_energy(model, arm.q, arm.v)))
        drift.append((energy(arm) - before) / kinetic)
    # The arm reaches 16 rad/s, where it turns by h |v| = 1.6e-3 rad within a step of 1e-4 s.
    assert abs(drift[0]) < 1e-3
    assert drift[1] == pytest.approx(drift[0] / 2.0, rel=0.05)


def test_power_balance_with_friction_motors_and_pushes(model: Model) -> None:
    parameters = replace(IDEAL, coulomb=(0.5,), viscous=(0.5,), substeps=20)
    arm = SimulatedArm(unlimited(model), parameters)
    arm.push("link_4", (20.0, -10.0, 5.0), (1.0, 0.0, -1.0), 0.3)
    before, work, lost = energy(arm), 0.0, 0.0
    for k in range(500):
        q = arm.q
        arm.step(gravity_torque(model, q) + np.sin(0.02 * k))
        moved = arm.q - q
        work += (arm.torque + arm.external_torque) @ moved
        lost += arm.friction_torque @ moved
        assert arm.friction_torque @ arm.v <= 1e-12
    assert lost < -0.1
    # First order in the substep: the energies are joules, the speeds one rad/s, the step 5e-5 s.
    assert energy(arm) - before == pytest.approx(work + lost, abs=2e-3)


def test_push_is_its_jacobian_transposed(model: Model) -> None:
    arm = SimulatedArm(model, IDEAL)
    force, moment = np.array([3.0, -8.0, 12.0]), np.array([0.5, 0.2, -0.1])
    J = frame_jacobian(model, arm.q, "tool")
    arm.push("tool", force, moment, 0.05)
    arm.step(gravity_torque(model, arm.q))
    # The Jacobian turns with the arm, which gets up to 0.05 rad/s within the millisecond.
    assert np.allclose(arm.external_torque, J.T @ [*moment, *force], rtol=0, atol=1e-3)
    assert arm.in_contact
    assert arm.contact_link == "tool"
    assert np.array_equal(arm.contact_force, force)
    for _ in range(50):
        arm.step(gravity_torque(model, arm.q))
    assert not arm.in_contact
    assert not arm.external_torque.any()


def test_any_friction_only_takes_energy(model: Model) -> None:
    arm = SimulatedArm(model, replace(IDEAL, coulomb=(50.0,), viscous=(1e4,), substeps=1))
    arm.push("tool", (0.0, 600.0, 0.0), (0, 0, 0), 0.01)
    for _ in range(10):
        arm.step(gravity_torque(model, arm.q))
    kinetic = kinetic_energy(model, arm.q, arm.v)
    assert kinetic > 1e-6
    for _ in range(200):
        arm.step(gravity_torque(model, arm.q))
        last, kinetic = kinetic, kinetic_energy(model, arm.q, arm.v)
        assert kinetic <= last
    assert kinetic < 1e-12


@pytest.mark.parametrize("kind", ["sphere", "half-space"])
def test_obstacle_force_is_stiffness_times_depth_at_rest(model: Model, kind: str) -> None:
    parameters = replace(IDEAL, viscous=(2.0,))
    tip = frame_placement(model, np.array(BENT), "tool")[:3, 3]
    radius, k = parameters.link_radius, 5000.0
    normal = np.array([-0.8, 0.0, 0.6])  # the tool is what comes first that way
    # Its surface is 2 cm inside of the capsule's end.
    if kind == "sphere":
        centre = tip - (0.1 + radius - 0.02) * normal
        obstacle: Sphere | HalfSpace = Sphere(tuple(centre), 0.1, k, 300.0)
    else:
        obstacle = HalfSpace(tuple(tip - (radius - 0.02) * normal), tuple(2.0 * normal), k, 300.0)
    arm = SimulatedArm(model, parameters, [obstacle])
    hold(arm, 3000, damping=(1.0,), damping_rate=50.0)
    assert np.abs(arm.v).max() < 1e-4
    contact = arm.contacts[0]
    if isinstance(obstacle, Sphere):
        depth = obstacle.radius - np.linalg.norm(contact.point - obstacle.centre)
    else:
        depth = -(contact.point - obstacle.point) @ normal
    assert 0.001 < depth < 0.02
    # At rest to 1e-4 rad/s, against a damper of 300 N·s/m: 0.03 N.
    assert np.linalg.norm(contact.force) == pytest.approx(k * depth, abs=0.05)
    assert contact.link == "link_7"
    # The same truth in joint torque: J of the link, moved to the point of contact.
    J = frame_jacobian(model, arm.q, "link_7")
    arm_of_force = contact.point - frame_placement(model, arm.q, "link_7")[:3, 3]
    expected = J.T @ [*np.cross(arm_of_force, contact.force), *contact.force]
    assert np.allclose(arm.external_torque, expected, atol=1e-3)


def test_a_very_stiff_obstacle_is_stable_and_never_pulls(model: Model) -> None:
    wall = HalfSpace((0.0, 0.0, 0.1), (0.0, 0.0, 1.0), 1e7, 1e5)
    arm = SimulatedArm(model, replace(IDEAL, viscous=(0.3,), substeps=1), [wall])
    at_first, touched = energy(arm), False
    for _ in range(1500):  # falls limply onto the floor
        arm.step(np.zeros(7))
        touched = touched or arm.in_contact
        assert arm.contact_force[2] >= 0.0
        assert energy(arm) < at_first + 0.1  # J, of 46 released: the integrator is of first order
    assert touched
    assert np.abs(arm.v).max() < 0.5


def test_stops_hold_the_arm(model: Model) -> None:
    arm = SimulatedArm(model, IDEAL)
    push = np.zeros(7)
    push[3] = 60.0
    for _ in range(1500):
        arm.step(gravity_torque(model, arm.q) + push - 1.0 * arm.v)
    over = arm.q[3] - model.upper_limit[3]
    assert over == pytest.approx(60.0 / 20000.0, rel=0.05)  # the stop's stiffness
    assert arm.external_torque[3] == pytest.approx(-60.0, rel=0.05)


# --- Motors and sensors --------------------------------------------------------------------------


def test_motors_clip_hold_and_go_limp(model: Model) -> None:
    arm = SimulatedArm(model, replace(IDEAL, command_timeout=0.02))
    assert not arm.torque.any()
    arm.step(np.full(7, 1e6))
    assert arm.braked is False
    assert np.array_equal(arm.torque, model.effort_limit)
    command = gravity_torque(model, arm.q)
    arm.step(command)
    for _ in range(19):
        arm.step()
        assert np.array_equal(arm.torque, command)
    for _ in range(300):
        arm.step()
        assert not arm.torque.any()
    assert arm.braked
    assert np.abs(arm.v).max() < 1e-6


def test_stands_on_its_brakes_before_the_first_command(model: Model) -> None:
    arm = SimulatedArm(model, IDEAL)
    for _ in range(5000):
        arm.step()
    assert arm.braked
    assert np.abs(arm.q - BENT).max() < 1e-6


def test_command_delay(model: Model) -> None:
    arm = SimulatedArm(model, replace(IDEAL, command_delay=2))
    seen = []
    for k in range(1, 5):
        arm.step(np.full(7, float(k)))
        seen.append(arm.torque[0])
    assert seen == [0.0, 0.0, 1.0, 2.0]


def test_encoders_and_noise(model: Model) -> None:
    step = 1e-3
    arm = SimulatedArm(
        model,
        replace(IDEAL, encoder_resolution=step, velocity_from_encoder=True, effort_noise=0.2),
    )
    noise, speed, true_speed = [], [], []
    command = gravity_torque(model, arm.q)
    command[0] += 2.0
    for _ in range(500):
        arm.step(command)
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        assert sample.tau is not None
        assert np.allclose(sample.q, np.round(sample.q / step) * step)
        assert np.abs(sample.q - arm.q).max() <= 0.5 * step + 1e-12
        noise.append(sample.tau - arm.torque)
        speed.append(sample.v[0])
        true_speed.append(arm.v[0])
    assert sample.stamp == arm.time == 0.5
    assert np.std(noise) == pytest.approx(0.2, rel=0.1)  # 3500 draws
    assert np.mean(speed) == pytest.approx(np.mean(true_speed), abs=0.02)  # the filter's lag


def test_same_seed_same_arm_other_seed_other_arm(model: Model) -> None:
    def run(seed: int) -> np.ndarray:
        arm = SimulatedArm(model, replace(ROUGH, seed=seed))
        for _ in range(50):
            arm.step(gravity_torque(model, np.array(BENT)))
        sample = arm.reading()
        assert sample is not None
        return np.concatenate((sample.q, sample.tau))

    assert np.array_equal(run(1), run(1))
    assert not np.array_equal(run(1), run(2))


def test_dropout(model: Model) -> None:
    arm = SimulatedArm(model, replace(IDEAL, dropout=0.3))
    lost = 0
    for _ in range(1000):
        arm.step(np.zeros(7))
        lost += arm.reading() is None
    assert lost == pytest.approx(300, abs=60)  # four standard deviations


@pytest.mark.parametrize(
    "change",
    [
        {"initial_position": (0.1, *BENT[1:])},
        {"rate": 500.0},
        {"substeps": 1},
        {"coulomb": (0.9,)},
        {"viscous": (0.9,)},
        {"friction_smoothing": 0.1},
        {"mass_error": 0.1},
        {"link_radius": 0.08},
        {"command_delay": 3},
        {"command_timeout": 0.01},
        {"encoder_resolution": 1e-3},
        {"velocity_from_encoder": False},
        {"velocity_cutoff": 20.0},
        {"effort_noise": 0.5},
        {"dropout": 0.9},
        {"seed": 5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_parameter_counts(model: Model, change: dict[str, Any]) -> None:
    tip = frame_placement(model, np.array(BENT), "tool")[:3, 3]

    def run(parameters: SimulationParameters) -> np.ndarray:
        arm = SimulatedArm(model, parameters, [Sphere(tuple(tip - [0.0, 0.0, 0.15]), 0.1)])
        seen = []
        for k in range(60):
            arm.step(0.9 * gravity_torque(model, np.array(BENT)) if k < 30 else None)
            sample = arm.reading()
            seen.append(
                np.full(21, np.nan)
                if sample is None or sample.v is None or sample.tau is None
                else np.concatenate((sample.q, sample.v, sample.tau))
            )
        return np.array(seen)

    assert not np.array_equal(run(ROUGH), run(replace(ROUGH, **change)), equal_nan=True)


def test_bad_input_is_refused(model: Model) -> None:
    arm = SimulatedArm(model, IDEAL)
    before = arm.q
    with pytest.raises(InputError, match=r"tau has shape \(6,\) but the model has nv = 7"):
        arm.step(np.zeros(6))
    with pytest.raises(InputError, match="finite"):
        arm.step(np.full(7, np.nan))
    with pytest.raises(InputError, match="no link 'hand'; links are"):
        arm.push("hand", (1, 0, 0))
    with pytest.raises(InputError, match="link_0.*fixed to the world"):
        arm.push("link_0", (1, 0, 0))
    with pytest.raises(InputError, match="force is"):
        arm.push("tool", (1, 0, np.inf))
    with pytest.raises(InputError, match="duration"):
        arm.push("tool", (1, 0, 0), duration=np.nan)
    assert np.array_equal(arm.q, before)
    assert arm.time == 0.0
    with pytest.raises(ParameterError, match="initial_position of joint_2 is 2.5, outside"):
        SimulatedArm(model, replace(IDEAL, initial_position=(0, 2.5, 0, 0, 0, 0, 0)))
    with pytest.raises(ParameterError, match="coulomb has 2 values"):
        SimulatedArm(model, replace(IDEAL, coulomb=(1.0, 2.0)))
    with pytest.raises(InputError, match="floating base"):
        SimulatedArm(Model.from_urdf(arm7_urdf(), floating_base=True))
    with pytest.raises(InputError, match="radius"):
        Sphere((0, 0, 0), 0.0)
    with pytest.raises(InputError, match="stiffness"):
        Sphere((0, 0, 0), 0.1, -1.0)
    with pytest.raises(InputError, match="normal has no length"):
        HalfSpace((0, 0, 0), (0, 0, 0))
    with pytest.raises(InputError, match="three"):
        HalfSpace((0, 0), (0, 0, 1))  # type: ignore[arg-type]


# --- Changes of a running arm ---------------------------------------------------------------------


@pytest.mark.parametrize("mass_error", [0.0, 0.1])
def test_a_changed_arm_goes_on_as_an_arm_made_with_the_change(
    model: Model, mass_error: float
) -> None:
    loaded = model.with_payload("tool", 2.0, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    other = replace(IDEAL, mass_error=mass_error, coulomb=(3.0,), viscous=(2.0,))
    made = SimulatedArm(loaded, other)
    changed = SimulatedArm(model, replace(IDEAL, mass_error=mass_error))
    changed.set_model(loaded)
    changed.set_friction(other)
    assert changed.parameters == other
    for _ in range(20):
        made.step(np.zeros(7))
        changed.step(np.zeros(7))
    assert np.array_equal(made.q, changed.q)
    assert np.array_equal(made.friction_torque, changed.friction_torque)
    # State and pushes of the arm itself are kept.
    q, time = changed.q, changed.time
    changed.push("link_4", (20.0, 0.0, 0.0))
    changed.set_model(model)
    assert np.array_equal(changed.q, q)
    assert changed.time == time
    changed.step()
    assert changed.in_contact


def test_a_change_to_another_arm_is_refused(model: Model) -> None:
    arm = SimulatedArm(model, IDEAL)
    with pytest.raises(InputError, match="other joints or links"):
        arm.set_model(Model.from_urdf(arm7_urdf(), locked={"joint_7": 0.0}))
    with pytest.raises(InputError, match="another number of rotors"):
        arm.set_model(with_rotors(model, {"joint_7": Rotor(100.0, 1e-4)}))
    with pytest.raises(InputError, match="three finite numbers"):
        arm.push("link_4", ("x", 0.0, 0.0))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="viscous has 2 values"):
        arm.set_friction(replace(IDEAL, coulomb=(9.0,), viscous=(1.0, 2.0)))
    assert arm.model is model
    assert arm.parameters == IDEAL


# --- The loop ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [1, 5])
def test_stiff_gains_track_without_chatter(model: Model, delay: int) -> None:
    """Four seconds with friction, wrong masses, 19-bit encoders and late commands."""
    amplitude = np.array([0.6, 0.45, 0.5, 0.5, 0.7, 0.5, 0.8])
    frequency = np.array([1.5, 1.8, 2.1, 1.7, 2.3, 2.6, 2.8])
    arm = SimulatedArm(model, replace(ROUGH, command_delay=delay))
    law = SlotineLiController(model, rigid())
    error, torque = [], []
    for _ in range(4000):
        sample = arm.reading()
        assert sample is not None
        assert sample.v is not None
        t = sample.stamp
        x = min(t, 1.0)  # swells within the first second
        swell = np.array([1.0, x, x**2, x**3, x**4, x**5])
        r, r1, r2 = (
            swell @ c
            for c in ([0, 0, 0, 10, -15, 6], [0, 0, 30, -60, 30, 0], [0, 60, -180, 120, 0, 0])
        )
        s, c = np.sin(frequency * t), np.cos(frequency * t) * frequency
        q_d = BENT + amplitude * r * s
        v_d = amplitude * (r1 * s + r * c)
        a_d = amplitude * (r2 * s + 2.0 * r1 * c - r * frequency**2 * s)
        torque.append(law.torque(sample.q, sample.v, q_d, v_d, a_d))
        error.append(arm.q - q_d)
        arm.step(torque[-1])
    rms = np.sqrt(np.mean(np.square(error)))
    ripple = np.sqrt(np.mean(np.square(np.diff(torque[100:], axis=0)), axis=0))
    assert rms < 0.015
    assert np.abs(error).max() < 0.06
    # One encoder count of velocity is worth about 1 N·m in joint 2; chatter would be tens.
    assert np.all(ripple < 0.01 * model.effort_limit)


def test_a_push_that_no_arm_withstands_leaves_finite_joint_states() -> None:
    arm = SimulatedArm(Model.from_urdf(arm7_urdf()))
    arm.push("link_7", (0.0, 0.0, 0.0), (0.0, 0.0, LARGEST_PUSH), duration=0.2)
    for _ in range(300):
        arm.step(np.zeros(7))
        reading = arm.reading()
        assert reading is not None
        assert reading.v is not None
        assert np.isfinite(reading.q).all()
        assert np.abs(reading.v).max() <= HIGHEST_SPEED
        assert np.isfinite(arm.external_torque).all()
    assert arm.stops
