"""Default thresholds of an arm that is not calibrated, from its effort limits and its reach.

A parameter of zero selects the default of its joint. With ``limit`` the effort limit and
``push`` the largest torque that a force of 20 N at any link causes at the joint in the middle of
all joint ranges, the defaults are::

    contact   = max(min(0.4 push, 10 % of limit), 5 % of limit, min(1.5, 15 % of limit))
    collision = max(5 contact, 15 % of limit)

The share of the push makes it detectable in poses with a shorter lever arm. The shares of the
effort limit are a margin for unidentified friction, which grows with the size of the drive. The
default of a joint without an effort limit is ``max(0.4 push, 1.5)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.estimation.detector_parameters import (
    LARGEST_COLLISION_THRESHOLD,
    LARGEST_THRESHOLD,
    DetectorParameters,
)
from rbd_control.joint_states.plausibility import limits_or

Array = NDArray[np.float64]
P = TypeVar("P", bound=DetectorParameters)

PUSH = 20.0
"""Force that the default thresholds are made to detect [N]."""
PUSH_SHARE = 0.4
"""Default contact threshold as a fraction of the torque that a force of :data:`PUSH` causes."""
HIGHEST_SHARE = 0.1
"""Largest contribution of :data:`PUSH` to a default contact threshold, as a fraction of the effort
limit."""
LOWEST_SHARE = 0.05
"""Smallest default contact threshold as a fraction of the effort limit."""
SMALL_FRICTION = 1.5
"""Friction of small joints, a lower bound of default contact thresholds [N·m or N]."""
SMALL_SHARE = 0.15
"""Upper bound that replaces :data:`SMALL_FRICTION` if lower, as a fraction of the effort limit."""
COLLISION_RATIO = 5.0
"""Smallest default collision threshold as a multiple of the contact threshold."""
COLLISION_SHARE = 0.15
"""Smallest default collision threshold as a fraction of the effort limit."""
ORDER = 0.5
"""Largest default contact threshold as a fraction of a collision threshold that is given."""


def with_default_thresholds(parameters: P, model: Model) -> P:
    """Return the parameters with defaults in place of joint thresholds that are zero.

    The parameters concerned are ``contact_threshold`` and ``collision_threshold``. A default
    contact threshold is at most half of a collision threshold that is given for the same joint.

    Args:
        parameters: of the detector, per-joint values in the order of the model.
        model: the robot.

    Returns:
        Parameters with one value per joint; the same object when every threshold is given.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    contact = parameters.for_joints("contact_threshold", model.nv)
    collision = parameters.for_joints("collision_threshold", model.nv)
    if (contact > 0.0).all() and (collision > 0.0).all():
        return parameters
    usual = default_contact_thresholds(model)
    usual = np.where(collision > 0.0, np.minimum(usual, ORDER * collision), usual)
    contact = np.where(contact > 0.0, contact, usual)
    collision = np.where(collision > 0.0, collision, least_collision_thresholds(model, contact))
    return replace(
        parameters, contact_threshold=tuple(contact), collision_threshold=tuple(collision)
    )


def default_contact_thresholds(model: Model) -> Array:
    """Return the default contact thresholds, (nv,) [N·m or N].

    With ``limit`` the effort limit of the joint and ``push`` the largest torque that a force of
    20 N at the origin of any link causes at the joint in the middle of all joint ranges, they are
    ``max(min(0.4 push, 10 % of limit), 5 % of limit, min(1.5, 15 % of limit))``; without an effort
    limit ``max(0.4 push, 1.5)``.
    """
    limit = limits_or(model.effort_limit, np.inf)
    push = np.minimum(PUSH_SHARE * PUSH * _levers(model), HIGHEST_SHARE * limit)
    # Without an effort limit the size of the drive is unknown.
    known = np.where(np.isfinite(limit), limit, 0.0)
    friction = np.minimum(SMALL_FRICTION, SMALL_SHARE * limit)
    return np.minimum(np.maximum.reduce([push, LOWEST_SHARE * known, friction]), LARGEST_THRESHOLD)


def least_collision_thresholds(model: Model, contact: Array) -> Array:
    """Return the default collision thresholds for given contact thresholds, (nv,) [N·m or N].

    They are the larger of five times the contact threshold and 15 % of the effort limit.

    Args:
        model: the robot.
        contact: contact thresholds, (nv,) [N·m or N].
    """
    limit = limits_or(model.effort_limit, 0.0)
    least = np.maximum(COLLISION_RATIO * contact, COLLISION_SHARE * limit)
    return np.minimum(least, LARGEST_COLLISION_THRESHOLD)


def uncalibrated(parameters: DetectorParameters, model: Model) -> str:
    """Return a warning with all contact thresholds if some are defaults; empty if none is.

    Args:
        parameters: of the detector; a ``contact_threshold`` of zero selects the default.
        model: the robot.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    given = parameters.for_joints("contact_threshold", model.nv)
    if (given > 0.0).all():
        return ""
    used = with_default_thresholds(parameters, model).for_joints("contact_threshold", model.nv)
    values = ", ".join(f"{threshold:.3g}" for threshold in used)
    return (
        f"contact thresholds are not calibrated: they are estimated from the effort limits and the "
        f"reach of the arm ({values} N·m or N); rbd-control calibrate determines the thresholds of "
        f"this arm"
    )


def unset(parameters: DetectorParameters, model: Model) -> list[str]:
    """Return warnings about contact thresholds and joint friction that are not set.

    Returns:
        At most two texts: one if some ``contact_threshold`` is zero, and one if ``friction_model``
        is ``none``.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """
    note = uncalibrated(parameters, model)
    said = [note] if note else []
    if parameters.friction_model == "none":
        said.append("no joint friction is set: all friction counts as external torque")
    return said


def _levers(model: Model) -> Array:
    """Return the largest torque of a unit force at any link's origin, (nv,) [N·m/N or N/N].

    The joints stand in the middle of their ranges; joints without limits stand at zero.
    """
    middle = np.zeros(model.nq)
    if model.floating_base:
        middle[6] = 1.0  # the quaternion (x, y, z, w) of no rotation
    with np.errstate(invalid="ignore"):
        centre = 0.5 * (model.lower_limit + model.upper_limit)
    joints = len(model.joint_names)
    middle[model.nq - joints :] = np.where(np.isfinite(centre), centre, 0.0)[model.nv - joints :]
    columns = [frame_jacobian(model, middle, link)[3:] for link in model.link_names]
    return np.asarray(np.linalg.norm(columns, axis=1).max(axis=0))
