"""Contact detection: momentum observers, the detector, and the calibration of its parameters."""

from rbd_control.estimation.calibrated_parameters import CalibratedParameters
from rbd_control.estimation.calibration import Calibration, calibrate
from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.detection import BlockDetection, ContactEvent, Detection, Verdict
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import LEVELS, REASONS
from rbd_control.estimation.detector_warnings import detector_warnings
from rbd_control.estimation.drive_gains import (
    DriveGain,
    DriveGainError,
    GainEvidence,
    KnownGain,
    KnownPayload,
)
from rbd_control.estimation.effort_kind import EffortKindDecision, EffortKindJudge
from rbd_control.estimation.fit_watch import FitWatch
from rbd_control.estimation.kalman_observer import KalmanObserver
from rbd_control.estimation.mismatch import Mismatch, find_mismatches
from rbd_control.estimation.momentum_observer import MomentumObserver
from rbd_control.estimation.motion import Motion
from rbd_control.estimation.observers import Observer
from rbd_control.estimation.second_order_observer import SecondOrderObserver
from rbd_control.estimation.tool_wrench import ToolWrench, ToolWrenchEstimator

__all__ = [
    "LEVELS",
    "REASONS",
    "BlockDetection",
    "CalibratedParameters",
    "Calibration",
    "ContactDetector",
    "ContactEvent",
    "Detection",
    "DetectorParameters",
    "DriveGain",
    "DriveGainError",
    "EffortKindDecision",
    "EffortKindJudge",
    "FitWatch",
    "GainEvidence",
    "KalmanObserver",
    "KnownGain",
    "KnownPayload",
    "Mismatch",
    "MomentumObserver",
    "Motion",
    "Observer",
    "SecondOrderObserver",
    "ToolWrench",
    "ToolWrenchEstimator",
    "Verdict",
    "calibrate",
    "detector_warnings",
    "find_mismatches",
]
