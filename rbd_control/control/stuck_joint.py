"""Detection of one joint whose joint states stand still although the law moves the joint.

A drive that stops its updates leaves the last position and a velocity of zero, while the states of
the other joints go on changing. :mod:`rbd_control.control.repetition` compares all joints at once
and does not notice it, and velocity and positions do not contradict each other. The torque then
grows with the tracking error, without damping.

A joint is stuck if, over ``repeated_time`` and three samples or more, its position and velocity are
equal to the last digit while

- its desired position has moved by more than ``DESIRED_CHANGE`` and two steps of its encoder, and
- its feedback torque ``-K_D,ii s_i`` has grown in this direction by more than
  ``repeated_torque_share`` of the effort limit, which must exceed static friction, and acts in this
  direction. Torque that limits have withheld is subtracted.

The last condition must hold for ``repeated_time`` and three samples or more, so that the joint has
had time to move. The rest of the torque does not count, because it changes with the motion of the
other joints. If the whole sample repeats, the joint states are frozen, which
:mod:`rbd_control.control.repetition` judges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.kernels import largest_share
from rbd_control.control.repetition import LEAST_SAMPLES, NEVER, ROUNDING
from rbd_control.dynamics.compiled import compiled

Array = NDArray[np.float64]

DESIRED_CHANGE = 1e-3
"""Least motion of the desired position of a stuck joint [rad or m]."""


class StuckJoint:
    """Detects a stuck joint in the joint states of one arm, by the rule of this module.

    Call :meth:`driven` for each sample, and then :meth:`fault` unless the result is None.

    Args:
        joints: number of joints.
    """

    def __init__(self, joints: int) -> None:
        self._memory = np.zeros((6, joints))
        self._driven = np.zeros(joints)
        self._still = np.zeros(joints)
        self._stamp = self._excess_since = 0.0
        self._jumps = self._excess = 0
        self._last_s: Array | None = None
        self._law_changed = False
        self.forget()

    def forget(self) -> None:
        """Forget all samples; the next sample is not compared with an earlier sample."""
        self._memory[:] = np.nan
        self._excess = 0
        self._last_s = None

    def law_changes(self) -> None:
        """Leave the next step of the velocity error out, because parameters of the law change.

        Earlier changes of it still count. Otherwise parameters that change again and again would
        hide a stuck joint.
        """
        self._law_changed = True

    def driven(
        self,
        sample: tuple[float, Array, Array],
        desired: Array,
        s: Array,
        jumps: int,
        step: Array,
        repeated_time: float,
    ) -> Array | None:
        """Take a sample, and return the velocity error that drives each joint that stands still.

        A joint stands still if its position and velocity have been equal for ``repeated_time`` and
        :data:`LEAST_SAMPLES` samples or more, while its desired position has moved by more than
        :data:`DESIRED_CHANGE` and two steps of its encoder.

        Args:
            sample: stamp [s], positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            desired: desired positions, (nv,) [rad or m].
            s: velocity errors v - v_r of the law, (nv,) [rad/s or m/s].
            jumps: number that changes when the desired motion jumps; comparisons then restart.
            step: step of each encoder, (nv,) [rad or m].
            repeated_time: least time for which a joint stands still [s].

        Returns:
            (nv,) [rad/s or m/s]; for a joint that stands still, either ``-s`` or the change of
            ``-s`` since its first equal sample, whichever has the smaller magnitude, if both have
            the direction in which its desired position has moved; otherwise zero. None if it is
            zero for all joints. The next call overwrites the array.
        """
        if jumps != self._jumps:
            self._jumps = jumps
            self.forget()
        if self._law_changed and self._last_s is not None:
            self._memory[3] += s - self._last_s
        self._law_changed, self._last_s = False, s
        self._stamp, q, v = sample
        least = np.maximum(2.0 * step, DESIRED_CHANGE), repeated_time - ROUNDING
        if drive_of_still(self._stamp, q, v, desired, s, least, self._memory, self._driven):
            return self._driven
        self._excess = 0
        return None

    def fault(self, torque: Array, limits: ArmLimits, share: float, repeated_time: float) -> str:
        """Take the torque of a sample; return a message if a joint is stuck, or an empty text.

        The message comes if the torque of a joint, not always the same one, exceeds ``share`` of
        its effort limit in :data:`LEAST_SAMPLES` samples in a row, for at least ``repeated_time``.
        It names the joint with the largest share. Call it after :meth:`driven` for the same sample.

        Args:
            torque: (nv,) result of :meth:`driven` times the diagonal of K_D, less the torque that
                limits withheld [N·m or N].
            limits: names and effort limits of the joints.
            share: ``repeated_torque_share``; from :data:`NEVER` on no joint counts as stuck.
            repeated_time: least time for which the torque exceeds its share [s].
        """
        j, most = largest_share(torque, self._still, limits.effort)
        if most <= share or share >= NEVER:
            self._excess = 0
            return ""
        if self._excess == 0:
            self._excess_since = self._stamp
        self._excess += 1
        time = self._stamp - self._excess_since
        if self._excess < LEAST_SAMPLES or time < repeated_time - ROUNDING:
            return ""
        return (
            f"{limits.joint_names[j]} is stuck, or its joint states are frozen: they have repeated "
            f"to the last digit for {self._stamp - self._memory[4, j]:.3g} s while the torque that "
            f"moves it changed by {abs(torque[j]):.4g} (at most {share * limits.effort[j]:.4g})"
        )


@compiled
def drive_of_still(
    stamp: float,
    q: Array,
    v: Array,
    desired: Array,
    s: Array,
    least: tuple[Array, float],
    memory: Array,
    driven: Array,
) -> bool:
    """Write the drive of joints that stand still, see :meth:`StuckJoint.driven`, to ``driven``.

    Args:
        stamp: time of the sample [s].
        q, v, desired, s: positions, velocities, desired positions and velocity errors, (nv,) each
            [rad or m, rad/s or m/s, rad or m, rad/s or m/s].
        least: least motion of the desired positions, (nv,) [rad or m], and least time of equal
            samples [s].
        memory: (6, nv), changed: position, velocity, desired position, velocity error and stamp of
            the first of the equal samples of each joint, and their number; NaN without samples.
        driven: (nv,) [rad/s or m/s], changed: the result; zero for all other joints.

    Returns:
        Whether ``driven`` is not zero for a joint.
    """
    least_way, least_time = least
    last_q, last_v, first_desired = memory[0], memory[1], memory[2]
    first_s, since, count = memory[3], memory[4], memory[5]
    found = False
    for i in range(q.shape[0]):
        driven[i] = 0.0
        if q[i] != last_q[i] or v[i] != last_v[i]:
            last_q[i], last_v[i] = q[i], v[i]
            first_desired[i], first_s[i] = desired[i], s[i]
            since[i], count[i] = stamp, 1
            continue
        count[i] += 1
        way, drive = desired[i] - first_desired[i], first_s[i] - s[i]
        if abs(s[i]) < abs(drive):
            drive = -s[i]
        is_still = count[i] >= LEAST_SAMPLES and stamp - since[i] >= least_time
        is_pushed = way * drive > 0.0 and way * s[i] < 0.0
        if is_still and abs(way) > least_way[i] and is_pushed:
            driven[i] = drive
            found = True
    return found
