"""One row of the table: an arm under a condition, judged by two detectors on the same samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from bench.conditions.plain import PlainObserver
from bench.conditions.rows import BEGIN, ROWS, VAGUE, Condition
from bench.conditions.said import Sentence, said
from bench.conditions.setups import ChangingPlant, Samples, Setup, setup
from bench.conditions.stops import StoppedMotion
from bench.contacts.episode import Episode, simulate
from bench.contacts.plant import Plant
from bench.contacts.touch import Contact, Touch, draw, end_of
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError
from rbd_control.estimation import BlockDetection
from rbd_control.identification import CalibratedParameters, RecordedMotion, calibrate
from rbd_control.joint_states import JointBlock, SampleBlock
from rbd_control.playback.parts import Part
from rbd_control.playback.recording import Recording
from rbd_control.playback.replay import replay
from rbd_control.playback.truth import GRACE

PUSH = 20.0
"""Size of the pushes [N]."""
START = 1000.0
"""Stamp of the first sample [s]; a stamp of zero would count as missing."""
SETTLING = 1.0
"""Time at the start of a run that is not judged [s]."""
AFTER = 0.5
"""Time after a push in which a raised flag is no false one [s]."""
CHECKED = 20.0
"""Length of the motion without contact that ``check`` gets [s], the last before the pushes."""


@dataclass(frozen=True)
class Plan:
    """Lengths of the parts of a run."""

    calibration: float = 60.0
    """Motion for the calibration [s]."""
    before: float = 10.0
    """Nominal motion before a change [s]."""
    free: float = 60.0
    """Motion without pushes after the change [s]; what comes later counts as late."""
    pushes: int = 24

    def first_push(self, condition: Condition) -> float:
        """Return the time of the first push [s]."""
        return self.before + condition.ramp + self.free + 2.0

    def begin(self, condition: Condition) -> float:
        """Return the time at which the condition begins [s]."""
        return self.before if condition.begin == BEGIN else condition.begin


OF_CALIBRATION, OF_RUN, OF_PUSHES, OF_DRIVER = 1, 2, 3, 4
"""Seeds of motions with noise, pushes and drivers, counted from the seed of the specimen."""


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The detectors of one arm, calibrated on the same motion."""

    parameters: CalibratedParameters
    plain: PlainObserver
    notes: tuple[Sentence, ...]
    """What ``calibrate`` notes."""


@dataclass(frozen=True)
class Judged:
    """What one detector did in a run."""

    free: float
    """Time without contact under the condition [s]."""
    early: int
    """False contacts in the first ``Plan.free`` seconds under the condition."""
    late: int
    """False contacts later."""
    early_share: float
    """Share of the free time of the first part with the flag up."""
    late_share: float
    """Share of the later free time with the flag up."""
    blind: float
    """Share of the time under the condition without a verdict."""
    found: int
    """Pushes found."""
    pushes: int
    """Pushes made."""
    delay: float
    """Median delay of the pushes that were found [s]; NaN without."""


@dataclass(frozen=True)
class Outcome:
    """One row of the table."""

    arm: str
    condition: str
    """Name of the condition."""
    cause: str
    """Regular expression of a warning that names the cause."""
    begin: float
    """Time at which the condition begins [s]."""
    product: Judged | None
    """None if the product refuses the calibration or the efforts."""
    plain: Judged | None
    sentences: tuple[Sentence, ...]

    def named_by(self) -> dict[str, float | None]:
        """Return who names the cause, and for a node how long after its begin [s].

        The keys are ``calibrate``, ``node``, ``replay`` and ``check``.
        """
        found: dict[str, float | None] = {}
        if not self.cause:
            return found
        cause, vague = re.compile(self.cause), re.compile(VAGUE)
        for s in self.sentences:
            since = None if s.time is None else s.time - self.begin
            is_early = since is not None and since <= 0.0
            if cause.search(s.text) and not vague.search(s.text) and not is_early:
                found.setdefault(s.who, since)
        return found


