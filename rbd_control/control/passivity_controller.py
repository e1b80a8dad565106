"""The brain of the controller node: modes, limits, faults. It knows nothing of ROS.

Modes:

- ``hold``: the law keeps the arm at a point,
- ``follow``: the law tracks a trajectory, then holds its last point,
- ``float``: gravity compensation only, the arm can be led by hand,
- ``safe``: after a fault, and before :meth:`PassivityController.start`.

The safe torque. While joint states are good (the fault was a jump, or the law itself) it is
``g - safe_damping M v``: the arm keeps its weight, loses its speed and yields to a hand, so neither
it nor a person below it is hurt. Without good joint states (silence, no velocity, rubbish) the
torque is zero. Then nothing is known of v, so any other torque may push a moving arm on, into
whoever stands beside it; zero is also what a consumer gets when this process ends, and the one
command that arms answer with their brakes or their own gravity compensation. An arm that has
neither will sink: give it brakes. A fault is latched until :meth:`PassivityController.resume`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.slotine_li import SlotineLiController
from rbd_control.control.torque_limits import TorqueLimits
from rbd_control.control.trajectory import (
    START_TOLERANCE,
    DesiredState,
    Trajectory,
    TrajectoryPoint,
)
from rbd_control.dynamics import Model, gravity_torque, slotine_li_torque
from rbd_control.errors import InputError, TrajectoryError

Array = NDArray[np.float64]
Mode = Literal["hold", "follow", "float", "safe"]
Goal = Literal["none", "moving", "paused", "reached", "missed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Command:
    """What to send, and what to say about it."""

    torque: Array
    """(nv,) [N·m or N]; finite and within the limits, always."""
    q_d: Array
    """(nv,) desired position; the measured one in modes without."""
    v_d: Array
    """(nv,) desired velocity; the measured one in modes without."""
    mode: Mode
    saturated: bool
    """The torque was made smaller to keep the limits."""
    rate_limited: bool
    """The torque was slowed down to keep the largest rate of change."""
    goal: Goal
    """What became of the last trajectory."""
    reason: str
    """Why the mode is not the one asked for, or the sample was not used; else empty."""


class PassivityController:
    """Slotine-Li control of one arm with the care a real one needs.

    Calls must not overlap. Times: ``stamp`` is the time of a joint state, ``now`` that of a steady
    clock; neither is read here.

    Raises:
        InputError: for a model with a floating base.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters | None = None) -> None:
        self.model = model
        self.set_parameters(parameters or ControllerParameters())
        n = model.nv
        self._mode: Mode = "safe"
        self._reason = "not started"
        self._started = False
        self._latched = False
        self._goal: Goal = "none"
        self._stamp = -inf
        self._now = -inf
        self._q, self._v = np.zeros(n), np.zeros(n)
        self._motion = self._stop()
        """What the law tracks in hold and follow, and the time [s] on it."""
        self._time = 0.0
        self._paused: tuple[Trajectory, float] | None = None
        """The motion that a hold interrupted, and the time [s] on it."""
        self._seen = False
        """Whether q and v are good and fresh."""
        self._rejected = 0
        self._torque = np.zeros(n)
        self._contact = False

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def parameters(self) -> ControllerParameters:
        return self._parameters

    def set_parameters(self, parameters: ControllerParameters) -> None:
        """Use other parameters from the next sample on; on an error the old ones stay.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
        """
        law = SlotineLiController(self.model, parameters)
        limits = TorqueLimits(self.model, parameters)
        self._parameters, self._law, self._limits = parameters, law, limits

    # --- Orders ----------------------------------------------------------------------------------

    def start(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> None:
        """Begin to hold the arm where it is.

        Raises:
            InputError: without a plausible position and velocity. Velocity is never assumed zero.
        """
        self._seen = False
        refusal = self._refusal(stamp, q, v)
        if refusal or v is None:
            raise InputError(f"cannot start: {refusal}")
        self._accept(stamp, q, v, now)
        self._started = True
        self._torque = np.zeros(self.model.nv)
        self._goal = "none"
        self._hold_here()

    def set_trajectory(
        self,
        names: Sequence[str],
        points: Sequence[TrajectoryPoint],
        now: float = 0.0,
        stamp: float = 0.0,
    ) -> None:
        """Follow a trajectory from the present desired state on; a bad one leaves all as it is.

        Args:
            names, points: see :meth:`Trajectory.from_points`.
            now, stamp: the present and the trajectory's own start [s], of one clock; a ``stamp``
                of zero is now, as in joint_trajectory_controller.

        Raises:
            TrajectoryError: saying which point and why, or in which mode the arm must stay.
        """
        if self._mode == "safe" or self._latched:
            raise TrajectoryError(f"the arm stays in {self._mode} ({self._reason}): resume first")
        self._motion = Trajectory.from_points(
            self.model.joint_names,
            names,
            points,
            start=self._desired(),
            limits=self.model,
            delay=stamp - now if stamp else 0.0,
        )
        self._time = 0.0
        self._mode, self._goal = "follow", "moving"

    def hold(self, reason: str = "held by request") -> None:
        """Stop within ``stop_time`` and stay until :meth:`resume`, which goes on.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        if self._mode == "hold" and self._latched:
            return
        interrupted = (self._motion, self._time) if self._mode == "follow" else None
        self._hold_here()
        self._latched, self._reason = True, reason
        if interrupted:
            self._paused, self._goal = interrupted, "paused"

    def float_(self, reason: str = "floating by request") -> None:
        """Compensate gravity only until :meth:`resume`; the trajectory is given up.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self._give_up()
        self._mode, self._latched, self._reason = "float", True, reason

    def resume(self) -> str:
        """Go on after a hold, a float, a contact or a fault; what that means, in words.

        A trajectory that a hold interrupted goes on, if the arm still is where it stopped. After
        float and safe the arm holds where it is. A contact flag that is still up starts no new
        reaction; its next rise does.

        Raises:
            InputError: before :meth:`start`, and after a fault while joint states are not good.
        """
        if not self._started:
            raise InputError("cannot resume: not started")
        if not self._seen:
            raise InputError(f"cannot resume: no good joint states ({self._reason})")
        if self._mode != "safe" and not self._latched:
            return f"nothing to resume from: in {self._mode}"
        if self._paused is None:
            self._hold_here()
            return "holding here"
        trajectory, time = self._paused
        away = float(np.abs(self._q - self._motion.final).max())
        try:
            if away > START_TOLERANCE:
                raise TrajectoryError(f"the arm is {away:.3g} away from where it stopped")
            rest = trajectory.resumed(time, self._desired(), self.model)
        except TrajectoryError as error:
            self._give_up()
            self._hold_here()
            return f"holding here; the trajectory cannot go on: {error}"
        self._hold_here()
        self._motion, self._mode, self._goal = rest, "follow", "moving"
        return "following the trajectory again"

    def contact(self, flag: bool) -> None:
        """Take the contact flag; a rising one starts the reaction that the parameters choose."""
        rising, self._contact = flag and not self._contact, flag
        if not rising or self._mode not in ("hold", "follow"):
            return
        if self._parameters.contact_reaction == "hold":
            self.hold("contact")
        elif self._parameters.contact_reaction == "float":
            self.float_("contact")

    # --- Samples ---------------------------------------------------------------------------------

    def update(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> Command:
        """Take one joint state and answer with the torque for it.

        Args:
            stamp: time of the sample [s]; ``now`` that of its arrival on the steady clock that
                :meth:`silence` uses, the stamp by default.
            q, v: measured, (nv,) each [rad or m, rad/s or m/s]; ``v`` None when it is missing.
        """
        refusal = self._refusal(stamp, q, v)
        if refusal or v is None:
            return self._reject(refusal)
        dt = max(stamp - self._stamp, 0.0)  # a clock set back stops the trajectory for one sample
        late = self._seen and dt > self._parameters.timeout
        self._accept(stamp, q, v, now)
        if not self._started:
            return self._command(np.zeros(self.model.nv), False, False)
        if late and self._mode != "safe":
            self._fault(f"no joint states for {dt:.3g} s")
        self._advance(dt)
        try:
            torque = self._law_torque()
            if not np.isfinite(torque).all():  # or the cuts would make a number of it
                raise FloatingPointError("its torque is not finite")
            cut = self._limits.cut(torque, self._q)
            slow = self._limits.slow(cut, self._torque, min(dt, self._parameters.timeout))
            if not np.isfinite(slow).all():
                raise FloatingPointError("the limited torque is not finite")
        except Exception as error:  # whatever the model raises, the arm gets a torque
            self._fault(f"the law failed: {error}")
            return self._zero()
        self._torque = slow
        return self._command(slow, cut is not torque, slow is not cut)

    def silence(self, now: float) -> Command | None:
        """For a watchdog on the steady clock: None while joint states come, else what to send."""
        if not self._started or now - self._now <= self._parameters.timeout:
            return None
        self._seen = False
        if self._mode != "safe":
            self._fault(f"no joint states for {now - self._now:.3g} s")
        return self._zero()

    # --- Inside ----------------------------------------------------------------------------------

    def _refusal(self, stamp: float, q: Array, v: Array | None) -> str:
        """Why a sample cannot be used, or an empty text."""
        n = self.model.nv
        if v is None:
            return "joint states carry no velocity"
        if np.shape(q) != (n,) or np.shape(v) != (n,):
            return f"joint states of shape {np.shape(q)} and {np.shape(v)}; the arm has {n} joints"
        if not (isfinite(stamp) and isfinite(np.dot(q, q)) and isfinite(np.dot(v, v))):
            return "joint states are not finite"
        p = self._parameters
        fastest = p.speed_factor * self.model.velocity_limit
        if (np.abs(v) > fastest).any():
            i = int((np.abs(v) / fastest).argmax())
            return f"{self.model.joint_names[i]} at a speed of {v[i]:.4g} is implausible"
        if self._seen:
            jump = np.abs(q - self._q)
            plausible = p.jump_tolerance + fastest * max(stamp - self._stamp, 0.0)
            if (jump > plausible).any():
                i = int((jump / plausible).argmax())
                return f"{self.model.joint_names[i]} jumped by {jump[i]:.4g}"
        return ""

    def _accept(self, stamp: float, q: Array, v: Array, now: float | None) -> None:
        self._stamp, self._now = stamp, stamp if now is None else now
        self._q, self._v = np.array(q, dtype=float), np.array(v, dtype=float)
        self._seen, self._rejected = True, 0

    def _reject(self, refusal: str) -> Command:
        """The last torque stands for a few samples; then the fault, and zero."""
        self._rejected += 1
        if self._rejected < self._parameters.bad_samples:
            return self._command(self._torque.copy(), False, False, refusal)
        self._seen = False
        if self._started and self._mode != "safe":
            self._fault(refusal)
        return self._zero()

    def _desired(self) -> DesiredState:
        if self._mode in ("hold", "follow"):
            return self._motion.sample(self._time)
        return DesiredState(self._q, self._v, np.zeros_like(self._v))

    def _advance(self, dt: float) -> None:
        """Move on; a trajectory's last point is held once it is reached or missed."""
        self._time += dt
        over = self._time - self._motion.duration
        if self._mode != "follow" or over < 0.0:
            return
        away = np.abs(self._q - self._motion.final).max()
        reached = bool(away <= self._parameters.goal_tolerance)
        if reached or over > self._parameters.goal_time:
            self._mode, self._goal = "hold", "reached" if reached else "missed"

    def _law_torque(self) -> Array:
        if self._mode in ("hold", "follow"):
            return self._law.torque(self._q, self._v, *self._desired())
        if self._mode == "float":
            return gravity_torque(self.model, self._q)
        zero = np.zeros(self.model.nv)
        if self._parameters.safe_torque == "zero":
            return zero
        slowing = -self._parameters.safe_damping * self._v
        return slotine_li_torque(self.model, self._q, zero, zero, slowing)

    def _stop(self) -> Trajectory:
        time = self._parameters.stop_time
        return Trajectory.stop(self.model.joint_names, self._q, self._v, time)

    def _hold_here(self) -> None:
        self._mode, self._reason, self._latched = "hold", "", False
        self._motion, self._time, self._paused = self._stop(), 0.0, None

    def _give_up(self) -> None:
        if self._goal in ("moving", "paused"):
            self._goal = "cancelled"
        self._paused = None

    def _fault(self, reason: str) -> None:
        self._give_up()
        self._mode, self._latched, self._reason = "safe", False, reason

    def _leave_safe_first(self) -> None:
        if self._mode == "safe":
            raise InputError(f"the arm is in safe ({self._reason}): resume first")

    def _zero(self) -> Command:
        self._torque = np.zeros(self.model.nv)
        return self._command(self._torque.copy(), False, False)

    def _command(
        self, torque: Array, saturated: bool, rate_limited: bool, refusal: str = ""
    ) -> Command:
        desired = self._desired()
        return Command(
            torque,
            desired.q_d,
            desired.v_d,
            self._mode,
            saturated,
            rate_limited,
            self._goal,
            refusal or self._reason,
        )
