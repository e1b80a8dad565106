"""The controller of one arm without ROS: from joint states to torque, with faults.

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
from rbd_control.control.configuration import Configuration, Setup
from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.energy import EnergyAccount
from rbd_control.control.estimates import Estimates
from rbd_control.control.goals import TrajectoryGoal
from rbd_control.control.limits import ArmLimits
from rbd_control.control.loop_measurement import LoopOrder
from rbd_control.control.modes import Modes
from rbd_control.control.motion import DesiredMotion
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


class PassivityController:
    """Slotine-Li control of one arm with limits, faults and reactions to contact.

    A new controller is in mode ``safe`` with zero torque until :meth:`start`.
    Calls must not overlap, except :meth:`plan_trajectory`, which may run in another thread.
    Times: ``stamp`` is the time of a joint state, ``now`` the time of a steady clock; the
    controller reads no clock.

    Args:
        model: an arm with a fixed base.
        parameters: parameters of the controller.

    Attributes:
        setup: the present configuration, of which all parts read the model, limits and law.
        samples: judges the joint states, and stores the last valid one.
        observed: compares joint states before a start: ``observed.take`` for each of them, and
            ``observed.mixed`` while they contradict each other, as of two publishers. The first
            sample of a start decides which of them is taken for the arm's, so a start must wait.
        verdict: the last verdict and force of the contact detector.
        motion: the desired motion.
        modes: the mode, and the orders that change it: ``order``, ``cancel``, ``fault``.
        planning: plans trajectories.
        watches: checks that end in the mode safe.
        path: the way from law to torque command, with the last commands.
        energy: the energy balance of each period; call ``energy.balance`` after :meth:`update`,
            preferably after the torque has been sent.
        loop: measures the control loop on request.

    Raises:
        InputError: for a model with a floating base, or for a link in ``adapted_links`` that is
            unknown, fixed or rigidly joined to another.
        ParameterError: for a per-joint parameter of the wrong length.
    """

    def __init__(self, model: Model, parameters: ControllerParameters | None = None) -> None:
        configuration = Configuration.of(model, parameters or ControllerParameters())
        zero = np.zeros(model.nv)
        self.setup = setup = Setup(configuration)
        self.samples, self.observed = SampleJudge(model), SampleJudge(model)
        self.verdict = DetectorVerdict()
        self.motion = DesiredMotion(Trajectory.stop(model.joint_names, zero, zero, 1.0))
        self.modes = Modes(setup, self.samples, self.motion, self.verdict)
        self.planning = Planning(setup, self.samples, self.motion, self.modes)
        self.watches = Watches(setup, self.samples, self.motion, self.verdict, self.modes)
        self.path = TorquePath(setup, self.samples)
        self.energy = EnergyAccount(setup, self.samples, self.motion, self.modes, self.path)
        self.loop = LoopOrder(setup, self.samples, self.motion, self.modes, self.verdict)
        self._weight = WeightCheck(setup, self.samples, self.planning)
        self._clock_jumped = False
        """Whether the clock of the stamps jumped, and no valid sample has come since."""
        self._use(configuration)

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
            self.modes.fault(f"the controller failed: {type(error).__name__}: {error}")
            return self._answer(self.path.halt())

    def _step(
        self, stamp: float, q: Array, v: Array | None, now: float, effort: Array | None
    ) -> Command:
        """Pass one joint state through the parts in the order of the diagram in docs/control.md."""
        samples, modes, path, watches = self.samples, self.modes, self.path, self.watches
        follows = samples.good
        refusal = samples.take(stamp, q, v, now, effort)
        if refusal:
            return self._refuse(refusal)
        if not modes.started:
            return self._answer(path.zero())
        self._check_gap(follows)
        self.setup.now.soft.close_behind(samples.q)
        watches.check_motion(path.sent, path.acting)
        watches.check_detector(samples.now)
        desired = modes.advance(samples.dt)
        watches.check_tracking()
        test, reversed_drive = self.loop.torque(path.sent, effort)
        if reversed_drive is not None:
            modes.fault(reversed_drive.reason)
            path.distrust(reversed_drive.joints)
        if modes.state.mode == "safe":
            return self._brake()
        tracks = modes.state.tracks
        may_learn = test is None and self.verdict.excludes_contact(samples.now)
        wanted = path.wanted(desired if tracks else None, may_learn)
        if test is not None:
            wanted = wanted._replace(torque=wanted.torque + test)
        if watches.finds_standing(wanted.s, path.withheld):
            return self._brake()
        return self._answer(path.limit(wanted, tracks))

    def _brake(self) -> Command:
        """Return the torque of mode safe; a brake that drives the arm is weakened, or zero."""
        path = self.path
        fault, weaker = self.watches.check_brake(path.is_braking, path.v_f, path.brake_share)
        if fault is not None:
            self.modes.explain(fault.reason)
            path.brake_apart(fault.joints)
            if fault.is_certain:
                path.distrust(fault.joints)
                self.modes.explain(DISTRUSTED)
        if weaker < 1.0:
            path.weaken_brake(weaker)
            self.modes.explain(WEAKENED)
        return self._answer(path.zero() if self.watches.is_probing else path.brake())

    def _refuse(self, refusal: str) -> Command:
        """Repeat the last torque for a few unusable samples, then switch to mode safe.

        In mode safe the command is zero.
        """
        if self.modes.mode != "safe":
            if not self.samples.lost:
                return self._answer(self.path.repeat(), refusal)
            self.modes.fault(refusal)
        reason = self.modes.reason
        if refusal not in reason:  # the mode safe has another cause
            reason = f"{reason}; zero torque now: {refusal}"
        return self._answer(self.path.zero(), reason)

    def _answer(self, sent: LimitedTorque, refusal: str = "") -> Command:
        """Return a torque with the state of the controller."""
        self.loop.check()
        modes, state, q_d, v_d = self.modes, self.modes.state, self.samples.q, self.samples.v
        if state.tracks:
            q_d, v_d, _ = modes.desired
        return Command(
            sent.torque,
            self.samples.reported(q_d),
            v_d,
            state.mode,
            sent.is_saturated,
            sent.is_rate_limited,
            modes.outcome.goal,
            refusal or state.reason,
        )

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
        if not self.modes.started:
            return None
        self.watches.check_detector(now)
        return self._answer(self.path.zero()) if self.watches.finds_silence(now) else None

    def not_sent(self, age: float) -> None:
        """Take back the last command, which could not be published.

        The previous command goes on acting: limits of rate and energy and the energy account
        continue from it. A torque older than ``timeout`` is a fault, as are missing joint states.

        Args:
            age: time since a torque was last published [s].
        """
        self.path.take_back()
        self.watches.unsent(age)

    def clock_went_back(self) -> None:
        """Restart with the next joint state, at any stamp, and hold the arm at its position.

        A trajectory is cancelled, because a restarted simulator may have moved the arm. The modes
        float, safe and a latched hold do not change. Without this call, a stamp that goes back only
        delays the desired motion by one sample.
        """
        self._clock_jumped = True
        self.samples.restart_clock()
        self.law.tank.skip()

    def _check_gap(self, follows: bool) -> None:
        """Check the gap before a valid sample, and restart the control after a jump of the clock.

        A gap of more than ``timeout``, see :meth:`Watches.check_gap`, is a fault if the last valid
        sample before this one was still up to date (``follows``), or the clock jumped.
        """
        if follows or self._clock_jumped:
            self.watches.check_gap()
        if self._clock_jumped:
            self._clock_jumped = False
            self._begin_here()
            self.modes.start_again()

    def _begin_here(self) -> None:
        """Open the soft limits to the arm's position, and forget the last point of a stream.

        The unwrapping of continuous joints has restarted, so that the point may differ by whole
        turns from the present positions.
        """
        self.setup.now.soft.open_to(self.samples.q)
        self.planning.forget_stream()

    # --- Start and resume ------------------------------------------------------------------------

    def start(self, stamp: float, q: Array, v: Array | None, now: float | None = None) -> None:
        """Start the controller: hold the arm at its present position; arguments as :meth:`update`.

        Raises:
            InputError: without a plausible position and velocity (a missing velocity never counts
                as zero); without effort limits; if the arm with its payload is too heavy for its
                motors here; without a verdict if a detector is required; while the model is known
                to be wrong. The mode is then safe, also if the controller was started before.
        """
        self._require_model("start")
        now = stamp if now is None else now
        limits, law, samples = self.setup.now.limits, self.law, self.samples
        self.modes.end()
        limits.require_effort()
        self.parameters.require_stable(0.0)
        self.watches.require_verdict("start", now)
        samples.reset()
        refusal = samples.take(stamp, q, v, now)
        if refusal:
            raise InputError(f"cannot start: {refusal}")
        law.take_estimates()
        law.forget_bias()
        limits.require_weight(law.weight(samples.q))
        self._begin_here()
        self.verdict.forget_force()
        self.watches.reset()
        self._clock_jumped = False
        self.modes.start()
        self.path.restore_brake()
        self.path.zero()
        law.tank.reset()
        # Compared with samples from before the motion, later ones would contradict themselves.
        self.observed.reset()

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
        modes, samples = self.modes, self.samples
        self._require_model("resume")
        self.watches.require_verdict("resume", samples.now if now is None else now)
        if modes.mode in ("safe", "float") and samples.good:
            # Posture, payload and limits may have changed since.
            self.setup.now.limits.require_weight(self._weight.here(self.model))
        if modes.mode == "safe" and samples.good:
            self._begin_here()
        if modes.paused is not None:
            try:
                modes.require_hold(modes.paused)
            except TrajectoryError as error:
                raise InputError(f"cannot resume the trajectory, cancel it: {error}") from error
        return modes.resume()

    def set_model_error(self, error: str) -> None:
        """Switch to mode safe without gravity torque while the model is known to be wrong.

        The safe torque ``damping`` then consists of the brake alone, because a wrong gravity torque
        would drive the arm. Until the error ends, :meth:`start` and :meth:`resume` are refused.

        Args:
            error: why the model is wrong; an empty text ends the error, but not the mode.
        """
        self.path.model_error = error
        if error:
            self.modes.fault(error)

    def _require_model(self, what: str) -> None:
        if self.path.model_error:
            raise InputError(f"cannot {what}: {self.path.model_error}")

    # --- Contact ---------------------------------------------------------------------------------

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
        now = self.samples.now if now is None else now
        if not isfinite(now):
            raise InputError("give now, the time of the verdict: there is no joint state yet")
        begins = self.verdict.update(bool(flag), now)
        if flag:
            self.modes.react(begins)
        return begins

    def set_contact_force(self, link: str, force: Array, in_frame: bool = False) -> None:
        """Store the estimated contact force, along which the reaction ``retract`` moves the link.

        An unknown link, and a force that is zero or not finite, are ignored.

        Args:
            link: the touched link.
            force: (3,) force on it [N].
            in_frame: whether the force is given along the axes of the link, instead of the world's.
                It is then rotated to world axes at the positions of the last joint state.
        """
        if link in self.model.link_body:
            here = self.samples.q if in_frame else None
            self.verdict.set_contact_force(self.model, link, force, self.samples.stamp, here)

    # --- Trajectories ----------------------------------------------------------------------------

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
        return self.planning.prepare(names, points, starts_in, lead, streams)

    def accept(self, planned: PlannedTrajectory, goal: TrajectoryGoal | None = None) -> None:
        """Follow a planned trajectory without a jump, see :meth:`Planning.accept`.

        Args:
            planned: the trajectory.
            goal: receives the outcome; its trajectory is not continued after a stop.

        Raises:
            TrajectoryError: as :meth:`Modes.require_free`, or if a repeated plan fails.
            StalePlanError: for a plan of more than 50 points that is out of date, and after
                :meth:`clock_went_back` until the next valid joint state; plan it again.
        """
        if self._clock_jumped:
            raise StalePlanError("no joint state has come since the start or a jump of the clock")
        self.planning.accept(planned, goal)

    def set_trajectory(
        self, names: Sequence[str], points: Points, now: float = 0.0, stamp: float = 0.0
    ) -> None:
        """Plan a trajectory, see :meth:`plan_trajectory`, and follow it.

        Raises:
            TrajectoryError: naming the point and the reason, or the mode; nothing has changed then.
        """
        self.accept(self.plan_trajectory(names, points, now, stamp, lead=0.0))

    # --- Configuration ---------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The arm with its payload."""
        return self.setup.now.model

    @property
    def parameters(self) -> ControllerParameters:
        """The present parameters."""
        return self.setup.now.parameters

    @property
    def law(self) -> TrackingLaw:
        """The control law with its estimates and its energy tank."""
        return self.setup.now.law

    @property
    def mode(self) -> Mode:
        """The present mode: hold, follow, float or safe."""
        return self.modes.mode

    def set_parameters(self, parameters: ControllerParameters, model: Model | None = None) -> None:
        """Apply new parameters from the next sample on; on an error the old ones stay in force.

        If the motors cannot hold the arm with them on the rest of the trajectory that it follows,
        or this trajectory is faster than a lowered ``velocity_limit``, the arm is stopped and held,
        see :meth:`Modes.hold`.

        Args:
            parameters: the complete new parameters.
            model: another model of the same arm, for example with another payload. The estimates
                of the adaptive law belong to the previous model and are discarded.

        Raises:
            InputError: for a model with other joints or a floating base, for an invalid link in
                ``adapted_links``, and after the start for a joint without effort limit.
            ParameterError: as the constructor.
        """
        new, before = self._configured(parameters, model), self.setup.now
        is_as_heavy = self._weight.is_unchanged(new.limits, new.model)
        is_slower = bool((new.limits.velocity < before.limits.velocity).any())
        self._use(new)
        try:
            if is_slower:
                self.planning.require_speed_ahead()
            if not is_as_heavy:
                self.planning.require_hold_ahead(new.limits, new.law.weight)
        except TrajectoryError as error:
            self.modes.hold(f"the trajectory cannot go on: {error}")

    def check_parameters(self, parameters: ControllerParameters, model: Model) -> None:
        """Raise the errors that :meth:`set_parameters` would raise, and change nothing."""
        self._configured(parameters, model)

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
        if self.modes.started:
            self._weight.set_estimates(estimates)
        else:
            self.law.set_estimates(estimates)

    def _configured(self, parameters: ControllerParameters, model: Model | None) -> Configuration:
        here = self.samples.q if self.samples.good else None
        new = Configuration.of(model or self.model, parameters, self.setup.now, here)
        if self.modes.started:
            new.limits.require_effort()
        return new

    def _use(self, new: Configuration) -> None:
        """Use a configuration from the next sample on; nothing here can fail."""
        self.setup.now = new
        self.samples.set_parameters(new.limits, new.parameters)
        # A start takes the present delay for the shortest, so an earlier one does not matter.
        self.observed.set_parameters(new.limits, replace(new.parameters, delay_growth=0.0))
        self.watches.reconfigure()
        self.path.reconfigure()
        self.loop.reconfigure()


