"""Modes of the controller, and the orders that change them.

The mode is one state: :class:`Safe`, :class:`Float`, :class:`Follow` or :class:`Hold`. An order
replaces it as a whole:

======== ====================== ============================ =============== ==================
order    in follow              in hold                      in float        in safe
======== ====================== ============================ =============== ==================
follow   replace the trajectory follow, unless latched       refused         refused
cancel   stop, hold             end interruption and retreat refused         refused
hold     hold, interrupted      stop unless held, latched    hold, latched   refused
float    float                  float                        float           refused
slow     slower                 slower                       slower later    refused
resume   at full speed          go on, or end the latch      hold            hold
fault    safe                   safe                         safe            the first one counts
======== ====================== ============================ =============== ==================

A stop brings the desired motion to rest within ``stop_time`` in real time, from any motion: a
trajectory at any speed factor, a stream, a retreat. A new order does not restart a stop in
progress, so that repeated orders do not delay standstill.

A mode that was ordered, or that is a reaction to contact, is latched: it lasts until
:meth:`Modes.resume`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Mode
from rbd_control.control.detector_verdict import FORCE_AGE, DetectorVerdict
from rbd_control.control.goals import GoalMotion, TrajectoryGoal, TrajectoryOutcome
from rbd_control.control.limits import SoftLimits
from rbd_control.control.motion import DesiredMotion, Interruption, Place
from rbd_control.control.planner import require_hold
from rbd_control.control.reactions import ORDERS, REACTIONS, Reaction
from rbd_control.control.samples import SampleJudge
from rbd_control.control.trajectory import START_TOLERANCE, DesiredState, Trajectory
from rbd_control.dynamics import Model
from rbd_control.errors import InputError, TrajectoryError

if TYPE_CHECKING:
    from rbd_control.control.configuration import Setup
    from rbd_control.control.controller_parameters import ControllerParameters

Array = NDArray[np.float64]

CONTACT_LASTS = "the contact detector reports contact"
"""Text of the error while a contact prevents a trajectory from beginning or continuing."""


@dataclass
class Safe:
    """After a fault, and before the start. Only :meth:`Modes.resume` and ``start`` leave it."""

    mode: ClassVar[Mode] = "safe"
    tracks: ClassVar[bool] = False
    latched: ClassVar[bool] = False

    reason: str


@dataclass
class Float:
    """Gravity compensation only: the arm can be guided by hand."""

    mode: ClassVar[Mode] = "float"
    tracks: ClassVar[bool] = False
    latched: ClassVar[bool] = True

    reason: str


@dataclass
class Follow:
    """The law tracks a trajectory, then holds its last point."""

    mode: ClassVar[Mode] = "follow"
    tracks: ClassVar[bool] = True
    latched: ClassVar[bool] = False

    reason: str = ""


@dataclass
class Hold:
    """The law keeps the arm at a point, after a stop or a retreat that may still be in progress.

    Attributes:
        reason: why the arm is held; empty after a trajectory or a start.
        latched: whether the mode lasts until :meth:`Modes.resume`.
        interruption: the trajectory that :meth:`Modes.resume` continues; None without one.
        pending: the reaction that goes on after the stop in progress; None without one.
    """

    mode: ClassVar[Mode] = "hold"
    tracks: ClassVar[bool] = True

    reason: str = ""
    latched: bool = False
    interruption: Interruption | None = None
    pending: Reaction | None = None


class Modes:
    """Stores the state of one arm, executes orders, reacts to contact, advances the motion.

    Args:
        setup: the present configuration of the controller.
        samples: the measured state.
        motion: the desired motion.
        verdict: the verdict of the contact detector.

    Attributes:
        state: the mode, with the reason that led to it: fault, order, contact or aborted
            trajectory, or ``slowed``; otherwise an empty text.
        outcome: outcome of the last trajectory, and the goal whose sender waits for it.
        desired: the desired state of the last sample; in modes without a desired state, the
            measured state.
        started: whether the controller was started.
        samples, motion, verdict: the parts of the arguments, for reactions.
    """

    def __init__(
        self, setup: Setup, samples: SampleJudge, motion: DesiredMotion, verdict: DetectorVerdict
    ) -> None:
        self._setup, self.samples = setup, samples
        self.motion, self.verdict = motion, verdict
        self.outcome = TrajectoryOutcome()
        self.state: Safe | Float | Follow | Hold = Safe("not started")
        self.desired = DesiredState.at_rest(np.zeros(self.model.nv))
        self.started = False
        self._slow_next = False
        """Whether the next :meth:`resume` continues slowly."""
        self._reactions = {kind.name: kind(self) for kind in REACTIONS}

    @property
    def model(self) -> Model:
        """The arm."""
        return self._setup.now.model

    @property
    def parameters(self) -> ControllerParameters:
        """The parameters of the controller."""
        return self._setup.now.parameters

    @property
    def soft(self) -> SoftLimits:
        """The soft position limits."""
        return self._setup.now.soft

    @property
    def mode(self) -> Mode:
        """The name of the mode."""
        return self.state.mode

    @property
    def reason(self) -> str:
        """The reason of the mode."""
        return self.state.reason

    @property
    def paused(self) -> Place | None:
        """The interrupted trajectory that :meth:`resume` continues, and the time on it; or None."""
        interruption = self._interruption
        return None if interruption is None else interruption.place

    @property
    def is_retreating(self) -> bool:
        """Whether a held arm retracts, or stops or waits for a force estimate to do so."""
        state = self.state
        if not isinstance(state, Hold):
            return False
        return state.pending is not None or (self.motion.moving and not self.motion.is_stop)

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
        self.started, self.state = False, Safe("not started")

    def start(self) -> None:
        """Begin control: stop the arm and hold it at its measured position, in mode hold."""
        self.started, self._slow_next = True, False
        self.outcome.reset()
        self.motion.wanted_pace = 1.0
        self._hold_here()

    def require_free(self) -> None:
        """Raise an error while the mode or a contact does not permit a trajectory.

        Raises:
            TrajectoryError: in mode safe, in a latched mode, and while the detector reports a
                contact to which the reaction is hold, float or retract.
        """
        state = self.state
        if isinstance(state, Safe) or state.latched:
            raise TrajectoryError(f"the arm stays in {state.mode} ({state.reason}): resume first")
        if self._is_kept_by_contact():
            raise TrajectoryError(f"{CONTACT_LASTS}: the arm moves after the contact has ended")

    def require_hold(self, place: Place) -> None:
        """Raise an error if the motors cannot hold the arm on the rest of a trajectory.

        :func:`~rbd_control.control.planner.require_hold` has the rule; the start is the measured
        position.

        Args:
            place: the trajectory, and the time on it from which it goes on.

        Raises:
            TrajectoryError: naming the joint and the share of its limit that it needs.
        """
        now = self._setup.now
        now.law.take_estimates()
        require_hold(now.limits, now.law.weight, self.samples.q, place.trajectory, place.time)

    def follow(
        self, trajectory: Trajectory, at: float | None, sent: TrajectoryGoal | None = None
    ) -> None:
        """Follow a trajectory from the time ``at`` of the present trajectory on.

        With ``at`` None the trajectory begins now. If the detector reports contact and the reaction
        is to slow down, it is followed slowly. The goal of the previous trajectory is aborted.

        Args:
            trajectory, at: see :meth:`DesiredMotion.follow`.
            sent: the goal whose sender waits for the outcome, or None. Its tolerances replace the
                tolerances of the parameters.

        Raises:
            TrajectoryError: as :meth:`require_free`.
        """
        self.require_free()
        self.motion.follow(trajectory, at)
        self._end_reactions()
        self.outcome.begin(sent)
        self.state = Follow(self._slowness())
        if not self._reaction.ends and self._has_contact():
            self._reaction.react()

    def cancel(self) -> None:
        """Cancel the trajectory or a retreat, and stop; a latched mode stays latched.

        Raises:
            InputError: if there is neither a trajectory nor a retreat.
        """
        state = self.state
        if isinstance(state, Follow):
            self._give_up("cancelled by request")
            self._hold_here()
        elif isinstance(state, Hold) and (state.interruption is not None or self.is_retreating):
            self._give_up("cancelled by request")
            if self.is_retreating:
                self.stop()
        else:
            raise InputError(f"no trajectory to cancel: in {state.mode}")

    def cancel_goal(self, goal: TrajectoryGoal) -> None:
        """Cancel a goal, and stop if its trajectory is followed.

        Args:
            goal: a goal whose trajectory is planned, waiting or followed.
        """
        goal.cancel()
        if self.outcome.sent is goal:
            self.cancel()

    def hold(self, reason: str, again: bool = False, then: Reaction | None = None) -> None:
        """Stop and hold until :meth:`resume`, which continues the trajectory.

        A trajectory that was accepted and has not begun is continued instead of the present one.
        The trajectory of a goal is cancelled and its sender is told, because the arm must not
        continue without the knowledge of the sender.

        Args:
            reason: reason of the hold.
            again: whether an arm that is held already is held at its measured position from now
                on, instead of its former desired position.
            then: the reaction whose :meth:`Reaction.at_rest` is called after the stop.

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
        rests = self.mode == "hold" and self.state.latched and not self.motion.moving
        if again or not (rests or self._is_held()):
            self.stop()
        interruption = self._interruption
        if place is not None:
            interruption = Interruption(place, self.motion.trajectory.final)
        self.state = Hold(reason, True, interruption, then)
        if interruption is not None:
            self.outcome.pause()

    def float_(self, reason: str) -> None:
        """Compensate gravity only, until :meth:`resume`; the trajectory is cancelled.

        Args:
            reason: reason of the order, for the state and for the sender of a goal.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self._leave_motion(reason)
        self.state = Float(reason)

    def slow(self, reason: str, factor: float) -> None:
        """Continue at a share ``factor`` of the speed, also in later trajectories, until resumed.

        In a latched mode the next :meth:`resume` ends the latch only; the second one restores full
        speed.

        Raises:
            InputError: in mode safe.
        """
        self._leave_safe_first()
        self.motion.wanted_pace = factor
        self._slow_next = self.state.latched
        if not self.state.latched:
            self.state.reason = reason

    def react(self, begins: bool) -> None:
        """React to a contact as the parameter ``contact_reaction`` selects, in hold and follow.

        Args:
            begins: whether the contact begins now. While a contact lasts, only an arm that follows
                a trajectory reacts, and only by hold, float or retract: the parameter may have
                changed since the contact began.
        """
        lasts_in_motion = self.mode == "follow" and self._is_kept_by_contact()
        if not self.state.tracks or not (begins or lasts_in_motion):
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
        state, interruption = self.state, self._interruption
        if interruption is not None and self._is_kept_by_contact():
            raise InputError(
                f"cannot resume: {CONTACT_LASTS}; end the contact first, or order float or retract"
            )
        slowed = self.motion.wanted_pace != 1.0
        if not self._slow_next:
            self.motion.wanted_pace = 1.0
        self._slow_next = False
        if not isinstance(state, Safe) and not state.latched:
            state.reason = ""
            return "at full speed" if slowed else f"nothing to resume from: in {state.mode}"
        if interruption is None:
            if self._is_held():
                self.state = Hold(self._slowness())
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
        self.state = Hold()
        self.follow(rest, None)
        return "following the trajectory again" + (", slowly" if self._slowness() else "")

    def fault(self, reason: str) -> None:
        """Switch to mode safe until :meth:`resume`, and cancel the trajectory.

        In mode safe nothing changes, so that the first reason is kept.
        """
        if self.mode != "safe":
            self._leave_motion(f"safe torque: {reason}")
            self.state = Safe(reason)

    def explain(self, text: str, after: str = "; ") -> None:
        """Add a text to the reason of the mode, unless it is there already.

        Args:
            text: the text.
            after: what separates it from the reason.
        """
        if text not in self.state.reason:
            self.state.reason += after + text

    def start_again(self) -> None:
        """Cancel the trajectory after a jump of the clock; hold the arm if the mode tracks.

        In hold and follow the arm is then held at its measured position; a latch remains.
        """
        self._give_up("the clock of the joint states jumped")
        self.verdict.forget_force()
        before = self.state
        if before.tracks:
            # A stop in progress leads to the former position of the arm.
            self._hold_here(again=True)
            if before.latched:
                self.state = Hold(before.reason, True)

    # --- Samples ---------------------------------------------------------------------------------

    def advance(self, dt: float) -> DesiredState:
        """Advance the desired motion by ``dt`` [s] and return the desired state.

        After the end of a trajectory the arm is held, and a trajectory that the arm does not follow
        within its tolerances ends. In float and safe the result is the measured state.
        """
        if not self.state.tracks:
            samples = self.samples
            self.desired = DesiredState(samples.q, samples.v, np.zeros_like(samples.v))
            return self.desired
        motion, state = self.motion, self.state
        motion.advance(dt, self._setup.now.parameters.stop_time)
        if isinstance(state, Follow):
            self._judge()
        elif isinstance(state, Hold) and state.pending is not None and not motion.moving:
            state.pending.at_rest()
        if isinstance(self.state, Hold):
            for reaction in self._reactions.values():
                reaction.check()
        self.desired = motion.desired()
        return self.desired

    # --- For reactions ---------------------------------------------------------------------------

    def go(self, way: Trajectory) -> Array:
        """Move along a trajectory of a reaction; return its displacement, (nv,) [rad or m].

        An interrupted trajectory may continue from its end.
        """
        stopped = self.motion.trajectory.final
        self.motion.run(way)
        if self._interruption is not None:
            self._interruption.retreated(stopped, way.final)
        return np.asarray(way.final - stopped)

    def stay(self) -> None:
        """End the wait of a reaction after the stop; the arm stays held."""
        if isinstance(self.state, Hold):
            self.state.pending = None

    def stop(self, again: bool = False) -> None:
        """Bring the desired motion to rest at the arm's position, unless a stop is in progress.

        Args:
            again: whether a stop in progress is replaced.
        """
        self.stay()
        self._end_reactions()
        is_held = isinstance(self.state, Hold)
        if is_held and self.motion.is_stop and self.motion.moving and not again:
            return
        q, v = self.samples.q, self.samples.v
        self.motion.stop(self.model.joint_names, q, v, self.parameters.stop_time)

    # --- Inside ----------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Hold the arm if its trajectory has ended, or the arm violates its path tolerance."""
        samples, tolerances = self.samples, self._setup.now.tolerances
        end = self.outcome.judge(self.motion, samples.q, samples.v, tolerances)
        if end is None:
            return
        if end.goal == "reached":
            self.state = Hold(self.reason)
        else:
            # If the arm continued to a missed goal, it would press against an obstacle.
            self._hold_here()
        if end.goal == "aborted":
            self.state.reason = end.text
        self.outcome.end(end)

    def _is_held(self) -> bool:
        """Return whether the arm is held within ``START_TOLERANCE`` of a desired position at rest.

        Orders then keep this desired position: an arm that sags under an unknown weight must not
        give way a little more with each order.
        """
        if self.mode != "hold" or self.motion.moving:
            return False
        away = float(np.abs(self.samples.q - self.motion.desired().q_d).max())
        return away <= START_TOLERANCE

    def _hold_here(self, again: bool = False) -> None:
        self.stop(again)
        self.state = Hold(self._slowness())

    def _leave_motion(self, why: str) -> None:
        """Cancel the trajectory, a waiting one, and a retreat."""
        self._give_up(why)
        self.motion.drop_waiting()
        self._end_reactions()

    def _end_reactions(self) -> None:
        """End the motions of reactions, because another motion or mode takes their place."""
        for reaction in self._reactions.values():
            reaction.end()

    def _give_up(self, why: str) -> None:
        """Forget an interrupted trajectory, and cancel the present one."""
        if isinstance(self.state, Hold):
            self.state.interruption = None
        self.outcome.cancel(why)

    @property
    def _interruption(self) -> Interruption | None:
        return self.state.interruption if isinstance(self.state, Hold) else None

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

    def _leave_safe_first(self) -> None:
        if self.mode == "safe":
            raise InputError(f"the arm is in safe ({self.reason}): resume first")
