"""The result of ``rbd-control calibrate`` as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from rbd_control.estimation import Calibration, DriveGain


def calibration_json(calibration: Calibration) -> str:
    """Return the calibration as JSON text.

    Keys: ``duration`` of the motion [s], ``false_alarms_per_hour``, ``effort_kind``; ``joints`` by
    name with ``rms_before``, ``rms_after``, ``prediction_error``, ``largest``, ``threshold`` (N·m
    or N) and ``effort_gain``; ``drive_gains`` by name with ``gain``, ``standard_error`` (N·m or N
    per unit of effort) and ``given``, empty if no gain was identified; and ``warnings``.
    """
    parameters, n = calibration.parameters, len(calibration.joints)
    gain = parameters.for_joints("effort_gain", n)
    content: dict[str, Any] = {
        "duration": calibration.duration,
        "false_alarms_per_hour": calibration.false_alarms_per_hour,
        "effort_kind": parameters.effort_kind,
        "joints": {
            joint.joint: {
                "rms_before": joint.rms_before,
                "rms_after": joint.rms_after,
                "prediction_error": joint.prediction_error,
                "largest": joint.largest,
                "threshold": joint.threshold,
                "effort_gain": float(gain[i]),
            }
            for i, joint in enumerate(calibration.joints)
        },
        "drive_gains": {one.joint: _drive_gain(one) for one in calibration.gains},
        "warnings": list(calibration.notes),
    }
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _drive_gain(one: DriveGain) -> dict[str, Any]:
    """Return one gain; an infinite error, of a gain that the user accepts, is null."""
    error = one.standard_error if math.isfinite(one.standard_error) else None
    return {"gain": one.gain, "standard_error": error, "given": one.is_given}
