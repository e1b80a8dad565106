"""The adaptive control law of Slotine and Li, which learns the payload while the arm moves.

Torques are linear in the inertial parameters, ``Y(q, v, v_r, a_r) pi = M a_r + C v_r + g``. With an
estimate in place of pi, and ``v_r a_r s K_D`` as in :mod:`~rbd_control.control.slotine_li`::

    tau = Y(q, v, v_r, a_r - damping_rate s) pi_hat - damping s + F_hat(v_r)
    pi_hat_dot = -Gamma Yᵀ s

the storage ``V = ½ sᵀ M s + ½ (pi_hat - pi)ᵀ Gamma⁻¹ (pi_hat - pi)`` obeys ``V_dot = -sᵀ K_D s +
sᵀ tau_ext`` for any true pi, with the true mass matrix in K_D: the same passivity without
knowledge of the parameters. ``Yᵀ s`` is the power of each parameter's force along s, computed by
one sweep without the matrix Y.

The metric Gamma. The pseudo-inertia P (4x4) of an adapted body is written ``P = S W Sᵀ``. The fixed
``S Sᵀ`` is the sum of the pseudo-inertia of the described body and the pseudo-inertia of a ball of
mass ``largest_payload_mass`` and radius ``largest_payload_reach`` about the link's origin. The
entries of W are then of order one, its sum of squares does not depend on axes or units, and one
``learning_rate`` defines Gamma: ``½ |W_hat - W|² / learning_rate``. Coulomb and viscous friction
are measured in multiples of the given values. This is the metric of Lee, Kwon & Park at a fixed,
plausible body. If the metric changed with the estimate, a link of 0.2 kg would learn a hundred
times as slowly as a link of 2 kg.

Physical consistency. A body is physically possible if and only if P, and therefore W, is positive
definite. After each step W is projected in turn onto the matrices whose mass is at most
``largest_payload_mass`` above the mass of the described body, whose second moment about the link's
origin is at most ``largest_payload_mass largest_payload_reach²`` larger, and whose eigenvalues are
between half the smallest eigenvalue of the described body and a bound above that of any expected
payload. These sets are convex and contain the true parameters of any expected payload, and the
projections use the same metric, so they never increase V. After at most three cycles, W is moved
towards the described body until it keeps all bounds; only this last move may increase V. The bounds
are hard: the estimates keep them after every step, for any contact and any sensor error.

Dead zone. Unmodelled friction and noise are torques up to some d that no parameters explain, and
learning from them makes the estimates drift. The law learns only while
``sᵀ K_D s > sum of d_i |s_i|``, for s averaged over 0.05 s. Then the dissipation exceeds the power
of such torques, and V decreases, on this average, whenever estimates change. A torque error smaller
than d is not learned. Friction is learned for sliding joints only, because the estimate for a
sticking joint would keep growing.

Longest step. Learning acts on s like a spring: for a fixed state, ``d²s/dt² + d ds/dt + w² s = 0``
with ``w² = learning_rate |grad|² / sᵀ M s`` and the rate ``d = sᵀ K_D s / sᵀ M s`` at which s
decays. In continuous time and without a dead zone any w is stable. But the dead zone works on an
average, which is late, and a fast motion makes the gradient so large that the step of one period
overshoots. An arm with weak damping then swings for ever. Each step is therefore shortened to ``w
<= d``, so that s decays within one oscillation, and such that it changes the torque along s by at
most a tenth of the torque that would end s within the period. A shorter step in the same direction
keeps V from increasing.

Forgetting. Until a detector reports the contact, the law learns from a push as if it were a weight.
The estimates are then replaced by their exponential average over the time of learning, time
constant 1 s (:meth:`AdaptiveSlotineLiController.forget_recent`). A push of 20 ms changes this
average by 2 % of the change that it causes in the estimates. The estimates are also replaced before
gravity is compensated without feedback (modes float and safe), where nothing would correct a wrong
weight. The average lies in the same convex sets, and is at most as far from the true parameters as
the farthest of the estimates that it contains.

Sources: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 6(3), 1987; Wensing,
Kim & Slotine, *Linear Matrix Inequalities for Physically Consistent Inertial Parameter
Identification*, RA-L 2018; Lee, Kwon & Park, *A Natural Adaptive Control Law for Robot
Manipulators*, IROS 2018.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.adapted_bodies import adapted_bodies, adapted_friction, adapted_links
from rbd_control.control.adaptive_step import (
    LARGEST,
    LARGEST_FRICTION,
    Gains,
    adaptive_step,
)
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.estimates import Estimates, FrictionEstimate, LinkEstimate
from rbd_control.dynamics import Model
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.constants import constants_of, views
from rbd_control.dynamics.inertia import central_inertia, pseudo_inertia
from rbd_control.errors import InputError
from rbd_control.robot.friction import CoulombViscousFriction

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Relative tolerance of the bounds for estimates that were written to a file and read again."""

