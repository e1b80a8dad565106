"""The law of the controller: fixed or adaptive, with soft limits and energies."""

from __future__ import annotations

from contextlib import suppress
from math import inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.adaptive import AdaptiveSlotineLiController
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy import EnergyBalance, EnergyMonitor
from rbd_control.control.energy_tank import EnergyTank
from rbd_control.control.estimates import Estimates
from rbd_control.control.slotine_li import LawTorque, SlotineLiController
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.trajectory import DesiredState
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]

LEARNED_PERIOD = 0.5
"""Period at which tank and monitor use new estimates of the adaptive law [s]."""


class TrackingLaw:
    """The law of one arm with its energy monitor and energy tank.

    Args:
        model: the arm with its payload.
        parameters: gains, friction, learned parameters, energies.
        soft: soft position limits.
        before: the law that this one replaces. The level of its tank is kept; its estimates are
            kept if all constants of the model are the same.

    Attributes:
        adaptive: the adaptive law, if it is selected.
        tank: bound on the injected energy.
        discarded: why estimates that ``before`` had learned or been given were not kept; an empty
            text if there were none, or they were kept.

    Raises:
        InputError: for a floating base, or an unknown link to learn.
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
        self._soft = soft
        self._monitor = EnergyMonitor(model, parameters, parameters, soft)
        self.tank = EnergyTank(model, parameters, parameters)
        if before is not None:
            self.tank.take_over(before.tank)
        self.adaptive: AdaptiveSlotineLiController | None = None
        self.discarded = ""
        self._taken_over = -inf
        self._given: Estimates | None = None
        """Estimates that were set, to which a fault returns."""
        if parameters.adaptive:
            self.adaptive = AdaptiveSlotineLiController(model, parameters, parameters)
        if before is not None:
            self._keep(before)
        self._last: LawTorque | None = None

    def _keep(self, before: TrackingLaw) -> None:
        """Continue from the estimates of another law, or say why they are discarded."""
        why = ""
        if not before.belongs_to(self._described):
            # Estimates describe the errors of their model only.
            why = "the model of the arm has changed"
        else:
            self._given = before._given
            if self.adaptive is None:
                why = "adaptive is false now"
            elif before.adaptive is None:
                self.discard_estimates()
            else:
                try:
                    self.adaptive.continue_from(before.adaptive)
                    self._use_estimates()
                except InputError as error:  # other links or bounds: learning restarts
                    self._given, why = None, str(error)
        if before.adaptive is not None and before.adaptive.learned_energy > 0.0:
            self.discarded = why

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates, see :meth:`AdaptiveSlotineLiController.set_estimates`.

        Raises:
            InputError: if the law is not adaptive, or the estimates belong to another arm.
        """
        if self.adaptive is None:
            raise InputError("nothing is learned: parameter adaptive is false")
        self.adaptive.set_estimates(estimates)
        self._given = estimates
        self._use_estimates()

    def discard_estimates(self) -> None:
        """Discard what was learned: return to the estimates that were set, or the described arm."""
        if self.adaptive is None:
            return
        self.adaptive.reset()
        if self._given is not None:
            # Its bounds may have changed since; a fault must lead to the safe torque all the same.
            with suppress(InputError):
                self.adaptive.set_estimates(self._given)
        self._use_estimates()

    def forget_recent(self) -> None:
        """Call :meth:`AdaptiveSlotineLiController.forget_recent`, if the law is adaptive."""
        if self.adaptive is not None and self.adaptive.forget_recent():
            self._use_estimates()

    def belongs_to(self, model: Model) -> bool:
        """Return whether ``model`` equals the described arm; its estimates then remain valid."""
        return _is_same(model, self._described)

    @property
    def model(self) -> Model:
        """The model of the arm, with the estimates of an adaptive law."""
        self.take_estimates()
        return self._model

    def take_estimates(self) -> None:
        """Bring the models of weight, monitor and tank up to date with the adaptive law."""
        if self._learned:
            self._use_estimates()

    def weight(self, q: Array) -> Array:
        """Return the largest gravity torque of each joint at q (nv,), (nv,) [N·m or N].

        It is the magnitude for the described arm, or for the learned one where that is heavier. Any
        thread may call it; the estimates are those of the last :meth:`take_estimates` or balance.
        """
        described = np.abs(gravity_torque(self._described, q))
        return np.maximum(described, np.abs(gravity_torque(self._model, q)))

    @property
    def packed(self) -> Array:
        """The model in the form of the kernels, with the present estimates."""
        return self._model.packed if self.adaptive is None else self.adaptive.packed

    def _use_estimates(self) -> None:
        assert self.adaptive is not None
        self._model = self._monitor.model = self.tank.model = self.adaptive.model
        self._learned = False

    def torque(self, q: Array, v: Array, desired: DesiredState, learn: float) -> LawTorque:
        """Return the torque that tracks ``desired``; the adaptive law learns from ``learn`` [s].

        The result is stored for :meth:`balance`.
        """
        if self.adaptive is None:
            self._last = self._fixed.step(q, v, *desired)
        else:
            v_r, a_r, s = self._fixed.refer(q, v, *desired)
            tau = self.adaptive.reference_torque(q, v, v_r, a_r, learn)
            tau += self._soft.torque(q)
            self._last = LawTorque(tau, v_r, s)
            self._learned |= self.adaptive.learning
        return self._last

    def damping(self, q: Array) -> Array:
        """Return the diagonal of K_D for the described arm, see :class:`SlotineLiController`."""
        return self._fixed.damping(q)

    def floating(self, q: Array, v: Array) -> LawTorque:
        """Return the torque that lets the arm float: gravity, and soft limits near the end stops.

        Computed by :meth:`SlotineLiController.floating`, with the masses that were learned.

        Args:
            q, v: measured positions and velocities, (nv,) each [rad or m, rad/s or m/s].

        Returns:
            The torque (nv,) [N·m or N], with ``v_r = 0``.
        """
        return self._fixed.floating(self.packed, q, v)

    def floating_torque(self, q: Array, v: Array) -> Array:
        """Return the torque of :meth:`floating` alone, (nv,) [N·m or N]."""
        return self.floating(q, v).torque

    def balance(
        self, stamp: float, q: Array, v: Array, desired: DesiredState, acting: Array, dt: float
    ) -> EnergyBalance:
        """Return the energies of the period before this sample; see :class:`EnergyMonitor`.

        Call it after :meth:`torque` for the same sample. ``acting`` is the motor torque since the
        previous sample.
        """
        assert self._last is not None
        if self.adaptive is not None and not 0.0 <= stamp - self._taken_over < LEARNED_PERIOD:
            self._taken_over = stamp
            self._use_estimates()
        last = self._last
        return self._monitor.update(
            q, v, desired.q_d, desired.v_d, last.torque, acting, dt, v_r=last.v_r
        )

    def jump(self) -> None:
        """Restart the balance after a jump of the desired motion, or control by another law."""
        self._monitor.reset()


def _is_same(model: Model, other: Model) -> bool:
    """Return whether all constants are equal; integers among them read as NaN."""
    return np.array_equal(model.packed, other.packed, equal_nan=True)
