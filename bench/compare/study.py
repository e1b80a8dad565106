"""Experiments with the control laws: tracking, an unknown payload, and a long time at rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bench.compare.laws import FIXED, FRICTION_AT, REFERENCE, SLOTINE_LI, adaptive, fixed, gains
from bench.compare.loop import MASS_ERROR, PAYLOAD_LINKS, Loop, loaded, rms
from bench.contacts.arms import Arm, arm
from bench.contacts.motion import Motion, Reference
from bench.contacts.plant import PERIOD, Plant
from rbd_control.control import AdaptationParameters, LinkEstimate

ARMS = ("panda", "ur5")
SPEED, FREQUENCIES = 0.6, (0.1, 0.8)
"""Amplitudes [rad/s] and frequencies [Hz] of the sines: about half the velocity limits."""
SETTLING = 1.0
"""Time at the start that is not evaluated: the arm starts away from its equilibrium [s]."""
PAYLOAD = 2.0
"""Mass of the unknown payload [kg]."""
WINDOW = 5.0
"""Length of the windows over which errors with a payload are averaged [s]."""
PIECE = 60.0
"""Length of the pieces into which the time at rest is divided [s]."""


@dataclass(frozen=True)
class Tracking:
    """Tracking errors of one law with one friction compensation on one specimen of an arm."""

    arm: str
    specimen: int
    law: str
    friction_at: str
    error: float
    """RMS over time and joints [rad]."""
    joints: tuple[float, ...]
    """RMS over time for each joint [rad]."""


@dataclass(frozen=True)
class Learning:
    """Errors of the Slotine-Li law with an unknown payload, fixed and adaptive.

    After the motion, the adaptive law holds the arm at rest and goes on learning.
    """

    arm: str
    fixed: tuple[float, ...]
    """RMS errors of successive windows [rad]."""
    adaptive: tuple[float, ...]
    mass: tuple[float, ...]
    """Learned payload at the end of each window [kg]."""
    estimate: LinkEstimate = field(repr=False)
    rest_error: tuple[float, ...] = ()
    """RMS error of each piece of the rest [rad]."""
    rest_mass: tuple[float, ...] = ()
    """Learned payload at the end of each piece [kg]."""

    @property
    def ratio(self) -> float:
        """Error of the adaptive law in its last window divided by the error of the fixed law."""
        return self.adaptive[-1] / self.fixed[-1]

    @property
    def error_drift(self) -> float:
        """Relative growth of the error from the first to the second half of the time at rest.

        The first piece is excluded because learning ends in it. The halves are averages, because
        single pieces differ by noise.
        """
        early, late = np.array_split(self.rest_error[1:], 2)
        return float(late.mean() / early.mean() - 1.0)

    @property
    def mass_drift(self) -> float:
        """Largest change of the learned mass at rest, divided by the payload.

        The change is counted from the end of the second piece.
        """
        return max(abs(mass - self.rest_mass[1]) for mass in self.rest_mass[1:]) / PAYLOAD


def motion(of: Arm, specimen: int) -> Motion:
    """Return the random motion of one specimen, determined by its number."""
    rng = np.random.default_rng(100 + specimen)
    return Motion(of.model, of.centre, rng, SPEED, FREQUENCIES)


def reference(path: Motion, first: float, seconds: float) -> Reference:
    """Return a piece of a motion, one row per period of 1 ms.

    Args:
        path: the motion.
        first, seconds: start and length of the piece [s].
    """
    return path.at(first + PERIOD * np.arange(round(seconds / PERIOD)))


def track(name: str, specimen: int, seconds: float) -> list[Tracking]:
    """Run all laws of :data:`~bench.compare.laws.FIXED` on one specimen, each with the same noise.

    Args:
        name: name of the arm.
        specimen: number of the specimen, the seed of its properties and its motion.
        seconds: length of the motion [s].
    """
    of = arm(name)
    wanted = reference(motion(of, specimen), 0.0, seconds)
    plant, parameters = Plant(of, specimen, MASS_ERROR), gains(of, wanted)
    results = []
    for friction_at in FRICTION_AT:
        for law in FIXED:
            loop = Loop(plant, fixed(law, friction_at, of, parameters), wanted, specimen)
            errors = loop.run(wanted)[round(SETTLING / PERIOD) :]
            joints = tuple(rms(column) for column in errors.T)
            results.append(Tracking(name, specimen, law, friction_at, rms(errors), joints))
    return results


def learn(name: str, specimen: int, seconds: float, rest: float) -> Learning:
    """Run the Slotine-Li law, fixed and adaptive, with an unknown payload; then hold the arm.

    Args:
        name: name of the arm.
        specimen: number of the specimen, the seed of its properties and its motion.
        seconds: length of the motion [s].
        rest: time for which the adaptive law then holds the arm at rest [s].
    """
    of = arm(name)
    path = motion(of, specimen)
    wanted = reference(path, 0.0, seconds)
    parameters = gains(of, wanted)
    plant = Plant(loaded(of, PAYLOAD), specimen, MASS_ERROR)
    unaware = Loop(plant, fixed(SLOTINE_LI, REFERENCE, of, parameters), wanted, specimen)
    without = tuple(rms(unaware.run(piece)) for piece in _pieces(wanted, WINDOW))
    adaptation = AdaptationParameters(adapted_links=(PAYLOAD_LINKS[name],))
    law, controller = adaptive(of, parameters, adaptation)
    loop = Loop(plant, law, wanted, specimen)
    errors, masses = [], []
    for piece in _pieces(wanted, WINDOW):
        errors.append(rms(loop.run(piece)))
        masses.append(controller.payload)
    estimate = controller.estimates.links[0]
    stop = _stop(path.at(np.array([seconds])))
    loop.run(stop)
    rest_errors, rest_masses = [], []
    still = np.zeros((round(PIECE / PERIOD), of.model.nv))
    for _ in range(round(rest / PIECE)):
        held = Reference(stop.q[-1] + still, still, still)
        rest_errors.append(rms(loop.run(held)))
        rest_masses.append(controller.payload)
    return Learning(
        name,
        without,
        tuple(errors),
        tuple(masses),
        estimate,
        tuple(rest_errors),
        tuple(rest_masses),
    )


def _pieces(whole: Reference, seconds: float) -> list[Reference]:
    size = round(seconds / PERIOD)
    return [
        Reference(whole.q[k : k + size], whole.v[k : k + size], whole.a[k : k + size])
        for k in range(0, len(whole.q), size)
    ]


def _stop(at: Reference, seconds: float = 1.0) -> Reference:
    """Return a motion that stops from a point of ``motion``, with a raised-cosine velocity."""
    t = np.arange(0.0, seconds, PERIOD)[:, None]
    w = np.pi / seconds
    return Reference(
        at.q + at.v * 0.5 * (t + np.sin(w * t) / w),
        at.v * 0.5 * (1.0 + np.cos(w * t)),
        -at.v * 0.5 * w * np.sin(w * t),
    )
