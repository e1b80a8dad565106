"""Low-pass filter of the errors that the control law feeds back.

Gears are elastic: between the rotor of a motor and its link there is a spring, and the arm
resonates at 20 to 60 Hz. A feedback that acts on a link through the spring, at this frequency,
drives the resonance: with velocities of the link the largest stable ``damping_rate`` is about twice
the damping ratio of the resonance times its angular frequency, 3 to 10 1/s on a Panda. The feedback
must therefore fade before the resonance. With w the corner frequency of
:func:`~rbd_control.control.loop.corner` [rad/s], a quarter of the resonance::

    e_f + (1/w) d e_f / dt = e = q - q_d            and likewise for e_dot

and the law uses e_f and e_f_dot in place of e and e_dot in v_r, a_r and s; feed-forward and gravity
are not filtered. At the resonance the feedback then lags by 76 degrees and is four times smaller.

Passivity. With ``s = v - v_r`` and ``v_r = v_d - Lambda e_f`` the arm moves as ``M s_dot + C s =
tau_ext - K_D s_f`` with ``s_f = e_f_dot + Lambda e_f``. From s to s_f leads the filter::

    H(p) = w (p + Lambda) / (p² + w p + Lambda w)

It is positive real for ``w >= Lambda``, so that ``-K_D s_f`` with a constant diagonal K_D is
passive, as ``-K_D s`` is. The part ``damping_rate M(q)`` of K_D changes slowly compared with w.

The filter delays the feedback by 1/w, 16 ms at the default resonance of 40 Hz. Together with the
delay of the loop it limits the gains, see :mod:`~rbd_control.control.loop`. For a rigid arm set
``resonance`` to zero: the errors are then not filtered.
"""

from __future__ import annotations

from math import exp, inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.loop import corner
from rbd_control.control.slotine_li import Feedback
from rbd_control.control.trajectory import DesiredState

Array = NDArray[np.float64]


class RollOff:
    """Filters the errors of one arm, by the equations of this module.

    Call :meth:`measure` for each valid sample, and :meth:`feedback` if the law tracks a motion.

    Args:
        joints: number of joints.

    Attributes:
        v: (nv,) filtered velocity [rad/s or m/s].
    """

    def __init__(self, joints: int) -> None:
        self.v: Array = np.zeros(joints)
        self._errors = np.zeros((2, joints))
        self._corner, self._share = inf, 1.0
        self._restarts = True

    def set_resonance(self, resonance: float) -> None:
        """Use another lowest resonance [Hz] from the next sample on; 0: errors are not filtered."""
        self._corner = corner(resonance)

    def restart(self) -> None:
        """Use the error of the next sample of :meth:`feedback` without a filter.

        Call it for each sample in which the law does not track a motion.
        """
        self._restarts = True

    def measure(self, v: Array, dt: float) -> None:
        """Take a sample.

        Args:
            v: (nv,) measured velocity [rad/s or m/s].
            dt: time since the previous sample [s]; 0 restarts the filter.
        """
        self._share = 1.0 if dt <= 0.0 else 1.0 - exp(-self._corner * dt)
        self.v = self.v + self._share * (v - self.v) if self._share < 1.0 else v

    def feedback(self, q: Array, v: Array, desired: DesiredState) -> Feedback | None:
        """Return the desired state plus the filtered errors; None if they are not filtered.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s], of the
                sample that :meth:`measure` took last.
            desired: the desired state.
        """
        if self._corner == inf:
            return None
        share, self._restarts = 1.0 if self._restarts else self._share, False
        self._errors[0] += share * (q - desired.q_d - self._errors[0])
        self._errors[1] += share * (v - desired.v_d - self._errors[1])
        return Feedback(desired.q_d + self._errors[0], desired.v_d + self._errors[1])
