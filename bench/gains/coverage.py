"""``python -m bench.gains.coverage``: whether standard errors hold although the model is wrong.

Simulated arms move without contact. Besides noise they have errors that neither the identification
of drive gains nor the diagnosis knows: wrong masses, centres of mass and moments of inertia,
friction that fades while the arm warms up, grows with the load and near standstill, and velocities
that are late. The benchmark counts the estimates within two standard errors of the truth, and the
recordings of motor currents that the diagnosis calls motor currents.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from rich.console import Console

from bench.contacts.arms import arm as published_arm
from bench.gains.arm import CENTRE, COULOMB, GAINS, ROTORS, VISCOUS, Array, urdf
from bench.gains.study import GAP, MASS
from rbd_control.dynamics import Model, gravity_torque, inverse_dynamics
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import (
    DriveGain,
    GainEvidence,
    KnownPayload,
    RecordedMotion,
    diagnose,
)
from rbd_control.identification.drive_gains import USABLE_ERROR, DriveGainError, drive_gains
from rbd_control.robot.inertial_corrections import corrected_model

RATE = 125.0
SPEEDS = (0.15, 0.3, 0.5, 0.8)
"""Largest speeds of the joints [rad/s]."""
SECONDS = (20.0, 30.0, 40.0)
"""Lengths of the recordings [s]."""
MASS_ERRORS = (0.03, 0.05)
"""Standard deviations of the relative errors of the masses."""
COM_ERROR = 0.005
"""Standard deviation of the errors of the centres of mass along each axis [m]."""
PLACE = (0.02, 0.0, 0.09)
"""Centre of mass of the payload in the frame of the last link [m]."""


class Kind(NamedTuple):
    """Usual properties of a kind of arm, one value for each joint."""

    centre: Sequence[float] | Array
    """Middle of the motion [rad]."""
    coulomb: Sequence[float] | Array
    """Coulomb friction [N·m]."""
    viscous: Sequence[float] | Array
    """Viscous friction [N·m·s/rad]."""
    rotors: Sequence[float] | Array
    """Inertia of motors and gears at the joint [kg·m²]."""
    gains: Sequence[float] | Array
    """Torque per current [N·m/A]."""
    noise: float
    """Standard deviation of the noise of the torque [N·m]."""


KINDS = {
    "panda": Kind(
        (0.0, 0.0, 0.0, -1.8, 0.0, 1.5, 0.0),
        (0.6, 0.7, 0.6, 0.6, 0.4, 0.3, 0.3),
        (1.0, 1.0, 1.0, 1.0, 0.6, 0.5, 0.5),
        (0.4, 0.4, 0.3, 0.3, 0.1, 0.1, 0.1),
        (8.0, 9.0, 7.0, 7.5, 5.0, 4.0, 3.0),
        0.05,
    ),
    "ur10e": Kind(CENTRE, COULOMB, VISCOUS, ROTORS, GAINS, 1.0),
}
"""The arms: joint-torque sensors, and a UR10e with wrists of their true size."""


@cache
def description(kind: str) -> Model:
    """Return the description of an arm, one of :data:`KINDS`."""
    return Model.from_urdf(urdf()) if kind == "ur10e" else published_arm(kind).model


@dataclass(frozen=True, eq=False)
class WrongArm:
    """An arm that differs from its description in more than noise."""

    kind: str
    true: Model
    seed: int

    @classmethod
    def drawn(cls, kind: str, seed: int, payload: float = 0.0) -> WrongArm:
        """Return a random arm that carries a payload [kg] at :data:`PLACE`."""
        random, described = np.random.default_rng(seed), description(kind)
        errors = np.zeros((described.nv, 5))
        masses = described.arrays.mass[described.dof_row]
        errors[:, 0] = MASS_ERRORS[seed % 2] * random.normal(size=described.nv) * masses
        errors[:, 1:4] = COM_ERROR * random.normal(size=(described.nv, 3))
        true = corrected_model(described, errors)
        second = np.array(true.arrays.second_moment)
        second *= (1.0 + 0.1 * random.normal(size=len(second)))[:, None, None]
        true = replace(true, arrays=true.arrays._replace(second_moment=second))
        if payload:
            inertia = 1e-3 * payload * np.eye(3)
            true = true.with_payload(true.joint_links[-1], payload, np.array(PLACE), inertia)
        return cls(kind, true, seed)

    def recorded(self) -> RecordedMotion:
        """Return a motion whose efforts are joint torques; speed and length follow the seed."""
        kind, n = KINDS[self.kind], self.true.nv
        random = np.random.default_rng(10_000 + self.seed)
        seconds, speed = SECONDS[self.seed % 3], SPEEDS[self.seed % 4]
        t = np.arange(0.0, seconds, 1.0 / RATE)
        q, v, a = np.tile(np.array(kind.centre), (t.size, 1)), *np.zeros((2, t.size, n))
        for _ in range(4):
            w, phase = random.uniform(0.5, 2.2, n) * 2.0 * speed, random.uniform(0.0, 6.3, n)
            size = np.minimum(0.3, speed / (3.0 * w))
            angle = t[:, None] * w + phase
            q += size * np.sin(angle)
            v += size * w * np.cos(angle)
            a -= size * w**2 * np.sin(angle)
        need = inverse_dynamics(self.true, q, v, a) + np.array(kind.rotors) * a
        torque = need + _friction(kind, t, v, need, random)
        torque += kind.noise * random.normal(size=v.shape)
        late = t - random.uniform(0.0, 0.004)
        measured = np.stack([np.interp(late, t, column) for column in v.T], axis=1)
        measured += 1e-3 * random.normal(size=v.shape)
        return RecordedMotion(f"{self.kind} {self.seed}", t, q, measured, torque)


def _friction(kind: Kind, t: Array, v: Array, need: Array, random: np.random.Generator) -> Array:
    """Return friction that the identification does not describe, (k, nv) [N·m]."""
    n = v.shape[1]
    coulomb, viscous = (np.array(x) * random.uniform(0.7, 1.3, n) for x in kind[1:3])
    warm = 1.0 + 0.1 * random.normal(size=n) * np.exp(-t[:, None] / (0.4 * t[-1]))
    static = 1.0 + random.uniform(0.0, 0.3, n) * np.exp(-np.square(v / 0.1))
    dry = (coulomb * warm * static + 0.04 * np.abs(need)) * np.tanh(v / 0.01)
    bent = v * np.maximum(np.abs(v), 1e-9) ** -0.1
    return np.asarray(dry + viscous * warm * bent + coulomb * random.uniform(-0.05, 0.05, n))


class Estimate(NamedTuple):
    """An estimate, its standard error, and the true value."""

    value: float
    error: float
    true: float

    @property
    def is_covered(self) -> bool:
        """Whether the truth is within two standard errors."""
        return abs(self.value - self.true) <= 2.0 * self.error


def payload(kind: str, seed: int, mass: float) -> Estimate | None:
    """Return the payload that the diagnosis estimates [kg]; None if the motion determines none."""
    motion = WrongArm.drawn(kind, seed, mass).recorded()
    lines = diagnose([motion], description(kind), DetectorParameters()).lines
    (line,) = (one for one in lines if one.topic == "payload")
    found, error = line.values["mass"], line.values["deviation"]
    if not isinstance(found, float) or not isinstance(error, float):
        return None
    return Estimate(found, error, mass)


def currents(kind: str, seed: int) -> RecordedMotion:
    """Return a motion with motor currents as efforts."""
    motion = WrongArm.drawn(kind, seed).recorded()
    return replace(motion, tau=motion.tau / np.array(KINDS[kind].gains))


def gains(kind: str, seed: int, *, loaded: bool = False) -> tuple[DriveGain, ...]:
    """Return the drive gains, identified with or without a motion with a known payload."""
    known: tuple[KnownPayload, ...] = ()
    if loaded:
        carried = WrongArm.drawn(kind, seed, MASS).recorded()
        carried = replace(carried, tau=carried.tau / np.array(KINDS[kind].gains))
        known = (KnownPayload([carried], MASS),)
    try:
        return drive_gains(
            [currents(kind, seed)], description(kind), GAP, GainEvidence(payloads=known)
        )[0]
    except DriveGainError as error:
        return error.gains


def causes(seed: int, *, are_currents: bool) -> str:
    """Return what the diagnosis says about efforts of a UR10e: currents, or without gravity."""
    arm, motion = description("ur10e"), currents("ur10e", seed)
    if not are_currents:
        torque = WrongArm.drawn("ur10e", seed).recorded()
        motion = replace(torque, tau=torque.tau - gravity_torque(arm, torque.q))
    lines = diagnose([motion], arm, DetectorParameters()).lines
    return "; ".join(line.text for line in lines if line.level == "bad" and line.topic == "effort")


def main(arguments: Sequence[str]) -> None:
    """Print the coverage of gains and payloads, and the diagnosis of currents."""
    parser = argparse.ArgumentParser(prog="python -m bench.gains.coverage", description=__doc__)
    parser.add_argument("--arms", type=int, default=32, help="arms of each kind (default: 32)")
    parser.add_argument("--part", choices=PARTS, help="only this part (default: all)")
    given = parser.parse_args(arguments)
    console, seeds = Console(width=120, highlight=False), range(given.arms)
    for name in PARTS if given.part is None else (given.part,):
        for row in PARTS[name](seeds):
            console.print(row, markup=False)


def _gain_rows(seeds: Sequence[int]) -> Iterator[str]:
    for kind, loaded in product(KINDS, (False, True)):
        every = [gains(kind, seed, loaded=loaded) for seed in seeds]
        usable = [
            Estimate(one.gain, one.standard_error, true)
            for found in every
            for one, true in zip(found, KINDS[kind].gains, strict=True)
            if one.relative_error <= USABLE_ERROR
        ]
        name = f"gains of {kind}, {'with payload' if loaded else 'free motion'}"
        yield f"{_covered(name, usable)}; usable {len(usable)} of {sum(map(len, every))}"


def _payload_rows(seeds: Sequence[int]) -> Iterator[str]:
    for kind, mass in product(KINDS, (0.5, 2.0)):
        found = [payload(kind, seed, mass) for seed in seeds]
        yield _covered(f"payload of {mass} kg, {kind}", [one for one in found if one is not None])


def _current_rows(seeds: Sequence[int]) -> Iterator[str]:
    for are_currents, word in ((True, "motor current"), (False, "torque_without_gravity")):
        said = [causes(seed, are_currents=are_currents) for seed in seeds]
        right = sum(word in one and are_currents != ("gravity" in one) for one in said)
        yield f"ur10e, {word}: {right} of {len(said)}"


def _covered(name: str, found: Sequence[Estimate]) -> str:
    """Return a line with the coverage of estimates."""
    off = np.abs([(one.value - one.true) / one.error for one in found])
    claimed = np.median([one.error / abs(one.value) for one in found])
    return (
        f"{name}: {(off <= 2.0).sum()} of {off.size} within 2 standard errors "
        f"({(off <= 2.0).mean():.0%}), largest {off.max():.1f}, "
        f"median standard error {claimed:.1%}"
    )


PARTS: dict[str, Callable[[Sequence[int]], Iterator[str]]] = {
    "gains": _gain_rows,
    "payload": _payload_rows,
    "currents": _current_rows,
}
"""The parts of the benchmark; each yields lines."""


if __name__ == "__main__":
    main(sys.argv[1:])
