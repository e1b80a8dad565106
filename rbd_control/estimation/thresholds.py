"""Compiled ratios of residuals to their thresholds.

Thresholds depend on the motion, because errors of friction and model grow with it::

    threshold_i = contact_i (moving_i + (1 - moving_i) reversal_i)
                  + per_speed_i |v_i| + per_acceleration_i |a_i| + unknown_i

``reversal_i`` is one if joint i is at rest or reverses; its term is a margin for friction
(:mod:`~rbd_control.estimation.reversals`). The peak of ``|v_i|`` is held and decays with the
observer's time constant, and ``a_i`` is the derivative of ``v_i`` through a filter of that time
constant, so both have the delay of the residual. ``unknown_i`` allows for torque that changes much
within a period, and for lost samples
(:mod:`~rbd_control.estimation.between_samples`). The collision threshold is ``collision_i`` plus
the last three terms.

The mass matrix couples the velocity noise of all joints in the residuals. If the covariance of the
residual without contact is known, the statistic ``s`` is compared with a threshold as well. It is
the length of the residual in standard deviations, ``s² = rᵀ covariance⁻¹ r``, with each residual
reduced by its margin for friction and ``unknown_i``. Its threshold is::

    statistic_threshold + statistic_speed max |v_i|

The force ``F`` at one link may have a threshold as well. It is the most probable force under a
normal prior with the standard deviation ``force_uncertainty`` for each component, so that force
components that hardly load the joints are estimated as small::

    (J W Jᵀ + 1 / force_uncertainty²) F = J W r        W: inverse variances of the residuals
"""

from __future__ import annotations

import math

from rbd_control.dynamics.borrowing import inlined_borrowing
from rbd_control.dynamics.compiled import inlined
from rbd_control.dynamics.spatial import add, cross, dot, scale
from rbd_control.estimation.detector_state import COLLISION, CONTACT
from rbd_control.estimation.reversals import less_friction, reversing

NOISE_FRACTION = 1.0 / 3.0
"""Standard deviation of a joint's residual that :func:`force_size` assumes, as a fraction of the
contact threshold."""


@inlined
def follow_motion(setting, joint, v, last_v, dt, fade):
    """Advance the speed, acceleration and reversal that one joint's thresholds depend on.

    The speed is the present one, or the decayed earlier maximum, whichever is larger.

    Args:
        setting: settings of the joint, an element of ``Settings.joint``.
        joint: memory of the joint, an element of ``Memory.joint``, changed in place.
        v, last_v: velocities of this sample and the previous one [rad/s or m/s].
        dt: time between them [s].
        fade: decay over this time, exp(-pole dt), with the pole ``observer_gain``.
    """
    joint.reversal = reversing(v, last_v, joint.reversal, setting.reversal_speed, fade)
    joint.speed = max(abs(v), fade * joint.speed)
    joint.acceleration = fade * joint.acceleration + (1.0 - fade) * ((v - last_v) / dt)


@inlined
def friction_allowance(setting, joint):
    """Return the present margin of a joint's threshold for friction at reversals [N·m or N].

    ``setting`` and ``joint`` are elements of ``Settings.joint`` and ``Memory.joint``.
    """
    return setting.contact_threshold * (1.0 - setting.moving_ratio) * joint.reversal


@inlined_borrowing
def highest_residual(settings, memory):
    """Store each joint's threshold; return the highest ratio of residual to threshold.

    Args:
        settings: settings of the detector.
        memory: memory of the detector; ``joint.threshold`` is set, including the allowance for
            torque between samples [N·m or N].

    Returns:
        Four values: the joint with the highest ratio, without the allowance for torque between
        samples; this ratio; the highest ratio with the allowance, which decides whether there is
        contact; and the level that a contact has, ``CONTACT`` or ``COLLISION``.
    """
    highest_joint, highest, deciding, collision = 0, 0.0, 0.0, False
    for i in range(memory.joint.shape[0]):
        setting, joint = settings.joint[i], memory.joint[i]
        moving = setting.threshold_speed * joint.speed + setting.threshold_acceleration * abs(
            joint.acceleration
        )
        size = abs(memory.observer[i].residual)
        threshold = (
            setting.moving_ratio * setting.contact_threshold
            + friction_allowance(setting, joint)
            + moving
        )
        ratio = size / threshold
        if ratio > highest:
            highest_joint, highest = i, ratio
        joint.threshold = threshold + joint.unknown
        deciding = max(deciding, size / joint.threshold)
        collision = collision or size > setting.collision_threshold + moving + joint.unknown
    return highest_joint, highest, deciding, COLLISION if collision else CONTACT


@inlined_borrowing
def statistic_ratio(settings, memory):
    """Return the residual's length in standard deviations, divided by its threshold.

    It is zero if the covariance of the residual is unknown.
    """
    arm, joints = settings.arm[0], memory.joint
    if arm.statistic_threshold == math.inf:
        return 0.0
    square, fastest = 0.0, 0.0
    for i in range(joints.shape[0]):
        fastest = max(fastest, joints[i].speed)
        white = 0.0
        for j in range(i + 1):
            allowance = friction_allowance(settings.joint[j], joints[j]) + joints[j].unknown
            residual = memory.observer[j].residual
            white += settings.whitening[i, j] * less_friction(residual, allowance)
        square += white * white
    return math.sqrt(square) / (arm.statistic_threshold + arm.statistic_speed * fastest)


@inlined_borrowing
def force_size(settings, memory, J):
    """Return the size of the force F (top of the module) for the present residual [N].

    ``J`` (3, nv) is the translational Jacobian of the point at which the force acts.
    """
    prior = 1.0 / settings.arm[0].force_uncertainty ** 2
    zero = (0.0, 0.0, 0.0)
    x, y, z, f = zero, zero, zero, zero
    for i in range(memory.joint.shape[0]):
        weight = 1.0 / (NOISE_FRACTION * settings.joint[i].contact_threshold) ** 2
        residual = less_friction(memory.observer[i].residual, memory.joint[i].unknown)
        weighted = (weight * J[0, i], weight * J[1, i], weight * J[2, i])
        x = add(x, scale(J[0, i], weighted))
        y = add(y, scale(J[1, i], weighted))
        z = add(z, scale(J[2, i], weighted))
        f = add(f, scale(residual, weighted))
    x, y, z = add(x, (prior, 0.0, 0.0)), add(y, (0.0, prior, 0.0)), add(z, (0.0, 0.0, prior))
    # Cramer's rule; the prior keeps the determinant away from zero.
    yz = cross(y, z)
    F = (dot(f, yz), dot(f, cross(z, x)), dot(f, cross(x, y)))
    return math.sqrt(dot(F, F)) / dot(x, yz)
