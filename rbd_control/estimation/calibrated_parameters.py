"""The parameters that ``rbd-control calibrate`` determines."""

from __future__ import annotations

from dataclasses import dataclass

from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.robot.inertial_corrections import InertialCorrections


@dataclass(frozen=True)
class CalibratedParameters(DetectorParameters, InertialCorrections):
    """Results of a calibration: parameters of the detector, and corrections of the arm's model.

    The corrections are of masses, centres of mass and rotor inertias; :meth:`corrected` applies
    them to a model.

    Raises:
        ParameterError: as :class:`~rbd_control.estimation.DetectorParameters`.
    """


START = CalibratedParameters(observer="second_order", observer_damping=0.7)
"""Default parameters from which a calibration starts: the observer with the best measured results
(docs/detection.md)."""
