"""Drives that act against their commands are named, and pushes on healthy arms are not mistaken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from control_loop import HOME, SHIPPED, Loop

from rbd_control.control import Command
from rbd_control.control.drive_response import CERTAIN, WrongDrive, find_fault
from rbd_control.dynamics import Model, kinetic_energy, mass_matrix
from rbd_control.joint_states.checks import NO_JOINT, PASSED, Checks, make_settings
from rbd_control.simulation import arm7_urdf

FRICTION = {"coulomb": (0.3,), "viscous": (0.3,)}
NAMED = ("dead drive", "are swapped")


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.from_urdf(arm7_urdf())


@dataclass
class Wired:
    """A run of 0.6 s with motors that are wired by a matrix, 3 ms late; then it ends."""

    command: Command
    faulted: float
    """Time of the switch to mode safe [s]."""
    named: float
    """Time at which the drive was named [s]."""
    later: np.ndarray
    """(samples, 7) torque 10 ms after it was named, and later [N·m]."""


def run(
    model: Model, wiring: np.ndarray, q: np.ndarray, target: float = 0.0, repeats: int = 1
) -> Wired:
    """Hold the arm, or move it by ``target``, with the default gains at 1 kHz.

    The hardware has new values after each ``repeats`` joint states.
    """
    loop = Loop(model, q, simulated={**FRICTION, "command_delay": 3}, **SHIPPED)
    if target:
        loop.follow(q + target, 0.6)
    faulted = named = np.inf
    later = []
    seen = loop.arm.reading()
    for k in range(600):
        sample = loop.arm.reading()
        assert sample is not None
        seen = sample if k % repeats == 0 or seen is None else seen
        command = loop.controller.update(sample.stamp, seen.q, seen.v, effort=sample.tau)
        loop.arm.step(wiring @ command.torque)
        if command.mode == "safe":
            faulted = min(faulted, 0.001 * k)
            if any(text in command.reason for text in NAMED):
                named = min(named, 0.001 * k)
        if 0.001 * k > named + 0.01:
            later.append(command.torque)
    return Wired(command, faulted, named, np.array(later))


@pytest.mark.parametrize(
    ("joint", "target", "repeats"),
    [(0, 0.4, 1), (1, 0.0, 1), (3, 0.0, 1), (5, 0.0, 1), (6, 0.4, 1), (1, 0.0, 10), (3, 0.0, 20)],
)
def test_a_reversed_drive_is_named_and_gets_no_torque(
    model: Model, joint: int, target: float, repeats: int
) -> None:
    """Joints without weight are found in a motion. Repeated joint states hide nothing."""
    wiring = np.eye(7)
    wiring[joint, joint] = -1.0
    wired = run(model, wiring, HOME + 0.2, target, repeats)
    assert wired.named <= wired.faulted + 0.05
    assert f"reversed or dead drive: joint_{joint + 1} " in wired.command.reason
    assert "its torque is zero until the next activation" in wired.command.reason
    assert (wired.later[:, joint] == 0.0).all()
    # The other joints still carry their weight or brake.
    assert (np.abs(np.delete(wired.later, joint, axis=1)).max(axis=0) > 0.0).all()


@pytest.mark.parametrize(("first", "seed"), [(0, 0), (1, 1), (2, 2)])
def test_swapped_motors_are_named(model: Model, first: int, seed: int) -> None:
    """If no joint is too fast before 50 ms have passed, the time that the comparison takes."""
    wiring = np.eye(7)
    wiring[[first, first + 1]] = wiring[[first + 1, first]]
    q = np.random.default_rng(seed).uniform(0.5 * model.lower_limit, 0.5 * model.upper_limit)
    wired = run(model, wiring, q)
    assert wired.named <= wired.faulted + 0.05
    pair = f"the motors of joint_{first + 1} and joint_{first + 2} are swapped"
    assert pair in wired.command.reason
    assert (wired.later[:, [first, first + 1]] == 0.0).all()


@pytest.mark.parametrize(("proven", "is_named"), [((), True), ((0,), False), ((0, 1), False)])
def test_motors_that_have_moved_their_joints_are_not_swapped(
    proven: tuple[int, ...], is_named: bool
) -> None:
    """Friction and coupling made a moving, healthy wrist show the torque of its neighbour."""
    memory = Checks((WrongDrive,), 2).memory
    for name in WrongDrive.JOINT:
        memory.joint[name] = 1.0
    memory.pairs[:], memory.arm["compared"] = [[0.0, 1.0], [1.0, 0.0]], 1.0
    memory.joint["proof"] = np.isin(np.arange(2), proven)
    settings = make_settings(2, {"effort": 1.0, "slowest": 0.5}, {"delay": 0.0})
    i, j = find_fault(np.array([1.0, 1.0]), settings, memory, CERTAIN)
    assert (i, j) == ((0, 1) if is_named else (PASSED, NO_JOINT))


@pytest.mark.parametrize("seed", range(3))
def test_an_arm_that_gains_energy_in_safe_gets_no_torque(model: Model, seed: int) -> None:
    """Three motors in a ring are neither reversed nor swapped, and no fit names them."""
    wiring = np.eye(7)
    wiring[:3, :3] = np.eye(3)[[1, 2, 0]]
    q = np.random.default_rng(seed).uniform(0.5 * model.lower_limit, 0.5 * model.upper_limit)
    loop = Loop(model, q, simulated={**FRICTION, "command_delay": 3}, **SHIPPED)
    loop.controller.modes.fault("test")
    largest = 0.0
    for _ in range(1500):
        sample = loop.arm.reading()
        assert sample is not None
        command = loop.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
        loop.arm.step(wiring @ command.torque)
        if command.torque.any():
            largest = max(largest, float(kinetic_energy(model, loop.arm.q, loop.arm.v)))
    assert not command.torque.any()
    assert "although it was braked" in command.reason or "swapped" in command.reason
    # What the fastest joint may have at its bound, and what falls until then.
    fastest = 1.2 * model.velocity_limit.max()
    assert largest < 0.5 * np.abs(mass_matrix(model, q)).max() * fastest**2


@pytest.mark.parametrize("joint", [1, 3])
def test_a_dead_drive_is_named(model: Model, joint: int) -> None:
    """Its joint falls. A push may look alike, so its torque remains."""
    wiring = np.eye(7)
    wiring[joint, joint] = 0.0
    wired = run(model, wiring, HOME + 0.2)
    assert wired.named <= wired.faulted + 0.06
    reason = wired.command.reason
    assert f"reversed or dead drive, or a push: joint_{joint + 1} moves against" in reason
    assert (np.abs(wired.later).max(axis=0) > 0.0).all()


def test_a_drive_that_dies_later_is_named(model: Model) -> None:
    loop = Loop(model, HOME + 0.2, simulated=FRICTION, **SHIPPED)
    loop.follow(HOME + 0.5, 1.0)
    loop.run(1.5)
    reason = ""
    for _ in range(400):
        sample = loop.arm.reading()
        assert sample is not None
        command = loop.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
        loop.arm.step(np.where(np.arange(7) == 1, 0.0, 1.0) * command.torque)
        reason = command.reason
    assert "; dead drive, or a push: joint_2 moves against its torque" in reason
    assert "its torque is zero" not in reason
    assert command.torque[1] != 0.0


@pytest.mark.parametrize("is_proven", [False, True])
def test_a_push_on_a_proven_drive_is_a_push(model: Model, is_proven: bool) -> None:
    """1.8 times the torque of joint 2, against it: as a reversed drive, unless it is known."""
    loop = Loop(model, HOME + 0.2, simulated=FRICTION, **SHIPPED)
    if is_proven:
        loop.follow(HOME + 0.5, 1.0)
    loop.run(1.5)
    loop.controller.modes.fault("test")
    reason = ""
    for _ in range(120):
        sample = loop.arm.reading()
        assert sample is not None
        command = loop.controller.update(sample.stamp, sample.q, sample.v, effort=sample.tau)
        loop.arm.step(np.where(np.arange(7) == 1, -0.8, 1.0) * command.torque)
        reason = command.reason
    assert "reversed" in reason
    assert not (is_proven and "reversed or dead drive: joint_2" in reason)


def test_a_start_trusts_the_drive_again(model: Model) -> None:
    loop = Loop(model, simulated=FRICTION, **SHIPPED)
    loop.controller.modes.fault("test")
    loop.controller.path.distrust((1,))
    assert loop.run(0.05).torque[1] == 0.0
    sample = loop.arm.reading()
    assert sample is not None
    loop.controller.start(sample.stamp, sample.q, sample.v)
    assert loop.run(0.05).torque[1] != 0.0


@pytest.mark.parametrize("seed", range(6))
def test_pushes_name_no_drive(model: Model, seed: int) -> None:
    """Half sines and held forces of 10 to 60 N on any link, in hold, in motion and in safe."""
    assert not pushed(model, seed)


def pushed(model: Model, seed: int) -> str:
    """Push an arm for 0.9 s at 250 Hz; return the reason of a mode that names a drive."""
    random = np.random.default_rng(seed)
    q = random.uniform(0.5 * model.lower_limit, 0.5 * model.upper_limit)
    simulated = {**FRICTION, "rate": 250.0, "command_delay": int(random.integers(0, 3))}
    loop = Loop(model, q, simulated=simulated, **SHIPPED)
    loop.run(0.1)
    if seed % 2:
        loop.follow(q - 0.3 * np.sign(q), 1.0)
    duration, is_held = random.choice([0.05, 0.1, 0.4]), seed % 3 == 0
    force = random.uniform(10.0, 60.0) * unit(random)
    link = model.joint_links[random.integers(3, 7)]
    for k in range(200):
        t = 0.004 * k
        if t < duration:
            share = 1.0 if is_held else np.sin(np.pi * t / duration)
            loop.arm.push(link, tuple(share * force), duration=0.004)
        if seed % 4 == 3 and k == 20:
            loop.controller.modes.fault("test")
        command = loop.run(0.004)
        if any(text in command.reason for text in NAMED):
            return command.reason
    return ""


def unit(random: np.random.Generator) -> np.ndarray:
    """Return a random unit vector, (3,)."""
    x = random.normal(size=3)
    return np.asarray(x / np.linalg.norm(x))
