"""What the arm is to do: modes, the orders that change them, and reactions to contact.

Modes:

- ``hold``: the law keeps the arm at a point,
- ``follow``: the law tracks a trajectory, then holds its last point,
- ``float``: gravity compensation only, the arm can be led by hand,
- ``safe``: after a fault, and before the start.

Contact. A rising contact flag starts the reaction that ``contact_reaction`` names with the next
joint state; it lasts until :meth:`Modes.resume`. To retract, the arm first stops,
which takes ``stop_time`` and lets the estimate of the force settle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Goal, Mode
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.motion import Motion, Tolerances
from rbd_control.control.planner import Planner
from rbd_control.control.retreat import retreat
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.trajectory import (
    START_TOLERANCE,
    DesiredState,
    Trajectory,
    TrajectoryPoint,
)
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError

Array = NDArray[np.float64]

FORCE_AGE = 0.1
"""How old an estimate of the contact force may be when the arm is told to retract [s]."""


class Modes:
    """The mode of one arm, and the motion that its law shall track.

    Whoever derives from it sets ``_stamp``, ``_q`` and ``_v`` with each joint state, calls
    :meth:`_advance`, and then finds the motion in ``_desired``.

    Raises:
        InputError: for a model with a floating base.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters) -> None:
        n = model.nv
        self.model = model
        self._parked: Array | None = None
        """Where the arm started; soft limits let it stay there."""
        self._planner = Planner(model)
        self.set_parameters(parameters)
        self._mode: Mode = "safe"
        self._reason = "not started"
        self._started = False
        self._latched = False
        self._goal: Goal = "none"
        self._stamp = -inf
        self._q, self._v = np.zeros(n), np.zeros(n)
        self._seen = False
        """Whether q and v are good and fresh."""
        self._motion = Motion(self._stop())
        """What the law tracks in hold and follow."""
        self._desired = DesiredState.at_rest(self._q)
        self._paused: tuple[Trajectory, float] | None = None
        """The motion that a hold interrupted, and the time [s] on it."""
        self._contact = False
        self._force: tuple[str, Array, float] | None = None
        """The last estimate of the contact force: link, (3,) [N], stamp [s]."""
        self._retracting = False
        """Whether the arm is to retract once it has stopped."""
        self._jumped = True
        """Whether the desired state has jumped since the last sample."""

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
        soft = SoftLimits(self.model, parameters, self._parked)
        tolerances = Tolerances(self.model.joint_names, parameters)
        self._planner.set_parameters(parameters, soft)
        self._parameters, self._soft, self._tolerances = parameters, soft, tolerances

    # --- Orders ----------------------------------------------------------------------------------

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
        trajectory = self._planner.plan(
            names,
            points,
            start=self._motion.state(),
            delay=stamp - now if stamp else 0.0,
            stamp=self._stamp,
        )
        self._motion.begin(trajectory)
        self._mode, self._goal, self._reason = "follow", "moving", self._slowness()

    def cancel(self) -> None:
        """Give up the trajectory and stop within ``stop_time``; ready for the next one.

        Raises:
            InputError: when no trajectory is followed.
        """
        if self._mode != "follow":
            raise InputError(f"no trajectory to cancel: in {self._mode}")
        self._give_up()
        self._hold_here()

    def hold(self, reason: str = "held by request") -> None:
        """Stop within ``stop_time`` and stay until :meth:`resume`, which goes on.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        if self._mode == "hold" and self._latched:
            return
        interrupted = None
        if self._mode == "follow":
            interrupted = (self._motion.trajectory, self._motion.time)
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
        self._retracting = False
        self._mode, self._latched, self._reason = "float", True, reason

    def retract(self, reason: str = "retracting by request") -> None:
        """Stop, move the touched link off along the force on it, and stay until :meth:`resume`.

        The force is the last one :meth:`touched` was told of, no older than ``FORCE_AGE`` or
        from while the arm stops; without any the arm stays where it stopped.

        Raises:
            InputError: in mode safe.
        """
        self.hold(reason)
        self._retracting = True

    def slow(self, reason: str = "slowed by request") -> None:
        """Go on at ``slow_factor`` of the speed, in this trajectory and others, until resumed.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self._motion.wanted_pace = self._parameters.slow_factor
        if not self._latched:
            self._reason = reason

    def resume(self) -> str:
        """Go on after a hold, a float, a contact or a fault; what that means, in words.

        A trajectory that a hold interrupted goes on, if the arm still is where it stopped. After
        float and safe the arm holds where it is. A contact flag that is still up starts no new
        reaction; its next rise does.

        Raises:
            InputError: before the start, and after a fault while joint states are not good.
        """
        if not self._started:
            raise InputError("cannot resume: not started")
        if not self._seen:
            raise InputError(f"cannot resume: no good joint states ({self._reason})")
        slowed = self._motion.wanted_pace != 1.0
        self._motion.wanted_pace = 1.0
        if self._mode != "safe" and not self._latched:
            self._reason = ""
            return "at full speed" if slowed else f"nothing to resume from: in {self._mode}"
        if self._paused is None:
            self._hold_here()
            return "holding here"
        trajectory, time = self._paused
        away = float(np.abs(self._q - self._motion.trajectory.final).max())
        try:
            if away > START_TOLERANCE:
                raise TrajectoryError(f"the arm is {away:.3g} away from where it stopped")
            rest = trajectory.resumed(time, self._motion.state(), self._soft)
        except TrajectoryError as error:
            self._give_up()
            self._hold_here()
            return f"holding here; the trajectory cannot go on: {error}"
        self._hold_here()
        self._motion.begin(rest)
        self._mode, self._goal = "follow", "moving"
        return "following the trajectory again"

    def contact(self, flag: bool) -> None:
        """Take the contact flag; a rising one starts the reaction that the parameters choose."""
        rising, self._contact = flag and not self._contact, flag
        if not rising or self._mode not in ("hold", "follow"):
            return
        reaction = self._parameters.contact_reaction
        if reaction == "hold":
            self.hold("contact")
        elif reaction == "float":
            self.float_("contact")
        elif reaction == "retract":
            self.retract("contact")
        elif reaction == "slow":
            self.slow("contact")

    def touched(self, link: str, force: Array) -> None:
        """Take an estimate of the force on a link, (3,) in world axes [N]; nonsense is ignored."""
        if link in self.model.link_body and np.shape(force) == (3,) and 0.0 < hypot(*force) < inf:
            self._force = (link, force, self._stamp)

    def fault(self, reason: str) -> None:
        """Be safe until :meth:`resume`, for a reason that is not in the joint states."""
        if self._started and self._mode != "safe":
            self._fault(reason)

    # --- Inside ----------------------------------------------------------------------------------

    def _advance(self, dt: float) -> None:
        """Move on; a trajectory's last point is held once it is reached."""
        if self._mode not in ("hold", "follow"):
            self._desired = DesiredState(self._q, self._v, np.zeros_like(self._v))
            return
        motion = self._motion
        motion.advance(dt, self._parameters.stop_time)
        self._desired = motion.desired()
        if self._mode == "follow":
            self._judge()
        elif self._retracting and motion.overtime >= 0.0:
            self._retracting = False
            self._retreat()

    def _judge(self) -> None:
        """Whether the trajectory is kept to, and over."""
        motion, goal = self._motion, self._motion.trajectory.final
        if motion.overtime < 0.0:
            strayed = self._tolerances.strayed(self._q, self._desired.q_d)
            if strayed:
                self._hold_here()
                self._goal, self._reason = "aborted", strayed
        elif self._tolerances.reached(self._q, self._v, goal):
            self._mode, self._goal = "hold", "reached"
        elif motion.overtime > self._parameters.goal_time:
            self._hold_here()  # or the arm would go on pressing against what keeps it off
            self._goal = "missed"

    def _retreat(self) -> None:
        p = self._parameters
        if self._force is None or self._stamp - self._force[2] > FORCE_AGE + p.stop_time:
            self._reason += ": no force is known to retract along"
            return
        link, force, _ = self._force
        start = self._motion.state()
        way = retreat(
            self.model, self._soft, start, link, force, p.retract_distance, p.retract_time
        )
        self._motion.begin(way)
        self._reason += f": retracted along the force on {link}"

    def _stop(self) -> Trajectory:
        time = self._parameters.stop_time
        return Trajectory.stop(self.model.joint_names, self._q, self._v, time)

    def _hold_here(self) -> None:
        self._mode, self._reason, self._latched = "hold", self._slowness(), False
        self._motion.stop_at(self._stop())
        self._desired = self._motion.desired()
        self._paused, self._retracting, self._jumped = None, False, True

    def _start_again(self) -> None:
        """Hold here, if anywhere, as time and the arm may have jumped."""
        self._give_up()
        self._force = None
        if self._mode in ("hold", "follow"):
            latched, reason = self._latched, self._reason
            self._hold_here()
            self._latched, self._reason = latched, reason

    def _slowness(self) -> str:
        return "" if self._motion.wanted_pace == 1.0 else "slowed"

    def _give_up(self) -> None:
        if self._goal in ("moving", "paused"):
            self._goal = "cancelled"
        self._paused = None

    def _fault(self, reason: str) -> None:
        self._give_up()
        self._retracting = False
        self._mode, self._latched, self._reason = "safe", False, reason

    def _leave_safe_first(self) -> None:
        if self._mode == "safe":
            raise InputError(f"the arm is in safe ({self._reason}): resume first")
