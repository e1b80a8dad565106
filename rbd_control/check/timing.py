"""Lines of the check about messages and about undisturbed motion.

**Explanations of a motion without its apparent contacts.**

An apparent contact is an outlier of the residual relative to the rest of the motion. If it were
kept, it would be explained as a bias, a payload or a wrong unit. If more than :data:`MOST_TOUCHED`
of the samples would be left out, the cause is an error of the model, not a contact, and no further
samples are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.explanations import Evidence, Explanation, explain_in_steps
from rbd_control.check.findings import Level, Line
from rbd_control.dynamics import Model
from rbd_control.identification import RecordedMotion
from rbd_control.identification.delays import velocity_fits, wrong_velocities
from rbd_control.identification.motion import repeated_samples
from rbd_control.joint_states.acceptance import GAP_PERIODS
from rbd_control.playback.motions import RecordedMotions

GOOD_RATE = 100.0
"""Lowest rate at which collisions are detected in time [Hz]; down to 5 % less counts as good."""
LOWEST_RATE = 10.0
"""Rate below which contact cannot be detected [Hz]."""
JITTER = (0.5, 1.5)
"""Jitter above which the line is doubtful and bad: 95th percentile of the deviation of the time
between two samples from the median, in periods, without gaps."""
GAP = (0.002, 0.05)
"""Share of the time in gaps above which the line is doubtful and bad."""
REPEATED = (0.02, 0.3)
"""Share of samples that repeat the sample before while the arm moves, above which the line is
doubtful and bad."""
LOST = (0.0, 0.05)
"""Share of messages that are dropped or lack velocity or effort, above which the line is doubtful
and bad."""


def timing_lines(found: RecordedMotions, model: Model, maximum_gap: float) -> tuple[Line, ...]:
    """Return the findings about joints, rate, jitter, gaps, repeated and lost messages.

    Args:
        found: motions, times and counts of messages of the recording.
        model: the robot.
        maximum_gap: time between samples above which the detector restarts [s].
    """
    lines = [_joints(found, model), *step_lines(np.diff(found.times), maximum_gap)]
    lines.append(repeated_line(found.motions))
    lines.append(_lost(found))
    return tuple(lines)


def step_lines(step: np.ndarray, maximum_gap: float) -> tuple[Line, ...]:
    """Return the findings about rate, jitter and gaps; none without a positive step.

    Args:
        step: times between successive samples, (k,) [s]; only positive times count.
        maximum_gap: time between samples above which the detector restarts [s].
    """
    step = step[step > 0.0]
    if not step.size:
        return ()
    period = float(np.median(step))
    return _rate(period), _jitter(step, period), _gaps(step, period, maximum_gap)


def velocity_line(motions: Sequence[RecordedMotion], model: Model) -> Line:
    """Return the finding about velocities that disagree with the change of the positions.

    It is bad if a velocity is wrong (:mod:`~rbd_control.identification.delays`), otherwise good.
    """
    fits = velocity_fits(motions, model)
    moving = {fit.joint: fit.scale for fit in fits if np.isfinite(fit.scale)}
    values = {"scale": moving}
    wrong = wrong_velocities(fits)
    if wrong:
        return Line("velocity", "bad", f"{wrong}; efforts and arm cannot be checked before", values)
    if not moving:
        return Line("velocity", "good", "not compared with the positions: no joint moves", values)
    least, most = min(moving.values()), max(moving.values())
    text = f"{least:.2f} to {most:.2f} times the rate of change of the position"
    return Line("velocity", "good", f"{text} on the joints that move", values)


def _joints(found: RecordedMotions, model: Model) -> Line:
    values = {"joints": dict(zip(model.joint_names, found.joint_names, strict=True))}
    if found.notes:
        return Line("joints", "good", "; ".join(found.notes), values)
    return Line("joints", "good", f"all {len(model.joint_names)} joints matched by name", values)


def _rate(period: float) -> Line:
    rate = 1.0 / period
    level: Level = "good" if rate > 0.95 * GOOD_RATE else "doubtful"
    text = f"{rate:.0f} Hz"
    if level == "doubtful":
        text += (
            f": contacts are detected late, and short collisions not at all; publish joint states "
            f"at {GOOD_RATE:g} Hz or more"
        )
    if rate < LOWEST_RATE:
        level = "bad"
        text = (
            f"{rate:.3g} Hz is too slow to detect contact; if the times are in milliseconds, "
            f"divide them by 1000"
        )
    return Line("rate", level, text, {"rate": rate})


def _jitter(step: np.ndarray, period: float) -> Line:
    late = np.abs(step[step <= GAP_PERIODS * period] - period)
    jitter = float(np.percentile(late, 95.0)) if late.size else 0.0
    level = graded(jitter / period, JITTER)
    text = f"steps differ from {1e3 * period:.3g} ms by less than {1e3 * jitter:.2g} ms (95 %)"
    if level != "good":
        text += ": the stamps are not the times of measurement; stamp the samples in the driver"
    return Line("jitter", level, text, {"period": period, "jitter": jitter})


def _gaps(step: np.ndarray, period: float, maximum_gap: float) -> Line:
    gaps = step[step > GAP_PERIODS * period]
    share = float(gaps.sum() / step.sum())
    values = {"gaps": int(gaps.size), "longest": float(step.max()), "share": share}
    if not gaps.size:
        return Line("gaps", "good", f"none; longest step {1e3 * step.max():.3g} ms", values)
    level = graded(share, GAP)
    restarts = int((gaps > maximum_gap).sum())
    if restarts and level == "good":
        level = "doubtful"
    text = f"{gaps.size} steps longer than {GAP_PERIODS:g} periods, {share:.1%} of the time"
    text += f", the longest {step.max():.3g} s"
    if restarts:
        text += (
            f"; after {restarts} of them, longer than {maximum_gap:g} s, the detector starts again"
        )
    return Line("gaps", level, text, values)


def repeated_line(motions: Sequence[RecordedMotion]) -> Line:
    """Return the finding about samples that repeat the sample before while the arm moves.

    They are the samples that the detector skips, see
    :func:`~rbd_control.identification.motion.repeated_samples`. The arm moves if a velocity is
    not zero.
    """
    same = moving = 0
    for motion in motions:
        same += int(repeated_samples(motion).sum())
        moving += int((motion.v[1:] != 0.0).any(axis=1).sum())
    share = same / moving if moving else 0.0
    level = graded(share, REPEATED)
    text = "none" if not same else f"{share:.1%} of the samples of the moving arm are repeated"
    if level != "good":
        text += ": the driver publishes faster than it reads; the true rate is lower"
    return Line("repeated samples", level, text, {"repeated": share})


def _lost(found: RecordedMotions) -> Line:
    lost = sum(found.dropped.values()) + sum(found.missing.values())
    share = lost / found.messages if found.messages else 0.0
    if not lost and not found.jumps:
        return Line("messages", "good", f"all {found.messages} can be used", {"unused": 0})
    level = graded(share, LOST)
    if found.jumps and level == "good":
        level = "doubtful"
    said = [f"of {found.messages} messages {found.unused}"] if lost else []
    if found.jumps:
        times = len(found.jumps)
        said.append(f"the clock went back {'once' if times == 1 else f'{times} times'}")
    return Line("messages", level, "; ".join(said), {"unused": lost})


def graded(value: float, bounds: tuple[float, float]) -> Level:
    """Return ``good`` up to the first bound, ``bad`` above the second, ``doubtful`` in between."""
    if value > bounds[1]:
        return "bad"
    return "doubtful" if value > bounds[0] else "good"


Array = NDArray[np.float64]

OUTLYING = 8.0
"""Smallest residual of an apparent contact, in robust standard deviations from the median.

