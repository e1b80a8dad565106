"""Detection of a joint that stands still although the law moves it.

Its joint states may be frozen, while the arm moves without feedback: they show the last position
and a velocity of zero, which do not contradict each other. The torque of the law then grows with
the tracking error, and the motion of the arm is not damped. Or the brake of the joint is closed, or
an obstacle blocks it.

A joint stands still if its position and velocity are equal to the last digit for longer than
:attr:`Repetition.longest`. This is normal at rest, and at the start of a motion until the torque
has overcome static friction. It is a fault if for the same time::

    min(|K_D,ii (s_i - s_i0)|, |K_D,ii s_i|) > repeated_torque_share * effort limit

where ``s_i0`` is the velocity error at the first of the equal samples. Friction that holds the
joint on one side before a reversal, and on the other side afterwards, explains twice the static
friction. The rest of the torque does not count, because it changes with the motion of the other
joints. Torque that limits have withheld is subtracted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import largest_share
from rbd_control.control.repetition import ROUNDING
from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

NEVER = 2.0
"""Value of ``repeated_torque_share`` that disables the check."""


class StandingJoint:
    """Detects a joint of one arm that stands still although the law moves it.

    Call :meth:`driven` for each sample, and then :meth:`fault` unless the result is None.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory = np.zeros((4, joints))
        self._driven, self._zero = np.zeros((2, joints))
        self.forget()

    def forget(self) -> None:
        """Forget all samples; the next sample is not compared with an earlier sample."""
        self._memory[:] = np.nan
        self._excess_since = np.inf

    def driven(self, stamp: float, q: Array, v: Array, s: Array, least_time: float) -> Array | None:
        """Take a sample, and return the velocity error that moves each joint that stands still.

        Args:
            stamp: time of the sample [s].
            q, v: positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            s: velocity errors v - v_r of the law, (nv,) [rad/s or m/s].
            least_time: time for which a joint must have stood still [s].

        Returns:
            (nv,) [rad/s or m/s]; for a joint that stands still, either ``-s`` or the change of
            ``-s`` since its first equal sample, whichever has the smaller magnitude, if both have
            the same sign; otherwise zero. None if it is zero for all joints. The next call
            overwrites the array.
        """
        self._stamp, self._least_time = stamp, least_time - ROUNDING
        if drive_of_standing(stamp, q, v, s, self._least_time, self._memory, self._driven):
            return self._driven
        self._excess_since = np.inf
        return None

    def fault(self, torque: Array, limits: ArmLimits, share: float) -> str:
        """Return a message if the torque has exceeded ``share`` for long enough, or an empty text.

        Args:
            torque: (nv,) result of :meth:`driven` times the diagonal of K_D, less the torque that
                limits withheld [N·m or N].
            limits: names and effort limits of the joints.
            share: ``repeated_torque_share``; from :data:`NEVER` on there is no fault.
        """
        j, most = largest_share(torque, self._zero, limits.effort)
        if most <= share or share >= NEVER:
            self._excess_since = np.inf
            return ""
        self._excess_since = min(self._excess_since, self._stamp)
        if self._stamp - self._excess_since < self._least_time:
            return ""
        return (
            f"{limits.joint_names[j]} does not move: its joint states have repeated to the last "
            f"digit for {self._stamp - self._memory[3, j]:.3g} s while the torque that moves it "
            f"changed by {abs(torque[j]):.4g} (at most {share * limits.effort[j]:.4g}); they are "
            f"frozen, its brake is closed, or it is blocked"
        )


@compiled
def drive_of_standing(
    stamp: float,
    q: Array,
    v: Array,
    s: Array,
    least_time: float,
    memory: Array,
    driven: Array,
) -> bool:
    """Write the drive of joints that stand still, see :meth:`StandingJoint.driven`, to ``driven``.

    Args:
        stamp: time of the sample [s].
        q, v, s: positions, velocities and velocity errors, (nv,) each [rad or m, rad/s or m/s].
        least_time: time for which a joint must have stood still [s].
        memory: (4, nv), changed: position, velocity, velocity error and stamp of the first of the
            equal samples of each joint; NaN without samples.
        driven: (nv,) [rad/s or m/s], changed: the result; zero for all other joints.

    Returns:
        Whether ``driven`` is not zero for a joint.
    """
    last_q, last_v, first_s, since = memory[0], memory[1], memory[2], memory[3]
    found = False
    for i in range(q.shape[0]):
        driven[i] = 0.0
        if q[i] != last_q[i] or v[i] != last_v[i]:
            last_q[i], last_v[i], first_s[i], since[i] = q[i], v[i], s[i], stamp
            continue
        change = first_s[i] - s[i]
        if change * s[i] < 0.0 and stamp - since[i] >= least_time:
            driven[i] = change if abs(change) < abs(s[i]) else -s[i]
            found = True
    return found
