"""Schedule of a soak: pushes, motions and faults at random times that the seed determines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

START, END = 4.0, 6.0
"""Time without items at the beginning and at the end of a run [s]."""

MOST_IDLE = 0.15
"""Maximum of each of these times in a short run, as a fraction of its duration."""

SHORTEST, LONGEST = 2.0, 4.0
"""Bounds of the time between the starts of two items [s]."""

PUSHES, MOTIONS = 0.4, 0.2
"""Fractions of pushes and motions among the items; all other items are faults."""

RESTART = "detector restarted"

RESTART_EVERY = 1200.0
"""Shortest time between two restarts of the detector, which restart its memory measurement [s]."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        weight: relative frequency among the faults.
        lasts: duration [s].
        spares_samples: whether the nodes must answer every joint state during the fault.
        spares_torque: whether the torque must continue without a gap during the fault.
    """

    weight: float
    lasts: float
    spares_samples: bool = True
    spares_torque: bool = True


PUSH, MOTION = "push", "motion"

IN_JOINT_STATES: Mapping[str, Kind] = {
    "dropout, short": Kind(2.0, 0.02, spares_samples=False),
    "dropout, long": Kind(1.0, 0.3, spares_samples=False, spares_torque=False),
    "NaN position": Kind(1.0, 0.003, spares_samples=False),
    "NaN velocity": Kind(1.0, 0.003, spares_samples=False),
    "NaN effort": Kind(1.0, 0.02, spares_samples=False),
    "implausible position": Kind(1.0, 0.002, spares_samples=False),
    "implausible velocity": Kind(1.0, 0.002, spares_samples=False),
    "implausible effort": Kind(1.0, 0.002, spares_samples=False),
    # In a longer time without torque the arm falls into its stops, which are unstaged contacts.
    "frozen": Kind(1.0, 0.1, spares_samples=False),
    "same stamp": Kind(1.0, 0.005, spares_samples=False),
    "clock back": Kind(1.0, 0.2, spares_samples=False),
    "clock forward": Kind(1.0, 0.2, spares_samples=False),
}
"""Faults in the joint states, which the process of the arm applies."""

FAULTS: Mapping[str, Kind] = {
    **IN_JOINT_STATES,
    # Orders and parameters, which are normal operation.
    "hold": Kind(1.0, 1.0),
    "float": Kind(1.0, 1.0),
    "slow": Kind(1.0, 1.0),
    "retract": Kind(1.0, 1.0),
    "cancel": Kind(1.0, 0.5),
    "controller parameters": Kind(2.0, 1.0),
    "detector parameters": Kind(2.0, 1.0),
    "refused parameters": Kind(1.0, 0.5),
    # From outside.
    "second torque publisher": Kind(1.0, 0.5),
    "garbage on topics": Kind(2.0, 0.2, spares_samples=False),
    # Of the processes.
    "controller stopped": Kind(1.0, 0.3, spares_samples=False, spares_torque=False),
    "detector stopped": Kind(1.0, 0.3, spares_samples=False),
    "arm stopped": Kind(1.0, 0.3, spares_samples=False, spares_torque=False),
    RESTART: Kind(1.0, 0.1, spares_samples=False),
}
"""All kinds of faults by name; orders and changes of parameters count as faults as well."""

ORDERS = ("hold", "float", "slow", "retract", "cancel")
"""Faults that consist of a call of the service with the same name."""


@dataclass(frozen=True)
class Item:
    """An item of the schedule: a push, a motion or a fault.

    Attributes:
        at: time from the beginning [s].
        kind: ``push``, ``motion`` or a key of :data:`FAULTS`.
        seed: seed of all other properties of the item.
    """

    at: float
    kind: str
    seed: int


def make_schedule(seed: int, seconds: float) -> list[Item]:
    """Return the items of a run in the order of their times.

    Faults are drawn in rounds. A round contains each kind of fault as often as its rounded weight,
    in random order. The detector is restarted at most once in :data:`RESTART_EVERY`; a push
    replaces each other restart.

    Args:
        seed: seed of the schedule.
        seconds: duration of the run [s].
    """
    random = Random(f"soak {seed}")
    items = []
    start, end = (min(each, MOST_IDLE * seconds) for each in (START, END))
    at, restarted, waiting = start, -RESTART_EVERY, list[str]()
    while at < seconds - end:
        if not waiting:
            waiting = _round(random)
        choice = random.random()
        kind = PUSH if choice < PUSHES else MOTION if choice < PUSHES + MOTIONS else waiting.pop()
        if kind == RESTART:
            if at - restarted < RESTART_EVERY:
                kind = PUSH
            else:
                restarted = at
        items.append(Item(at, kind, random.getrandbits(32)))
        at += random.uniform(SHORTEST, LONGEST)
    return items


def _round(random: Random) -> list[str]:
    """Return every fault at least once, in random order."""
    names = [name for name, kind in FAULTS.items() for _ in range(round(kind.weight))]
    random.shuffle(names)
    return names
