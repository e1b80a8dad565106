"""The law of the controller: fixed or adaptive, with soft limits and energies."""

from __future__ import annotations

from contextlib import suppress
from math import inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.adaptive import AdaptiveSlotineLiController
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy import EnergyBalance, EnergyMonitor, EnergyTank
from rbd_control.control.estimates import Bias, Estimates
from rbd_control.control.limits import ArmLimits, SoftLimits
from rbd_control.control.slotine_li import Feedback, LawTorque, SlotineLiController
from rbd_control.control.trajectory import DesiredState
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]

LEARNED_PERIOD = 0.5
"""Period at which the tank uses new estimates of the adaptive law [s]."""


class TrackingLaw:
    """Computes the torque of the law for one arm, with an energy monitor and an energy tank.

    The law is :class:`SlotineLiController` or, if the parameter ``adaptive`` is true, the adaptive
    law :class:`AdaptiveSlotineLiController` with the same bounds and springs.

    Args:
        model: the arm with its payload.
        parameters: gains, friction, learned parameters, energies.
        soft: soft position limits.
        before: the law that this one replaces. The level of its tank is kept; its estimates are
            kept if all constants of the model are the same and the new bounds permit them.

    Attributes:
        adaptive: the adaptive law; None if it is not selected.
        tank: the energy tank, which bounds the energy that the torque injects.
        discarded: why estimates that ``before`` had learned or been given were not kept; an empty
            text if there were none, or they were kept.

    Raises:
        InputError: for a floating base, and if the law is adaptive, for an invalid link to learn.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(
        self,
        model: Model,
        parameters: ControllerParameters,
        soft: SoftLimits,
        before: TrackingLaw | None = None,
    ) -> None:
        self._model = self._described = model
        self._learned = False
        """Whether the estimates have changed since _model was made."""
        self._fixed = SlotineLiController(model, parameters, soft)
        self._monitor = EnergyMonitor(model, parameters, parameters, soft)
        limits = ArmLimits.of(model, parameters)
        self._bias = Bias(limits.effort, soft.speed, parameters.bias_rate)
        self.tank = EnergyTank(model, parameters, parameters)
        if before is not None:
            self.tank.take_over(before.tank)
            self._bias.take_over(before._bias)
        self.adaptive: AdaptiveSlotineLiController | None = None
        self.discarded = ""
        self._taken_over = -inf
        self._given: Estimates | None = None
        """Estimates that were set, to which :meth:`discard_estimates` returns."""
        if parameters.adaptive:
            self.adaptive = AdaptiveSlotineLiController(model, parameters, parameters, soft)
        if before is not None:
            self._keep(before)
        self._last: LawTorque | None = None
        """Torque of the last sample by the law without a filter; None if it was not computed."""
        self._has_torque = False

    def _keep(self, before: TrackingLaw) -> None:
        """Continue from the estimates of another law, or store in ``discarded`` why not."""
        why = ""
        if not before.belongs_to(self._described):
            # Estimates describe the errors of their model only.
            why = "the model of the arm has changed"
        else:
            self._given = before._given
            if self.adaptive is None:
                why = "adaptive is false now"
            else:
                try:
                    if before.adaptive is not None:
                        self.adaptive.continue_from(before.adaptive)
                    elif self._given is not None:
                        self.adaptive.set_estimates(self._given)
                    self._use_estimates()
                except InputError as error:  # other links or bounds: learning restarts
                    self._given, why = None, str(error)
        loses_given = before._given is not None and self._given is None
        has_learned = before.adaptive is not None and before.adaptive.learned_energy > 0.0
        if loses_given or has_learned:
            self.discarded = why

    @property
    def estimates(self) -> Estimates:
        """The present estimates of the adaptive law.

        Raises:
            InputError: if the law is not adaptive.
        """
        return self._learning().estimates

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates, see :meth:`AdaptiveSlotineLiController.set_estimates`.

        Raises:
            InputError: if the law is not adaptive; for a missing or unknown link or joint, or a
                value outside its bounds.
        """
        self._learning().set_estimates(estimates)
        self._given = estimates
        self._use_estimates()

    def _learning(self) -> AdaptiveSlotineLiController:
        if self.adaptive is None:
            raise InputError("nothing is learned: parameter adaptive is false")
        return self.adaptive

    def discard_estimates(self) -> str:
        """Discard the estimates, and return what the reason of a fault says about it.

        The estimates return to those of the last :meth:`set_estimates`, or to the described arm if
        there are none or they violate bounds that have changed since. If the law is not adaptive,
        nothing happens.
        """
        if self.adaptive is None:
            return ""
        self.adaptive.reset()
        if self._given is not None:
            # Its bounds may have changed since; a fault must lead to the safe torque all the same.
            with suppress(InputError):
                self.adaptive.set_estimates(self._given)
        self._use_estimates()
        return "; the estimates of the adaptive law are discarded"

    def forget_recent(self) -> None:
        """Replace estimates of an adaptive law by their average over about 1 s of learning time.

        See :meth:`AdaptiveSlotineLiController.forget_recent`. The estimates of :class:`Bias` stay.
        """
        if self.adaptive is not None and self.adaptive.forget_recent():
            self._use_estimates()

    def belongs_to(self, model: Model) -> bool:
        """Return whether all constants of ``model`` equal those of the described arm.

        Estimates of the adaptive law are then valid for it.
        """
        return _is_same(model, self._described)

    @property
    def model(self) -> Model:
        """The model of the arm, with the estimates of an adaptive law."""
        self.take_estimates()
        return self._model

    def take_estimates(self) -> None:
        """Use the present estimates of the adaptive law in :meth:`weight` and the tank."""
        if self._learned:
            self._use_estimates()

    def weight(self, q: Array) -> Array:
        """Return the largest gravity torque of each joint at ``q``, (..., nv) [N·m or N].

        It is the magnitude for the described arm, or for the arm with the learned masses where this
        is larger. Any thread may call it; the estimates are those of the last call of
        :meth:`take_estimates` or :meth:`balance` that updated them.

        Args:
            q: positions, (..., nv) [rad or m].
        """
        described, model = np.abs(gravity_torque(self._described, q)), self._model
        if model is self._described:
            return described
        return np.maximum(described, np.abs(gravity_torque(model, q)))

    @property
    def packed(self) -> Array:
        """:attr:`Model.packed` of the arm with the present estimates, for compiled functions."""
        return self._model.packed if self.adaptive is None else self.adaptive.packed

    def _use_estimates(self) -> None:
        assert self.adaptive is not None
        self._model = self.tank.model = self.adaptive.model
        self._learned = False

    def torque(
        self,
        q: Array,
        v: Array,
        desired: DesiredState,
        learn: float,
        feedback: Feedback | None = None,
    ) -> LawTorque:
        """Return the torque that tracks ``desired``, before limits; the adaptive law then learns.

        The result is stored for :meth:`balance`.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            desired: the desired state.
            learn: time since the last sample, from which the adaptive law learns [s]; 0: it does
                not learn.
            feedback: position and velocity whose errors are fed back; by default the measured ones.

        Raises:
            InputError: if the torque of the adaptive law is not finite; nothing has been learned
                then. The fixed law returns such a torque.
        """
        if self.adaptive is None:
            wanted = self._fixed.step(q, v, *desired, feedback)
            self._bias.learn(wanted.s, learn, wanted.torque)
        else:
            wanted = self.adaptive.step(q, v, *desired, learn, feedback)
            self._learned |= self.adaptive.learning
        self._last = wanted if feedback is None else None
        self._has_torque = True
        return wanted

    def damping(self, q: Array) -> Array:
        """Return the diagonal of K_D of the described arm at ``q``.

        Args:
            q: positions, (nv,) [rad or m].

        Returns:
            (nv,) [N·m·s/rad or N·s/m].
        """
        return self._fixed.damping(q)

    def floating(self, q: Array, v: Array, least: float = 0.0) -> LawTorque:
        """Return the torque that lets the arm float: gravity, and soft limits near the end stops.

        Computed by :meth:`SlotineLiController.floating`, with the masses that were learned.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            least: least share of the damping K_D.

        Returns:
            The torque (nv,) [N·m or N], with ``v_r = 0``.
        """
        self._bias.reset()
        return self._fixed.floating(self.packed, q, v, least)

    def floating_torque(self, q: Array, v: Array) -> Array:
        """Return the torque of :meth:`floating` alone, (nv,) [N·m or N]."""
        return self.floating(q, v).torque

    def balance(
        self, stamp: float, q: Array, v: Array, desired: DesiredState, acting: Array, dt: float
    ) -> EnergyBalance | None:
        """Return the energies of the period before this sample; see :class:`EnergyMonitor`.

        Call it after :meth:`torque` for the same sample; before the first torque there is no
        balance, and the result is None.

        Args:
            stamp: stamp of the sample [s].
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].
            desired: the desired state.
            acting: motor torque since the previous sample, (nv,) [N·m or N].
            dt: time since the previous sample, positive [s].

        Raises:
            InputError: for ``acting`` that is not finite.
        """
        if not self._has_torque:
            return None
        last = self._last  # None: The balance is of the law without filter, a part of the loop.
        if self.adaptive is None and last is None:
            law, bias, sample = self._fixed.constants, self._bias.torque, (q, v, *desired)
            return self._monitor.step_of_law(law, bias, sample, acting, dt)
        if last is None:
            assert self.adaptive is not None
            last = self.adaptive.step(q, v, *desired)
        if self.adaptive is not None and not 0.0 <= stamp - self._taken_over < LEARNED_PERIOD:
            self._taken_over = stamp
            self._use_estimates()
        return self._monitor.step(q, v, desired.q_d, last.v_r, last.torque, acting, dt)

    def forget_bias(self) -> None:
        """Forget the estimates of the missing torque, because the law does not act."""
        self._bias.reset()

    def jump(self) -> None:
        """Restart :meth:`balance` after a jump of the desired motion, or a time without the law."""
        self._monitor.reset()


def _is_same(model: Model, other: Model) -> bool:
    """Return whether all constants are equal; integers among them, as floats, may read as NaN."""
    return np.array_equal(model.packed, other.packed, equal_nan=True)
