"""Lines of the check about joints, messages, times and velocities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation import DetectorParameters
from rbd_control.estimation.detector_warnings import rate_warning
from rbd_control.identification import RecordedMotion
from rbd_control.identification.delays import velocity_fits, wrong_velocities
from rbd_control.identification.findings import Level, Line, graded
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
"""Share of samples with velocity that repeat the sample before, above which the line is doubtful
and bad."""
LOST = (0.0, 0.05)
"""Share of messages that are dropped or lack velocity or effort, above which the line is doubtful
and bad."""


def timing_lines(
    found: RecordedMotions, model: Model, parameters: DetectorParameters
) -> tuple[Line, ...]:
    """Return the findings about joints, rate, jitter, gaps, repeated and lost messages.

    Args:
        found: motions, times and counts of messages of the recording.
        model: the robot.
        parameters: of the detector.
    """
    lines = [_joints(found, model), *step_lines(np.diff(found.times), parameters.maximum_gap)]
    lines += _calibrated_rate(found.motions, parameters)
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
    scales = dict.fromkeys((f"{least:.2f}", f"{most:.2f}"))
    text = f"{' to '.join(scales)} times the rate of change of the position"
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


def _calibrated_rate(
    motions: Sequence[RecordedMotion], parameters: DetectorParameters
) -> tuple[Line, ...]:
    """Return the finding about a rate other than that of the calibration, or none."""
    steps = [np.diff(motion.t[~repeated_samples(motion)]) for motion in motions]
    step = np.concatenate([*steps, np.zeros(0)])
    text = rate_warning(float(np.median(step)), parameters) if step.size else ""
    return (Line("calibrated rate", "doubtful", text),) if text else ()


def _jitter(step: np.ndarray, period: float) -> Line:
    late = np.abs(step[step <= GAP_PERIODS * period] - period)
    jitter = float(np.percentile(late, 95.0)) if late.size else 0.0
    level = graded(jitter / period, JITTER)
    shown = max(1e3 * jitter, 0.001)
    text = f"steps differ from {1e3 * period:.3g} ms by less than {shown:.2g} ms (95 %)"
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
    """Return the finding about samples with velocity that repeat the sample before.

    They are the samples that the detector skips, see
    :func:`~rbd_control.identification.motion.repeated_samples`. The velocity of an arm at rest may
    be noise.
    """
    same = moving = 0
    for motion in motions:
        same += int(repeated_samples(motion).sum())
        moving += int((motion.v[1:] != 0.0).any(axis=1).sum())
    share = same / moving if moving else 0.0
    level = graded(share, REPEATED)
    text = "none" if not same else f"{share:.1%} of the samples with velocity are repeated"
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
