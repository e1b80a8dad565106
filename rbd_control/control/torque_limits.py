"""Torques cut to what the motors may be asked for.

A torque that is over a limit is built up anew:

1. The weight of the arm, joint by joint.
2. The rest, tracking and damping, as a whole: the share ``x`` of it for which all joints have
   room. Cutting each joint for itself would turn the direction of the torque, and through the mass
   matrix a joint that is cut throws its neighbours about: an arm that brakes with its shoulder at
   the limit spins its wrist.
3. The damping that is missing then, joint by joint, as far as it brakes the joint: each joint that
   is too fast, ``s_i v_i > 0``, is braked by ``(1 - x) D_i`` times the smaller of s_i and v_i, with
   what room it has. D is positive and diagonal, so the brakes dissipate along s and along v, and
   together with the second part ``sᵀ tau_damping <= -x sᵀ K_D s``. A joint without room makes x
   zero for all joints, but keeps no other joint from being braked.

D is ``diag(damping) + damping_rate diag(M)``, made smaller so that it stays stable as it is
computed once a period only, see :func:`~rbd_control.control.torque_step.joint_damper`. Its M is
that of the arm as described: an inertia learned too large would make the brakes unstable.

A joint that is beyond its soft limit gets no torque that leads further out, but what slows it down
on its way in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import needs_cut
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_step import cut_step, law_gains
from rbd_control.control.trajectory import POSITION_SLACK
from rbd_control.dynamics import Model

Array = NDArray[np.float64]


class TorqueLimits:
    """Limits on torque, from the model and the parameters.

    They are limits of what the motors bear. For an arm that adds its own weight (parameter
    ``gravity_compensated``) that is the torque sent and the weight.

    Args:
        model: the arm.
        parameters: gains, and shares of the effort limits.
        soft: soft position limits; none by default.

    Attributes:
        largest: (nv,) torque that may be asked of the motors [N·m or N].

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, soft: SoftLimits | None = None
    ) -> None:
        n = model.nv
        self._described = model.packed
        self.largest: Array = ArmLimits.of(model, parameters).torque
        self._gains = law_gains(parameters, n)
        none = np.full(n, np.inf)
        # Trajectories may pass a soft limit by this much.
        self._lower = -none if soft is None else soft.lowest - POSITION_SLACK
        self._upper = none if soft is None else soft.highest + POSITION_SLACK

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
        """Return the torque itself where it keeps the limits, else what is left of it.

        Args:
            torque: (nv,) torque of the motors [N·m or N].
            packed: the model whose weight the torque has, as kernels take it.
            q, v: measured positions and velocities, (nv,) each.
            s: (nv,) velocity error that the torque damps, by ``-share K_D s``.
            period: longest time for which the torque stands [s].
            share: share of K_D.
        """
        if not needs_cut(torque, self.largest, q, self._lower, self._upper):
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
            self.largest,
            self._lower,
            self._upper,
            period,
        )
        return less