The larger of this bound and the bound by :data:`OUTLYING_SHARE` applies.
"""
OUTLYING_SHARE = 0.1
"""Smallest residual of an apparent contact, as a fraction of the default contact threshold."""
MOST_TOUCHED = 0.35
"""Largest share of the time that is excluded as contact; more indicates a model error."""
PAD = 4
"""Number of filtered samples on each side of an apparent contact that are excluded as well."""
PASSES = 3
"""Maximum number of searches, each without the contacts found by the previous one."""


@dataclass(frozen=True, eq=False)
class Undisturbed:
    """The explanations of the misfit of a motion without its apparent contacts.

    Attributes:
        found: the explanations in the order of the search.
        evidence: the regression of the samples of the last search, corrected by the explanations;
            these include the contacts that only the last of :data:`PASSES` searches found.
        kept: which of the n filtered samples are kept, (n,) bool.
        joints: joints whose residual is an outlier in the samples that are left out, (nv,) bool.
    """

    found: tuple[Explanation, ...]
    evidence: Evidence
    kept: NDArray[np.bool_]
    joints: NDArray[np.bool_]

    @property
    def touched(self) -> float:
        """Fraction of the samples that are left out as apparent contacts."""
        return float(1.0 - self.kept.mean())


def explain_undisturbed(
    gathered: Evidence,
    level: Array,
    alive: NDArray[np.bool_],
    exchanged: Callable[[int, int], Evidence | None],
    *,
    has_gravity: bool = True,
) -> Generator[None, None, Undisturbed]:
    """Yield after each explanation that was tried, and return the explanations of the motion.

    The search of :func:`~rbd_control.check.explanations.explain_in_steps` is repeated, up to
    :data:`PASSES` times in all, without the samples in which the remaining residual is an outlier.

    Args:
        gathered: evidence (regression of the efforts) of the whole motion.
        level: default contact threshold of each joint, (nv,) [N·m or N].
        alive: joints whose effort is measured, (nv,).
        exchanged: returns the evidence of the whole motion with the names of two joints, given by
            their indices in v, exchanged; None if there is no evidence.
        has_gravity: whether the declared effort includes the gravity torque.
    """
    kept = np.ones(len(gathered.raw), dtype=bool)
    joints = np.zeros(gathered.raw.shape[1], dtype=bool)
    found: tuple[Explanation, ...] = ()
    evidence = gathered
    for _ in range(PASSES):

        def exchanged_and_kept(i: int, j: int, kept: NDArray[np.bool_] = kept) -> Evidence | None:
            evidence = exchanged(i, j)
            if evidence is None or len(evidence.raw) != kept.size:
                return None
            return evidence.rows(kept)

        found, evidence = yield from explain_in_steps(
            gathered.rows(kept), level, alive, exchanged_and_kept, has_gravity=has_gravity
        )
        by_joint = _outlying(evidence, level, alive)
        out = _padded(np.asarray(by_joint.any(axis=1)))
        more = kept.copy()
        more[np.flatnonzero(kept)[out]] = False
        if not out.any() or 1.0 - more.mean() > MOST_TOUCHED:
            break
        kept = more
        joints |= by_joint.any(axis=0)
    return Undisturbed(found, evidence, kept, joints)


def _outlying(evidence: Evidence, level: Array, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the residual of each joint looks like contact, (n, nv) bool."""
    residual = evidence.effort - evidence.need
    centre = np.median(residual, axis=0)
    spread = 1.4826 * np.median(np.abs(residual - centre), axis=0)
    limit = np.maximum(OUTLYING * spread, OUTLYING_SHARE * level)
    return np.asarray((np.abs(residual - centre) > limit) & alive)


def _padded(out: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the samples in ``out`` (n,) and :data:`PAD` neighbours on both sides, (n,) bool."""
    near = np.convolve(out, np.ones(2 * PAD + 1))[PAD : PAD + out.size]
    return np.asarray(near > 0.5)  # noqa: PLR2004 - counts: one or more
