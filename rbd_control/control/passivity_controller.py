"""Whether the motors can still hold the arm after a change of the running controller.

The change may concern torque limits, the payload, or the estimates of the adaptive law. Gravity
torques are compared with the torque limits at the positions of the last valid sample and along the
rest of the trajectory that the arm follows.

**The controller of one arm without ROS: from joint states to torque, with faults.**

:class:`PassivityController` composes the parts; docs/control.md has the block diagram.
:mod:`~rbd_control.control.safe_torque` describes the torque after a fault,
:mod:`~rbd_control.control.modes` the modes. A fault is latched until
:meth:`PassivityController.resume` or a new start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.command import Command, Mode
from rbd_control.control.configuration import ConfiguredParts
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.energy import EnergyAccount, EnergyBalance
from rbd_control.control.estimates import Estimates
from rbd_control.control.goals import GoalMotion, Tolerances, TrajectoryGoal
from rbd_control.control.limits import ArmLimits
from rbd_control.control.loop_fit import LoopResult
from rbd_control.control.loop_measurement import LoopOrder
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.planner import PlannedTrajectory, Planning
from rbd_control.control.samples import SampleJudge
from rbd_control.control.torque_path import DISTRUSTED, WEAKENED, LimitedTorque, TorquePath
from rbd_control.control.tracking_law import TrackingLaw
from rbd_control.control.trajectory import Trajectory
from rbd_control.control.watches import Watches
from rbd_control.control.waypoints import Points
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, StalePlanError, TrajectoryError

Array = NDArray[np.float64]


class WeightCheck:
    """Refuses changes after which the arm would be too heavy for its motors.

    Args:
        samples: the joint states.
        planning: the trajectory that the arm follows.
    """

    def __init__(self, samples: SampleJudge, planning: Planning) -> None:
        self._samples, self._planning = samples, planning

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use the law, the limits and the model of ``parts`` as the present ones."""
        self._parts = parts

    def refuse_heavier(self, limits: ArmLimits, model: Model) -> None:
        """Raise an error for torque limits or an arm with which the motors would be too weak.

        For the present model the estimates of the adaptive law are used if they are heavier.

        Args:
            limits: limits after the change.
            model: the arm with its payload after the change.

        Raises:
            InputError: naming the first joint whose torque limit is too low for the weight. A joint
                with too low a limit before the change is named only if it needs a larger share of
                its limit than before.
        """
        limits.refuse_heavier(self.here(model), self._parts.limits, self.here(self._parts.model))
        if not self.is_unchanged(limits, model):
            self._refuse_motion(limits, self._weights(model))

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates of the adaptive law if the motors can hold the arm with them.

        Raises:
            InputError: as :meth:`TrackingLaw.set_estimates` and :meth:`refuse_heavier`; the
                estimates are then unchanged.
        """
        law, limits, model = self._parts.law, self._parts.limits, self._parts.model
        earlier, former = law.estimates, self.here(model)
        law.set_estimates(estimates)
        try:
            limits.refuse_heavier(self.here(model), limits, former)
            self._refuse_motion(limits, law.weight)
        except InputError:
            law.set_estimates(earlier)
            raise

    def is_unchanged(self, limits: ArmLimits, model: Model) -> bool:
        """Return whether the arm and its torque limits for the weight are the present ones."""
        present = self._parts.limits.weight
        return self._parts.law.belongs_to(model) and np.array_equal(limits.weight, present)

    def here(self, model: Model) -> Array:
        """Return the magnitude of the gravity torque at the last valid sample, (nv,) [N·m or N]."""
        return self._weights(model)(self._samples.q)

    def _weights(self, model: Model) -> Callable[[Array], Array]:
        """Return the function from positions to magnitudes of the gravity torque, (..., nv) each.

        For the present model it is the larger one of the described and the learned gravity torque.
        """
        law = self._parts.law
        if law.belongs_to(model):
            law.take_estimates()
            return law.weight
        return lambda q: np.abs(gravity_torque(model, q))

    def _refuse_motion(self, limits: ArmLimits, weight: Callable[[Array], Array]) -> None:
        try:
            self._planning.require_hold_ahead(limits, weight)
        except TrajectoryError as error:
            raise InputError(f"the trajectory could not go on, cancel it first: {error}") from error


class Start:
    """Starts the control of one arm, and restarts it after a jump of the clock.

    Call :meth:`set_parts` before all other methods.

    Args:
        samples, verdict, modes, planning, path: parts of the controller that a start resets.
        watches: checks of the controller, for the conditions of a start; a start resets them.
    """

    def __init__(
        self,
        samples: SampleJudge,
        verdict: DetectorVerdict,
        modes: Modes,
        planning: Planning,
        path: TorquePath,
        watches: Watches,
    ) -> None:
        self._samples, self._verdict, self._modes = samples, verdict, modes
        self._planning, self._path, self._watches = planning, path, watches
        self._clock_jumped = False

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use the parts for new parameters from the next sample on."""
        self._limits, self._soft, self._law = parts.limits, parts.soft, parts.law
        self._parameters = parts.parameters

    def start(self, stamp: float, q: Array, v: Array | None, now: float) -> None:
        """Start the control with a first sample: hold the arm at its present position.

        Args:
            stamp: stamp of the sample [s].
            q, v: measured, (nv,) each [rad or m, rad/s or m/s]; ``v`` None if it is missing.
            now: arrival of the sample on the steady clock [s].

        Raises:
            InputError: without a plausible position and velocity; without effort limits; if the
                motors cannot hold the weight of the arm with its payload here; without a verdict of
                the contact detector if ``require_detector`` is true. The control is not started
                then, and the mode is safe.
        """
        self._modes.end()
        self._limits.require_effort()
        self._parameters.require_stable(0.0)
        self._watches.require_verdict("start", now)
        self._samples.reset()
        refusal = self._samples.take(stamp, q, v, now)
        if refusal:
            raise InputError(f"cannot start: {refusal}")
        self._law.take_estimates()
        self._law.forget_bias()
        self._limits.require_weight(self._law.weight(self._samples.q))
        self.here()
        self._verdict.forget_force()
        self._watches.reset()
        self._clock_jumped = False
        self._modes.start()
        self._path.restore_brake()
        self._path.zero()
        self._law.tank.reset()

    @property
    def is_pending(self) -> bool:
        """Whether :meth:`clock_went_back` was called and no valid sample has come since."""
        return self._clock_jumped

    def clock_went_back(self) -> None:
        """Note that the clock of the joint states jumped; :meth:`check` restarts the control.

        The next sample is accepted with any stamp.
        """
        self._clock_jumped = True
        self._samples.restart_clock()
        self._law.tank.skip()

    def check(self, follows: bool) -> None:
        """Check the gap before a valid sample, and restart the control after a jump of the clock.

        Call it after each valid sample. A gap of more than ``timeout``, see :meth:`Watches.gap`, is
        a fault if ``follows`` is true or the clock jumped. A restart cancels a trajectory, and
        holds the arm at its present position in the modes hold and follow.

        Args:
            follows: whether the last valid sample before this one was still up to date.
        """
        if follows or self._clock_jumped:
            self._watches.gap()
        if self._clock_jumped:
            self._clock_jumped = False
            self.here()
            self._modes.start_again()

    def here(self) -> None:
        """Open the soft limits to the arm's position, and forget the last point of a stream.

        The unwrapping of continuous joints has restarted, so that the point may differ by whole
        turns from the present positions.
        """
        self._soft.open_to(self._samples.q)
        self._planning.forget_stream()


