"""Feeling contact: the momentum observer and the detector on top of them."""

from rbd_control.estimation.calibration import Calibration, Motion, calibrate
from rbd_control.estimation.contact_detector import ContactDetector, ContactEvent, Detection
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.momentum_observer import MomentumObserver

__all__ = [
    "Calibration",
    "ContactDetector",
    "ContactEvent",
    "Detection",
    "DetectorParameters",
    "MomentumObserver",
    "Motion",
    "calibrate",
]
