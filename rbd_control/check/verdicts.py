"""Test of the thresholds of a check: verdicts of the detector on the motion itself.

Without contact the detector should have a verdict, and report no contact. Otherwise no force is
the weakest that it detects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation import REASONS, ContactDetector, DetectorParameters
from rbd_control.identification import RecordedMotion
from rbd_control.identification.diagnosis import MOST_TOUCHED
from rbd_control.identification.findings import Line, worst

LEAST_VERDICTS = 0.8
"""Share of the samples with a verdict below which the line is doubtful."""


def with_verdicts(
    line: Line, model: Model, parameters: DetectorParameters, motions: Sequence[RecordedMotion]
) -> Line:
    """Return the line about the thresholds, with what the detector reports in the motions.

    The line becomes bad if the detector has no verdict at any time, or reports contact in more than
    :data:`~.diagnosis.MOST_TOUCHED` of the samples with a verdict; doubtful if it reports contact
    at all, or has a verdict in less than :data:`LEAST_VERDICTS` of the samples.

    Args:
        line: the source of the thresholds.
        model: the identified robot.
        parameters: of the detector, per-joint values in the order of the model.
        motions: motions without known contact, efforts as published.
    """
    reasons, levels, contacts = [], [], 0
    for motion in motions:
        block = ContactDetector(model, parameters).update_block(
            motion.t, motion.q, motion.v, motion.tau
        )
        reasons.append(block.reason)
        levels.append(block.level)
        contacts += sum(event.phase == "onset" for _, event in block.events)
    reason = np.concatenate(reasons)
    valid = reason == 0
    share = float(valid.mean())
    flagged = float((np.concatenate(levels)[valid] > 0).mean()) if valid.any() else 0.0
    values = {**line.values, "verdicts": share, "contacts": contacts, "in_contact": flagged}
    counts = np.bincount(reason[~valid]) if share < 1.0 else np.zeros(1)
    why = REASONS[int(counts.argmax())]
    if share < LEAST_VERDICTS:
        often = f"has a verdict in {share:.0%} of the time only" if share else "has no verdict"
        text = f"{line.text}; with these parameters the detector {often} ({why})"
        level = worst((line, Line("", "doubtful" if share else "bad", "")))
        line = replace(line, level=level, text=text)
    if contacts:
        size = f"{contacts} time{'' if contacts == 1 else 's'}, in {flagged:.1%} of the time"
        text = (
            f"{line.text}; with these thresholds the detector reports contact in this recording "
            f"{size}: unless something touches the arm, calibrate"
        )
        level = worst((line, Line("", "bad" if flagged > MOST_TOUCHED else "doubtful", "")))
        line = replace(line, level=level, text=text)
    return replace(line, values=values)
