"""Simulated episodes: an arm moves and is touched; measured and true values are recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from scipy.signal import lfilter

from bench.contacts.arms import Arm
from bench.contacts.motion import Motion, Reference
from bench.contacts.plant import PERIOD, Plant
from bench.contacts.touch import Contact, Touch

CHUNK = 10_000
"""Number of samples that are simulated at a time."""


@dataclass(frozen=True, eq=False)
class Episode:
    """Measured and true values of each sample of a simulated motion, and its contacts."""

    arm: Arm
    t: np.ndarray
    """(k,) [s], from zero."""
    q: np.ndarray
    """(k, nv) positions of the encoders [rad]."""
    v: np.ndarray
    """(k, nv) filtered differences of the encoder positions [rad/s]."""
    tau: np.ndarray
    """(k, nv) measured joint torques, including friction [N·m]."""
    external: np.ndarray
    """(k, nv) true joint torques of the contact [N·m]."""
    force: np.ndarray
    """(k, 3) true contact force, world axes [N]; zero without contact."""
    contacts: tuple[Contact, ...]


def simulate(
    plant: Plant,
    seed: int,
    duration: float,
    touches: Sequence[Touch] = (),
    motion: Motion | None = None,
) -> Episode:
    """Simulate a motion with contacts and return its measured and true values.

    Args:
        plant: the arm in MuJoCo.
        seed: seed of the noise and, without ``motion``, of the motion.
        duration: length of the episode [s].
        touches: planned contacts; they are carried out one after another.
        motion: desired motion; by default a random exciting motion.
    """
    return _joined(plant.arm, list(stream(plant, seed, duration, touches, motion)))


def stream(
    plant: Plant,
    seed: int,
    duration: float,
    touches: Sequence[Touch] = (),
    motion: Motion | None = None,
) -> Iterator[Episode]:
    """Yield the episode of :func:`simulate` in pieces, for motions that do not fit in memory.

    Each piece has at most :data:`CHUNK` samples. Times continue from piece to piece. A contact
    belongs to the piece in which it ends.
    """
    rng = np.random.default_rng(seed)
    motion = motion or Motion(plant.arm.model, plant.arm.centre, rng)
    waiting = sorted(touches, key=lambda touch: touch.planned)
    start = motion.at(np.array([-PERIOD, 0.0]))
    encoders = _Encoders(plant.arm, Reference(start.q[:1], start.v[:1], start.a[:1]))
    plant.start(motion.at(np.zeros(1)))
    total = round(duration / PERIOD)
    for first in range(0, total, CHUNK):
        t = PERIOD * np.arange(first, min(first + CHUNK, total))
        yield _piece(plant, motion, encoders, rng, t, waiting)


def _piece(
    plant: Plant,
    motion: Motion,
    encoders: _Encoders,
    rng: np.random.Generator,
    t: np.ndarray,
    waiting: list[Touch],
) -> Episode:
    mj, data, n = plant.mj, plant.data, plant.mj.nv
    wanted = motion.at(t)
    q, tau, external = np.empty((3, t.size, n))
    force = np.zeros((t.size, 3))
    torque = np.empty(n)
    stiffness, damping = plant.gains()
    friction = plant.friction(wanted.v)
    # Views of MuJoCo's memory, because each access through its Python binding is slow.
    qpos, qvel, bias, applied = data.qpos, data.qvel, data.qfrc_bias, data.qfrc_applied
    contacts: list[Contact] = []
    for k in range(t.size):
        mujoco.mj_step1(mj, data)
        mujoco.mj_mulM(mj, data, torque, wanted.a[k])
        torque += bias
        torque += friction[k]
        torque += stiffness * (wanted.q[k] - qpos) + damping * (wanted.v[k] - qvel)
        q[k], tau[k], applied[:] = qpos, torque, torque
        plant.set_friction()
        touch = waiting[0] if waiting else None
        if touch:
            touch.before(plant, t[k])
        external[k] = applied - torque
        mujoco.mj_step2(mj, data)
        if touch:
            if data.ncon:
                external[k] += plant.contact_torque()
            force[k] = touch.after(plant, t[k])
            if force[k].any():
                touch.note(t[k], force[k], external[k])
            if touch.over:
                contact = waiting.pop(0).contact(plant)
                contacts += [contact] if contact else []
    measured = tau + plant.torque_noise * rng.standard_normal(tau.shape)
    angle, v = encoders.read(q)
    return Episode(plant.arm, t, angle, v, measured, external, force, tuple(contacts))


class _Encoders:
    """Measures positions in whole counts, and velocities as their filtered differences."""

    def __init__(self, arm: Arm, start: Reference) -> None:
        self._count = 2.0 * np.pi / 2**arm.encoder_bits
        # Drives with coarser encoders filter the velocity more strongly.
        self._weight = min(0.4, 0.4 * 2.0 ** (arm.encoder_bits - 19) * 1.5)
        self._last = self._counted(start.q)
        self._state = (1.0 - self._weight) * start.v

    def read(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return measured positions and velocities, (k, nv) each, for true positions ``q``."""
        angle = self._counted(q)
        steps = np.diff(np.concatenate([self._last, angle]), axis=0) / PERIOD
        self._last = angle[-1:]
        weight = self._weight
        v, self._state = lfilter([weight], [1.0, weight - 1.0], steps, axis=0, zi=self._state)
        return angle, v

    def _counted(self, q: np.ndarray) -> np.ndarray:
        return self._count * np.round(q / self._count)


def _joined(arm: Arm, pieces: list[Episode]) -> Episode:
    columns: dict[str, np.ndarray] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("t", "q", "v", "tau", "external", "force")
    }
    contacts = tuple(c for piece in pieces for c in piece.contacts)
    return Episode(arm, contacts=contacts, **columns)
