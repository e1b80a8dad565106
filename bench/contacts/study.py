"""Evaluation of the detector on simulated contacts, after calibration on free motion.

The detector is calibrated for every specimen of an arm on a separate contact-free motion, and has
no other data of the specimen. Then the detector is evaluated on other motions, with and without
contacts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.contacts.arms import arm
from bench.contacts.episode import Episode, simulate, stream
from bench.contacts.plant import Plant
from bench.contacts.touch import Contact, draw, end_of
from rbd_control.estimation import ContactDetector, ContactEvent
from rbd_control.identification import CalibratedParameters, RecordedMotion, calibrate
from rbd_control.playback.truth import GRACE
from rbd_control.robot.shapes import MeshFiles, surface_of

WARM, WARM_SEED = 20.0, 77
"""Length [s] and seed of the motion without contact before the contacts."""
FREE = 60.0
"""Length of the contact-free motion for the calibration [s]."""
LAST_LINKS = 2
"""Number of last links on which the estimated force of a contact is evaluated."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """A true contact, and the event that detected it (None if the contact was missed).

    ``on_last_links`` is true for a contact on the last :data:`LAST_LINKS` links.
    """

    arm: str
    contact: Contact
    event: ContactEvent | None
    on_last_links: bool

    @property
    def kind(self) -> str:
        """Kind of the contact: size of a push, ``8 N`` or ``20 N``, ``collision``, ``obstacle``."""
        push = self.contact.kind == "push"
        return f"{self.contact.size:.0f} N" if push else self.contact.kind


@dataclass(frozen=True, eq=False)
class Outcome:
    """True contacts on some arms with their events, and the number of events without contact."""

    verdicts: tuple[Verdict, ...]
    false_events: int
    duration: float
    """Total length of the motions with contacts [s]."""

    @classmethod
    def together(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the contacts of all outcomes, and the sums of their numbers and durations."""
        return cls(
            tuple(verdict for outcome in outcomes for verdict in outcome.verdicts),
            sum(outcome.false_events for outcome in outcomes),
            sum(outcome.duration for outcome in outcomes),
        )


def calibrated(plant: Plant, seed: int, duration: float = FREE) -> CalibratedParameters:
    """Return the parameters that ``calibrate`` identifies from a contact-free motion of ``plant``.

    Args:
        plant: the specimen.
        seed: seed of the motion and its noise.
        duration: length of the motion [s].
    """
    free = simulate(plant, seed, duration)
    motion = RecordedMotion(plant.arm.name, free.t, free.q, free.v, free.tau)
    return calibrate([motion], plant.arm.model).parameters


def judge(names: Sequence[str], seed: int, rounds: int) -> Outcome:
    """Calibrate one specimen of each arm, and evaluate the detector on simulated contacts.

    Args:
        names: the arms.
        seed: seed of the first specimen, its motions and contacts; those of the next arms are 100
            apart.
        rounds: number of rounds; each has a push of 8 N, a push of 20 N, a collision and an
            obstacle.
    """
    verdicts: list[Verdict] = []
    false_events, total = 0, 0.0
    for k, name in enumerate(names):
        own = seed + 100 * k
        plant = Plant(arm(name), own)
        parameters = calibrated(plant, own + 1)
        touches = draw(own + 2, rounds=rounds, obstacles=1)
        duration = end_of(touches)
        episode = simulate(plant, own + 3, duration, touches)
        found, outside = match(episode, detect(plant, parameters, [episode]))
        verdicts += found
        false_events += outside
        total += duration
    return Outcome(tuple(verdicts), false_events, total)


def false_alarms(name: str, seed: int, duration: float) -> int:
    """Return the number of false alarms of a calibrated specimen in motion without contact.

    Args:
        name: the arm.
        seed: seed of the specimen and of its motions.
        duration: length of the motion [s].
    """
    plant = Plant(arm(name), seed)
    parameters = calibrated(plant, seed + 1)
    return len(detect(plant, parameters, stream(plant, seed + 3, duration))) // 2


def warm_up(detector: ContactDetector, plant: Plant) -> None:
    """Let a detector follow a motion without contact, in which it learns the friction of the day.

    Its thresholds are wider before. Contacts that follow each other closely leave no time for it.
    """
    free = simulate(plant, WARM_SEED, WARM)
    detector.update_block(free.t, free.q, free.v, free.tau)
    detector.reset()


def detect(
    plant: Plant, parameters: CalibratedParameters, pieces: Iterable[Episode]
) -> list[ContactEvent]:
    """Run the detector over the pieces of an episode, and return all onset and release events.

    The detector uses the calibrated parameters and the collision geometry of the description.
    """
    surface = surface_of(plant.arm.model, plant.arm.urdf, MeshFiles(plant.arm.meshes))
    detector = ContactDetector(parameters.corrected(plant.arm.model), parameters, surface=surface)
    warm_up(detector, plant)
    events = []
    for piece in pieces:
        events += [e for _, e in detector.update_block(piece.t, piece.q, piece.v, piece.tau).events]
    return events


def match(episode: Episode, events: Sequence[ContactEvent]) -> tuple[list[Verdict], int]:
    """Match detected events with the true contacts of an episode.

    An event belongs to a contact if it is detected between the start of the contact and
    :data:`~rbd_control.playback.truth.GRACE` after its end.

    Returns:
        For each true contact a verdict with the first event that belongs to it, in its final state;
        and the number of events that belong to no contact.
    """
    onsets = [event for event in events if event.phase == "onset"]
    last = {event.id: event for event in events}
    links = episode.arm.model.joint_links
    verdicts, used = [], set()
    for contact in episode.contacts:
        own = [e for e in onsets if contact.start <= e.detected <= contact.end + GRACE]
        used |= {event.id for event in own}
        event = last[own[0].id] if own else None
        late = contact.link in links[-LAST_LINKS:]
        verdicts.append(Verdict(episode.arm.name, contact, event, late))
    return verdicts, len(onsets) - len(used)


def force_error(verdict: Verdict) -> float | None:
    """Return the distance of the estimated from the true force of a push [N].

    It is None for a missed push, without an estimate, and for other contacts.
    """
    event = verdict.event
    if event is None or event.force is None or verdict.contact.kind != "push":
        return None
    return float(np.linalg.norm(event.force - verdict.contact.force))
