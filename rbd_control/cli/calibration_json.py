"""The result of ``rbd-control calibrate`` as JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from rbd_control.estimation import Calibration, DriveGain
from rbd_control.robot.inertial_corrections import CORRECTIONS, ROTOR

_FRICTION = ("coulomb", "viscous", "offset", "stribeck", "velocity_scale")


def calibration_json(calibration: Calibration) -> str:
    """Return the result of a calibration as JSON text; :func:`calibration_values` has the keys."""
    content = calibration_values(calibration)
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def calibration_values(calibration: Calibration) -> dict[str, Any]:
    """Return the result of a calibration as plain values that ``json`` can write.

    Keys: ``duration`` of the motion that was used [s], ``false_alarms_per_hour`` over all joints,
    ``effort_kind``, ``velocity_delay`` [s]; ``joints`` by name with ``rms_before``, ``rms_after``,
    ``prediction_error``, ``largest``, ``threshold``, ``collision_threshold`` [N·m or N],
    ``threshold_speed`` [N·m·s/rad or N·s/m], ``observer_gain`` [1/s], ``effort_gain`` (N·m or N per
    unit of effort), ``friction`` (by the names of its parameters), ``mass_correction`` [kg],
    ``centre_correction`` (distance, [m]) and ``rotor_inertia`` [kg·m² or kg]; ``drive_gains`` by
    name with ``gain``, ``standard_error`` (N·m or N per unit of effort; None if infinite) and
    ``given``, empty if no gain was identified; and ``warnings``.
    """
    parameters, n = calibration.parameters, len(calibration.joints)
    gain, observer, slope, collision = (
        parameters.for_joints(name, n)
        for name in ("effort_gain", "observer_gain", "threshold_speed", "collision_threshold")
    )
    friction = {name: parameters.for_joints(f"friction_{name}", n) for name in _FRICTION}
    corrections = np.column_stack([parameters.for_joints(name, n) for name in CORRECTIONS])
    return {
        "duration": calibration.duration,
        "false_alarms_per_hour": calibration.false_alarms_per_hour,
        "effort_kind": parameters.effort_kind,
        "velocity_delay": parameters.velocity_delay,
        "joints": {
            joint.joint: {
                "rms_before": joint.rms_before,
                "rms_after": joint.rms_after,
                "prediction_error": joint.prediction_error,
                "largest": joint.largest,
                "threshold": joint.threshold,
                "threshold_speed": float(slope[i]),
                "collision_threshold": float(collision[i]),
                "observer_gain": float(observer[i]),
                "effort_gain": float(gain[i]),
                "friction": {name: float(values[i]) for name, values in friction.items()},
                "mass_correction": float(corrections[i, 0]),
                "centre_correction": float(np.linalg.norm(corrections[i, 1:ROTOR])),
                "rotor_inertia": float(corrections[i, ROTOR]),
            }
            for i, joint in enumerate(calibration.joints)
        },
        "drive_gains": {one.joint: _drive_gain(one) for one in calibration.gains},
        "warnings": list(calibration.notes),
    }


def _drive_gain(one: DriveGain) -> dict[str, Any]:
    """Return one gain; an infinite standard error is null."""
    error = one.standard_error if math.isfinite(one.standard_error) else None
    return {"gain": one.gain, "standard_error": error, "given": one.is_given}