LONGEST_STEP = 0.01
"""Upper bound of the period used for learning [s]; a longer period is reduced to it."""


class AdaptiveSlotineLiController:
    """The adaptive control law of one arm; its state consists of the estimates and their averages.

    Args:
        model: an arm with a fixed base, whose masses and inertias are the initial estimates.
        parameters: the law uses ``bandwidth``, ``damping``, ``damping_rate`` and the friction.
        adaptation: the learned parameters and the learning rates.

    Attributes:
        packed: the model with the present estimates as one array, for the compiled kernels.

    Raises:
        InputError: for a floating base, which has no torque at its root, for an unknown or fixed
            link in ``adapted_links``, or for two links that are fixed to each other.
        ParameterError: for a per-joint parameter of the wrong length, or if ``adapt_friction`` is
            set and ``friction_model`` is neither coulomb_viscous nor stribeck, or an initial value
            of friction is not positive.
    """

    def __init__(
        self, model: Model, parameters: ControllerParameters, adaptation: AdaptationParameters
    ) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        n = model.nv
        self._nominal = model
        self._adaptation = adaptation
        self._Lambda = parameters.for_joints("bandwidth", n)
        self._links = adapted_links(model, adaptation)
        self._gains = Gains(
            parameters.for_joints("damping", n),
            adaptation.for_joints("adaptation_dead_zone", n),
            parameters.damping_rate,
            adaptation.learning_rate,
            adaptation.friction_learning_rate,
        )
        friction = parameters.friction(n).monotone()
        learnable = type(friction) is CoulombViscousFriction
        self._other_friction = None if learnable else friction
        self._friction_joints = model.joint_names if adaptation.adapt_friction else ()
        self._friction = adapted_friction(friction, n, adaptation.adapt_friction)
        self._given_friction = (self._friction.coulomb.copy(), self._friction.viscous.copy())
        self._learning = False
        self.reset()

    def reset(self) -> None:
        """Reset estimates and averages to the described inertias and the friction parameters."""
        arrays = self._nominal.arrays
        self.packed = self._nominal.packed.copy()
        own = views(self.packed, constants_of(arrays))
        self._arrays = arrays._replace(
            mass=own.mass, first_moment=own.first_moment, second_moment=own.second_moment
        )
        self._bodies = adapted_bodies(self._nominal, self._links, self._adaptation)
        self._smooth = np.zeros(self._nominal.nv)
        self._friction.coulomb[:], self._friction.viscous[:] = self._given_friction
        self._friction.average[:] = self._given_friction
        self._is_recent = False

    def forget_recent(self) -> bool:
        """Replace the estimates by their exponentially weighted average over the learning time.

        Learning time is the sum of the ``dt`` of :meth:`torque` and :meth:`reference_torque`, each
        at most :data:`LONGEST_STEP`. The time constant of the average is 1 s of learning time, so
        that recent errors hardly change it. The averaged velocity error, to which the dead zone
        applies, restarts at zero.

        Call the method when a contact begins, because the law has learned from the push until it
        was detected, and before the modes float and safe, in which no feedback corrects a weight
        that was learned wrongly.

        Returns:
            Whether there was any learning time since the last call; a second call changes nothing.
        """
        if not self._is_recent:
            return False
        self._is_recent = False
        self._smooth[:] = 0.0
        self._use(self._bodies.average, self._friction.average)
        return True

    def continue_from(self, before: AdaptiveSlotineLiController) -> None:
        """Copy the estimates and their average from another adaptive law.

        Args:
            before: a law for the same arm with the same adapted links and joints.

        Raises:
            InputError: as :meth:`set_estimates`; nothing has changed then.
        """
        W, friction = self._checked(before.estimates)
        averages = self._checked(before.averaged_estimates)
        self._use(W, friction)
        self._bodies.average[:], self._friction.average[:] = averages
        self._is_recent = before._is_recent

    def torque(
        self, q: Array, v: Array, q_d: Array, v_d: Array, a_d: Array, dt: float = 0.0
    ) -> Array:
        """Return the joint torque that tracks ``q_d(t)``; then learn from the error.

        Do not learn (``dt = 0``) in contact, in saturation, or while the brakes are closed.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            q_d, v_d, a_d: desired position, velocity and acceleration, (nv,) each [rad or m,
                rad/s or m/s, rad/s² or m/s²].
            dt: time since the last call for which the estimates are corrected [s], reduced to at
                most ``LONGEST_STEP``; 0 changes no estimate.

        Returns:
            (nv,) [N·m or N], not limited.

        Raises:
            InputError: for arguments of the wrong shape, not finite or so large that the torque is
                not finite, and for ``dt`` that is negative or not finite; nothing has been learned
                then.
        """
        q, v, q_d, v_d, a_d = self._shaped(q=q, v=v, q_d=q_d, v_d=v_d, a_d=a_d)
        v_r, a_r = v_d - self._Lambda * (q - q_d), a_d - self._Lambda * (v - v_d)
        tau = self._step(q, v, v_r, a_r, dt)
        return self._refuse(q=q, v=v, q_d=q_d, v_d=v_d, a_d=a_d) if tau is None else tau

    def reference_torque(
        self, q: Array, v: Array, v_r: Array, a_r: Array, dt: float = 0.0
    ) -> Array:
        """Return the joint torque for a reference motion; then learn from the error.

        Args:
            q, v: measured positions [rad or m] and velocities [rad/s or m/s], (nv,) each.
            v_r: (nv,) reference velocity [rad/s or m/s].
            a_r: (nv,) rate of the reference velocity [rad/s² or m/s²].
            dt: as in :meth:`torque`.

        Returns:
            (nv,) [N·m or N], not limited.

        Raises:
            InputError: as :meth:`torque`.
        """
        q, v, v_r, a_r = self._shaped(q=q, v=v, v_r=v_r, a_r=a_r)
        tau = self._step(q, v, v_r, a_r, dt)
        return self._refuse(q=q, v=v, v_r=v_r, a_r=a_r) if tau is None else tau

    def _step(self, q: Array, v: Array, v_r: Array, a_r: Array, dt: float) -> Array | None:
        """Return the torque, then learn for ``dt`` [s].

        If the torque is not finite, return None and learn nothing.
        """
        if not 0.0 <= dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be finite and not negative")
        tau = np.empty(self._nominal.nv)
        learned = adaptive_step(
            self.packed,
            self._gains,
            self._bodies,
            self._friction,
            self._smooth,
            q,
            v,
            v_r,
            a_r,
            min(float(dt), LONGEST_STEP),
            tau,
        )
        if learned < 0:
            return None
        self._learning = learned > 0
        self._is_recent |= dt > 0.0
        if self._other_friction is not None:
            tau += self._other_friction.torque(v_r)
        return tau

    def _refuse(self, **arguments: Array) -> NoReturn:
        for name, x in arguments.items():
            checked_array(name, x, x.shape)
        raise InputError(f"the torque at q = {arguments['q']}, v = {arguments['v']} is not finite")

    def _shaped(self, **arguments: Array) -> list[Array]:
        """Return contiguous arrays of float64; raise an InputError for a shape other than (nv,)."""
        n = self._nominal.nv
        arrays = []
        for name, value in arguments.items():
            x = np.ascontiguousarray(value, dtype=np.float64)
            if x.shape != (n,):
                raise InputError(f"{name} has shape {x.shape} but the model has nv = {n}")
            arrays.append(x)
        return arrays

    @property
    def learning(self) -> bool:
        """Whether the last :meth:`torque` or :meth:`reference_torque` changed the estimates."""
        return self._learning

    @property
    def learned_energy(self) -> float:
        """Distance of the estimates from the description and friction parameters, as an energy [J].

        It is ``½ |W_hat - W_start|² / learning_rate``, summed over the adapted bodies, plus the
        same term for friction; the module defines the scaled pseudo-inertia W. ``W_start`` belongs
        to the described body. The distance to the true parameters is unknown.
        """
        bodies = np.square(self._bodies.W - self._bodies.start).sum()
        f = self._friction
        now, units = (f.coulomb, f.viscous), (f.coulomb_unit, f.viscous_unit)
        friction = 0.0
        for value, given, unit in zip(now, self._given_friction, units, strict=True):
            adapted = unit > 0.0
            friction += float(np.square((value - given)[adapted] / unit[adapted]).sum())
        masses = float(bodies) / self._gains.learning_rate
        return 0.5 * (masses + friction / self._gains.friction_learning_rate)

    @property
    def model(self) -> Model:
        """A new model of the arm with the present estimates of the inertial parameters."""
        arrays = self._arrays
        own = {
            name: getattr(arrays, name).copy() for name in ("mass", "first_moment", "second_moment")
        }
        return replace(self._nominal, arrays=arrays._replace(**own))

    @property
    def payload(self) -> float:
        """Estimated mass of all adapted links less their mass in the description [kg]."""
        rows = self._bodies.row
        return float((self._arrays.mass - self._nominal.arrays.mass)[rows].sum())

    @property
    def estimates(self) -> Estimates:
        """The present estimates of the adapted links, and of friction if it is adapted."""
        f = self._friction
        return self._estimates_of(self._bodies.W, np.array([f.coulomb, f.viscous]))

    @property
    def averaged_estimates(self) -> Estimates:
        """The estimates to which :meth:`forget_recent` returns: their average over 1 s of learning.

        A push that no detector reports changes them less than it changes :attr:`estimates`.
        """
        return self._estimates_of(self._bodies.average, self._friction.average)

    def _estimates_of(self, bodies: Array, friction: Array) -> Estimates:
        links = []
        for link, S, W in zip(self._links, self._bodies.S, bodies, strict=True):
            to_link = np.linalg.inv(self._nominal.link_placement[link])
            P = to_link @ S @ W @ S.T @ to_link.T
            mass = float(P[3, 3])
            links.append(LinkEstimate(link, mass, P[:3, 3] / mass, central_inertia(P)))
        joints = zip(self._friction_joints, *friction.tolist(), strict=False)
        return Estimates(tuple(links), tuple(FrictionEstimate(*joint) for joint in joints))

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates and their averages.

        Args:
            estimates: one entry for each adapted link and, with ``adapt_friction``, each joint.

        Raises:
            InputError: naming a missing or unknown entry, or a value outside the bounds; the
                estimates are then unchanged.
        """
        W, friction = self._checked(estimates)
        self._use(W, friction)
        self._bodies.average[:], self._friction.average[:] = W, friction
        self._is_recent = False

    def _checked(self, estimates: Estimates) -> tuple[Array, Array]:
        """Return W (k, 4, 4) and friction (2, nv); raise an InputError beyond the bounds."""
        W = np.empty_like(self._bodies.W)
        friction = np.array([self._friction.coulomb, self._friction.viscous])
        units = (self._friction.coulomb_unit, self._friction.viscous_unit)
        links = {estimate.link: estimate for estimate in estimates.links}
        joints = {estimate.joint: estimate for estimate in estimates.joints}
        for what, given, own in (
            ("links", tuple(links), self._links),
            ("joints", tuple(joints), self._friction_joints),
        ):
            if set(given) != set(own):
                raise InputError(
                    f"the estimates are for {what} {', '.join(given) or 'none'}, but the law "
                    f"adapts {what} {', '.join(own) or 'none'}"
                )
        for k, link in enumerate(self._links):
            W[k] = self._scaled(k, links[link])
        for i, joint in enumerate(self._friction_joints):
            pair = (joints[joint].coulomb, joints[joint].viscous)
            for name, value, unit, row in zip(
                ("coulomb", "viscous"), pair, units, friction, strict=True
            ):
                most = LARGEST_FRICTION * unit[i]
                if not 0.0 <= value <= most * (1.0 + ROUNDING):
                    raise InputError(
                        f"{name} friction of {joint} is {value:g}; it can be 0 to {most:g}"
                    )
                row[i] = value
        return W, friction

    @property
    def friction(self) -> CoulombViscousFriction | None:
        """The present Coulomb and viscous friction with the constant torque offset.

        None unless ``friction_model`` is ``coulomb_viscous`` or ``stribeck``.
        """
        if self._other_friction is not None:
            return None
        f = self._friction
        return CoulombViscousFriction(
            f.coulomb.copy(), f.viscous.copy(), f.offset.copy(), f.scale.copy()
        )

    def _scaled(self, k: int, estimate: LinkEstimate) -> Array:
        """Return W of adapted body k for an estimate; raise an InputError beyond the bounds."""
        placement = self._nominal.link_placement[estimate.link]
        P = pseudo_inertia(estimate.mass, estimate.com, estimate.inertia)
        P = placement @ P @ placement.T
        inverse = np.linalg.inv(self._bodies.S[k])
        W = inverse @ (0.5 * (P + P.T)) @ inverse.T
        low, *_, high = np.linalg.eigvalsh(W)
        slack = ROUNDING * LARGEST
        heavy = (self._bodies.cap[k] * W).sum(axis=(1, 2)) > self._bodies.most[k] * (1.0 + ROUNDING)
        if heavy.any() or not self._bodies.least[k] - slack <= low <= high <= LARGEST + slack:
            raise InputError(
                f"{estimate.link} cannot have mass {estimate.mass:g} kg with its centre at "
                f"{estimate.com.tolist()} m: its inertia is physically impossible, or it exceeds "
                f"largest_payload_mass or largest_payload_reach"
            )
        return np.asarray(0.5 * (W + W.T))

    def _use(self, bodies: Array, friction: Array) -> None:
        self._bodies.W[:] = bodies
        self._friction.coulomb[:], self._friction.viscous[:] = friction
        for row, S, W in zip(self._bodies.row, self._bodies.S, self._bodies.W, strict=True):
            P = S @ W @ S.T
            self._arrays.mass[row] = P[3, 3]
            self._arrays.first_moment[row] = P[:3, 3]
            self._arrays.second_moment[row] = P[:3, :3]