def calibration(name: str, condition: Condition, plan: Plan, seed: int) -> Calibrated:
    """Return the calibrated detectors of an arm.

    Args:
        name: name of the arm.
        condition: the condition, if the arm is calibrated under it; otherwise the nominal one.
        plan: gives the length of the motion.
        seed: seed of the specimen.

    Raises:
        RbdControlError: if ``calibrate`` refuses the motion.
    """
    arm = setup(name)
    plant = arm.plant(seed)
    if condition.change is not None:
        condition.change(plant, 1.0)
    samples = Samples.of(simulate(plant, seed + OF_CALIBRATION, plan.calibration), arm)
    if condition.driver is not None:
        rng = np.random.default_rng(seed + OF_CALIBRATION + OF_DRIVER)
        samples = condition.driver(arm, samples, rng)
    model = _described(arm, condition)
    motion = RecordedMotion(name, samples.t, samples.q, samples.v, samples.tau)
    found = calibrate([motion], model, arm.declared)
    plain = PlainObserver.calibrated(samples, found.parameters.corrected(model), found.parameters)
    notes = tuple(Sentence("calibrate", note) for note in found.notes)
    return Calibrated(found.parameters, plain, notes)


def run(name: str, condition: Condition, known: Calibrated, plan: Plan, seed: int) -> Outcome:
    """Return the row of a condition for one arm.

    Args:
        name: name of the arm.
        condition: the condition.
        known: the detectors as calibrated on the nominal arm.
        plan: lengths of the parts of the run.
        seed: seed of the specimen; the others are counted from it.
    """
    arm = setup(name)
    if condition.recalibrated:
        try:
            known = calibration(name, condition, plan, seed)
        except RbdControlError as error:
            refusal = Sentence("calibrate", error.message)
            return Outcome(name, condition.name, condition.cause, 0.0, None, None, (refusal,))
    episode = _episode(arm, condition, plan, seed)
    samples = Samples.of(episode, arm)
    if condition.driver is not None:
        samples = condition.driver(arm, samples, np.random.default_rng(seed + OF_DRIVER))
    parameters = known.parameters
    model = parameters.corrected(_described(arm, condition))
    if condition.declared is not None:
        parameters = replace(parameters, **condition.declared(parameters))  # type: ignore[arg-type]
    judge = partial(_judged, contacts=episode.contacts, begin=plan.begin(condition), plan=plan)

    blocks: list[tuple[SampleBlock, BlockDetection]] = []
    names = arm.arm.model.joint_names
    contacts = tuple((START + c.start, START + c.end) for c in episode.contacts)
    recording = _recording(samples, names, contacts)

    def watch(times: np.ndarray, block: SampleBlock, found: BlockDetection) -> None:
        blocks.append((block, found))

    warnings: tuple[str, ...]
    try:
        result = replay(recording, model, parameters, watch=watch)
    except RbdControlError as error:
        product, warnings = None, (error.message,)
    else:
        t = np.concatenate([block.stamp for block, _ in blocks]) - START
        flags = np.concatenate([found.contact for _, found in blocks])
        valid = np.concatenate([found.valid for _, found in blocks])
        product = judge(t, flags, valid)
        warnings = result.warnings
    t, flags = known.plain.flags(samples, model, parameters)
    plain = judge(t, flags, np.ones(t.size, dtype=bool))
    end = plan.first_push(condition) - 1.0
    start = max(end - CHECKED, plan.begin(condition))
    free = samples.only((samples.t >= start) & (samples.t < end))
    flagged = [(block, found.contact) for block, found in blocks]
    sentences = said(flagged, warnings, _recording(free, names, ()), model, parameters)
    has_notes = condition.recalibrated or condition.name == ROWS[0].name
    told = (*(known.notes if has_notes else ()), *sentences)
    begin = plan.begin(condition)
    return Outcome(name, condition.name, condition.cause, begin, product, plain, told)


def _described(arm: Setup, condition: Condition) -> Model:
    model = arm.arm.model
    return model if condition.file is None else condition.file(arm, model)


def _episode(arm: Setup, condition: Condition, plan: Plan, seed: int) -> Episode:
    """Return the run of a condition; conditions of the driver share the nominal one."""
    if condition.change is None and not condition.stops:
        return _nominal(arm.name, plan, seed)
    return _simulated(arm, condition, plan, seed)


@cache
def _nominal(name: str, plan: Plan, seed: int) -> Episode:
    return _simulated(setup(name), ROWS[0], plan, seed)


