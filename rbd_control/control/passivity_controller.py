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
from rbd_control.control.trajectory import (
    START_TOLERANCE,
    DesiredState,
    Trajectory,
    TrajectoryPoint,
)
from rbd_control.dynamics import Model, slotine_li_torque
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
    """A torque was cut to its limit."""
    rate_limited: bool
    """A torque was cut to its largest change."""
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
        self._hold = DesiredState.at_rest(np.zeros(n))
        self._trajectory: Trajectory | None = None
        self._time = 0.0
        """On the trajectory [s]; kept through a hold for :meth:`resume`."""
        self._stamp = -inf
        self._now = -inf
        self._q, self._v = np.zeros(n), np.zeros(n)
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
        n = self.model.nv
        law = SlotineLiController(self.model, parameters)
        limit = parameters.for_joints("torque_share", n) * self.model.effort_limit
        rate = parameters.for_joints("torque_rate", n)
        self._parameters, self._law, self._limit, self._rate = parameters, law, limit, rate

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
        self._trajectory = Trajectory.from_points(
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
        """Stay here until :meth:`resume`, which goes on with the trajectory.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        if self._mode == "hold" and self._latched:
            return
        if self._mode == "follow":
            self._goal = "paused"
        self._hold_here()
        self._latched, self._reason = True, reason

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

        A trajectory that a hold interrupted goes on, if the arm is still beside it. After float
        and safe the arm holds where it is.

        Raises:
            InputError: before :meth:`start`, and after a fault while joint states are not good.
        """
        if not self._started:
            raise InputError("cannot resume: not started")
        if not self._seen:
            raise InputError(f"cannot resume: no good joint states ({self._reason})")
        if self._mode != "safe" and not self._latched:
            return f"nothing to resume from: in {self._mode}"
        trajectory, self._latched, self._reason = self._trajectory, False, ""
        if self._mode != "hold" or trajectory is None:
            self._hold_here()
            return "holding here"
        away = float(np.abs(self._hold.q_d - trajectory.sample(self._time).q_d).max())
        try:
            if away > START_TOLERANCE:
                raise TrajectoryError(f"the arm is {away:.3g} away from it")
            self._trajectory = trajectory.resumed(self._time, self._hold, self.model)
        except TrajectoryError as error:
            self._give_up()
            return f"holding here; the trajectory cannot go on: {error}"
        self._time, self._mode, self._goal = 0.0, "follow", "moving"
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
        if self._mode == "follow":
            self._advance(dt)
        try:
            torque = self._law_torque()
        except Exception as error:  # whatever the model raises, the arm gets a torque
            self._fault(f"the law failed: {error}")
            return self._zero()
        if not np.isfinite(torque).all():  # the cuts below would make a number of it
            self._fault("the law's torque is not finite")
            return self._zero()
        limited = np.clip(torque, -self._limit, self._limit)
        step = self._rate * min(dt, self._parameters.timeout)
        slewed = np.clip(limited, self._torque - step, self._torque + step)
        # The last torque may lie outside of limits that have just been lowered.
        slewed = np.clip(slewed, -self._limit, self._limit)
        if not np.isfinite(slewed).all():
            self._fault("the limited torque is not finite")
            return self._zero()
        self._torque = slewed
        return self._command(
            slewed, bool((limited != torque).any()), bool((slewed != limited).any())
        )

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
        if self._mode == "follow" and self._trajectory is not None:
            return self._trajectory.sample(self._time)
        if self._mode == "hold":
            return self._hold
        return DesiredState(self._q, self._v, np.zeros_like(self._v))

    def _advance(self, dt: float) -> None:
        """Move on along the trajectory; hold its last point once it is reached or missed."""
        assert self._trajectory is not None
        self._time += dt
        over = self._time - self._trajectory.duration
        if over < 0.0:
            return
        final = self._trajectory.final
        reached = np.abs(self._q - final).max() <= self._parameters.goal_tolerance
        if reached or over > self._parameters.goal_time:
            self._goal = "reached" if reached else "missed"
            self._trajectory = None
            self._mode, self._hold = "hold", DesiredState.at_rest(final)

    def _law_torque(self) -> Array:
        if self._mode in ("hold", "follow"):
            return self._law.torque(self._q, self._v, *self._desired())
        zero = np.zeros(self.model.nv)
        slowing = zero
        if self._mode == "safe":
            if self._parameters.safe_torque == "zero":
                return zero
            slowing = -self._parameters.safe_damping * self._v
        return slotine_li_torque(self.model, self._q, zero, zero, slowing)

    def _hold_here(self) -> None:
        self._mode, self._reason, self._latched = "hold", "", False
        self._hold = DesiredState.at_rest(self._q.copy())

    def _give_up(self) -> None:
        if self._goal in ("moving", "paused"):
            self._goal = "cancelled"
        self._trajectory = None

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
