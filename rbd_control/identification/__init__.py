"""Identification of an arm from recordings: gains, friction, corrections, delays, thresholds."""

from rbd_control.identification.calibration import Calibration, calibrate
from rbd_control.identification.diagnosis import (
    Diagnosis,
    GraspWatch,
    MotionWatch,
    PayloadWatch,
    diagnose,
)
from rbd_control.identification.drive_gains import (
    DriveGain,
    DriveGainError,
    GainEvidence,
    KnownGain,
    KnownPayload,
)
from rbd_control.identification.effort_kind import EffortKindDecision, EffortKindJudge
from rbd_control.identification.motion import RecordedMotion
from rbd_control.identification.threshold_calibration import CalibratedParameters

__all__ = [
    "CalibratedParameters",
    "Calibration",
    "Diagnosis",
    "DriveGain",
    "DriveGainError",
    "EffortKindDecision",
    "EffortKindJudge",
    "GainEvidence",
    "GraspWatch",
    "KnownGain",
    "KnownPayload",
    "MotionWatch",
    "PayloadWatch",
    "RecordedMotion",
    "calibrate",
    "diagnose",
]
