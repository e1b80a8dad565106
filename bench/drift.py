"""``python -m bench.drift``: friction that changes, followed by the detector, on two arms in MuJoCo.

The detector is calibrated on 60 s of free motion of each arm. Then the friction changes: a ramp
over ten minutes, or a step. The table shows the contacts that are none, the pushes of 20 N that are
found with their median delay, and the time after which the flag is down for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.contacts.arms import Arm, arm
from bench.contacts.episode import Episode, simulate
from bench.contacts.plant import Plant
from bench.contacts.study import calibrated, match
from bench.contacts.touch import Push, Touch
from rbd_control.dynamics import Model
from rbd_control.estimation import ContactDetector, ContactEvent, DetectorParameters

ARMS = ("panda", "ur10")
RAMP = 600.0
"""Length of a ramp of the friction [s]."""
STEP_AT = 60.0
"""Time of a step of the friction [s]."""
AFTER_STEP = 120.0
"""Time that is simulated after a step [s]."""
PUSHES = 24
FORCE = 20.0
"""Number of pushes in a ramp, and their force [N]."""
LEARNING = 60.0
"""Time from the start in which false contacts do not count [s]."""
SCALE = {"panda": 4.0, "ur10": 2.0}
"""Factor of the typical friction of each arm, so that 10 % of it are about half a threshold."""


class DriftingPlant(Plant):
    """A specimen of an arm whose friction changes by a factor, Coulomb and viscous alike.

    Args:
        of: the arm.
        seed: seed of the specimen.
        scale: factor of the typical friction of an arm of this size.

    Attributes:
        change: factor of the friction at each time [s]; the controller does not know it.
    """

    def __init__(self, of: Arm, seed: int, scale: float = 1.0) -> None:
        super().__init__(of, seed)
        self.coulomb, self.viscous = scale * self.coulomb, scale * self.viscous
        self.change: Callable[[float], float] = _unchanged

    def set_friction(self) -> None:
        """Set MuJoCo's friction for the present velocity and time; call it before each step."""
        super().set_friction()
        factor = self.change(float(self.data.time))
        self._frictionloss *= factor
        self.mj.dof_damping[:] = factor * self.viscous


def _unchanged(_t: float) -> float:
    return 1.0


def ramp(to: float) -> Callable[[float], float]:
    """Return friction that changes to the factor ``to`` within :data:`RAMP`."""
    return lambda t: 1.0 + (to - 1.0) * min(t / RAMP, 1.0)


def step(to: float) -> Callable[[float], float]:
    """Return friction that changes to the factor ``to`` at :data:`STEP_AT`."""
    return lambda t: to if t >= STEP_AT else 1.0


@dataclass(frozen=True)
class Followed:
    """How a detector judged an episode in which friction changes."""

    false: int
    """Number of contacts that are none, after :data:`LEARNING`."""
    raised: float
    """Share of the time outside contacts, after :data:`LEARNING`, with the flag raised."""
    recovered: float
    """Time of the last false contact's end after :data:`STEP_AT` [s]; 0 without any."""
    found: int
    pushes: int
    """Number of pushes that were found, and of all pushes."""
    delay: float
    """Median delay of the pushes [s]; NaN without any."""
    share: tuple[float, ...]
    """Change of the friction of each joint that the detector has learned in the end."""


def pushes(seed: int) -> list[Touch]:
    """Return :data:`PUSHES` pushes that are spread over a ramp."""
    rng = np.random.default_rng(seed)
    starts = np.linspace(LEARNING, RAMP - 10.0, PUSHES) + rng.uniform(0.0, 5.0, PUSHES)
    return [Push(float(s), 0.4, seed + k, FORCE) for k, s in enumerate(starts)]


def judged(model: Model, parameters: DetectorParameters, episode: Episode) -> Followed:
    """Run the detector over an episode, and return what it found."""
    detector = ContactDetector(model, parameters)
    block = detector.update_block(episode.t, episode.q, episode.v, episode.tau)
    events = [event for _, event in block.events]
    verdicts, _ = match(episode, events)
    own = {v.event.id for v in verdicts if v.event is not None}
    false = [e for e in events if e.id not in own and e.detected >= LEARNING]
    ends = [e.release for e in false if e.release is not None]
    still = bool(block.contact[-1])
    delays = [v.event.detected - v.contact.start for v in verdicts if v.event is not None]
    free = (episode.t >= LEARNING) & ~np.abs(episode.external).any(axis=1)
    return Followed(
        false=sum(e.is_onset for e in false),
        raised=float(block.contact[free].mean()),
        recovered=math.inf if still else max(ends, default=STEP_AT) - STEP_AT,
        found=len(delays),
        pushes=len(verdicts),
        delay=float(np.median(delays)) if delays else math.nan,
        share=tuple(drift.share for drift in detector.drift),
    )
