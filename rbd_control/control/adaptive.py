"""The adaptive control law of Slotine and Li: payload and friction are learned while the arm moves.

The law of :mod:`~rbd_control.control.slotine_li` for the described arm, ``tau_fixed``, is
unchanged. What is learned is added as a feed-forward torque of the desired motion::

    tau = tau_fixed + Y(q, v_d, v_d, a_d) (pi_hat - pi_0) + F_C tanh(v_d / scale) + F_V v_d
    theta_hat_dot = -k Gamma Phiᵀ s

``Y pi = M a_d + C v_d + g`` is linear in the inertial parameters pi, with pi_0 of the description;
F_C and F_V are friction in addition to the friction model. theta consists of pi, F_C and F_V, and
Phi contains their coefficients in tau. ``Yᵀ s`` is the power of each parameter's force along s,
computed by one sweep without the matrix Y.

Feedback is not learned. With learned masses in the terms ``M a_r`` and ``K_D s`` of the law,
friction that passed for inertia multiplied the inertia of a Panda's joint 7 by 18, and it shook.
Here the gains are those of the fixed law. As Phi does not contain the measured velocity either,
noise of s has no mean effect on the estimates.

Stability. Let the true mass matrix be ``M = M_0 + dM``, ``x = theta_hat - theta`` the error of the
estimates, ``d = Phi x`` the remaining torque error, and Lambda the same for all joints. Up to
products of velocity errors::

    M e_ddot + (K_D + Lambda M_0) e_dot + Lambda K_D e = d + tau_ext
    V = ½ sᵀ M s + ½ eᵀ (2 Lambda K_D - Lambda² dM) e + ½ xᵀ Gamma⁻¹ x
    V_dot = -e_dotᵀ (K_D - Lambda dM) e_dot - Lambda² eᵀ K_D e + sᵀ tau_ext        for k = 1

V is a storage function if ``Lambda dM < K_D``: the payload makes the inertia in no direction larger
than ``1 + damping_rate / bandwidth`` times the described one, and ``damping`` adds to this. The
fixed law needs the same. Monotone true friction F adds the dissipation ``e_dot (F(v) - F(v_d))``.

Normalised step. The factor k <= 1 keeps ``k sᵀ Phi Gamma Phiᵀ s <= fastest sᵀ K_D s``. Learning
then reduces a torque error at most with the rate ``fastest``, a tenth of ``bandwidth``. At this
rate the loop is in equilibrium, ``s = K_D⁻¹ d``, apart from a lag that a delay of the loop hardly
changes, and ``½ xᵀ Gamma⁻¹ x`` falls with the rate ``k dᵀ K_D⁻¹ d`` for any k.

Sliding. Coulomb friction of a joint that rests or reverses is any torque up to its breakaway value,
and would pass for a weight. Only joints that move as desired, both speeds above 2 % of the velocity
limit, therefore count: the s of other joints is zero in ``Phiᵀ s``. Their torque error acts on V
like an external torque. At rest no estimate changes, so that none can drift. A payload that is
picked up is learned from the next motion on.

The metric Gamma. The pseudo-inertia P (4x4) of an adapted body is written ``P = S W Sᵀ``. The fixed
``S Sᵀ`` is the sum of the pseudo-inertia of the described body and the pseudo-inertia of a ball of
mass ``largest_payload_mass`` and radius ``largest_payload_reach`` about the link's origin. The
entries of W are then of order one, its sum of squares does not depend on axes or units, and one
``learning_rate`` defines Gamma: ``½ |W_hat - W|² / learning_rate``. Friction is measured in units
of 5 % of the effort limit, and bounded by three units. This is the metric of Lee, Kwon & Park at a
fixed, plausible body. If the metric changed with the estimate, a link of 0.2 kg would learn a
hundred times as slowly as a link of 2 kg.

Physical consistency. A body is physically possible if and only if P, and therefore W, is positive
definite. After each step W is projected in turn onto the matrices whose mass is at most
``largest_payload_mass`` above the mass of the described body, whose second moment about the link's
origin is at most ``largest_payload_mass largest_payload_reach²`` larger, and whose eigenvalues are
between half the smallest eigenvalue of the described body and a bound above that of any expected
payload. These sets are convex and contain the true parameters of any expected payload, and the
projections use the same metric, so they never increase V. After at most three cycles, W is moved
towards the described body until it keeps all bounds; only this last move may increase V. The bounds
are hard: the estimates keep them after every step, for any contact and any sensor error.

Forgetting. Until a detector reports the contact, the law learns from a push as if it were a weight.
The estimates are then replaced by their exponential average over the time of learning, time
constant 1 s (:meth:`AdaptiveSlotineLiController.forget_recent`). A push of 20 ms changes this
average by 2 % of the change that it causes in the estimates. The estimates are also replaced before
gravity is compensated without feedback (modes float and safe), where nothing would correct a wrong
weight. The average lies in the same convex sets, and is at most as far from the true parameters as
the farthest of the estimates that it contains.

Sources: Slotine & Li, *On the Adaptive Control of Robot Manipulators*, IJRR 6(3), 1987; Sadegh &
Horowitz, *Stability and Robustness Analysis of a Class of Adaptive Controllers for Robotic
Manipulators*, IJRR 9(3), 1990, for the feed-forward of the desired motion; Wensing, Kim & Slotine,
*Linear Matrix Inequalities for Physically Consistent Inertial Parameter Identification*, RA-L 2018;
Lee, Kwon & Park, *A Natural Adaptive Control Law for Robot Manipulators*, IROS 2018.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.adaptation_parameters import AdaptationParameters
from rbd_control.control.adapted_bodies import adapted_bodies, adapted_links, learned_friction
from rbd_control.control.adaptive_step import (
    FASTEST,
    LARGEST,
    LARGEST_FRICTION,
    Gains,
    adaptive_step,
)
from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.estimates import Estimates, FrictionEstimate, LinkEstimate
from rbd_control.control.gains import law_gains
from rbd_control.control.slotine_li import Feedback, LawTorque, SlotineLiController
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.dynamics import Model
from rbd_control.dynamics.checks import checked_array
from rbd_control.dynamics.constants import constants_of, views
from rbd_control.dynamics.inertia import central_inertia, pseudo_inertia
from rbd_control.errors import InputError

Array = NDArray[np.float64]

ROUNDING = 1e-9
"""Relative tolerance of the bounds for estimates that were written to a file and read again."""

LONGEST_STEP = 0.01
"""Upper bound of the period used for learning [s]; a longer period is reduced to it."""


class AdaptiveSlotineLiController:
    """The adaptive control law of one arm; its state consists of the estimates and their averages.

    Args:
        model: an arm with a fixed base, whose masses and inertias are the initial estimates.
        parameters: gains, friction, and limits of torque and speed.
        adaptation: the learned links, the largest payload and the learning rate.
        soft: soft position limits of the fixed law; none by default.

    Attributes:
        packed: the model with the present estimates as one array, for the compiled kernels.

    Raises:
        InputError: for a floating base, which has no torque at its root, for an unknown or fixed
            link in ``adapted_links``, or for two links that are fixed to each other.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self,
        model: Model,
        parameters: ControllerParameters,
        adaptation: AdaptationParameters,
        soft: SoftLimits | None = None,
    ) -> None:
        self._fixed = SlotineLiController(model, parameters, soft)
        n = model.nv
        self._nominal = model
        self._adaptation = adaptation
        self._links = adapted_links(model, adaptation)
        Lambda, damping, damping_rate = law_gains(parameters, model)
        fastest = FASTEST * float(Lambda.min())
        self._gains = Gains(damping, damping_rate, adaptation.learning_rate, fastest)
        limits = ArmLimits.of(model, parameters)
        self._friction = learned_friction(parameters.friction(n).monotone(), limits)
        self._learning = False
        self.reset()

    def reset(self) -> None:
        """Reset estimates and averages to the described inertias and the friction parameters."""
        constants = constants_of(self._nominal.arrays)
        self.packed, self._difference = self._nominal.packed.copy(), self._nominal.packed.copy()
        self._own, difference = views(self.packed, constants), views(self._difference, constants)
        for values in (difference.mass, difference.first_moment, difference.second_moment):
            values[:] = 0.0
        self._bodies = adapted_bodies(self._nominal, self._links, self._adaptation)
        self._friction.learned[:] = self._friction.average[:] = 0.0
        self._is_recent = False

    def forget_recent(self) -> bool:
        """Replace the estimates by their exponentially weighted average over the learning time.

        Learning time is the sum of the ``dt`` of :meth:`torque` and :meth:`step`, each at most
        :data:`LONGEST_STEP`. The time constant of the average is 1 s of learning time, so that
        recent errors hardly change it.

        Call the method when a contact begins, because the law has learned from the push until it
        was detected, and before the modes float and safe, in which no feedback corrects a weight
        that was learned wrongly.

        Returns:
            Whether there was any learning time since the last call; a second call changes nothing.
        """
        if not self._is_recent:
            return False
        self._is_recent = False
        self._use(self._bodies.average, self._friction.average.copy())
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
        given = {"q": q, "v": v, "q_d": q_d, "v_d": v_d, "a_d": a_d}
        for name, x in given.items():
            checked_array(name, x, (self._nominal.nv,))
        # The kernels require contiguous arrays of float64.
        q, v, q_d, v_d, a_d = (np.array(x, dtype=np.float64) for x in given.values())
        return self.step(q, v, q_d, v_d, a_d, dt).torque

    def step(
        self,
        q: Array,
        v: Array,
        q_d: Array,
        v_d: Array,
        a_d: Array,
        dt: float = 0.0,
        feedback: Feedback | None = None,
    ) -> LawTorque:
        """Return the torque with v_r and s, then learn; arguments as of :meth:`torque`.

        They must be contiguous arrays of float64. ``feedback`` is as of
        :meth:`SlotineLiController.step`.

        Raises:
            InputError: for a torque that is not finite, and for ``dt`` as :meth:`torque`; nothing
                has been learned then.
        """
        if not 0.0 <= dt < np.inf:
            raise InputError(f"dt is {dt} s; it must be finite and not negative")
        law = self._fixed.step(q, v, q_d, v_d, a_d, feedback)
        learned = adaptive_step(
            self._nominal.packed,
            self.packed,
            self._difference,
            self._gains,
            self._bodies,
            self._friction,
            q,
            v,
            v_d,
            a_d,
            law.s,
            min(float(dt), LONGEST_STEP),
            law.torque,
        )
        if learned < 0:
            raise InputError(f"the torque at q = {q}, v = {v} is not finite")
        self._learning = learned > 0
        self._is_recent |= dt > 0.0
        return law

    @property
    def learning(self) -> bool:
        """Whether the last :meth:`torque` or :meth:`step` changed the estimates."""
        return self._learning

    @property
    def learned_energy(self) -> float:
        """Distance of the estimates from the description and friction parameters, as an energy [J].

        It is ``½ |W_hat - W_start|² / learning_rate``, summed over the adapted bodies, plus the
        same term for friction; the module defines the scaled pseudo-inertia W. ``W_start`` belongs
        to the described body. The distance to the true parameters is unknown.
        """
        f = self._friction
        learned = f.learned[f.unit > 0.0] / f.unit[f.unit > 0.0]
        distance = np.square(self._bodies.W - self._bodies.start).sum() + np.square(learned).sum()
        return 0.5 * float(distance) / self._gains.learning_rate

    @property
    def model(self) -> Model:
        """A new model of the arm with the present estimates of the inertial parameters."""
        names = ("mass", "first_moment", "second_moment")
        own = {name: getattr(self._own, name).copy() for name in names}
        return replace(self._nominal, arrays=self._nominal.arrays._replace(**own))

    @property
    def payload(self) -> float:
        """Estimated mass of all adapted links less their mass in the description [kg]."""
        rows = self._bodies.row
        return float((self._own.mass - self._nominal.arrays.mass)[rows].sum())

    @property
    def estimates(self) -> Estimates:
        """The present estimates of the adapted links and of the friction of all joints.

        The friction of a joint is learned in addition to ``friction_model``; Coulomb and viscous
        coefficients of this model are included.
        """
        return self._estimates_of(self._bodies.W, self._friction.learned)

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
        total = (self._friction.given + friction).tolist()
        joints = zip(self._nominal.joint_names, *total, strict=True)
        return Estimates(tuple(links), tuple(FrictionEstimate(*joint) for joint in joints))

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates and their averages.

        Args:
            estimates: one entry for each adapted link, and for each joint or none; without joints
                the friction is that of the parameters.

        Raises:
            InputError: naming a missing or unknown entry, or a value outside the bounds; the
                estimates are then unchanged.
        """
        W, friction = self._checked(estimates)
        self._use(W, friction)
        self._bodies.average[:], self._friction.average[:] = W, friction
        self._is_recent = False

    def _checked(self, estimates: Estimates) -> tuple[Array, Array]:
        """Return W (k, 4, 4) and learned friction (2, nv); raise an InputError beyond bounds."""
        W = np.empty_like(self._bodies.W)
        links = {estimate.link: estimate for estimate in estimates.links}
        joints = {estimate.joint: estimate for estimate in estimates.joints}
        names, f = self._nominal.joint_names, self._friction
        for what, given, own in (
            ("links", tuple(links), self._links),
            ("joints", tuple(joints), names if joints else ()),
        ):
            if set(given) != set(own):
                raise InputError(
                    f"the estimates are for {what} {', '.join(given) or 'none'}, but the law "
                    f"adapts {what} {', '.join(own) or 'none'}"
                )
        for k, link in enumerate(self._links):
            W[k] = self._scaled(k, links[link])
        if not joints:
            return W, np.zeros_like(f.learned)
        total = np.array([(joints[name].coulomb, joints[name].viscous) for name in names]).T
        most = f.given + LARGEST_FRICTION * f.unit
        for row, name in enumerate(("coulomb", "viscous")):
            for i, joint in enumerate(names):
                if not 0.0 <= total[row, i] <= most[row, i] * (1.0 + ROUNDING):
                    raise InputError(
                        f"{name} friction of {joint} is {total[row, i]:g}; it can be 0 to "
                        f"{most[row, i]:g}"
                    )
        return W, total - f.given

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
        self._friction.learned[:] = friction
        difference = views(self._difference, self._own)
        for k, row in enumerate(self._bodies.row):
            S, W, start = self._bodies.S[k], self._bodies.W[k], self._bodies.start[k]
            for own, P in ((self._own, S @ W @ S.T), (difference, S @ (W - start) @ S.T)):
                own.mass[row] = P[3, 3]
                own.first_moment[row] = P[:3, 3]
                own.second_moment[row] = P[:3, :3]
