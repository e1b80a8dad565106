"""Conversion of the detector's parameters to arrays that its compiled code reads."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import Settings, new_settings
from rbd_control.estimation.observers import Observer
from rbd_control.joint_states.plausibility import limits_or

LOADED = 0.5
"""Load above which an effort of exactly zero counts as not measured, as a fraction of the contact
threshold: the effort of any drive shows such a load."""

_FORCES = ("contact_force_threshold", "collision_force_threshold")


def decision_settings(
    parameters: DetectorParameters, model: Model, observer: Observer, bias: np.ndarray
) -> Settings:
    """Return the settings of the compiled decision between contact and no contact, as arrays.

    Args:
        parameters: of the detector, with joint thresholds above zero.
        model: the robot.
        observer: the observer that ``parameters.make_observer(model)`` returns.
        bias: constant external torque that tares have removed, (nv,) [N·m or N].

    Raises:
        ParameterError: for a per-joint parameter or a ``residual_covariance`` of the wrong length.
    """
    n = model.nv
    settings = new_settings(observer.kind, observer.design)
    joint, arm = settings.joint, settings.arm
    for item in fields(parameters):
        if item.metadata["compiled"] and item.metadata["per_joint"]:
            joint[item.name] = parameters.for_joints(item.name, n)
    joint["bias"] = bias
    # A limit of zero in a description counts as unknown.
    joint["saturated"] = parameters.saturation_ratio * limits_or(model.effort_limit, math.inf)
    joint["highest_speed"], joint["highest_effort"], joint["turn"] = parameters.bounds(model)
    joint["loaded"] = LOADED * joint["contact_threshold"]
    joint["loaded"][: n - len(model.joint_names)] = math.inf  # a floating base has no motors
    for field in arm.dtype.names or ():
        arm[field] = getattr(parameters, field)
    for field in _FORCES:
        arm[field] = getattr(parameters, field) or math.inf
    covariance = parameters.covariance(n)
    if covariance is None:
        arm["statistic_threshold"] = math.inf
    else:
        settings.whitening[:] = np.linalg.inv(np.linalg.cholesky(covariance))
    return settings
