"""Delay of the calibrated detector and of a plain momentum observer, in motion that neither knows.

The detector is calibrated on a part of the motion of an arm, and has its own thresholds. The plain
observer has the same friction and corrections of masses, the gain :data:`PLAIN_GAIN` for all joints
and constant thresholds. They are proportional to its largest residuals in the part of the
calibration, and just high enough that it raises no false alarm in the other part, which no
calibration knows. At equal false alarms, the thresholds of the detector are multiplied likewise.
Pushes are added to the efforts: a motor that holds the arm against a push has
the torque of the push less.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.contacts.arms import arm
from bench.contacts.episode import simulate
from bench.contacts.plant import Plant
from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.estimation import ContactDetector
from rbd_control.estimation.observers import MomentumObserver
from rbd_control.identification import CalibratedParameters, RecordedMotion, calibrate
from rbd_control.playback.motions import free_motions, read_motions
from rbd_control.playback.recording import read_recording

Array = NDArray[np.float64]

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
"""Folder of recordings that are not part of the package."""
PLAIN_GAIN = 50.0
"""Gain of the plain observer [1/s]."""
CARRIED = 2.11, (0.008, 0.027, -0.008)
"""Mass [kg] and centre of mass [m] of what ``check`` finds at the last link of the real UR10."""
PARTS = 4
"""Number of parts of a recording; each is held out from a calibration on the others."""
FORCES = (8.0, 20.0)
"""Forces of the pushes [N]."""
LENGTH = 0.4
"""Length of a push [s]."""
BEFORE = 1.0
"""Motion before a push that the observers see [s], longer than their settling time."""
OFF_ORIGIN = 0.1
"""Typical distance of pushes from the origins of links [m]."""
FELT = 0.01
"""Smallest joint torque of a push of 20 N, as a fraction of the effort limit."""
ROUNDING = 1.001
"""Factor of the plain thresholds above the largest held-out residual."""
SECONDS = 60.0
"""Length of simulated motions [s]."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Delays on one arm [s]; infinite for a missed push."""

    arm: str
    false_contacts: int
    """False contacts of the detector in the parts that were held out."""
    highest: float
    """Largest ratio of a residual to its threshold in these parts."""
    ours: dict[float, Array]
    """Delays of the detector for each force [N]."""
    equal: dict[float, Array]
    """Its delays with thresholds that are just high enough for no false alarm."""
    plain: dict[float, Array]
    """Delays of the plain observer for each force [N]."""


def cases(name: str, seed: int) -> Iterator[tuple[Model, list[RecordedMotion], RecordedMotion]]:
    """Yield the model of an arm, motions for a calibration, and a motion that is held out.

    Args:
        name: ``real panda``, ``real ur10``, or a simulated arm.
        seed: seed of a simulated arm.
    """
    if name.startswith("real "):
        model, motion = _real(name.removeprefix("real "))
        edges = np.linspace(motion.t[0], motion.t[-1] + 1e-6, PARTS + 1)
        parts = [
            motion.only((motion.t >= a) & (motion.t < b))
            for a, b in zip(edges[:-1], edges[1:], strict=True)
        ]
        for k, part in enumerate(parts):
            yield model, parts[:k] + parts[k + 1 :], part
        return
    plant = Plant(arm(name), seed)
    episodes = [simulate(plant, seed + 20 + k, SECONDS) for k in range(2)]
    first, other = (RecordedMotion(name, e.t, e.q, e.v, e.tau) for e in episodes)
    yield plant.arm.model, [first], other


def _real(name: str) -> tuple[Model, RecordedMotion]:
    """Return the model and the recorded motion of a real arm."""
    if name == "panda":
        text = (SHARED / "panda_arm.urdf").read_text(encoding="utf-8")
    else:
        text = arm("ur10").urdf
    model = Model.from_urdf(text)
    if name == "ur10":
        model = model.with_payload(model.joint_links[-1], *CARRIED, np.zeros((3, 3)))
    recording = read_recording(SHARED / f"{name}_exciting_trajectory.db3")
    motions, _ = free_motions(recording, read_motions(recording, model, None))
    return model, motions[0]


