"""Stops on contact, and long motions without contact, with the contact detector in the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.contacts.episode import Episode, simulate, stream
from bench.contacts.plant import PERIOD, Plant
from bench.contacts.touch import Collision, Push, Touch
from bench.guard.arm import PositionControlledArm
from bench.guard.motion import PickAndPlace
from rbd_control.contact_stop import ContactStop, StandstillMonitor, StopParameters
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion, calibrate

WIRE = 0.005
"""Time from the flag to the start of the stop [s]: three times the guard's latency over DDS."""
VERDICTS = 20
"""Number of samples after which the contact flag is published again."""
LENGTH = 3.0
"""Length of a push, and time for which an obstacle stays [s]."""


@dataclass(frozen=True)
class Stop:
    """One contact and the stop that it caused; times are from the start of the motion [s].

    ``kind`` is ``push`` or ``collision``, ``onset`` the true start of the contact, ``cancel`` the
    time at which the arm receives the request to stop, and ``standstill`` the time at which the
    guard confirms the standstill. They are NaN if the contact was missed, except for ``onset``.
    """

    kind: str
    size: float
    """Largest force [N]."""
    speed: float
    """Speed of the fastest joint at the onset [rad/s]."""
    onset: float
    flag: float
    """Time of the flag [s]; NaN if the contact was missed."""
    cancel: float
    planned: float
    """Planned time of the deceleration from the cancel request on [s]."""
    standstill: float
    travelled: float
    """Largest motion of a joint from onset to standstill [rad]."""

    @property
    def overrun(self) -> float:
        """Time from the planned to the true standstill [s], in which the servo settles."""
        return self.standstill - self.cancel - self.planned


def calibrated(plant: Plant, seed: int, duration: float) -> tuple[Model, DetectorParameters]:
    """Return corrected model and detector parameters, calibrated on motions without contact.

    Half of the time is an exciting motion, half is pick and place.

    Args:
        plant: the specimen.
        seed: seed of the motions and their noise.
        duration: length of both motions together [s].
    """
    arm = plant.arm
    path = PickAndPlace(arm.model, arm.centre, seed, duration)
    free = [simulate(plant, seed, duration / 2), *stream(plant, seed, duration / 2, (), path)]
    motions = [RecordedMotion(arm.name, part.t, part.q, part.v, part.tau) for part in free]
    found = calibrate(motions, arm.model).parameters
    return found.corrected(arm.model), found


def touches(seed: int, number: int, size: float) -> Iterator[Touch]:
    """Yield pushes and collisions in turn, each for a separate motion.

    Args:
        seed: seed of the contacts and of their start, 1 to 3 s after the start of the motion.
        number: number of contacts.
        size: size of the pushes [N].
    """
    rng = np.random.default_rng(seed)
    for k in range(number):
        start, own = float(rng.uniform(1.0, 3.0)), int(rng.integers(2**31))
        if k % 2:
            yield Collision(start, LENGTH, own)
        else:
            yield Push(start, LENGTH, own, size)


def stop(
    plant: Plant, model: Model, parameters: DetectorParameters, touch: Touch, seed: int
) -> Stop | None:
    """Move the arm, touch it, and stop it like the contact guard does.

    Args:
        plant: the specimen.
        model, parameters: model and parameters of the detector, from :func:`calibrated`.
        touch: the planned contact.
        seed: seed of the motion and of the noise.

    Returns:
        The contact and its stop; None if the contact did not touch the arm.
    """
    arm = PositionControlledArm(
        plant, PickAndPlace(plant.arm.model, plant.arm.centre, seed, 8.0), seed
    )
    detector = ContactDetector(model, parameters)
    guard, motion = ContactStop(StopParameters()), StandstillMonitor()
    names = plant.arm.model.joint_names
    guard.start(0.0)
    onset = flag = cancel = standstill = speed = np.nan
    start = q = np.zeros(0)
    last: bool | None = None
    end = touch.planned + LENGTH
    for k in range(round(end / PERIOD)):
        sample = arm.step(touch)
        now, q = sample.t, plant.data.qpos.copy()
        found = detector.update(now, sample.q, sample.v, sample.tau)
        if np.isnan(onset) and arm.is_touched:
            onset, start = now, q
            speed = float(np.abs(sample.v).max())
        verdict = found.contact if found.valid else None
        is_told = verdict is not None and (verdict != last or k % VERDICTS == 0)
        if is_told and guard.update_verdict(bool(verdict), now):
            flag, cancel = now, now + WIRE
        last = verdict
        if now >= cancel:
            arm.stop()
        motion.add_joint_state(now, names, sample.q.tolist(), sample.v.tolist(), now, 0.02)
        if guard.is_latched and guard.confirm(now > cancel, motion.still_since(now), now):
            assert guard.times is not None
            standstill = guard.times.standstill
            break
    if np.isnan(onset):
        return None
    contact = touch.contact(plant)
    return Stop(
        kind=touch.kind,
        size=contact.size if contact else 0.0,
        speed=speed,
        onset=onset,
        flag=flag,
        cancel=cancel,
        planned=float(arm.stop_time),
        standstill=standstill,
        travelled=float(np.abs(q - start).max()),
    )


def false_stops(
    plant: Plant, model: Model, parameters: DetectorParameters, seed: int, duration: float
) -> int:
    """Return the number of false alarms in pick and place without contact.

    Each onset of a contact counts, because it would stop the arm.

    Args:
        plant: the specimen.
        model, parameters: model and parameters of the detector, from :func:`calibrated`.
        seed: seed of the motion and its noise.
        duration: length of the motion [s].
    """
    path = PickAndPlace(plant.arm.model, plant.arm.centre, seed, duration)
    detector = ContactDetector(model, parameters)
    count = 0
    pieces: Iterator[Episode] = stream(plant, seed, duration, (), path)
    for piece in pieces:
        found = detector.update_block(piece.t, piece.q, piece.v, piece.tau)
        count += sum(event.phase == "onset" for _, event in found.events)
    return count
