"""The brain of the controller node: samples in, torque out, faults. It knows nothing of ROS.

What the arm is to do meanwhile is kept by :class:`~rbd_control.control.modes.Modes`.

The safe torque. While joint states are good (the fault was a jump, or the law itself) it is
``g - safe_damping M v``: the arm keeps its weight, loses its speed and yields to a hand, so neither
it nor a person below it is hurt. Without good joint states (silence, no velocity, rubbish) the
torque is zero. Then nothing is known of v, so any other torque may push a moving arm on, into
whoever stands beside it; zero is also what a consumer gets when this process ends, and the one
command that arms answer with their brakes or their own gravity compensation. An arm that has
neither will sink: give it brakes. A fault is latched until :meth:`PassivityController.resume`.
"""

from __future__ import annotations

from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Command
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.energy import EnergyBalance
from rbd_control.control.modes import Modes
from rbd_control.control.plausibility import Plausibility, Repeats
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_limits import TorqueLimits
from rbd_control.control.tracking_law import TrackingLaw
from rbd_control.dynamics import Model, gravity_torque, slotine_li_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]


SHORTEST = 1e-6
"""Period that the tank is told of between samples of one stamp [s]."""


class PassivityController(Modes):
    """Slotine-Li control of one arm with the care a real one needs.

    Calls must not overlap. Times: ``stamp`` is the time of a joint state, ``now`` that of a steady
    clock; neither is read here.

    Raises:
        InputError: for a model with a floating base.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters | None = None) -> None:
        self._law: TrackingLaw = None  # type: ignore[assignment]  # made by set_parameters
        super().__init__(model, parameters or ControllerParameters())
        self._now = -inf
        self._rejected = 0
        self._torque = np.zeros(model.nv)
        """Sent last; :attr:`_acting` is with what the arm adds, :attr:`_acted` that before."""
        self._acting = self._acted = np.zeros(model.nv)
        self._is_limited = False
        self._period = 0.0
        """Time between the last two good samples [s]; 0 when there is no last one."""
        self._nothing = np.zeros(model.nv)
        self._clock_went_back = False

    def set_parameters(self, parameters: ControllerParameters) -> None:
        """Use other parameters from the next sample on; on an error the old ones stay.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        limits = TorqueLimits(self.model, parameters)
        soft = SoftLimits(self.model, parameters, self._parked)
        law = TrackingLaw(self.model, parameters, soft, self._law)
        super().set_parameters(parameters)
        self._law = law
        self._plausibility = Plausibility(self.model, parameters)
        self._repeats = Repeats(parameters)
        self._limits = limits
        self._compensated = parameters.gravity_compensated
        self._tank_is_on = parameters.tank_capacity > 0.0

    @property
    def law(self) -> TrackingLaw:
        """The law with what it has learned and the level of its tank."""
        return self._law

    @property
    def frozen(self) -> str:
        """That joint states repeat while torque is sent, with the time; empty while they do not."""
        time = self._repeats.time
        if not time or not self._torque.any():
            return ""
        return f"joint states have repeated for {time:.3g} s while torque is sent"

    def start(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> None:
        """Begin to hold the arm where it is.

        Raises:
            InputError: without a plausible position and velocity. Velocity is never assumed zero.
        """
        self._seen = self._clock_went_back = False
        refusal = self._plausibility.refusal(stamp, q, v, None)
        if refusal or v is None:
            raise InputError(f"cannot start: {refusal}")
        self._accept(stamp, q, v, now)
        self._parked = self._q
        self.set_parameters(self._parameters)
        self._started = True
        self._zero()
        self._law.tank.reset()
        self._goal, self._contact, self._force = "none", False, None
        self._motion.wanted_pace = 1.0
        self._hold_here()

    # --- Samples ---------------------------------------------------------------------------------

    def update(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> Command:
        """Take one joint state and answer with the torque for it.

        Args:
            stamp: time of the sample [s]; ``now`` that of its arrival on the steady clock that
                :meth:`silence` uses, the stamp by default.
            q, v: measured, (nv,) each [rad or m, rad/s or m/s]; ``v`` None when it is missing.
        """
        last = (self._stamp, self._q) if self._seen else None
        refusal = self._plausibility.refusal(stamp, q, v, last)
        if refusal or v is None:
            return self._reject(refusal)
        # See clock_went_back().
        dt = 0.0 if self._clock_went_back else max(stamp - self._stamp, 0.0)
        self._period = dt if self._seen else 0.0
        # A process that was stopped finds samples without a gap in its queue, but has sent nothing.
        wait = (stamp if now is None else now) - self._now
        gap = max(dt, wait)
        late = (self._seen or self._clock_went_back) and gap > self._parameters.timeout
        self._accept(stamp, q, v, now)
        if not self._started:
            return self._command(np.zeros(self.model.nv))
        if late and self._mode != "safe":
            heard = wait <= self._parameters.timeout
            self._fault(f"{'stamps jumped by' if heard else 'no joint states for'} {gap:.3g} s")
        if self._clock_went_back:
            self._clock_went_back = False
            self._start_again()
        try:
            self._advance(dt)
            torque = self._law_torque()
            if not isfinite(torque.dot(torque)):  # or the cuts would make a number of it
                raise FloatingPointError("its torque is not finite")
            cut = self._limits.cut(torque, self._q)
            let = limited = cut
            if self._tank_is_on:
                let = self._law.tank.limit(self._q, self._v, cut, max(dt, SHORTEST))
                limited = self._limits.cut(let, self._q)
            # What the arm adds by itself is no part of the command.
            weight = self._weight()
            slow = self._limits.slow(limited, self._acting, min(dt, self._parameters.timeout))
            if self._tank_is_on and slow is not let:
                self._law.tank.sent(let, slow)
            sent = slow - weight
            if not isfinite(sent.dot(sent)):
                raise FloatingPointError("the limited torque is not finite")
        except Exception as error:  # whatever the model raises, the arm gets a torque
            self._fault(f"the law failed: {error}")
            return self._zero()
        self._torque, self._acted, self._acting = sent, self._acting, slow
        self._is_limited = slow is not torque
        return self._command(sent, cut is not torque, slow is not limited)

    def balance(self, effort: Array | None = None) -> EnergyBalance | None:
        """The energies of the period before the last sample; None where the law was not in charge,
        and for efforts that are not finite.

        To be called once after each :meth:`update`, best when the torque has been sent.

        It looks out for repeating joint states, too, see :attr:`frozen`.

        Args:
            effort: measured torque of the motors, (nv,) [N·m or N]; without it, and for an arm
                that carries itself, the torque sent is taken: delays on its way are not seen.
        """
        if self._seen:
            self._repeats.update(self._stamp, self._v, self._q, effort)
        if self._mode not in ("hold", "follow") or not self._seen or self._period <= 0.0:
            self._jumped = True
            return None
        if self._jumped:
            self._law.jump()
            self._jumped = False
        # Arms that carry themselves measure torque with their weight (Franka) or without it (UR).
        acting = self._acted if effort is None or self._compensated else effort
        try:
            return self._law.balance(
                self._stamp, self._q, self._v, self._desired, acting, self._period
            )
        except InputError:  # an effort that is no number, or gives none
            self._jumped = True
            return None

    def clock_went_back(self) -> None:
        """Start again with the next joint state, whose stamp may be any: hold the arm there.

        A trajectory is given up. As simulators put the arm elsewhere when they start again, it may
        have jumped. Float, safe and a hold that waits for :meth:`resume` stay what they are.
        Without this call a stamp that goes back stops the trajectory for one sample.
        """
        self._clock_went_back, self._seen = True, False
        self._law.tank.skip()
        self._repeats.reset()

    def silence(self, now: float) -> Command | None:
        """For a watchdog on the steady clock: None while joint states come, else what to send."""
        if not self._started or now - self._now <= self._parameters.timeout:
            return None
        self._seen = False
        if self._mode != "safe":
            self._fault(f"no joint states for {now - self._now:.3g} s")
        return self._zero()

    # --- Inside ----------------------------------------------------------------------------------

    def _accept(self, stamp: float, q: Array, v: Array, now: float | None) -> None:
        self._stamp, self._now = stamp, stamp if now is None else now
        self._q, self._v = np.array(q, dtype=float), np.array(v, dtype=float)
        self._seen, self._rejected = True, 0

    def _reject(self, refusal: str) -> Command:
        """The last torque stands for a few samples; then the fault, and zero."""
        self._rejected += 1
        self._period = 0.0
        if self._rejected < self._parameters.bad_samples:
            return self._command(self._torque.copy(), refusal=refusal)
        self._seen = False
        if self._started and self._mode != "safe":
            self._fault(refusal)
        return self._zero()

    def _law_torque(self) -> Array:
        if self._mode in ("hold", "follow"):
            # Neither what touches the arm nor what the limits take is to be learned.
            learn = 0.0 if self._contact or self._is_limited else self._period
            return self._law.torque(self._q, self._v, self._desired, learn)
        if self._mode == "float":
            return self._law.floating_torque(self._q, self._v)
        zero = np.zeros(self.model.nv)
        if self._parameters.safe_torque == "zero":
            return zero
        slowing = -self._parameters.safe_damping * self._v
        return slotine_li_torque(self._law.model, self._q, zero, zero, slowing)

    def _zero(self) -> Command:
        self._torque = np.zeros(self.model.nv)
        self._acting = self._acted = self._weight()
        self._law.tank.skip()
        return self._command(self._torque.copy())

    def _weight(self) -> Array:
        """What the arm adds to the command by itself."""
        return gravity_torque(self.model, self._q) if self._compensated else self._nothing

    def _command(
        self,
        torque: Array,
        saturated: bool = False,
        rate_limited: bool = False,
        refusal: str = "",
    ) -> Command:
        q_d, v_d, _ = self._desired
        if self._mode not in ("hold", "follow"):
            q_d, v_d = self._q, self._v
        return Command(
            torque,
            q_d,
            v_d,
            self._mode,
            saturated,
            rate_limited,
            self._goal,
            refusal or self._reason,
        )
