"""Feeling contact: the momentum observer, friction, and the detector on top of them."""

from rbd_control.estimation.contact_detector import ContactDetector, ContactEvent, Detection
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.friction import (
    CoulombViscousFriction,
    Friction,
    NoFriction,
    SigmoidFriction,
)
from rbd_control.estimation.momentum_observer import MomentumObserver

__all__ = [
    "ContactDetector",
    "ContactEvent",
    "CoulombViscousFriction",
    "Detection",
    "DetectorParameters",
    "Friction",
    "MomentumObserver",
    "NoFriction",
    "SigmoidFriction",
]