def compare(name: str, seed: int, count: int) -> Comparison:
    """Compare detector and plain observer on one arm.

    Args:
        name: as for :func:`cases`.
        seed: seed of pushes and of a simulated arm.
        count: number of pushes of each force in each part.
    """
    ours: dict[float, list[float]] = {force: [] for force in FORCES}
    equal: dict[float, list[float]] = {force: [] for force in FORCES}
    plain: dict[float, list[float]] = {force: [] for force in FORCES}
    false_contacts, highest = 0, 0.0
    for k, (model, motions, held) in enumerate(cases(name, seed)):
        found = calibrate(motions, model, least_time=10.0).parameters
        true = found.corrected(model)
        block = ContactDetector(true, found).update_block(held.t, held.q, held.v, held.tau)
        false_contacts += sum(event.phase == "onset" for _, event in block.events)
        least = ROUNDING * float((np.abs(block.residual) / block.threshold).max())
        highest = max(highest, least)
        threshold = _plain_thresholds(true, found, motions, held)
        rng = np.random.default_rng(100 * seed + k)
        for start in _starts(held, rng, count):
            torque = _push(model, held.q[start], rng)
            for force in FORCES:
                window, began = _pushed(held, start, force * torque)
                detector = ContactDetector(true, found)
                flags = detector.update_block(window.t, window.q, window.v, window.tau)
                ours[force].append(_delay(window.t, flags.level > 0, began))
                over = (np.abs(flags.residual) / flags.threshold).max(axis=1) > least
                equal[force].append(_delay(window.t, over, began))
                over = (np.abs(_residual(true, found, window)) / threshold).max(axis=1) > 1.0
                plain[force].append(_delay(window.t, over, began))
    return Comparison(
        name,
        false_contacts,
        highest,
        {force: np.array(delays) for force, delays in ours.items()},
        *({force: np.array(delays) for force, delays in each.items()} for each in (equal, plain)),
    )


def _residual(model: Model, known: CalibratedParameters, motion: RecordedMotion) -> Array:
    """Return the residual of the plain observer, (k, nv) [N·m or N]; zero while it settles."""
    observer = MomentumObserver(model, PLAIN_GAIN, known.friction(model.nv))
    r = observer.run(motion.t, motion.q, motion.v, motion.tau)
    r[motion.t - motion.t[0] < 0.5 * BEFORE] = 0.0
    return r


def _plain_thresholds(
    model: Model,
    known: CalibratedParameters,
    motions: list[RecordedMotion],
    held: RecordedMotion,
) -> Array:
    """Return thresholds in the ratios of the known residuals, without a false alarm, (nv,)."""
    sizes = np.max([np.abs(_residual(model, known, m)).max(axis=0) for m in motions], axis=0)
    factor = (np.abs(_residual(model, known, held)) / sizes).max()
    return np.asarray(ROUNDING * factor * sizes)


def _starts(held: RecordedMotion, rng: np.random.Generator, count: int) -> Array:
    """Return the samples after which pushes begin."""
    t = held.t - held.t[0]
    possible = np.flatnonzero((t > BEFORE) & (t < t[-1] - LENGTH))
    return rng.choice(possible, count)


def _push(model: Model, q: Array, rng: np.random.Generator) -> Array:
    """Return the joint torques of a random push of 1 N, (nv,) [N·m or N]."""
    limit = np.where(model.effort_limit > 0.0, model.effort_limit, np.inf)
    while True:
        J = frame_jacobian(model, q, model.joint_links[rng.integers(model.nv)])
        direction = rng.normal(size=3)
        direction /= np.linalg.norm(direction)
        offset = rng.normal(size=3) * OFF_ORIGIN / np.sqrt(3.0)
        torque = J.T @ np.concatenate([np.cross(offset, direction), direction])
        if (20.0 * np.abs(torque) > FELT * limit).any():
            return np.asarray(torque)


def _pushed(motion: RecordedMotion, start: int, torque: Array) -> tuple[RecordedMotion, float]:
    """Return the motion around a push that begins at sample ``start``, and when it begins [s]."""
    began = float(motion.t[start])
    window = motion.only((motion.t >= began - BEFORE) & (motion.t <= began + LENGTH))
    tau = np.where(window.t[:, None] > began, window.tau - torque, window.tau)
    return RecordedMotion(window.name, window.t, window.q, window.v, tau), began


def _delay(t: Array, flags: NDArray[np.bool_], began: float) -> float:
    """Return the time from the beginning of a push to the first flag after it [s]."""
    after = np.flatnonzero(flags & (t > began))
    return float(t[after[0]] - began) if after.size else np.inf
