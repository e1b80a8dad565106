"""Contact detection: momentum observers, the detector, and the calibration of its parameters."""

from rbd_control.estimation.contact_detector import ContactDetector
from rbd_control.estimation.detection import BlockDetection, ContactEvent, Detection, Verdict
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import LEVELS, REASONS
from rbd_control.estimation.detector_warnings import detector_warnings
from rbd_control.estimation.observers import (
    KalmanObserver,
    MomentumObserver,
    Observer,
    SecondOrderObserver,
)
from rbd_control.estimation.tool_wrench import ToolWrench, ToolWrenchEstimator

__all__ = [
    "LEVELS",
    "REASONS",
    "BlockDetection",
    "ContactDetector",
    "ContactEvent",
    "Detection",
    "DetectorParameters",
    "KalmanObserver",
    "MomentumObserver",
    "Observer",
    "SecondOrderObserver",
    "ToolWrench",
    "ToolWrenchEstimator",
    "Verdict",
    "detector_warnings",
]