def _simulated(arm: Setup, condition: Condition, plan: Plan, seed: int) -> Episode:
    plant = arm.plant(seed)
    touches = draw(
        seed + OF_PUSHES,
        pushes=(PUSH,),
        rounds=plan.pushes,
        collisions=0,
        first=plan.first_push(condition),
    )
    duration = end_of(touches)
    motion = None
    if condition.stops:
        rng = np.random.default_rng(seed + OF_RUN)
        motion = StoppedMotion(arm.arm.model, arm.arm.centre, rng, duration)
    changes = _changes(plant, condition, plan)
    return simulate(plant, seed + OF_RUN, duration, [*changes, *touches], motion)  # type: ignore[arg-type]


def _changes(plant: ChangingPlant, condition: Condition, plan: Plan) -> Iterator[Touch]:
    """Yield the changes of the arm during the run; one at its start is made at once."""
    change, begin = condition.change, plan.begin(condition)
    if change is None:
        return
    if begin == 0.0:
        change(plant, 1.0)
        return
    count = max(1, round(condition.ramp))
    for k in range(count):
        share = (k + 1) / count
        yield _Changing(begin + k, partial(change, plant, share))


class _Changing(Touch):
    """A change of the arm, which is carried out like a contact but touches nothing.

    Args:
        start: time of the change [s].
        change: makes the change.
    """

    kind = "push"

    def __init__(self, start: float, change: Callable[[], None]) -> None:
        super().__init__(start, 0.0, 0)
        self._change = change

    def before(self, plant: Plant, t: float) -> None:
        """Make the change once its time has come."""
        if t >= self.planned:
            self._change()
            self.over = True

    def after(self, plant: Plant, t: float) -> np.ndarray:
        """Return no force, (3,)."""
        return np.zeros(3)


def _recording(
    samples: Samples, names: tuple[str, ...], contacts: tuple[tuple[float, float | None], ...]
) -> Recording:
    """Return the samples as a recording in memory, received at the times of their stamps."""
    stamps = START + samples.t

    def parts(size: int) -> Iterator[list[Part]]:
        for begin in range(0, stamps.size, size):
            own = slice(begin, begin + size)
            t = stamps[own]
            values = samples.q[own], samples.v[own], samples.tau[own]
            yield [Part(np.arange(t.size), JointBlock(t, t, names, *values))]

    return Recording(Path("conditions"), "/joint_states", names, stamps.size, contacts, parts)


def _judged(
    t: np.ndarray,
    flags: np.ndarray,
    valid: np.ndarray,
    *,
    contacts: tuple[Contact, ...],
    begin: float,
    plan: Plan,
) -> Judged:
    """Return what a detector did.

    Args:
        t: times of the samples, (k,) [s].
        flags: whether the detector reports contact, (k,) bool.
        valid: whether it has a verdict, (k,) bool.
        contacts: the true contacts.
        begin: start of the condition [s].
        plan: gives the length of the first part.
    """
    rises = t[flags & ~np.concatenate([[False], flags[:-1]])]
    own = [rises[(rises >= c.start) & (rises <= c.end + GRACE)] for c in contacts]
    delays = [float(rise[0]) - c.start for rise, c in zip(own, contacts, strict=True) if rise.size]
    since = max(begin, SETTLING)
    false = np.setdiff1d(rises[rises >= since], np.concatenate([*own, np.zeros(0)]))
    dt = np.diff(t, append=t[-1])
    judged = t >= since
    free = judged.copy()
    for c in contacts:
        free &= (t < c.start) | (t > c.end + AFTER)
    split = begin + plan.free
    first, later = free & (t < split), free & (t >= split)
    return Judged(
        free=float(dt[free].sum()),
        early=int((false < split).sum()),
        late=int((false >= split).sum()),
        early_share=_share(dt, first, flags),
        late_share=_share(dt, later, flags),
        blind=_share(dt, judged, ~valid),
        found=len(delays),
        pushes=len(contacts),
        delay=float(np.median(delays)) if delays else float("nan"),
    )


def _share(dt: np.ndarray, among: np.ndarray, what: np.ndarray) -> float:
    """Return the share of the time of some samples in which something holds."""
    return float(dt[among & what].sum() / max(float(dt[among].sum()), 1e-9))