class PassivityController:
    """Slotine-Li control of one arm with limits, faults and reactions to contact.

    A new controller is in mode ``safe`` with zero torque until :meth:`start`.
    Calls must not overlap, except :meth:`plan_trajectory`, which may run in another thread.
    Times: ``stamp`` is the time of a joint state, ``now`` the time of a steady clock; the
    controller reads no clock.

    Args:
        model: an arm with a fixed base.
        parameters: parameters of the controller.

    Raises:
        InputError: for a model with a floating base, or for a link in ``adapted_links`` that is
            unknown, fixed or rigidly joined to another.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters | None = None) -> None:
        parts = ConfiguredParts.of(model, parameters or ControllerParameters())
        zero = np.zeros(model.nv)
        self._samples, self._observed = SampleJudge(model), SampleJudge(model)
        self._verdict = DetectorVerdict()
        self._motion = Motion(Trajectory.stop(model.joint_names, zero, zero, 1.0))
        self._modes = Modes(model, self._samples, self._motion, self._verdict)
        self._planning = Planning(model, self._samples, self._motion, self._modes)
        self._watches = Watches(model.nv, self._samples, self._motion, self._verdict, self._modes)
        self._path = TorquePath(model, self._samples)
        self._account = EnergyAccount(self._samples, self._motion, self._modes, self._path)
        self._start = Start(
            self._samples, self._verdict, self._modes, self._planning, self._path, self._watches
        )
        self._weight = WeightCheck(self._samples, self._planning)
        self._loop = LoopOrder(self._samples, self._motion, self._modes, self._verdict)
        self._use(parts)

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
            effort: measured torque, (nv,) [N·m or N], whose changes show that the driver is alive
                while an arm at rest repeats its joint states; None if it is missing.

        Returns:
            The command. It repeats the last torque for single unusable joint states, is zero before
            the start, and the safe torque or zero after a fault; ``reason`` says why.
        """
        try:
            return self._step(stamp, q, v, stamp if now is None else now, effort)
        except Exception as error:  # The arm must get a torque after any failure.
            self._modes.fault(f"the controller failed: {type(error).__name__}: {error}")
            return self._answer(self._path.halt())

    def observe(self, stamp: float, q: Array, v: Array | None, now: float) -> None:
        """Compare a joint state with those before it, before a start; arguments as :meth:`update`.

        See :attr:`is_contradicted`. The control itself does not use the joint state.
        """
        self._observed.take(stamp, q, v, now)

    @property
    def is_contradicted(self) -> bool:
        """Whether joint states of :meth:`observe` contradict each other, as of two publishers.

        The first sample of a start decides which of them is taken for the arm's, so that a start
        must wait.
        """
        return self._observed.mixed

    def silence(self, now: float) -> Command | None:
        """Return the command to send while joint states are silent, for a watchdog.

        Call it periodically. It also holds the arm if required verdicts of the detector stop.

        Args:
            now: time on the steady clock [s].

        Returns:
            Zero torque, after a switch to mode safe, if the last valid joint state arrived more
            than ``timeout`` ago. None before the start and while valid joint states arrive, because
            :meth:`update` returns a command for each of them.
        """
        if not self._modes.started:
            return None
        self._watches.detector(now)
        return self._answer(self._path.zero()) if self._watches.finds_silence(now) else None

    def not_sent(self, age: float) -> None:
        """Take back the last command, which could not be published.

        The previous command goes on acting: limits of rate and energy and the energy account
        continue from it. A torque older than ``timeout`` is a fault, as are missing joint states.

        Args:
            age: time since a torque was last published [s].
        """
        self._path.take_back()
        self._watches.unsent(age)

    def balance(self, effort: Array | None = None) -> EnergyBalance | None:
        """Return the energies of the period before the last sample, see :class:`EnergyAccount`.

        Call it once after each :meth:`update`, preferably after the torque has been sent. Without
        the measured torque ``effort``, (nv,) [N·m or N], and for an arm that compensates its
        gravity or friction, the sent torque is used; transport delay is then not in the balance.
        Without a desired motion that the last command tracked, there is no balance: None.
        """
        return self._account.balance(effort)

    # --- One step --------------------------------------------------------------------------------

    def _step(
        self, stamp: float, q: Array, v: Array | None, now: float, effort: Array | None
    ) -> Command:
        """Pass one joint state through the parts in the order of the diagram in docs/control.md."""
        samples, modes, path, watches = self._samples, self._modes, self._path, self._watches
        follows = samples.good
        refusal = samples.take(stamp, q, v, now, effort)
        if refusal:
            return self._refuse(refusal)
        if not modes.started:
            return self._answer(path.zero())
        self._start.check(follows)
        self._parts.soft.close_behind(samples.q)
        watches.drives(path.sent)
        watches.speed()
        watches.chatter(path.acting)
        watches.detector(samples.now)
        desired = modes.advance(samples.dt)
        watches.tracking()
        test, reversed_drive = self._loop.torque(path.sent, effort)
        if reversed_drive is not None:
            modes.fault(reversed_drive.reason)
            path.distrust(reversed_drive.joints)
        if modes.mode == "safe":
            return self._brake()
        tracks = modes.tracks
        may_learn = test is None and self._verdict.excludes_contact(samples.now)
        wanted = path.wanted(desired if tracks else None, may_learn)
        if test is not None:
            wanted = wanted._replace(torque=wanted.torque + test)
        if watches.finds_standing(wanted.s, path.withheld):
            return self._brake()
        return self._answer(path.limit(wanted, tracks))

    def _brake(self) -> Command:
        """Return the torque of mode safe; a brake that drives the arm is weakened, or zero."""
        fault, overshoots = self._watches.brake(self._path.is_braking, self._path.v_f)
        if fault is not None:
            self._modes.explain(fault.reason)
            if fault.is_certain:
                self._path.distrust(fault.joints)
                self._modes.explain(DISTRUSTED)
        if overshoots:
            self._path.weaken_brake()
            self._modes.explain(WEAKENED)
        return self._answer(self._path.brake())

    def _refuse(self, refusal: str) -> Command:
        """Repeat the last torque for a few unusable samples, then switch to mode safe.

        In mode safe the command is zero.
        """
        if self._modes.mode != "safe":
            if not self._samples.lost:
                return self._answer(self._path.repeat(), refusal)
            self._modes.fault(refusal)
        reason = self._modes.reason
        if refusal not in reason:  # the mode safe has another cause
            reason = f"{reason}; zero torque now: {refusal}"
        return self._answer(self._path.zero(), reason)

    def _answer(self, sent: LimitedTorque, refusal: str = "") -> Command:
        """Return a torque with the state of the controller."""
        self._loop.check()
        modes, q_d, v_d = self._modes, self._samples.q, self._samples.v
        if modes.tracks:
            q_d, v_d, _ = modes.desired
        reason, goal = refusal or modes.reason, modes.outcome.goal
        return Command(
            sent.torque,
            self._samples.reported(q_d),
            v_d,
            modes.mode,
            sent.is_saturated,
            sent.is_rate_limited,
            goal,
            reason,
        )

    # --- Settings and state ----------------------------------------------------------------------

    def set_parameters(self, parameters: ControllerParameters, model: Model | None = None) -> None:
        """Apply new parameters from the next sample on; on an error the old ones stay in force.

        If the motors cannot hold the arm with them on the rest of the trajectory that it follows,
        or this trajectory is faster than a lowered ``velocity_limit``, the arm is stopped and held,
        see :meth:`hold`.

        Args:
            parameters: the complete new parameters.
            model: another model of the same arm, for example with another payload. The estimates
                of the adaptive law belong to the previous model and are discarded.

        Raises:
            InputError: for a model with other joints or a floating base, for an invalid link in
                ``adapted_links``, and after the start for a joint without effort limit.
            ParameterError: as the constructor.
        """
        parts = self._parts_for(parameters, model)
        is_as_heavy = self._weight.is_unchanged(parts.limits, parts.model)
        is_slower = bool((parts.limits.velocity < self._parts.limits.velocity).any())
        self._use(parts)
        try:
            if is_slower:
                self._planning.require_speed_ahead()
            if not is_as_heavy:
                self._planning.require_hold_ahead(parts.limits, parts.law.weight)
        except TrajectoryError as error:
            self._modes.hold(f"the trajectory cannot go on: {error}")

    def check_parameters(self, parameters: ControllerParameters, model: Model) -> None:
        """Raise the errors that :meth:`set_parameters` would raise, and change nothing."""
        self._parts_for(parameters, model)

    def refuse_heavier(self, parameters: ControllerParameters, model: Model) -> None:
        """Raise an error for a change that would make the arm too heavy for its motors.

        Call it while the arm is under control, before :meth:`set_parameters`, which accepts such a
        change.

        Raises:
            InputError: see :meth:`WeightCheck.refuse_heavier`.
            ParameterError: for a per-joint parameter of the wrong length.
        """
        self._weight.refuse_heavier(ArmLimits.of(model, parameters), model)

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates of the adaptive law, for example by those of a file.

        Raises:
            InputError: see :meth:`TrackingLaw.set_estimates`; and after the start, see
                :meth:`WeightCheck.set_estimates`. The estimates are then unchanged.
        """
        if self._modes.started:
            self._weight.set_estimates(estimates)
        else:
            self.law.set_estimates(estimates)

    def _parts_for(self, parameters: ControllerParameters, model: Model | None) -> ConfiguredParts:
        here = self._samples.q if self._samples.good else None
        parts = ConfiguredParts.of(model or self.model, parameters, self._parts, here)
        if self._modes.started:
            parts.limits.require_effort()
        return parts

    def _use(self, parts: ConfiguredParts) -> None:
        """Use newly built parts from the next sample on; nothing here can fail."""
        limits, soft, parameters = parts.limits, parts.soft, parts.parameters
        self._samples.set_parameters(limits, parameters)
        # A start takes the present delay for the shortest, so an earlier one does not matter.
        self._observed.set_parameters(limits, replace(parameters, delay_growth=0.0))
        self._modes.set_parameters(parameters, soft, parts.tolerances, self._planning.require_hold)
        self._planning.set_parts(parts)
        self._watches.set_parts(parts)
        self._path.set_parts(parts)
        self._account.set_parts(parts)
        self._start.set_parts(parts)
        self._weight.set_parts(parts)
        self._loop.set_parts(parts)
        self._parts = parts

    @property
    def model(self) -> Model:
        """The arm with its payload."""
        return self._parts.model

    @property
    def parameters(self) -> ControllerParameters:
        """The present parameters."""
        return self._parts.parameters

    @property
    def mode(self) -> Mode:
        """The present mode: hold, follow, float or safe."""
        return self._modes.mode

    @property
    def tolerances(self) -> Tolerances:
        """Tolerances of the parameters, for a trajectory without tolerances of its own."""
        return self._parts.tolerances

    @property
    def goal_motion(self) -> GoalMotion:
        """The state of the motion for feedback and results of the goals of the action."""
        return self._modes.goal_motion

    @property
    def law(self) -> TrackingLaw:
        """The control law with its estimates and its energy tank."""
        return self._parts.law

    @property
    def sent(self) -> Array:
        """(nv,) last command, without commands that :meth:`not_sent` took back [N·m or N]."""
        return self._path.sent

    @property
    def brake_share(self) -> float:
        """Share of the rate of the brake that is used, see :meth:`TorquePath.weaken_brake`."""
        return self._path.brake_share

    @property
    def frozen(self) -> str:
        """A warning after ``repeated_time_at_rest`` of equal joint states under torque, or ""."""
        return self._path.frozen

    @property
    def is_measuring_loop(self) -> bool:
        """Whether a measurement of :meth:`measure_loop` is in progress."""
        return self._loop.is_running

    @property
    def loop_result(self) -> LoopResult | None:
        """The result of the last measurement of :meth:`measure_loop`; None before its end."""
        return self._loop.result

    def detector_warning(self, now: float) -> str:
        """Return a warning if the detector is needed and silent, otherwise an empty text.

        The detector is needed for any ``contact_reaction`` but none, and with ``require_detector``.
        It is silent if the last verdict is too old at ``now`` [s], or none has come yet.
        """
        return self._watches.detector_warning(now)

    # --- Orders ----------------------------------------------------------------------------------

    def start(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> None:
        """Start the controller: hold the arm at its present position; arguments as :meth:`update`.

        Raises:
            InputError: without a plausible position and velocity (a missing velocity never counts
                as zero); without effort limits; if the arm with its payload is too heavy for its
                motors here; without a verdict if a detector is required. The mode is then safe,
                also if the controller was started before.
        """
        self._require_model("start")
        self._start.start(stamp, q, v, stamp if now is None else now)
        # Compared with samples from before the motion, later ones would contradict themselves.
        self._observed.reset()

    def plan_trajectory(
        self,
        names: Sequence[str],
        points: Points,
        now: float = 0.0,
        stamp: float = 0.0,
        lead: float | None = None,
        streams: bool = True,
    ) -> PlannedTrajectory:
        """Plan a trajectory without following it; this method may run in another thread.

        The motion begins with the desired state that the present motion has after the time
        ``lead``, which is the time for planning. Call :meth:`accept` before this time has passed,
        unless the arm is at rest. If the call is late, :meth:`accept` plans a trajectory of up to
        50 points again, and refuses a larger one.

        Args:
            names, points: see :meth:`Waypoints.of`.
            now, stamp: the present time and the start time of the trajectory on the same clock [s];
                a ``stamp`` of zero means now, as in joint_trajectory_controller.
            lead, streams: see :meth:`Planning.prepare`.

        Raises:
            TrajectoryError: naming the point and the reason, or what must end first.
        """
        starts_in = stamp - now if stamp else None
        return self._planning.prepare(names, points, starts_in, lead, streams)

    def accept(self, planned: PlannedTrajectory, goal: TrajectoryGoal | None = None) -> None:
        """Follow a planned trajectory without a jump, see :meth:`Planning.accept`.

        Args:
            planned: the trajectory.
            goal: receives the outcome; its trajectory is not continued after a stop.

        Raises:
            TrajectoryError: as :meth:`require_free`, or if a repeated plan fails.
            StalePlanError: for a plan of more than 50 points that is out of date, and after
                :meth:`clock_went_back` until the next valid joint state; plan it again.
        """
        if self._start.is_pending:
            raise StalePlanError("no joint state has come since the start or a jump of the clock")
        self._planning.accept(planned, goal)

    def require_free(self) -> None:
        """Raise a TrajectoryError while the mode or a contact does not permit a trajectory."""
        self._modes.require_free()

    def cancel_goal(self, goal: TrajectoryGoal) -> None:
        """Cancel a goal; if the arm follows its trajectory, it stops within ``stop_time``."""
        self._modes.cancel_goal(goal)

    def set_trajectory(
        self, names: Sequence[str], points: Points, now: float = 0.0, stamp: float = 0.0
    ) -> None:
        """Plan a trajectory, see :meth:`plan_trajectory`, and follow it.

        Raises:
            TrajectoryError: naming the point and the reason, or the mode; nothing has changed then.
        """
        self.accept(self.plan_trajectory(names, points, now, stamp, lead=0.0))

    def cancel(self) -> None:
        """Cancel the trajectory or a retreat and stop within ``stop_time``.

        Raises:
            InputError: if there is neither a trajectory nor a retreat.
        """
        self._modes.cancel()

    def order(self, name: str, reason: str = "") -> None:
        """Execute an order to hold, float, retract or slow down, see :meth:`Modes.order`.

        Raises:
            InputError: in mode safe.
        """
        self._modes.order(name, reason)

    def measure_loop(self) -> None:
        """Begin to measure delay and resonance of the loop with small torques, in mode hold.

        :mod:`~rbd_control.control.loop_measurement` describes the torques, which are limited as all
        others. The measurement takes some seconds for each joint. :attr:`loop_result` is its
        result; any other mode, a contact and a change of parameters end it early. A drive that acts
        against its command is a fault, and gets zero torque until the next start.

        Raises:
            InputError: with the reason, unless the arm is held at rest without contact, and no
                measurement is in progress.
        """
        self._loop.begin()

    def fault(self, reason: str) -> None:
        """Switch to mode safe until :meth:`resume`, for a fault that the caller has detected."""
        self._modes.fault(reason)

    def set_model_error(self, error: str) -> None:
        """Switch to mode safe without gravity torque while the model is known to be wrong.

        The safe torque ``damping`` then consists of the brake alone, because a wrong gravity torque
        would drive the arm. Until the error ends, :meth:`start` and :meth:`resume` are refused.

        Args:
            error: why the model is wrong; an empty text ends the error, but not the mode.
        """
        self._path.model_error = error
        if error:
            self._modes.fault(error)

    @property
    def model_error(self) -> str:
        """Why the model is known to be wrong, see :meth:`set_model_error`; or an empty text."""
        return self._path.model_error

    def _require_model(self, what: str) -> None:
        if self.model_error:
            raise InputError(f"cannot {what}: {self.model_error}")

    def resume(self, now: float | None = None) -> str:
        """Resume after a hold, a float, a contact or a fault; return a description of the result.

        Args:
            now: time on the steady clock [s]; by default the time of the last joint state.

        Raises:
            InputError: as :meth:`Modes.resume`; while the model is known to be wrong, see
                :meth:`set_model_error`; without a verdict if a detector is required; in the
                modes safe and float if the arm is too heavy for its motors here; and if it is too
                heavy for them on the rest of an interrupted trajectory, which must be cancelled.
        """
        self._require_model("resume")
        self._watches.require_verdict("resume", self._samples.now if now is None else now)
        if self._modes.mode in ("safe", "float") and self._samples.good:
            # Posture, payload and limits may have changed since.
            self._parts.limits.require_weight(self._weight.here(self.model))
        if self._modes.mode == "safe" and self._samples.good:
            self._start.here()
        if self._modes.paused is not None:
            try:
                self._planning.require_hold(self._modes.paused)
            except TrajectoryError as error:
                raise InputError(f"cannot resume the trajectory, cancel it: {error}") from error
        return self._modes.resume()

    def contact(self, flag: bool, now: float | None = None) -> bool:
        """Process a verdict of the contact detector; a rising flag starts the reaction.

        While the flag stays raised and the reaction is hold, float or retract, no trajectory begins
        or continues. A verdict expires after 0.5 s (``VERDICT_TIMEOUT``); a contact after this time
        counts as a new contact. Verdicts also count before the start.

        Args:
            flag: whether the detector reports contact.
            now: time on the steady clock [s]; by default the time of the last joint state.

        Returns:
            Whether a contact begins with this verdict.

        Raises:
            InputError: without ``now`` before the first joint state, and if it is not finite.
        """
        now = self._samples.now if now is None else now
        if not isfinite(now):
            raise InputError("give now, the time of the verdict: there is no joint state yet")
        begins = self._verdict.hear(bool(flag), now)
        if flag:
            self._modes.react(begins)
        return begins

    def touched(self, link: str, force: Array) -> None:
        """Store the estimated contact force, along which the reaction ``retract`` moves the link.

        An unknown link, and a force that is zero or not finite, are ignored.

        Args:
            link: the touched link.
            force: (3,) force on it, in world axes [N].
        """
        if link in self.model.link_body:
            self._verdict.feel(link, force, self._samples.stamp)

    def touched_in_frame(self, link: str, force: Array) -> None:
        """Store the estimated contact force as :meth:`touched` does, given along the link's axes.

        The force is rotated to world axes at the positions of the last joint state.

        Args:
            link: the touched link.
            force: (3,) force on it, along the axes of the link [N].
        """
        if link in self.model.link_body:
            samples = self._samples
            self._verdict.feel_in_frame(self.model, samples.q, link, force, samples.stamp)

    def clock_went_back(self) -> None:
        """Restart with the next joint state, at any stamp, and hold the arm at its position.

        A trajectory is cancelled, because a restarted simulator may have moved the arm. The modes
        float, safe and a latched hold do not change. Without this call, a stamp that goes back only
        delays the desired motion by one sample.
        """
        self._start.clock_went_back()
