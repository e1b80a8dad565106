"""Limitation of torques to the torque limits of the motors.

A torque above a limit is composed again from three parts:

1. The gravity torque, joint by joint.
2. The remainder (tracking and damping), scaled by one factor ``x`` for which all joints keep their
   limits. Limiting each joint separately would change the direction of the torque, and the mass
   matrix couples a limited joint to its neighbours: an arm that brakes with a saturated shoulder
   would spin its wrist.
3. The damping that the scaling removes, joint by joint, as far as it brakes the joint: each joint
   that is too fast, ``s_i v_i > 0``, is braked by ``(1 - x) D_i`` times the smaller of s_i and v_i,
   within its remaining torque. D is positive and diagonal, so these brakes dissipate with respect
   to s and v, and together with the second part ``sᵀ tau_damping <= -x sᵀ K_D s``. A joint without
   remaining torque makes x zero for all joints, but does not prevent the braking of other joints.

D is ``diag(damping) + damping_rate diag(M)``, reduced to be stable at one computation per period,
see :func:`~rbd_control.control.torque_step.joint_damper`. M is the mass matrix of the described
arm: an overestimated inertia would make the brakes unstable.

More than ``POSITION_SLACK`` beyond its nominal soft limit, a joint is not driven outwards: outward
torque is at most its gravity torque, or the torque that brakes an inward motion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.gains import law_gains
from rbd_control.control.kernels import needs_cut
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_step import cut_step
from rbd_control.control.trajectory import POSITION_SLACK
from rbd_control.dynamics import Model, gravity_torque

Array = NDArray[np.float64]


class TorqueLimits:
    """Limits the motor torque of one arm, by the rules of this module.

    The limits apply to the motor torque. For an arm that adds its gravity torque (parameter
    ``gravity_compensated``) this is the sum of command and added torque. Such an arm may carry a
    weight beyond the limits by itself; the limits are then extended to this weight, because a
    command that subtracted it would push the arm down.

    Args:
        model: the arm.
        parameters: gains, and shares of the effort limits.
        soft: soft position limits; none by default.

    Attributes:
        fastest: (nv,) velocity limits, with an assumed limit for joints without one [rad/s or m/s].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, soft: SoftLimits | None = None
    ) -> None:
        n = model.nv
        self._model, self._described = model, model.packed
        self._compensated = parameters.gravity_compensated
        limits = ArmLimits.of(model, parameters)
        self._most: Array = limits.torque
        self.fastest: Array = limits.assumed_velocity
        self._least: Array = -self._most
        self._gains = law_gains(parameters, model)
        none = np.full(n, np.inf)
        # Trajectories may pass a soft limit by this much.
        self._lower = -none if soft is None else soft.lowest - POSITION_SLACK
        self._upper = none if soft is None else soft.highest + POSITION_SLACK

    def bounds(self, q: Array) -> tuple[Array, Array]:
        """Return the least and the largest motor torque at ``q``, (nv,) each [N·m or N].

        Args:
            q: measured positions, (nv,) [rad or m].
        """
        if not self._compensated:
            return self._least, self._most
        weight = gravity_torque(self._model, q)
        return np.minimum(self._least, weight), np.maximum(self._most, weight)

    def cut(
        self,
        torque: Array,
        packed: Array,
        q: Array,
        v: Array,
        s: Array,
        period: float,
        share: float = 1.0,
    ) -> Array:
        """Return the torque reduced to the limits, as the module describes.

        Args:
            torque: (nv,) requested torque of the motors [N·m or N].
            packed: the model whose gravity the torque contains, as :attr:`Model.packed`.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            s: (nv,) velocity error [rad/s or m/s]; the torque contains the damping
                ``-share K_D s``.
            period: longest time for which the torque is held [s].
            share: share of K_D in this damping, 0 to 1.

        Returns:
            (nv,) [N·m or N]; the array ``torque`` itself if it is within the limits and no joint is
            more than ``POSITION_SLACK`` beyond its nominal soft limits.
        """
        least, most = self.bounds(q)
        if not needs_cut(torque, least, most, q, self._lower, self._upper):
            return torque
        less: Array = cut_step(
            packed,
            self._described,
            self._gains,
            share,
            q,
            v,
            s,
            torque,
            least,
            most,
            self._lower,
            self._upper,
            period,
        )
        return less
