"""The passivity-based law of Slotine and Li, and the filter of its errors.

**The passivity-based law of Slotine and Li.**

With the position error ``e = q - q_d``::

    v_r = v_d - Lambda e          a_r = a_d - Lambda (v - v_d)          s = v - v_r
    tau = M a_r + C v_r + g - K_D s

the arm moves as ``M s_dot + C s + K_D s = tau_ext``. As M_dot - 2C is skew-symmetric, the storage
``V = ½ sᵀ M s`` obeys ``V_dot = -sᵀ K_D s + sᵀ tau_ext``: with respect to s, the controlled arm
takes energy from its surroundings and never supplies any.

In the controller the errors ``e`` and ``e_dot`` of v_r, a_r and s are low-pass filtered, as the
second part of this text says, with the proof for this case.

The proof lets K_D depend on the configuration. Here ``K_D = diag(damping) + damping_rate M(q)``,
and the second part costs nothing: ``M a_r - damping_rate M s = M (a_r - damping_rate s)``.

Known joint friction ``F`` is added at the reference velocity, ``tau + F(v_r)``. The remainder is
``F(v) - F(v_r)``, and for friction that does not decrease with speed, ``sᵀ (F(v) - F(v_r)) >= 0``:
it only adds to the dissipation. Compensation at the measured velocity would remove the damping by
friction, and so would compensation of the Stribeck excess, which decreases with speed and is
therefore not compensated.

With :class:`~rbd_control.control.limits.SoftLimits` ``v_r`` is bounded, mainly near position
limits, and their springs are added; that module has the proof.

Source: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 6(3), 1987.

**Filter of the errors that the control law feeds back, for arms with elastic gears.**

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
of the loop it limits the gains, see :mod:`~rbd_control.control.gains`. For a rigid arm set
``resonance`` to zero: the errors are then not filtered.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.gains import RATIO, SHALLOW, WIDE, law_gains
from rbd_control.control.kernels import float_step, law_step, no_bounds, reference
from rbd_control.control.limits import SoftLimits
from rbd_control.control.trajectory import DesiredState
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.compiled import compiled, for_types_of, inlined
from rbd_control.errors import InputError

Array = NDArray[np.float64]


class Reference(NamedTuple):
    """Reference motion of the law, each (nv,)."""

    v_r: Array
    """Reference velocity [rad/s or m/s]."""
    a_r: Array
    """Reference acceleration [rad/s² or m/s²]."""
    s: Array
    """Velocity error v - v_r [rad/s or m/s]."""


class Feedback(NamedTuple):
    """Position and velocity whose errors the law feeds back, each (nv,)."""

    q: Array
    """Position [rad or m]."""
    v: Array
    """Velocity [rad/s or m/s]."""


class LawTorque(NamedTuple):
    """Torque of a law before limits, and the quantities that limits and energies need."""

    torque: Array
    """(nv,) torque, not limited [N·m or N]."""
    v_r: Array
    """(nv,) reference velocity [rad/s or m/s]."""
    s: Array
    """(nv,) velocity error v - v_r [rad/s or m/s]; the torque has the damping ``-share K_D s``."""
    share: float = 1.0
    """Share of K_D in the damping, 0 to 1."""


class SlotineLiController:
    """Computes the law of this module for one arm; it keeps no state between calls.

    Args:
        model: an arm with a fixed base.
        parameters: ``bandwidth`` (Lambda), ``damping``, ``damping_rate`` and joint friction.
        limits: soft position limits, which bound v_r and add springs; none by default.

    Attributes:
        constants: the first arguments of :func:`~.kernels.law_step`.

    Raises:
        InputError: for a floating base, which has no torque at its root.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, limits: SoftLimits | None = None
    ) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        self.model = model
        n = model.nv
        self._gains = law_gains(parameters, model)
        friction = parameters.friction(n).monotone()
        self._bounds = no_bounds(n) if limits is None else limits.bounds()
        self._margin: Array = np.zeros(n) if limits is None else limits.margin
        law = model.packed, self._gains, self._bounds, friction.kind, friction.coefficients(n)
        self.constants = law
        self._step = for_types_of(law_step, (*law, *np.zeros((7, n))))

    def reference(self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array) -> Reference:
        """Return v_r, its rate a_r and s = v - v_r; arguments, all arrays, as of :meth:`torque`.

        Raises:
            InputError: for arguments of the wrong shape.
        """
        self._check_shapes(q=q, v=v, q_d=q_d, v_d=v_d, a_d=a_d)
        return self.refer(q, v, q_d, v_d, a_d)

    def refer(
        self,
        q: Array,
        v: Array,
        q_d: Array,
        v_d: Array,
        a_d: Array,
        feedback: Feedback | None = None,
    ) -> Reference:
        """Return v_r, its rate a_r and s; arguments as of :meth:`step`."""
        q_f, v_f = feedback or (q, v)
        Lambda, bounds = self._gains.Lambda, self._bounds
        return Reference(*reference(q, q_f, v_f, q_d, v_d, a_d, Lambda, bounds))

    def torque(self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array) -> Array:
        """Return the joint torque that tracks ``q_d(t)``: ``M a_r + C v_r + g - K_D s + F(v_r)``.

        With soft limits, the torque of their springs is added. Position errors are not wrapped: a
        continuous joint that is one turn away from its desired position moves back by a turn.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d, a_d: desired position, velocity and acceleration, (nv,) each [rad or m, rad/s
                or m/s, rad/s² or m/s²].

        Returns:
            (nv,) [N·m or N], not limited.

        Raises:
            InputError: for arguments of the wrong shape or not finite. Desired values that are not
                finite are accepted where a bound replaces the reference velocity.
        """
        self._check_shapes(q=q, v=v, q_d=q_d, v_d=v_d, a_d=a_d)
        # The kernels require contiguous arrays of float64.
        state = [np.array(x, dtype=np.float64) for x in (q, v, q_d, v_d, a_d)]
        torque = self.step(state[0], state[1], state[2], state[3], state[4]).torque
        if not isfinite(torque.dot(torque)):
            for name, x in zip(("q", "v", "q_d", "v_d", "a_d"), state, strict=True):
                checked_array(name, x, (self.model.nv,))
        return torque

    def step(
        self,
        q: Array,
        v: Array,
        q_d: Array,
        v_d: Array,
        a_d: Array,
        feedback: Feedback | None = None,
    ) -> LawTorque:
        """Return the torque with v_r and s; arguments as of :meth:`torque`, but not checked.

        They must be contiguous arrays of float64. The torque is not finite if ``q`` or ``v`` is
        not, or if another argument is not and no bound limits the reference velocity.

        Args:
            q, v, q_d, v_d, a_d: as of :meth:`torque`.
            feedback: position and velocity whose errors are fed back, in place of ``q`` and ``v``.
        """
        q_f, v_f = feedback or (q, v)
        v_r, s, torque = self._step(*self.constants, q, v, q_f, v_f, q_d, v_d, a_d)
        return LawTorque(torque, v_r, s)

    def floating(self, packed: Array, q: Array, v: Array, least: float = 0.0) -> LawTorque:
        """Return the gravity torque, with damping and springs near soft limits.

        This is the law without friction, with ``v_r = 0`` and a share of K_D, the same for all
        joints. The share is ``least`` if every joint is ``SoftLimits.margin`` or more away from its
        soft limits, and rises to 1 when a joint is at a soft limit.

        Args:
            packed: the model whose gravity is compensated, as :attr:`Model.packed`.
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s]; not
                checked.
            least: least share, 0 to 1.

        Returns:
            The torque with ``v_r = 0``, ``s = v`` and the present share of K_D.
        """
        torque, share = float_step(packed, self._gains, self._bounds, self._margin, least, q, v)
        return LawTorque(torque, np.zeros_like(v), v, share)

    def damping(self, q: Array) -> Array:
        """Return the diagonal of K_D at the positions ``q``.

        Args:
            q: positions, (nv,) [rad or m].

        Returns:
            (nv,) [N·m·s/rad or N·s/m].
        """
        mass = mass_matrix(self.model, q).diagonal()
        return self._gains.damping + self._gains.damping_rate * mass

    def _check_shapes(self, **arguments: Array) -> None:
        n = self.model.nv
        for name, x in arguments.items():
            if np.shape(x) != (n,):
                raise InputError(f"{name} has shape {np.shape(x)} but the model has nv = {n}")


