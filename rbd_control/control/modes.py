"""Modes of the controller, and the orders that change them.

Modes:

- ``hold``: the law keeps the arm at a point,
- ``follow``: the law tracks a trajectory, then holds its last point,
- ``float``: gravity compensation only, the arm can be guided by hand,
- ``safe``: after a fault, and before the start. Only :meth:`Modes.resume` and :meth:`Modes.start`
  leave it.

A stop brings the desired motion to rest within ``stop_time`` in real time, from any motion: a
trajectory at any speed factor, a stream, a retreat. A new order does not restart a stop in
progress, so that repeated orders do not delay standstill.

A mode that was ordered, or that is a reaction to contact, is latched: it lasts until
:meth:`Modes.resume`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Mode
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.detector_verdict import FORCE_AGE, DetectorVerdict
from rbd_control.control.goals import GoalMotion, Tolerances, TrajectoryGoal, TrajectoryOutcome
from rbd_control.control.limits import SoftLimits
from rbd_control.control.motion import Interruption, Motion, Place
from rbd_control.control.reactions import ORDERS, REACTIONS, Reaction
from rbd_control.control.samples import SampleJudge
from rbd_control.control.trajectory import START_TOLERANCE, DesiredState, Trajectory
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError

Array = NDArray[np.float64]

CONTACT_LASTS = "the contact detector reports contact"
"""Text of the error while a contact prevents a trajectory from beginning or continuing."""


class Modes:
    """Stores the mode of one arm, executes orders, reacts to contact, advances the desired motion.

    Args:
        model: the arm.
        samples: the measured state.
        motion: the desired motion.
        verdict: the verdict of the contact detector.

    Attributes:
        mode: hold, follow, float or safe, see the module.
        reason: fault, order, contact or aborted trajectory that led to the mode, or ``slowed``;
            otherwise an empty text.
        latched: whether the mode hold or float lasts until :meth:`resume`; false in mode safe.
        outcome: outcome of the last trajectory, and the goal whose sender waits for it.
        desired: the desired state of the last sample; in modes without a desired state, the
            measured state.
        started: whether the controller was started.
        pending: the reaction that continues after the present stop, or None.
        model, samples, motion, verdict: the parts of the arguments, for reactions.
        parameters, soft, require_hold: of :meth:`set_parameters`, for reactions.
    """

    def __init__(
        self, model: Model, samples: SampleJudge, motion: Motion, verdict: DetectorVerdict
    ) -> None:
        self.model, self.samples = model, samples
        self.motion, self.verdict = motion, verdict
        self.outcome = TrajectoryOutcome()
        self.mode: Mode = "safe"
        self.reason = "not started"
        self.latched = False
        self.desired = DesiredState.at_rest(np.zeros(model.nv))
        self.started = False
        self._interruption: Interruption | None = None
        self._slow_next = False
        """Whether the next :meth:`resume` continues slowly."""
        self._stopping = False
        self.pending: Reaction | None = None
        self._reactions = {kind.name: kind(self) for kind in REACTIONS}

    def set_parameters(
        self,
        parameters: ControllerParameters,
        soft: SoftLimits,
        tolerances: Tolerances,
        require_hold: Callable[[Place], None],
    ) -> None:
        """Apply new parameters from the next sample on.

        Args:
            parameters, soft, tolerances: parts made of the new parameters.
            require_hold: raises a :class:`TrajectoryError` if the motors cannot hold the arm on the
                rest of a trajectory.
        """
        self.parameters, self.soft, self.require_hold = parameters, soft, require_hold
        self.outcome.set_tolerances(tolerances)

    @property
    def tracks(self) -> bool:
        """Whether the control law tracks a desired motion: in the modes hold and follow."""
        return self.mode in ("hold", "follow")

    @property
    def paused(self) -> Place | None:
        """The interrupted trajectory that :meth:`resume` continues, and the time on it; or None."""
        return None if self._interruption is None else self._interruption.place

    @property
    def is_retreating(self) -> bool:
        """Whether an arm in mode hold retracts, or stops or waits for a force estimate to do so.

        It has no meaning in the other modes.
        """
        return self.pending is not None or (self.motion.moving and not self._stopping)

    @property
    def goal_motion(self) -> GoalMotion:
        """The state of the motion for feedback and results of the goals of the action."""
        found = self.verdict.force(self.samples.stamp, FORCE_AGE)
        is_stopping = self.mode == "hold" and self.motion.moving
        touched = "" if found is None else found.link
        # Before its trajectory begins, the arm is still on the last one.
        followed = None if self.motion.waiting else self.outcome.sent
        return GoalMotion(followed, self.motion.place, is_stopping, touched)

    # --- Orders ----------------------------------------------------------------------------------

    def end(self) -> None:
        """Return to the state before :meth:`start`: mode safe, without a trajectory."""
        self._leave_motion("the controller was started anew")
        self.started, self.latched = False, False
        self.mode, self.reason = "safe", "not started"

    def start(self) -> None:
        """Begin control: stop the arm and hold it at its measured position, in mode hold."""
        self.started = True
        self.outcome.reset()
        self.motion.wanted_pace = 1.0
        self._stopping = self._slow_next = False
        self._hold_here()

    def require_free(self) -> None:
        """Raise an error while the mode or a contact does not permit a trajectory.

        Raises:
            TrajectoryError: in mode safe, in a latched mode, and while the detector reports a
                contact to which the reaction is hold, float or retract.
        """
        if self.mode == "safe" or self.latched:
            raise TrajectoryError(f"the arm stays in {self.mode} ({self.reason}): resume first")
        if self._is_kept_by_contact():
            raise TrajectoryError(f"{CONTACT_LASTS}: the arm moves after the contact has ended")

    def follow(
        self, trajectory: Trajectory, at: float | None, sent: TrajectoryGoal | None = None
    ) -> None:
        """Follow a trajectory from the time ``at`` of the present trajectory on.

        With ``at`` None the trajectory begins now. If the detector reports contact and the reaction
        is to slow down, it is followed slowly. The goal of the previous trajectory is aborted.

        Args:
            trajectory, at: see :meth:`Motion.follow`.
            sent: the goal whose sender waits for the outcome, or None. Its tolerances replace the
                tolerances of the parameters.

        Raises:
            TrajectoryError: as :meth:`require_free`.
        """
        self.require_free()
        self.motion.follow(trajectory, at)
        self._end_reactions()
        self.outcome.begin(sent)
        self._stopping, self.pending = False, None
        self.mode, self.reason = "follow", self._slowness()
        if not self._reaction.ends and self._has_contact():
            self._reaction.react()

    def cancel(self) -> None:
        """Cancel the trajectory or a retreat, and stop; a latched mode stays latched.

        Raises:
            InputError: if there is neither a trajectory nor a retreat.
        """
        if self.mode == "follow":
            self._give_up("cancelled by request")
            self._hold_here()
        elif self.mode == "hold" and (self._interruption is not None or self.is_retreating):
            self._give_up("cancelled by request")
            if self.is_retreating:
                self.stop()
        else:
            raise InputError(f"no trajectory to cancel: in {self.mode}")

    def cancel_goal(self, goal: TrajectoryGoal) -> None:
        """Cancel a goal, and stop if its trajectory is followed.

        Args:
            goal: a goal whose trajectory is planned, waiting or followed.
        """
        goal.cancel()
        if self.outcome.sent is goal:
            self.cancel()

    def hold(self, reason: str, again: bool = False) -> None:
        """Stop and hold until :meth:`resume`, which continues the trajectory, or a waiting one.

        The trajectory of a goal is cancelled instead and its sender is told, because the arm must
        not continue without the knowledge of the sender.

        Args:
            reason: reason of the hold.
            again: whether an arm that is held already is held at its measured position from now
                on, instead of its former desired position.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        place = None
        if self.outcome.sent is not None:
            self._give_up(reason)
        elif self.mode == "follow":
            waiting = self.motion.waiting
            place = Place(waiting.trajectory, 0.0) if waiting else self.motion.place
        rests = self.mode == "hold" and self.latched and not self.motion.moving
        if again or not (rests or self._is_held()):
            self.stop()
        self.pending = None
        self.mode, self.latched, self.reason = "hold", True, reason
        if place is not None:
            self._interruption = Interruption(place, self.motion.trajectory.final)
        if self._interruption is not None:
            self.outcome.pause()

    def float_(self, reason: str) -> None:
        """Compensate gravity only, until :meth:`resume`; the trajectory is cancelled.

        Args:
            reason: reason of the order, for the attribute and for the sender of a goal.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self._leave_motion(reason)
        self.mode, self.latched, self.reason = "float", True, reason

    def slow(self, reason: str, factor: float) -> None:
        """Continue at a share ``factor`` of the speed, also in later trajectories, until resumed.

        In a latched mode the next :meth:`resume` ends the latch only; the second one restores full
        speed.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self.motion.wanted_pace = factor
        self._slow_next = self.latched
        if not self.latched:
            self.reason = reason

    def react(self, begins: bool) -> None:
        """React to a contact as the parameter ``contact_reaction`` selects, in hold and follow.

        Args:
            begins: whether the contact begins now. While a contact lasts, only an arm that follows
                a trajectory reacts, and only by hold, float or retract: the parameter may have
                changed since the contact began.
        """
        lasts_in_motion = self.mode == "follow" and self._is_kept_by_contact()
        if not self.tracks or not (begins or lasts_in_motion):
            return
        self.outcome.touch(self._reaction.ends)
        self._reaction.react()

    def order(self, name: str, reason: str = "") -> None:
        """Execute the order of a reaction, see :mod:`~rbd_control.control.reactions`.

        Args:
            name: name of the reaction, of ``ORDERS``.
            reason: reason of the mode; by default that of an order by request.

        Raises:
            InputError: in mode safe, and for another name.
        """
        if name not in ORDERS:
            raise InputError(f"no order {name!r}; orders are {', '.join(ORDERS)}")
        reaction = self._reactions[name]
        reaction.begin(reason or reaction.order)

    def resume(self) -> str:
        """Resume after a hold, a float, a contact or a fault; return a description of the result.

        A trajectory that a hold interrupted continues if the arm is still where it stopped, or
        where it retracted to once; otherwise it is cancelled and the arm is held. After float and
        safe the arm is held at its present position. The speed is full again, unless ``slow`` was
        ordered since the arm was stopped.

        Raises:
            InputError: before the start; while joint states are not valid; and with an interrupted
                trajectory while the detector reports a contact to which the reaction is hold, float
                or retract.
        """
        if not self.started:
            raise InputError("cannot resume: not started")
        if not self.samples.good:
            why = self.samples.refusal or self.reason
            raise InputError(f"cannot resume: no valid joint states ({why})")
        interruption = self._interruption
        if interruption is not None and self._is_kept_by_contact():
            raise InputError(
                f"cannot resume: {CONTACT_LASTS}; end the contact first, or order float or retract"
            )
        slowed = self.motion.wanted_pace != 1.0
        if not self._slow_next:
            self.motion.wanted_pace = 1.0
        self._slow_next = False
        if self.mode != "safe" and not self.latched:
            self.reason = ""
            return "at full speed" if slowed else f"nothing to resume from: in {self.mode}"
        if interruption is None:
            if self._is_held():
                self.reason, self.latched = self._slowness(), False
                self.pending = None
            else:
                self._hold_here()
            return "holding here"
        trajectory, time = interruption.place
        try:
            interruption.require_near(self.samples.q, self.motion.trajectory.final)
            rest = trajectory.resumed(time, self.motion.state(), self.soft.now())
        except TrajectoryError as error:
            self._give_up("it cannot go on")
            self._hold_here()
            return f"holding here; the trajectory cannot go on: {error}"
        self.pending, self._interruption, self.latched = None, None, False
        self.follow(rest, None)
        return "following the trajectory again" + (", slowly" if self._slowness() else "")

    def fault(self, reason: str) -> None:
        """Switch to mode safe until :meth:`resume`, and cancel the trajectory.

        In mode safe nothing changes, so that the first reason is kept.
        """
        if self.mode == "safe":
            return
        self._leave_motion(f"safe torque: {reason}")
        self.mode, self.latched, self.reason = "safe", False, reason

    def explain(self, text: str) -> None:
        """Add a text to the reason of the mode, unless it is there already."""
        if text not in self.reason:
            self.reason += f"; {text}"

    def start_again(self) -> None:
        """Cancel the trajectory after a jump of the clock; hold the arm if the mode tracks.

        In hold and follow the arm is then held at its measured position; a latch remains.
        """
        self._give_up("the clock of the joint states jumped")
        self.verdict.forget_force()
        if self.tracks:
            latched, reason = self.latched, self.reason
            self._stopping = False  # A stop in progress leads to the former position of the arm.
            self._hold_here()
            self.latched = latched
            self.reason = reason if latched else self._slowness()

    # --- Samples ---------------------------------------------------------------------------------

    def advance(self, dt: float) -> DesiredState:
        """Advance the desired motion by ``dt`` [s] and return the desired state.

        After the end of a trajectory the arm is held, and a trajectory that the arm does not follow
        within its tolerances ends. In float and safe the result is the measured state.
        """
        if not self.tracks:
            samples = self.samples
            self.desired = DesiredState(samples.q, samples.v, np.zeros_like(samples.v))
            return self.desired
        motion = self.motion
        motion.advance(dt, self.parameters.stop_time)
        if self.mode == "follow":
            self._judge()
        elif not motion.moving:
            self._stopping = False
            if self.pending is not None:
                self.pending.at_rest()
        if self.mode == "hold":
            for reaction in self._reactions.values():
                reaction.check()
        self.desired = motion.desired()
        return self.desired

    # --- Inside ----------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Hold the arm if its trajectory has ended, or the arm violates its path tolerance."""
        end = self.outcome.judge(self.motion, self.samples.q, self.samples.v)
        if end is None:
            return
        if end.goal == "reached":
            self.mode = "hold"
        else:
            # If the arm continued to a missed goal, it would press against an obstacle.
            self._hold_here()
        if end.goal == "aborted":
            self.reason = end.text
        self.outcome.end(end)

    def go(self, way: Trajectory) -> Array:
        """Move along a trajectory of a reaction; return its displacement, (nv,) [rad or m].

        An interrupted trajectory may continue from its end.
        """
        stopped = self.motion.trajectory.final
        self.motion.run(way)
        if self._interruption is not None:
            self._interruption.retreated(stopped, way.final)
        return np.asarray(way.final - stopped)

    def stop(self) -> None:
        """Bring the desired motion to rest at the arm's position, unless a stop is in progress."""
        self.pending = None
        self._end_reactions()
        if self._stopping and self.motion.moving:
            return
        q, v = self.samples.q, self.samples.v
        self.motion.stop(self.model.joint_names, q, v, self.parameters.stop_time)
        self._stopping = True

    def _is_held(self) -> bool:
        """Return whether the arm is held within ``START_TOLERANCE`` of a desired position at rest.

        Orders then keep this desired position: an arm that sags under an unknown weight must not
        give way a little more with each order.
        """
        if self.mode != "hold" or self.motion.moving:
            return False
        away = float(np.abs(self.samples.q - self.motion.desired().q_d).max())
        return away <= START_TOLERANCE

    def _hold_here(self) -> None:
        self.stop()
        self.mode, self.reason, self.latched = "hold", self._slowness(), False
        self._interruption = None

    def _leave_motion(self, why: str) -> None:
        """Cancel the trajectory, a waiting one, and a retreat."""
        self._give_up(why)
        self.motion.drop_waiting()
        self._stopping, self.pending = False, None
        self._end_reactions()

    def _end_reactions(self) -> None:
        """End the motions of reactions, because another motion or mode takes their place."""
        for reaction in self._reactions.values():
            reaction.end()

    @property
    def _reaction(self) -> Reaction:
        """The reaction that the parameters select."""
        return self._reactions[self.parameters.contact_reaction]

    def _is_kept_by_contact(self) -> bool:
        """Return whether there is a contact to which the reaction is hold, float or retract."""
        return bool(self._reaction.ends) and self._has_contact()

    def _has_contact(self) -> bool:
        """Return whether the detector reports a contact."""
        return self.verdict.contact(self.samples.now)

    def _slowness(self) -> str:
        return "" if self.motion.wanted_pace == 1.0 else "slowed"

    def _give_up(self, why: str) -> None:
        self._interruption = None
        self.outcome.cancel(why)

    def _leave_safe_first(self) -> None:
        if self.mode == "safe":
            raise InputError(f"the arm is in safe ({self.reason}): resume first")
