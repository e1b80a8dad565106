"""What the package says about a run: the only place of the study that knows its checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbd_control.check.live import StartCheck
from rbd_control.check.run import check_recording
from rbd_control.dynamics import Model
from rbd_control.errors import RbdControlError
from rbd_control.estimation import ContactDetector, DetectorParameters
from rbd_control.estimation.detector_warnings import rate_warning
from rbd_control.identification import EffortKindJudge, MotionWatch, PayloadWatch
from rbd_control.joint_states import SampleBlock
from rbd_control.playback.recording import Recording

FIRST = 10.0
"""Time after its start in which the node compares arm and model [s]: ``start_check_time`` and
``FIRST_SECONDS`` of the node."""


@dataclass(frozen=True)
class Sentence:
    """A warning or an error of the package."""

    who: str
    """``calibrate``, ``node``, ``replay`` or ``check``."""
    text: str
    time: float | None = None
    """Time since the start at which a running node says it [s]; None for the others."""


def said(
    blocks: Sequence[tuple[SampleBlock, np.ndarray]],
    warnings: Sequence[str],
    free: Recording,
    model: Model,
    parameters: DetectorParameters,
) -> list[Sentence]:
    """Return the warnings of the node, of ``replay`` and of ``check``, without green findings.

    Args:
        blocks: the samples as the node judges them, each with the contact flags (k,).
        warnings: the warnings of ``replay`` on the whole recording.
        free: a part of the recording without contact, as recorded for ``check``.
        model: the model that the detector uses.
        parameters: of the detector.
    """
    found = [Sentence("node", *each) for each in _node(blocks, model, parameters)]
    found += [Sentence("replay", text) for text in warnings]
    try:
        lines = check_recording(free, model, parameters).lines
    except RbdControlError as error:
        return [*found, Sentence("check", error.message)]
    return found + [
        Sentence("check", f"{line.topic}: {line.text}") for line in lines if line.level != "good"
    ]


def _node(
    blocks: Sequence[tuple[SampleBlock, np.ndarray]], model: Model, parameters: DetectorParameters
) -> list[tuple[str, float]]:
    """Return the warnings in log and diagnostics of a node that was activated at the start.

    Each has the time since the start at which the node gives it [s].
    """
    kind, fit = EffortKindJudge(model, parameters), MotionWatch(FIRST)
    start, detector = StartCheck(model, parameters, FIRST), ContactDetector(model, parameters)
    payload = PayloadWatch(model, parameters)
    refuted: dict[str, float] = {}
    first = float(blocks[0][0].stamp[0]) if blocks else 0.0
    for block, flags in blocks:
        if block.v is None or block.tau is None:
            continue
        kind.add_block(block.stamp, block.q, block.v, block.tau)
        fit.add_block(block.stamp, block.q, block.v, block.tau)
        for k in range(len(block.stamp)):
            payload.add(float(block.stamp[k]), block.q[k], block.v[k], block.tau[k], bool(flags[k]))
            if payload.is_due and (line := payload.explain(np.zeros(model.nv))):
                refuted.setdefault(line.text, float(block.stamp[k]) - first)
        if not start.is_full:
            detector.update_block(block.stamp, block.q, block.v, block.tau)
            for sample, flag in zip(block.samples(), flags.tolist(), strict=True):
                assert sample.v is not None
                assert sample.tau is not None
                start.add(sample.stamp, sample.q, sample.v, sample.tau, flag)
        if kind.is_refuted:
            refuted.setdefault(f"no verdict: {kind.decision.text}", FIRST)
    told = [line.text for line in fit.remarks(detector)] if fit.is_full else []
    if warning := rate_warning(detector.period, parameters):
        told.append(warning)
    if start.is_full:
        for _ in start.in_slices():
            pass
    lines = [f"{line.topic}: {line.text}" for line in start.lines if line.level != "good"]
    return [*refuted.items(), *((text, FIRST) for text in (*told, *lines))]