class RollOff:
    """Filters the errors of one arm, by the equations of this module.

    For each valid sample call :meth:`track` if the law tracks a motion, otherwise :meth:`measure`
    and :meth:`restart`.

    Args:
        joints: number of joints.

    Attributes:
        v: (nv,) filtered velocity [rad/s or m/s].
    """

    def __init__(self, joints: int) -> None:
        self.v: Array = np.zeros(joints)
        self._errors, self._velocity = np.zeros((2, 4, joints)), np.zeros((4, joints))
        self._resonance, self._restarts = np.zeros(joints), True
        each = self.v
        self._filtered = for_types_of(filtered, (each, each, 0.0, self._velocity))
        memory = self._velocity, self._errors
        self._tracked = for_types_of(tracked, (each, each, each, each, each, 0.0, 0.0, memory))

    def set_resonances(self, resonances: Array) -> None:
        """Use other resonances, (nv,) [Hz], from the next sample on; 0: errors are not filtered."""
        self._resonance = 2.0 * np.pi * resonances

    def restart(self) -> None:
        """Use the error of the next sample of :meth:`track` without a filter."""
        self._restarts = True

    def measure(self, v: Array, dt: float) -> None:
        """Take a sample.

        Args:
            v: (nv,) measured velocity [rad/s or m/s].
            dt: time since the previous sample [s]; 0 restarts the filter.
        """
        self.v = v
        if self._resonance[0] != 0.0:
            self.v = self._filtered(v, self._resonance, dt, self._velocity)

    def track(self, q: Array, v: Array, dt: float, desired: DesiredState) -> Feedback | None:
        """Take a sample as :meth:`measure` does; return the desired state plus filtered errors.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            dt: time since the previous sample [s]; 0 restarts the filter.
            desired: the desired state.

        Returns:
            None if errors are not filtered.
        """
        if self._resonance[0] == 0.0:
            self.v = v
            return None
        since, self._restarts = 0.0 if self._restarts else dt, False
        q_d, v_d, memory = desired.q_d, desired.v_d, (self._velocity, self._errors)
        self.v, q_f, v_f = self._tracked(q, v, q_d, v_d, self._resonance, dt, since, memory)
        return Feedback(q_f, v_f)


