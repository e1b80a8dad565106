"""The controller of one arm without ROS: from joint states to torque, with faults.

:class:`PassivityController` composes the parts; docs/control.md has the block diagram.
:mod:`~rbd_control.control.safe_torque` describes the torque after a fault,
:mod:`~rbd_control.control.modes` the modes. A fault is latched until
:meth:`PassivityController.resume`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, inf

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.command import Command, Mode
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.detector_verdict import FORCE_AGE, DetectorVerdict
from rbd_control.control.energy import EnergyBalance
from rbd_control.control.goal import Tolerances
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.overspeed import Overspeed
from rbd_control.control.planner import PlannedTrajectory
from rbd_control.control.planning import Planning
from rbd_control.control.safe_torque import SafeTorque
from rbd_control.control.samples import SampleJudge
from rbd_control.control.slotine_li import LawTorque
from rbd_control.control.soft_limits import SoftLimits
from rbd_control.control.torque_limits import TorqueLimits
from rbd_control.control.torque_output import TorqueOutput, require_finite
from rbd_control.control.tracking_law import TrackingLaw
from rbd_control.control.trajectory import DesiredState, Trajectory
from rbd_control.control.trajectory_goal import GoalMotion, TrajectoryGoal
from rbd_control.control.waypoints import Points
from rbd_control.dynamics import Model, frame_placement, gravity_torque
from rbd_control.errors import InputError

Array = NDArray[np.float64]

SHORTEST = 1e-6
"""Period for the energy tank if two samples have the same stamp [s]."""


class PassivityController:
    """Slotine-Li control of one arm with limits, faults and reactions to contact.

    Calls must not overlap, except :meth:`plan_trajectory`, which may run in another thread.
    Times: ``stamp`` is the time of a joint state, ``now`` the time of a steady clock; the
    controller reads no clock.

    Args:
        model: an arm with a fixed base.
        parameters: parameters of the controller.

    Raises:
        InputError: for a model with a floating base.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters | None = None) -> None:
        if model.nq != model.nv:
            raise InputError(f"{model.name}: a floating base cannot be controlled by joint torques")
        self.model = model
        zero = np.zeros(model.nv)
        self._samples = SampleJudge(model)
        self._verdict = DetectorVerdict()
        self._motion = Motion(Trajectory.stop(model.joint_names, zero, zero, 1.0))
        self._modes = Modes(model, self._samples, self._motion, self._verdict)
        self._planning = Planning(model, self._samples, self._motion, self._modes)
        self._overspeed = Overspeed()
        self._output = TorqueOutput(model)
        self._desired = DesiredState.at_rest(zero)
        self._is_limited = False
        self._tracked = False
        """Whether the law computed the torque of the last sample."""
        self._jumps = -1
        """Count of jumps of the motion at the last sample of the energy monitor."""
        self._restarting = False
        self._soft: SoftLimits
        self._law: TrackingLaw
        self._set_parameters(model, parameters or ControllerParameters(), None)

    # --- Settings and state ----------------------------------------------------------------------

    def set_parameters(self, parameters: ControllerParameters, model: Model | None = None) -> None:
        """Apply new parameters from the next sample on; on an error the old ones stay in force.

        Args:
            parameters: the complete new parameters.
            model: another model of the same arm, for example with another payload. The estimates
                of the adaptive law belong to the previous model and are discarded.

        Raises:
            InputError: for a model with other joints.
            ParameterError: for a per-joint parameter of the wrong length.
        """
        model = self.model if model is None else model
        if model.joint_names != self.model.joint_names or model.nq != self.model.nq:
            raise InputError(
                f"the model has joints {', '.join(model.joint_names)} but the controller was made "
                f"for {', '.join(self.model.joint_names)}"
            )
        self._set_parameters(model, parameters, self._law)
        self._samples.repetition.forget_torque()

    def refuse_heavy(self, model: Model) -> None:
        """Raise an error if the motors cannot hold the weight of a model in the present posture.

        Args:
            model: the arm with a payload.

        Raises:
            InputError: naming the joint, its torque and its limit.
        """
        if not self._samples.good:
            return
        weight, limits = gravity_torque(model, self._samples.q), self._limits.torque
        for i in np.flatnonzero(np.abs(weight) > limits)[:1]:
            raise InputError(
                f"too heavy: {model.joint_names[i]} needs {abs(weight[i]):.3g} to carry it "
                f"here and may use {limits[i]:.3g} N·m or N"
            )

    def _set_parameters(
        self, model: Model, parameters: ControllerParameters, before: TrackingLaw | None
    ) -> None:
        limits = ArmLimits.of(model, parameters)
        soft = SoftLimits(model, parameters)
        if before is not None and self._samples.good:
            soft.open_to(self._samples.q, self._soft)
        tolerances = Tolerances(model.joint_names, parameters)
        torque_limits = TorqueLimits(model, parameters, soft)
        safe = SafeTorque(model, limits, parameters)
        law = TrackingLaw(model, parameters, soft, before)
        # No step after this point can fail.
        self._output.set_parameters(model, limits, parameters)
        self._samples.set_parameters(limits, parameters)
        self._modes.set_parameters(parameters, soft, tolerances)
        self._planning.set_parameters(model, limits, soft, parameters)
        self.model = model
        self._parameters, self._limits, self._soft = parameters, limits, soft
        self._tolerances, self._torque_limits = tolerances, torque_limits
        self._safe, self._law = safe, law

    @property
    def parameters(self) -> ControllerParameters:
        """The present parameters."""
        return self._parameters

    @property
    def mode(self) -> Mode:
        """The present mode."""
        return self._modes.mode

    @property
    def tolerances(self) -> Tolerances:
        """Tolerances of a trajectory that brings none of its own."""
        return self._tolerances

    @property
    def goal_motion(self) -> GoalMotion:
        """What the senders of goals are told about the motion."""
        found = self._verdict.force(self._samples.stamp, FORCE_AGE)
        is_stopping = self._modes.mode == "hold" and self._motion.moving
        place, touched = self._motion.place, "" if found is None else found.link
        # Before its trajectory begins, the arm is still on the last one.
        followed = None if self._motion.waiting else self._modes.sent
        return GoalMotion(followed, place, is_stopping, touched)

    @property
    def law(self) -> TrackingLaw:
        """The law with its estimates and its energy tank."""
        return self._law

    @property
    def frozen(self) -> str:
        """A warning while joint states at rest repeat and torque is sent; empty otherwise."""
        time = self._samples.repetition.time_at_rest
        if not time or not self._output.sent.any():
            return ""
        return f"joint states have repeated for {time:.3g} s while torque is sent"

    def detector_warning(self, now: float) -> str:
        """Return a warning while a required verdict is missing; empty otherwise.

        Args:
            now: time on the steady clock [s].
        """
        reaction, missing = self._parameters.contact_reaction, self._verdict.missing(now)
        if missing and reaction != "none":
            return f"{missing}: no {reaction} on contact"
        return missing if self._parameters.require_detector else ""

    # --- Orders ----------------------------------------------------------------------------------

    def start(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> None:
        """Start the controller; it holds the arm at its present position.

        Raises:
            InputError: without a plausible position and velocity (a missing velocity never counts
                as zero); without effort limits; without a verdict if a detector is required.
        """
        now = stamp if now is None else now
        self._modes.end()
        self._limits.require_effort()
        self._require_verdict("start", now)
        self._samples.reset()
        refusal = self._samples.take(stamp, q, v, now)
        if refusal:
            raise InputError(f"cannot start: {refusal}")
        self._start_here()
        self._verdict.forget_force()
        self._restarting = False
        self._modes.start()
        self._zero()
        self._law.tank.reset()

    def plan_trajectory(
        self,
        names: Sequence[str],
        points: Points,
        now: float = 0.0,
        stamp: float = 0.0,
        lead: float | None = None,
        streams: bool = True,
    ) -> PlannedTrajectory:
        """Plan a trajectory without following it; the controller is unchanged.

        This method may run in another thread than all others. The motion begins with the desired
        state at the time ``lead`` from now; :meth:`accept` must be called before that time, unless
        the arm is at rest.

        Args:
            names, points: see :meth:`Waypoints.of`.
            now, stamp: the present and the trajectory's own start [s], of one clock; a ``stamp``
                of zero is now, as in joint_trajectory_controller.
            lead: time for planning [s]; by default ``LEAD`` and ``LEAD_PER_POINT`` for each point.
            streams: whether a single point may belong to a stream, which passes it with speed.

        Raises:
            TrajectoryError: naming the point and the reason, or the mode that must end first.
        """
        starts_in = stamp - now if stamp else None
        return self._planning.prepare(names, points, starts_in, lead, streams)

    def accept(self, planned: PlannedTrajectory, goal: TrajectoryGoal | None = None) -> None:
        """Follow a planned trajectory, without a jump; this takes microseconds.

        Parameters and motion must not have changed since the planning. A plan of up to 50 points
        that is out of date is repeated at once.

        Args:
            planned: the trajectory.
            goal: told what becomes of the trajectory, which is then never continued after a stop.

        Raises:
            TrajectoryError: if the mode does not permit a trajectory, or the repeated plan fails.
            StalePlanError: for a larger plan that is out of date; plan it again.
        """
        self._planning.accept(planned, goal)

    def require_free(self) -> None:
        """Refuse a trajectory while the arm must stay in its mode.

        Raises:
            TrajectoryError: naming the mode.
        """
        self._modes.require_free()

    def cancel_goal(self, goal: TrajectoryGoal) -> None:
        """Cancel a goal; the arm stops within ``stop_time`` if it follows its trajectory."""
        goal.cancel()
        if self._modes.sent is goal:
            self._modes.cancel()

    def set_trajectory(
        self, names: Sequence[str], points: Points, now: float = 0.0, stamp: float = 0.0
    ) -> None:
        """Plan a trajectory and follow it; after an error the controller is unchanged.

        Args:
            names, points, now, stamp: see :meth:`plan_trajectory`.

        Raises:
            TrajectoryError: naming the point and the reason, or the mode that must end first.
        """
        self.accept(self.plan_trajectory(names, points, now, stamp, lead=0.0))

    def cancel(self) -> None:
        """Cancel the trajectory or a retreat, see :meth:`Modes.cancel`."""
        self._modes.cancel()

    def hold(self, reason: str = "held by request") -> None:
        """Stop and hold, see :meth:`Modes.hold`."""
        self._modes.hold(reason)

    def float_(self, reason: str = "floating by request") -> None:
        """Compensate gravity only, see :meth:`Modes.float_`."""
        self._modes.float_(reason)

    def retract(self, reason: str = "retracting by request") -> None:
        """Stop and move along the contact force, see :meth:`Modes.retract`."""
        self._modes.retract(reason)

    def slow(self, reason: str = "slowed by request") -> None:
        """Continue at reduced speed, see :meth:`Modes.slow`."""
        self._modes.slow(reason)

    def fault(self, reason: str) -> None:
        """Switch to safe until :meth:`resume`, for a fault outside the joint states."""
        self._modes.fault(reason)

    def resume(self, now: float | None = None) -> str:
        """Resume after a hold, a float, a contact or a fault, see :meth:`Modes.resume`.

        Args:
            now: time on the steady clock [s]; by default the time of the last joint state.

        Raises:
            InputError: as :meth:`Modes.resume`, and without a verdict if a detector is required.
        """
        self._require_verdict("resume", self._samples.now if now is None else now)
        if self._modes.mode == "safe" and self._samples.good:
            self._start_here()
        return self._modes.resume()

    def contact(self, flag: bool, now: float | None = None) -> None:
        """Process a verdict of the contact detector; the begin of a contact starts the reaction.

        A verdict expires after ``VERDICT_TIMEOUT``; a contact after that counts as a new contact.
        Verdicts also count before the start.

        Args:
            flag: whether there is contact.
            now: time on the steady clock [s]; by default the time of the last joint state.
        """
        if self._verdict.hear(bool(flag), self._samples.now if now is None else now):
            self._modes.react()

    def touched(self, link: str, force: Array) -> None:
        """Store the estimated force on a link, (3,) in world axes [N]; ignore invalid values."""
        if link in self.model.link_body:
            self._verdict.feel(link, force, self._samples.stamp)

    def touched_in_frame(self, link: str, force: Array) -> None:
        """Store an estimate of the force on a link, in the frame of that link.

        The force is rotated to world axes at the positions of the last joint state. Unknown links
        and zero forces are ignored.

        Args:
            link: the touched link.
            force: (3,) force on it, along the axes of the link [N].
        """
        if link in self.model.link_body and 0.0 < hypot(*force) < inf:
            rotation = frame_placement(self.model, self._samples.q, link)[:3, :3]
            self.touched(link, rotation @ force)

    def clock_went_back(self) -> None:
        """Restart with the next joint state, at any stamp, and hold the arm at its position.

        A trajectory is cancelled, because a restarted simulator may have moved the arm. The modes
        float, safe and a latched hold do not change. Without this call, a stamp that goes back
        stops the trajectory for one sample.
        """
        self._restarting = True
        self._samples.lose()
        self._samples.repetition.reset()
        self._law.tank.skip()

    # --- Samples ---------------------------------------------------------------------------------

    def update(
        self,
        stamp: float,
        q: Array,
        v: Array | None,
        now: float | None = None,
        effort: Array | None = None,
    ) -> Command:
        """Process one joint state and return the torque for it; the method never raises.

        Args:
            stamp: time of the sample [s].
            q, v: measured, (nv,) each [rad or m, rad/s or m/s]; ``v`` None if it is missing.
            now: time of arrival on the steady clock that :meth:`silence` uses [s]; by default the
                stamp.
            effort: measured torque, (nv,) [N·m or N], which distinguishes frozen joint states from
                an arm at rest; None if it is missing.
        """
        self._tracked = False
        try:
            return self._step(stamp, q, v, stamp if now is None else now, effort)
        except Exception as error:  # whatever fails, the arm gets a torque
            self._modes.fault(f"the controller failed: {type(error).__name__}: {error}")
            return self._command(self._output.halt())

    def silence(self, now: float) -> Command | None:
        """Return None while joint states arrive, else the command to send; for a watchdog.

        Args:
            now: time on the steady clock [s].
        """
        if not self._modes.started:
            return None
        self._watch_detector(now)
        if not self._samples.silent(now):
            return None
        self._samples.lose()
        self._modes.fault(f"no joint states for {now - self._samples.now:.3g} s")
        return self._zero()

    def balance(self, effort: Array | None = None) -> EnergyBalance | None:
        """Return the energies of the period before the last sample.

        Call it once after each :meth:`update`, preferably after the torque has been sent.

        Args:
            effort: measured torque of the motors, (nv,) [N·m or N]. Without it, and for an arm
                that compensates its gravity, the sent torque is used, which excludes transport
                delay.

        Returns:
            The energies; None if the law was not in control, or an effort is not finite.
        """
        samples, law = self._samples, self._law
        if not self._tracked or samples.dt <= 0.0:
            self._jumps = -1
            return None
        if self._jumps != self._motion.jumps:
            self._jumps = self._motion.jumps
            law.jump()
        # Arms that compensate gravity measure torque with their weight (Franka) or without (UR).
        compensated = self._parameters.gravity_compensated
        acting = self._output.acted if effort is None or compensated else effort
        try:
            return law.balance(
                samples.stamp, samples.q, samples.v, self._desired, acting, samples.dt
            )
        except InputError:  # an effort that is no number, or gives none
            self._jumps = -1
            return None

    # --- One step --------------------------------------------------------------------------------

    def _step(
        self, stamp: float, q: Array, v: Array | None, now: float, effort: Array | None
    ) -> Command:
        """Pass one joint state through the parts in the order of the block diagram."""
        samples, modes = self._samples, self._modes
        follows = samples.good
        refusal = samples.take(stamp, q, v, now, effort)
        if refusal:
            return self._refuse(refusal)
        if not modes.started:
            return self._zero()
        self._watch(follows)
        self._desired = modes.advance(samples.dt)
        self._watch_tracking()
        if modes.mode == "safe":
            return self._brake()
        wanted = self._wanted()
        require_finite(wanted.torque, "torque of the law")  # or the cuts would make a number of it
        frozen = samples.repetition.push(wanted.torque, self._motion.jumps)
        if frozen:
            samples.lose()
            modes.fault(frozen)
            return self._brake()
        return self._drive(wanted)

    def _wanted(self) -> LawTorque:
        """Return the torque of the law before limits."""
        samples, law = self._samples, self._law
        if not self._modes.tracks:
            return law.floating(samples.q, samples.v)
        # Do not learn from contacts or from saturation.
        learns = not (self._is_limited or self._verdict.contact(samples.now))
        return law.torque(samples.q, samples.v, self._desired, samples.dt if learns else 0.0)

    def _drive(self, wanted: LawTorque) -> Command:
        """Send the torque of the law within limits of torque, energy and rate."""
        samples, law, limits, output = self._samples, self._law, self._torque_limits, self._output
        q, v, period = samples.q, samples.v, samples.longest_period
        cut = limits.cut(wanted.torque, law.packed, q, v, wanted.s, period, wanted.share)
        let = limited = cut
        if self._parameters.tank_capacity > 0.0:
            let = law.tank.limit(q, v, cut, max(samples.dt, SHORTEST))
            limited = limits.cut(let, law.packed, q, v, v, period)
        slow = output.slow(limited, min(samples.dt, self._parameters.timeout))
        sent = output.send(slow, q)
        if self._parameters.tank_capacity > 0.0 and slow is not let:
            law.tank.sent(let, slow)
        self._is_limited = slow is not wanted.torque
        self._tracked = self._modes.tracks
        return self._command(sent, cut is not wanted.torque, slow is not limited)

    def _brake(self) -> Command:
        """Send the safe torque."""
        samples = self._samples
        if self._safe.is_zero or not samples.good:
            return self._zero()
        self._law.tank.skip()
        sent, _ = self._safe.torque(
            self._law.packed,
            samples.q,
            samples.v,
            self._output.acting,
            min(samples.dt, self._parameters.timeout),
            samples.longest_period,
        )
        return self._command(self._output.send_command(sent, samples.q))

    def _refuse(self, refusal: str) -> Command:
        """Hold the last torque for a few unusable samples; then switch to the fault and zero."""
        if self._modes.mode != "safe":
            if not self._samples.lost:
                return self._command(self._output.sent.copy(), refusal=refusal)
            self._modes.fault(refusal)
        return self._zero()

    def _zero(self) -> Command:
        """Send exactly zero."""
        self._law.tank.skip()
        return self._command(self._output.zero(self._samples.q))

    def _command(
        self,
        torque: Array,
        saturated: bool = False,
        rate_limited: bool = False,
        refusal: str = "",
    ) -> Command:
        samples, modes = self._samples, self._modes
        q_d, v_d = samples.q, samples.v
        if modes.tracks:
            q_d, v_d, _ = self._desired
        return Command(
            torque,
            samples.reported(q_d),
            v_d,
            modes.mode,
            saturated,
            rate_limited,
            modes.goal,
            refusal or modes.reason,
        )

    # --- Watches ---------------------------------------------------------------------------------

    def _watch(self, follows: bool) -> None:
        """Check a valid sample for faults, and restart after a jump of the clock.

        Args:
            follows: whether the previous sample was valid.
        """
        samples, modes = self._samples, self._modes
        # After a stop of the process its queue has samples without a gap, but no torque was sent.
        gap = max(samples.dt, samples.wait)
        if gap > self._parameters.timeout and (follows or self._restarting):
            heard = samples.wait <= self._parameters.timeout
            modes.fault(f"{'stamps jumped by' if heard else 'no joint states for'} {gap:.3g} s")
        if self._restarting:
            self._restarting = False
            self._start_here()
            modes.start_again()
        self._soft.close_behind(samples.q)
        fast = self._overspeed.fault(samples.dt, samples.v, self._limits)
        if fast:
            modes.fault(fast)
        self._watch_detector(samples.now)

    def _watch_tracking(self) -> None:
        """Check for an arm that does not follow the desired motion."""
        if self._modes.tracks:
            lost = self._tolerances.lost(self._samples.q, self._desired.q_d)
            if lost:
                self._modes.fault(lost)

    def _watch_detector(self, now: float) -> None:
        """Hold the arm if required verdicts have stopped."""
        modes = self._modes
        if not self._parameters.require_detector or self._verdict.fresh(now):
            return
        if modes.mode == "follow" or (modes.mode == "hold" and not modes.latched):
            modes.hold(self._verdict.missing(now))

    def _start_here(self) -> None:
        """Open the soft limits to the arm's position; discard data in former coordinates."""
        self._soft.open_to(self._samples.q)
        self._planning.forget_stream()

    def _require_verdict(self, what: str, now: float) -> None:
        missing = self._verdict.missing(now)
        if self._parameters.require_detector and missing:
            raise InputError(f"cannot {what}: require_detector is true, and {missing}")
