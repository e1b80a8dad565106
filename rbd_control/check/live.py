"""The check of the first seconds of joint states, computed in slices beside the detector.

The result has the lines of :func:`~rbd_control.check.run.check_recording` that apply to a running
arm: rate, jitter, gaps, repeated samples, velocity, kind of the effort, exchanged efforts, payload,
mounting, motor inertia, friction, bias, contact, and the weakest push that the present thresholds
detect. Exchanged joint names are not searched for, because this requires the dynamics of the whole
motion for every pair of joints.

A contact must not count as a bias. Samples with a raised contact flag are left out, and so are
samples with an outlying residual (:mod:`~rbd_control.identification.diagnosis`). If the flag is
raised for more than 60 % of the samples (:data:`~.diagnosis.MOST_FLAGGED`), the model is
probably wrong: all samples are then used. The line ``contact`` reports it from 35 % on.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.check.run import push_line
from rbd_control.check.timing import repeated_line, step_lines, velocity_line
from rbd_control.check.weakest_push import pushes_in_steps
from rbd_control.dynamics import Model
from rbd_control.errors import RecordingError
from rbd_control.estimation import DetectorParameters
from rbd_control.identification import RecordedMotion
from rbd_control.identification.diagnosis import (
    MARGIN,
    MOST_FLAGGED,
    MOST_TOUCHED,
    diagnose_in_steps,
    near_flags,
)
from rbd_control.identification.efforts import measured
from rbd_control.identification.evidence import Evidence, gather_in_steps, joined
from rbd_control.identification.findings import Level, Line, worst

Array = NDArray[np.float64]

PERIOD = 0.016
"""Shortest time between stored samples [s]."""
MOST_STEPS = 20_000
"""Maximum number of stored time steps between samples."""
PART = 2.5
"""Length of the parts of the motion whose dynamics one slice computes [s]."""
FEWEST = 20
"""Minimum number of filtered samples (rows of the regression) for the lines about the arm."""
LASTING = 0.95
"""Share of the samples near a raised flag from which a moving arm has no contact that goes."""
AT_REST = 0.05
"""Speed below which the whole motion counts as rest [rad/s or m/s]."""
POSES = 8
"""Number of poses in which pushes are evaluated."""


class StartCheck:
    """Collects the samples of the first seconds and checks them; memory is bounded.

    Args:
        model: the model that the detector uses.
        parameters: of the detector, per-joint values in the order of the model.
        seconds: length of the motion that is checked [s].

    Attributes:
        lines: the findings; empty until :meth:`in_slices` has finished.
    """

    def __init__(self, model: Model, parameters: DetectorParameters, seconds: float) -> None:
        self._model, self._parameters, self._seconds = model, parameters, seconds
        self._bounds = parameters.bounds(model)
        self._first = self._last = float("nan")
        self._slot = -float("inf")
        self._steps: list[float] = []
        self._samples: list[tuple[float, Array, Array, Array]] = []
        self._touched: list[float] = []
        self.is_full = False
        """Whether the samples cover the required time; the check can then be computed."""
        self.lines: tuple[Line, ...] = ()

    def add(self, stamp: float, q: Array, v: Array, tau: Array, is_touched: bool = False) -> None:
        """Process one sample for the check; ignore it if the samples suffice already.

        Of each period :data:`PERIOD` only the first sample is stored.

        Args:
            stamp: time of the sample [s]. If it does not increase, or increases by more than the
                length of the check, or the position jumps, as where a recording starts again,
                earlier samples are discarded.
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s].
            tau: joint efforts as published, (nv,), of the kind ``effort_kind``.
            is_touched: whether the detector reports a contact.
        """
        if self.is_full:
            return
        is_due = stamp // PERIOD > self._slot
        goes_back = stamp <= self._last or stamp - self._last > self._seconds
        if goes_back or (is_due and self._has_jumped(stamp, q)):
            self._steps.clear()
            self._samples.clear()
            self._touched.clear()
            self._slot = -float("inf")
        if not self._samples:
            self._first = stamp
        elif len(self._steps) < MOST_STEPS:
            self._steps.append(stamp - self._last)
        self._last = stamp
        if is_touched and (not self._touched or stamp - self._touched[-1] >= PERIOD):
            self._touched.append(stamp)
        if stamp // PERIOD > self._slot:
            self._slot = stamp // PERIOD
            self._samples.append((stamp, q.copy(), v.copy(), tau.copy()))
        self.is_full = stamp - self._first >= self._seconds

    def _has_jumped(self, stamp: float, q: Array) -> bool:
        """Return whether the motion since the last stored sample is implausible."""
        if not self._samples:
            return False
        n = len(self._model.joint_names)
        before, last, _, _ = self._samples[-1]
        way, turn = np.abs(q - last)[-n:], self._bounds.turn[-n:]
        way = np.where(turn > 0.0, np.minimum(way, np.abs(turn - way)), way)
        limit = self._parameters.implausible_jump + self._bounds.speed[-n:] * (stamp - before)
        return bool((way > limit).any())

    @property
    def level(self) -> Level:
        """The worst level of the lines; ``good`` until the check is finished."""
        return worst(self.lines)

    def in_slices(self) -> Generator[None, None, None]:
        """Yield after each slice of the computation, which sets :attr:`lines` at its end.

        Call it once, when :attr:`is_full` is true; the stored samples are used up.
        """
        motion = RecordedMotion(
            "start", *(np.array(each) for each in zip(*self._samples, strict=True))
        )
        self._samples.clear()
        lines = [*step_lines(np.array(self._steps), self._parameters.maximum_gap)]
        self._steps.clear()
        lines += repeated_line([motion]), velocity_line([motion], self._model)
        yield
        if lines[-1].level == "bad":
            self.lines = tuple(lines)
            return
        if not measured([motion])[0].any():
            text = "not measured on any joint (exactly zero or constant): fix the driver"
            self.lines = (*lines, Line("effort", "bad", text))
            return
        flagged = near_flags(motion.t, self._touched)
        self._touched.clear()
        share = float(flagged.mean())
        is_contact = share <= MOST_FLAGGED
        evidence = yield from self._evidence(motion.only(~flagged) if is_contact else motion)
        if evidence is None:
            self.lines = (*lines, _nothing_told(share))
            return
        lines += yield from self._arm(motion, evidence, share)
        if not is_contact:
            # An error of the model moves with the arm; what comes and goes, or meets an arm at
            # rest, may be a hand as well.
            if share < LASTING or float(np.abs(motion.v).max()) < AT_REST:
                lines = [_if_untouched(line) for line in lines]
            text = "not determined, because the contact flag is raised most of the time"
            self.lines = (*lines, Line("weakest push", "doubtful", text))
            return
        rows = np.linspace(0, motion.t.size - 1, POSES).astype(int)
        pushes = yield from pushes_in_steps(
            self._model, self._parameters, motion.q[rows], motion.v[rows]
        )
        lines.append(push_line(pushes))
        self.lines = tuple(lines)

    def _evidence(self, motion: RecordedMotion) -> Generator[None, None, Evidence | None]:
        """Yield after each part of the motion; return the evidence.

        Unusable parts are left out. With fewer than :data:`FEWEST` rows there is no evidence: None.
        """
        parts: list[Evidence] = []
        # The filters must not run across a contact that is left out.
        parameters = replace(
            self._parameters, maximum_gap=min(self._parameters.maximum_gap, MARGIN)
        )
        for start in np.arange(motion.t[0], motion.t[-1], PART):
            part = motion.only((motion.t >= start) & (motion.t < start + PART))
            # A part may be too short, or have a gap in it.
            if part.t.size > 1:
                with suppress(RecordingError, ValueError, IndexError):
                    parts.append((yield from gather_in_steps([part], self._model, parameters)))
            yield
        return joined(parts) if sum(part.t.size for part in parts) >= FEWEST else None

    def _arm(
        self, motion: RecordedMotion, evidence: Evidence, flagged: float
    ) -> Generator[None, None, list[Line]]:
        """Yield after each hypothesis, and return the lines about the arm."""
        found = yield from diagnose_in_steps(evidence, [motion], self._model, self._parameters)
        return [*found.lines, _contact(flagged, found.touched)]


def _if_untouched(line: Line) -> Line:
    if line.level != "bad":
        return line
    return replace(line, level="doubtful", text=f"if nothing touches the arm: {line.text}")


def _contact(flagged: float, outlying: float) -> Line:
    """Return the line about contacts during the check.

    Args:
        flagged: share of the samples within :data:`MARGIN` of a raised flag.
        outlying: share of the remaining samples that are left out because of an outlying residual.
    """
    values = {"flagged": flagged, "outlying": outlying}
    if flagged > MOST_TOUCHED:
        text = (
            f"contact flag raised in {flagged:.0%} of the time: either the model, the efforts or "
            f"the thresholds are wrong, or contact during the check looks like a bias; activate "
            f"the node again with the arm moving freely"
        )
        return Line("contact", "doubtful", text, values)
    left_out = flagged + (1.0 - flagged) * outlying
    if left_out == 0.0:
        return Line("contact", "good", "none during the check", values)
    text = f"contact during the check: {left_out:.0%} of the time is left out"
    return Line("contact", "good", text, values)


def _nothing_told(flagged: float) -> Line:
    """Return the line for a motion with too few usable samples.

    Args:
        flagged: share of the samples within :data:`MARGIN` of a raised flag.
    """
    if flagged:
        text = (
            f"contact during the check: the flag was raised in {flagged:.0%} of the time, and the "
            f"rest is too short; activate the node again with the arm moving freely"
        )
        return Line("effort", "doubtful", text)
    text = "the samples are too far apart, or too implausible, to check the arm"
    return Line("effort", "bad", text)
