"""From the parameters of the detector to the arrays its compiled code takes."""

from __future__ import annotations

import math

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.dynamics.model import PRISMATIC
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import Rules, new_settings, settings_of

_FORCES = ("contact_force_threshold", "collision_force_threshold")


def joint_settings(
    parameters: DetectorParameters, model: Model, design: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """What the detector knows of each joint, see :class:`~.detector_state.Settings`.

    ``design`` is that of the observer, ``bias`` (nv,) what a tare took off.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    n = model.nv
    array = new_settings(n)
    s = settings_of.py_func(array)
    s.base[:] = parameters.for_joints("contact_threshold", n)
    s.collision[:] = parameters.for_joints("collision_threshold", n)
    s.per_speed[:] = parameters.for_joints("threshold_speed", n)
    s.per_acceleration[:] = parameters.for_joints("threshold_acceleration", n)
    s.moving[:] = parameters.for_joints("moving_ratio", n)
    s.slow[:] = parameters.for_joints("reversal_speed", n)
    s.pole[:] = parameters.for_joints("observer_gain", n)
    s.bias[:] = bias
    s.speed_limit[:] = parameters.implausible_speed * model.velocity_limit
    s.turn[:] = np.where(model.arrays.joint_type[:n] == PRISMATIC, 0.0, 2.0 * math.pi)
    s.design[:] = design
    covariance = parameters.covariance(n)
    if covariance is not None:
        s.whitening[:] = np.linalg.inv(np.linalg.cholesky(covariance))
    return array


def arm_rules(parameters: DetectorParameters) -> np.ndarray:
    """What the detector knows of the whole arm, see :class:`~.detector_state.Rules`."""
    values = {name: getattr(parameters, name) for name in Rules._fields}
    values.update({name: values[name] or math.inf for name in _FORCES})
    if not parameters.residual_covariance:
        values["statistic_threshold"] = math.inf
    return np.array(list(values.values()))