class WeightCheck:
    """Refuses changes after which the arm would be too heavy for its motors.

    Args:
        setup: the present configuration of the controller.
        samples: the joint states.
        planning: the trajectory that the arm follows.
    """

    def __init__(self, setup: Setup, samples: SampleJudge, planning: Planning) -> None:
        self._setup, self._samples, self._planning = setup, samples, planning

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
        limits.refuse_heavier(
            self.here(model), self._setup.now.limits, self.here(self._setup.now.model)
        )
        if not self.is_unchanged(limits, model):
            self._refuse_motion(limits, self._weights(model))

    def set_estimates(self, estimates: Estimates) -> None:
        """Replace the estimates of the adaptive law if the motors can hold the arm with them.

        Raises:
            InputError: as :meth:`TrackingLaw.set_estimates` and :meth:`refuse_heavier`; the
                estimates are then unchanged.
        """
        law, limits, model = self._setup.now.law, self._setup.now.limits, self._setup.now.model
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
        present = self._setup.now.limits.weight
        return self._setup.now.law.belongs_to(model) and np.array_equal(limits.weight, present)

    def here(self, model: Model) -> Array:
        """Return the magnitude of the gravity torque at the last valid sample, (nv,) [N·m or N]."""
        return self._weights(model)(self._samples.q)

    def _weights(self, model: Model) -> Callable[[Array], Array]:
        """Return the function from positions to magnitudes of the gravity torque, (..., nv) each.

        For the present model it is the larger one of the described and the learned gravity torque.
        """
        law = self._setup.now.law
        if law.belongs_to(model):
            law.take_estimates()
            return law.weight
        return lambda q: np.abs(gravity_torque(model, q))

    def _refuse_motion(self, limits: ArmLimits, weight: Callable[[Array], Array]) -> None:
        try:
            self._planning.require_hold_ahead(limits, weight)
        except TrajectoryError as error:
            raise InputError(f"the trajectory could not go on, cancel it first: {error}") from error
