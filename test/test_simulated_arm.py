"""The simulated arm: mechanics, sensors and true values, and the loop around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rbd_control.control import ControllerParameters, SlotineLiController
from rbd_control.dynamics import (
    Model,
    frame_jacobian,
    frame_placement,
    gravity_torque,
    kinetic_energy,
    potential_energy,
)
from rbd_control.simulation import (
    HalfSpace,
    SimulatedArm,
    SimulationParameters,
    Sphere,
)

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
    hold(arm, 1500, damping=(1.0,), damping_rate=50.0)
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


# --- Changes of a running arm ---------------------------------------------------------------------


def test_a_changed_arm_goes_on_as_an_arm_made_with_the_change(model: Model) -> None:
    loaded = model.with_payload("tool", 2.0, (0.0, 0.0, 0.1), np.zeros((3, 3)))
    other = replace(IDEAL, mass_error=0.1, coulomb=(3.0,), viscous=(2.0,))
    made = SimulatedArm(loaded, other)
    changed = SimulatedArm(model, replace(IDEAL, mass_error=0.1))
    changed.set_model(loaded)
    changed.set_friction(other.coulomb_viscous(7))
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


# --- The loop ------------------------------------------------------------------------------------
