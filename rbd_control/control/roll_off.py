"""Filter of the errors that the control law feeds back, for arms with elastic gears.

Between the rotor of a motor and its link there is a spring, and the arm resonates, mostly at 25 to
60 Hz. A feedback at this frequency drives the resonance: if the positions are measured at the
links, because the motor acts through the spring; if they are measured at the motors, because the
loop is late. On a Panda with 10,000 N·m/rad, rotors of 0.3 kg·m² and a damping ratio of 2 %, the
largest stable ``damping_rate`` is then about 5 1/s at the links, and 5 to 20 1/s at the motors. The
feedback must fade at the resonance. With the resonance w [rad/s], errors pass a low-pass filter and
a notch::

    F(p) = (w/4) / (p + w/4)  (p² + 2 SHALLOW w p + w²) / (p² + 2 WIDE w p + w²)
    e_f = F e = F (q - q_d)            and likewise e_f_dot = F e_dot

The law uses e_f and e_f_dot in place of e and e_dot in v_r, a_r and s. Feed-forward and gravity are
not filtered. F is 0.03 at the resonance and below 0.1 from 0.8 to 1.5 times its frequency. The
default gains are then stable for delays of up to 15 ms, and so is twice the feedback: at the links
for the same delays, at the motors for up to 4 ms (``test/test_elastic_joints.py``).

Passivity. With ``s = v - v_r`` and ``v_r = v_d - Lambda e_f`` the arm moves as ``M s_dot + C s =
tau_ext - K_D s_f`` with ``s_f = e_f_dot + Lambda e_f``, so ``s_f = H s`` with ``H = F (p + Lambda)
/ (p + Lambda F)``. ``-K_D s_f`` takes energy out of motions at frequencies where the real part of H
is positive: up to 0.32 times the resonance (9.6 Hz by default) for a bandwidth of 15 1/s, and up to
0.37 times it for 6 1/s. Above, the feedback is small; friction dissipates more.

At low frequencies the filter delays the feedback by 29 ms at the default of 30 Hz. With the delay
of the loop it limits the gains, see :mod:`~rbd_control.control.loop`. For a rigid arm set
``resonance`` to zero: the errors are then not filtered.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.loop import RATIO, SHALLOW, WIDE
from rbd_control.control.slotine_li import Feedback
from rbd_control.control.trajectory import DesiredState
from rbd_control.dynamics.compiled import compiled, inlined

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
        self._errors, self._velocity = np.zeros((2, 4, joints)), np.zeros((4, joints))
        self._resonance, self._dt = np.zeros(joints), 0.0
        self._restarts = True

    def set_resonances(self, resonances: Array) -> None:
        """Use other resonances, (nv,) [Hz], from the next sample on; 0: errors are not filtered."""
        self._resonance = 2.0 * np.pi * resonances

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
        self._dt = dt
        self.v = (
            v if self._resonance[0] == 0.0 else filtered(v, self._resonance, dt, self._velocity)
        )

    def feedback(self, q: Array, v: Array, desired: DesiredState) -> Feedback | None:
        """Return the desired state plus the filtered errors; None if they are not filtered.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s], of the
                sample that :meth:`measure` took last.
            desired: the desired state.
        """
        if self._resonance[0] == 0.0:
            return None
        dt, self._restarts = 0.0 if self._restarts else self._dt, False
        q_d, v_d = desired.q_d, desired.v_d
        return Feedback(*filtered_errors(q, v, q_d, v_d, self._resonance, dt, self._errors))


@inlined
def filter_joint(x, w, dt, memory, i):  # type: ignore[no-untyped-def]
    """Return the output of the filter of the module for joint ``i``; arguments of :func:`filtered`.

    The notch is the input less ``2 (WIDE - SHALLOW) x2`` with ``x1_dot = w x2`` and ``x2_dot = w
    (input - x1 - 2 WIDE x2)``, integrated by the trapezoidal rule, which is stable for any period.
    """
    if dt <= 0.0:
        memory[0, i] = memory[1, i] = memory[3, i] = x
        memory[2, i] = 0.0
        return x
    h = 0.5 * w * dt
    memory[0, i] += (1.0 - np.exp(-w / RATIO * dt)) * (x - memory[0, i])
    u, x1, x2 = memory[0, i], memory[1, i], memory[2, i]
    rate = (1.0 - 2.0 * WIDE * h - h * h) * x2 + h * (u + memory[3, i]) - 2.0 * h * x1
    rate /= 1.0 + 2.0 * WIDE * h + h * h
    memory[1, i] = x1 + h * (x2 + rate)
    memory[2, i], memory[3, i] = rate, u
    return u - 2.0 * (WIDE - SHALLOW) * rate


@compiled
def filtered(x, w, dt, memory):  # type: ignore[no-untyped-def]
    """Return the output of the filter of the module for a sample, (n,).

    Args:
        x: input, (n,).
        w: resonances, (n,) [rad/s].
        dt: time since the previous sample [s]; 0 restarts the filter at the input.
        memory: (4, n), changed in place: output of the low-pass filter, x1, x2, and the input of
            the notch at the previous sample.
    """
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = filter_joint(x[i], w[i], dt, memory, i)
    return out


@compiled
def filtered_errors(q, v, q_d, v_d, w, dt, memory):  # type: ignore[no-untyped-def]
    """Return the desired position and velocity, (n,) each, plus the filtered errors.

    Args:
        q, v, q_d, v_d: measured and desired positions and velocities, (n,) each [rad or m, rad/s
            or m/s].
        w, dt: as of :func:`filtered`.
        memory: (2, 4, n), changed in place: memory of :func:`filtered` for both errors.
    """
    n = q.shape[0]
    q_f, v_f = np.empty(n), np.empty(n)
    for i in range(n):
        q_f[i] = q_d[i] + filter_joint(q[i] - q_d[i], w[i], dt, memory[0], i)
        v_f[i] = v_d[i] + filter_joint(v[i] - v_d[i], w[i], dt, memory[1], i)
    return q_f, v_f
