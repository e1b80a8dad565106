"""``python -m bench.drift``: friction that changes, followed by the detector, on arms in MuJoCo.

The detector is calibrated on 60 s of free motion of each arm. Then the friction changes: a ramp
over ten minutes with pushes of 20 N, or a step. The table compares a detector that follows the
friction with one that does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.identification import CalibratedParameters

ARMS = ("panda", "ur10")
SEED = 5
RAMP = 600.0
"""Length of a ramp of the friction [s]."""
STEP_AT = 60.0
"""Time of a step of the friction [s]."""
AFTER_STEP = 120.0
"""Time that is simulated after a step [s]."""
PUSHES, FORCE = 24, 20.0
"""Number of pushes in a ramp, and their force [N]."""
LEARNING = 60.0
"""Time from the start in which false contacts do not count [s]."""

Change = Callable[[float], float]
"""Factor of the friction at a time [s]."""


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
        self.change: Change = ramp(1.0)

    def set_friction(self) -> None:
        """Set MuJoCo's friction for the present velocity and time; call it before each step."""
        super().set_friction()
        factor = self.change(float(self.data.time))
        self._frictionloss *= factor
        self.mj.dof_damping[:] = factor * self.viscous


def ramp(to: float) -> Change:
    """Return friction that changes to the factor ``to`` within :data:`RAMP`."""
    return lambda t: 1.0 + (to - 1.0) * min(t / RAMP, 1.0)


def step(to: float) -> Change:
    """Return friction that changes to the factor ``to`` at :data:`STEP_AT`."""
    return lambda t: to if t >= STEP_AT else 1.0


CASES: dict[str, tuple[Change, float]] = {
    "as calibrated": (ramp(1.0), RAMP),
    "ramp to 130 %": (ramp(1.3), RAMP),
    "ramp to 70 %": (ramp(0.7), RAMP),
    "step to 110 %": (step(1.1), STEP_AT + AFTER_STEP),
    "step to 90 %": (step(0.9), STEP_AT + AFTER_STEP),
}
"""How the friction changes, and the length of the motion [s]; ramps have pushes."""


@dataclass(frozen=True)
class Followed:
    """How a detector judged an episode in which friction changes."""

    false: int
    """Number of contacts that are none, after :data:`LEARNING`."""
    raised: float
    """Share of the time outside contacts, after :data:`LEARNING`, with the flag raised."""
    recovered: float
    """Time after :data:`STEP_AT` at which the last false contact ended [s]; zero without any."""
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


def episode_of(plant: DriftingPlant, case: str, seed: int = SEED) -> Episode:
    """Simulate one of :data:`CASES` with a plant, and return the episode."""
    plant.change, duration = CASES[case]
    touches = pushes(seed) if duration == RAMP else []
    return simulate(plant, seed + 1, duration, touches)


def study(
    name: str, seed: int = SEED, scale: float = 1.0
) -> tuple[DriftingPlant, Model, CalibratedParameters]:
    """Return a specimen of an arm, and the model and the parameters that its calibration finds."""
    plant = DriftingPlant(arm(name), seed, scale)
    parameters = calibrated(plant, seed + 2)
    return plant, parameters.corrected(plant.arm.model), parameters


def main() -> None:
    """Simulate all cases of all arms, and print the table."""
    table = Table(
        *("arm", "friction", "followed", "false", "raised", "recovered", "found", "delay"),
        *("learned",),
        title="friction that changes",
    )
    for name in ARMS:
        plant, model, parameters = study(name)
        for case in CASES:
            episode = episode_of(plant, case)
            for follows in (True, False):
                found = judged(model, replace(parameters, follow_friction=follows), episode)
                table.add_row(name, case, "yes" if follows else "no", *_cells(found))
    Console().print(table)


def _cells(found: Followed) -> tuple[str, ...]:
    pushed = (f"{found.found} of {found.pushes}", f"{1e3 * found.delay:.0f} ms")
    return (
        str(found.false),
        f"{found.raised:.1%}",
        f"{found.recovered:.0f} s",
        *(pushed if found.pushes else ("", "")),
        f"{np.median(found.share):+.0%}" if found.share else "",
    )


if __name__ == "__main__":
    main()