@inlined
def filter_joint(x, w, dt, memory, i):  # type: ignore[no-untyped-def]
    """Advance the filter F of joint ``i`` by a sample, and return its output.

    Args:
        x: input of the joint.
        w: its resonance, above zero [rad/s].
        dt: time since the previous sample [s]; 0 restarts the filter at ``x``.
        memory: (4, n), of which column ``i`` is changed, see :func:`filtered`.
        i: index of the joint.

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
def tracked(q, v, q_d, v_d, w, dt, since, memory):  # type: ignore[no-untyped-def]
    """Return the filtered velocity, and the desired state plus the filtered errors, (n,) each.

    Args:
        q, v, q_d, v_d: measured and desired positions and velocities, (n,) each [rad or m, rad/s
            or m/s].
        w, dt: as of :func:`filtered`.
        since: time since the last errors [s]; 0 restarts the filter of the errors.
        memory: changed in place: memory of :func:`filtered` for the velocity, (4, n), and for both
            errors, (2, 4, n).
    """
    n, (velocity, errors) = q.shape[0], memory
    v_slow, q_f, v_f = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        v_slow[i] = filter_joint(v[i], w[i], dt, velocity, i)
        q_f[i] = q_d[i] + filter_joint(q[i] - q_d[i], w[i], since, errors[0], i)
        v_f[i] = v_d[i] + filter_joint(v[i] - v_d[i], w[i], since, errors[1], i)
    return v_slow, q_f, v_f
