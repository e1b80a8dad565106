"""The contact detector: from joint states to contact, no contact, or no verdict.

The residual of a joint is the filtered estimate of its external torque [N·m or N]. A contact begins
when a joint's residual has stayed above its threshold for ``onset_debounce`` (longer after lost
samples, see :mod:`~rbd_control.estimation.validity`), and ends when every residual has
stayed below ``release_ratio`` of its threshold for ``release_debounce``. The contact counts as a
collision from the first sample in which a residual exceeds its collision threshold. The length of
all residuals together, in standard deviations (the statistic), and the force at one link may have
thresholds as well (:mod:`~rbd_control.estimation.thresholds`).

There is no verdict after a gap, while the observer settles, after ``repeated_time`` (at rest
``repeated_time_at_rest``) of identical samples, and after ``repeated_time_at_rest`` of identical
efforts. A sample without effort or velocity, or with implausible numbers, is dropped as if its
message had been lost, and the verdict is kept; from the third such sample in a row, or
``maximum_gap`` after the last usable one, there is no verdict. The lack of a verdict ends an open
contact, and is not the same as "no contact".
While an effort is saturated, and for ``settling_time`` after that, an open contact does not end,
and without a contact there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.dynamics.arguments import configuration, state
from rbd_control.dynamics.compiled import for_types_of
from rbd_control.errors import InputError
from rbd_control.estimation.contact_events import ContactEvents
from rbd_control.estimation.decision import (
    BEGUN,
    BROKEN_OFF,
    ENDED,
    NOTHING,
    decide,
    drop_incomplete,
    forget_mean,
    forget_rest,
)
from rbd_control.estimation.detection import (
    BlockDetection,
    ContactEvent,
    Detection,
    Verdict,
    fault_text,
)
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_state import (
    FREE,
    LEVELS,
    NO_EFFORT,
    NO_JOINT,
    NO_VELOCITY,
    REASONS,
    SETTLING,
    VALID,
    VERDICT,
    Samples,
    decision_settings,
    keep_settled,
    new_memory,
)
from rbd_control.estimation.drift import FrictionDrift, JointDrift, least_push
from rbd_control.estimation.isolation import LinkIsolation, found, residual_noise
from rbd_control.estimation.observers import NOT_FINITE
from rbd_control.estimation.tare import Tare
from rbd_control.estimation.thresholds import levers, with_default_thresholds
from rbd_control.estimation.tool_wrench import ToolWrench, ToolWrenchEstimator
from rbd_control.estimation.validity import LEAST_INTERVALS
from rbd_control.robot.friction import Friction
from rbd_control.robot.shapes import NO_SURFACE, Surface

Advance = Callable[[int], tuple[int, int]]
"""Processes samples from an index on; returns the index of the stop and the reason for it."""


class ContactDetector:
    """Detects contacts of one arm in its joint states, sample by sample or in blocks of samples.

    A momentum observer estimates the external torque of each joint, and thresholds decide whether
    there is contact. The division of samples into blocks does not change the verdicts, to the last
    bit.

    Args:
        model: the robot.
        parameters: see :class:`~rbd_control.estimation.DetectorParameters`.
        on_contact: called without arguments as soon as a contact has begun, before its link, force
            and onset are estimated, which takes longer than the rest of the sample; must not call
            the detector.
        surface: points on the collision geometry of the links, which distinguish the links of
            collisions; without these points every contact counts as a push.

    Attributes:
        model: the present model.
        parameters: the present parameters, with defaults in place of joint thresholds of zero.
        contact_threshold: contact thresholds at rest, (nv,) [N·m or N].
        collision_threshold: collision thresholds at rest, (nv,) [N·m or N].

    Raises:
        ParameterError: for a per-joint parameter or a ``residual_covariance`` of the wrong length.
        InputError: for a ``force_link`` or ``tool_frame`` that the model lacks, or that is fixed to
            the world.
    """

    def __init__(
        self,
        model: Model,
        parameters: DetectorParameters,
        on_contact: Callable[[], None] = lambda: None,
        surface: Surface = NO_SURFACE,
    ) -> None:
        self._surface = surface
        self._on_contact = on_contact
        self._memory = new_memory(model.nq, model.nv)
        self._tare = Tare(self._memory)
        self._drift = FrictionDrift(self._memory)
        self._events = ContactEvents(self._memory)
        self._row = np.empty((1, model.nq)), np.empty((1, model.nv)), np.empty((1, model.nv))
        self._shapes = (model.nq,), (model.nv,)
        self._stamps, self._verdict = np.empty(1), np.empty(1, VERDICT)
        self._threshold = np.empty((1, model.nv))
        self._no_jacobian = np.empty((0, 3, model.nv))
        self._decide: Callable[..., Any] | None = None
        self._event: ContactEvent | None = None
        self._set(model, parameters)
        self._start()

    def reset(self, *, clear_tare: bool = False) -> ContactEvent | None:
        """Restart the detector: end an open contact, and forget all samples.

        There is no verdict until ``settling_time`` after the next sample, whose stamp may come from
        another clock.

        Args:
            clear_tare: also forget all tares, and what was learned of the friction, so that the
                configured friction counts again. A tare belongs to the posture and load in which
                it was made. In another posture or with another load it may itself exceed a
                threshold, and the contact that it then causes ends only when the tare is cleared.
                Automatic restarts, as after a jump of the clock, keep tares and friction.

        Returns:
            The release event of an open contact, at the time of the last sample; None without an
            open contact.
        """
        event = self._events.end(self._stamp)
        self._start()
        if clear_tare:
            self._tare.clear(self._settings)
            self._drift.forget()
        return event

    def _start(self) -> None:
        fresh = new_memory(self.model.nq, self.model.nv)
        # Efforts that have repeated for too long do so also after a reset.
        fresh.effort[:] = self._memory.effort
        fresh.arm["effort_for"] = self._memory.arm["effort_for"]
        fresh.arm["recoveries"] = self._memory.arm["recoveries"]
        fresh.drift[:] = self._memory.drift[:, :1]
        fresh.joint["usual_speed"] = self._memory.joint["usual_speed"]
        for array, initial in zip(self._memory, fresh, strict=True):
            array[:] = initial
        self._stamp = -math.inf
        self._code = SETTLING
        self._codes: Any = (SETTLING, FREE, VALID, NO_JOINT)
        self._residual = np.zeros(self.model.nv)
        self._why, self._event = NOTHING, None

    @property
    def bias(self) -> np.ndarray:
        """Torque that all tares since ``reset(clear_tare=True)`` subtract from the residual.

        It is a copy, (nv,) [N·m or N].
        """
        return self._tare.bias.copy()

    def tare(self) -> np.ndarray:
        """Subtract the mean residual from all later residuals, to remove a constant model error.

        The mean is an exponential average with a time constant of 1 s; in the first second of
        averaging, all times have equal weight.

        Returns:
            Torque that all tares together subtract, (nv,) [N·m or N], as :attr:`bias`.

        Raises:
            InputError: without a valid verdict; in contact; if the residual has been averaged for
                less than a second since the last start, reset, tare, contact, or change of
                parameters or model; and if the residual still changes. In the last two cases the
                message says how long to wait.
        """
        if self._code != VALID:
            raise InputError(f"cannot tare: there is no verdict ({REASONS[self._code]})")
        if self._events.open is not None or self._codes[1] != FREE:
            raise InputError(
                "cannot tare while there is contact, which the tare would hide; if nothing touches "
                "the arm, reset the detector and its earlier tares with the service ~/reset (in "
                "Python: reset(clear_tare=True)), and check model and payload if the contact "
                "comes back"
            )
        self._tare.refuse_unsteady(self.contact_threshold, self.model)
        self._tare.add_mean(self._settings)
        return self.bias

    @property
    def drift(self) -> tuple[JointDrift, ...]:
        """Change of each joint's friction from the configured one, as the detector has learned it.

        It is empty without configured friction and with ``follow_friction: false``.
        """
        return self._drift.report(self.model.joint_names)

    @property
    def least_lasting_push(self) -> tuple[float, float]:
        """Weakest pushes that :attr:`drift` never takes for friction, however long they last [N].

        The first holds at rest, the second in lasting motion in one direction at the usual speed,
        both on the link and in the direction that load a joint most. Infinite if nothing is
        followed: then every push above the thresholds is reported.
        """
        drift = self.drift
        if not drift:
            return math.inf, math.inf
        names = self.model.joint_names
        first = self.model.nv - len(names)
        rows = [first + names.index(each.joint) for each in drift]
        return least_push(drift, levers(self.model)[rows])

    @property
    def period(self) -> float:
        """Mean time between the last samples without repeated ones [s]; 0 for too few samples."""
        arm = self._memory.arm[0]
        return float(arm["period"]) if arm["intervals"] >= LEAST_INTERVALS else 0.0

    @property
    def recoveries(self) -> int:
        """Number of contacts that ended because a sudden change of friction explained them."""
        return self._drift.recoveries

    @property
    def friction_of_the_day(self) -> Friction:
        """The configured friction with the changes of :attr:`drift`."""
        return self._drift.of_the_day()

    def set_parameters(self, parameters: DetectorParameters) -> None:
        """Apply new parameters; tares, an open contact and the validity of the verdict are kept.

        So is the friction of the day, also if another configured friction is close to it. The
        average of the residuals for the next tare begins anew. An error changes nothing.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length.
            InputError: for a ``force_link`` or ``tool_frame`` that the model lacks, or that is
                fixed to the world.
        """
        self._change(self.model, parameters)

    def set_model(self, model: Model) -> None:
        """Apply another model of the same arm, for example with a payload.

        The residual does not jump, because the momentum of the last sample is recomputed with the
        new model. Parameters, thresholds, tares, an open contact and the validity of the verdict
        are kept, and so is what was learned of the friction. The average of the residuals for the
        next tare begins anew.

        Raises:
            InputError: if the model has other joints or another kind of base, or if ``force_link``
                or ``tool_frame`` is missing in it or fixed to the world. Nothing is changed then.
        """
        if model.joint_names == self.model.joint_names and model.nq != self.model.nq:
            raise InputError("one of the models has a floating base, and the other a fixed base")
        if model.joint_names != self.model.joint_names:
            raise InputError(
                f"the model has joints {', '.join(model.joint_names)} but the detector was made "
                f"for {', '.join(self.model.joint_names)}"
            )
        self._change(model, self.parameters)

    def update(
        self, stamp: float, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> Detection:
        """Process one sample and return the detection, with link, force and event of a contact.

        Args:
            stamp: time of the sample [s]; must increase.
            q, v, tau: positions (nq,) [rad or m], velocities (nv,) [rad/s or m/s] and efforts (nv,)
                as ``effort_kind`` declares. Without ``v`` or ``tau`` (None) there is no verdict.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or a stamp that does not
                increase.
        """
        self.judge(stamp, q, v, tau)
        return self.complete()

    def judge(
        self, stamp: float, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> Verdict:
        """Process one sample and return the verdict, without link, force and event of a contact.

        Their estimation takes up to ten times as long; :meth:`complete` returns them. Call
        :meth:`complete` before the next sample, otherwise an event of this sample is lost. An
        implausible sample is dropped without an exception, see
        :class:`~rbd_control.estimation.Detection`.

        Args:
            stamp: time of the sample [s]; must increase.
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s]; None if not measured.
            tau: joint efforts as published, (nv,), of the kind that the parameter ``effort_kind``
                declares; None if not measured. A sample without ``v`` or ``tau`` is dropped like an
                implausible one, with the reason "no velocity" or "no effort".

        Raises:
            InputError: for arguments of the wrong shape or not finite, or a stamp that does not
                increase.
        """
        if self._why != NOTHING:
            self.complete()
        self._stamps[0] = stamp
        self._refuse_old(self._stamps)
        self._event = None
        residual = np.zeros((1, self.model.nv))
        if v is None or tau is None:
            configuration(self.model, q)
            written = (residual, self._threshold, self._verdict)
            self._why = self._drop(v is None, self._stamps, *written)(0)[1]
        else:
            self._why = self._reason_to_attend(*self._copied(q, v, tau), residual)
        self._stamp, self._residual, self._codes = stamp, residual[0], self._verdict.item()
        code, height, dropped, _ = self._codes
        self._code = code
        if self._why == BEGUN:
            self._on_contact()
        return Verdict(
            valid=not code,
            contact=height != FREE,
            residual=self._residual,
            reason_code=code,
            dropped_code=dropped,
            is_quiet=not (code or height or dropped or self._why or self._event),
        )

    def complete(self) -> Detection:
        """Return the detection of the last sample that the detector has processed.

        After :meth:`judge` this method estimates the link, the force and the onset of a contact. A
        second call returns the same detection without an event, and so does a call after
        :meth:`update_block`. Before the first sample there is no verdict.
        """
        (why, self._why), (event, self._event) = (self._why, NOTHING), (self._event, None)
        if why != NOTHING:
            event = self._attend(why, self._stamp, self._row[0][0])
        code, height, dropped, row = self._codes
        now = self._events.now if height != FREE else None
        force = self._events.force(self._residual) if now else None
        return Detection(
            stamp=self._stamp,
            valid=not code,
            reason=self._told(code, row if dropped in (VALID, code) else NO_JOINT) if code else "",
            contact=height != FREE,
            level=LEVELS[height],  # type: ignore[arg-type]
            residual=self._residual,
            force=force,
            force_settled=force is not None and self._events.is_settled(self._residual),
            event=event,
            dropped=self._told(dropped, row) if dropped else "",
            reason_code=code,
            dropped_code=dropped,
            **found(now),
        )

    def update_block(
        self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> BlockDetection:
        """Process k samples and return their verdicts, and the events of contacts.

        An event of a sample that :meth:`judge` has processed before is lost, unless
        :meth:`complete` was called.

        Args:
            stamps: times of the samples, (k,) [s]; must increase.
            q: joint positions, (k, nq) [rad or m].
            v: joint velocities, (k, nv) [rad/s or m/s]; None if not measured.
            tau: joint efforts as published, (k, nv), of the kind that ``effort_kind`` declares;
                None if not measured, see :meth:`judge`.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or stamps that do not
                increase. The detector is then unchanged.
        """
        stamps = np.ascontiguousarray(stamps, dtype=float)
        if stamps.ndim != 1:
            raise InputError(f"stamps has shape {stamps.shape}; give (k,)")
        count = stamps.size
        if v is None or tau is None:
            q, shape = configuration(self.model, q)
        else:
            (q, v, tau), shape = state(self.model, q, v=v, tau=tau)
        if shape != stamps.shape:
            raise InputError(f"q, v and tau are {shape} samples but there are {count} stamps")
        self._refuse_old(stamps)
        if self._why != NOTHING:
            self.complete()
        residual, verdict = np.zeros((count, self.model.nv)), np.empty(count, VERDICT)
        threshold = np.full_like(residual, math.inf)
        events: list[tuple[int, ContactEvent]] = []
        if count and (v is None or tau is None):
            advance = self._drop(v is None, stamps, residual, threshold, verdict)
            events = self._events_of(advance, stamps, q, verdict)
        elif count:
            assert v is not None
            assert tau is not None
            advance = self._decision(stamps, q, v, tau, residual, threshold, verdict)
            events = self._events_of(advance, stamps, q, verdict)
        if count:  # for complete()
            self._codes, self._residual, self._event = verdict[-1].item(), residual[-1].copy(), None
        return BlockDetection(
            residual,
            verdict["reason"],
            verdict["level"],
            tuple(events),
            verdict["dropped"],
            verdict["joint"],
            threshold,
        )

    def tool_wrench(self) -> ToolWrench | None:
        """Return the wrench of the environment at ``tool_frame`` in the last valid sample.

        The wrench is estimated from the residual; a tare, a payload or a reset changes the residual
        and with it the wrench.

        Returns:
            The wrench ``[moment; force]``, (6,) [N·m, N], about the origin and along the axes of
            ``tool_frame``, with its covariance, (6, 6); None without a ``tool_frame``, without a
            valid verdict, and if a number is not finite.
        """
        if self._tool is None or self._code != VALID:
            return None
        memory = self._memory
        return self._tool.of_sample(memory.q, memory.residual, self._events.doubt())

    def _set(self, model: Model, parameters: DetectorParameters) -> None:
        """Create everything that depends on the model and the parameters."""
        parameters = with_default_thresholds(parameters, model)
        force_link = parameters.force_link or model.joint_links[-1]
        try:
            is_fixed = model.link_index(force_link) < 0
        except InputError as error:
            raise InputError(f"force_link: {error}") from None
        if is_fixed:
            raise InputError(
                f"force_link: link {force_link!r} is fixed to the world, so no joint can measure a "
                "force on it"
            )
        tool = ToolWrenchEstimator.of(model, parameters) if parameters.tool_frame else None
        observer = parameters.make_observer(model)
        settings = decision_settings(parameters, model, observer, self._tare.bias)
        observer.share(self._memory.observer)
        self._drift.use(settings.joint, parameters.friction(model.nv))
        self._sample = Samples(
            self._stamps, *self._row, *observer.balance.single, self._no_jacobian
        )
        self._observer, self._settings, self._force_link = observer, settings, force_link
        self._judges_force = bool(
            parameters.contact_force_threshold or parameters.collision_force_threshold
        )
        self.model, self.parameters, self._tool = model, parameters, tool
        self.contact_threshold = parameters.for_joints("contact_threshold", model.nv)
        self.collision_threshold = parameters.for_joints("collision_threshold", model.nv)
        noise = residual_noise(parameters.covariance(model.nv), self.contact_threshold)
        isolation = LinkIsolation(model, noise, parameters.force_uncertainty, self._surface)
        self._events.use(model, observer, settings, isolation)

    def _change(self, model: Model, parameters: DetectorParameters) -> None:
        """Apply another model or other parameters from the last sample on."""
        former, memory, settling_time = self._observer, self._memory, self.parameters.settling_time
        last = memory.q, memory.v, memory.effort
        lag = former.lag(*last)
        self._set(model, parameters)
        if self._observer.kind != former.kind:
            self._observer.restart_filter()
        forget_mean(memory)
        forget_rest(memory)
        keep_settled(memory, settling_time)
        # The residual does not jump: the last momentum is recomputed with the new model. The lag of
        # the delayed torque is kept as well; a jump of it would count as an external torque.
        self._observer.begin_interval(*last, lag if self.parameters.velocity_delay > 0.0 else 0.0)

    def _copied(
        self, q: np.ndarray, v: np.ndarray, tau: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return one sample as a block of one, in arrays that the next sample overwrites.

        The copy takes less time than the checks of new arrays.
        """
        row = self._row
        try:
            if q.shape == self._shapes[0] and v.shape == tau.shape == self._shapes[1]:
                row[0][0], row[1][0], row[2][0] = q, v, tau
                return row
        except (AttributeError, TypeError, ValueError):
            pass  # Lists and other types take the path with all checks.
        batch, shape = state(self.model, q, v=v, tau=tau)
        if shape:
            raise InputError(f"update takes one sample, not {shape}; update_block takes many")
        for own, checked in zip(row, batch, strict=True):
            own[:] = checked
        return row

    def _drop(
        self,
        lacks_velocity: bool,
        stamps: np.ndarray,
        residual: np.ndarray,
        threshold: np.ndarray,
        verdict: np.ndarray,
    ) -> Advance:
        """Return the loop that drops samples without velocity or effort, for :meth:`_events_of`."""
        fault = NO_VELOCITY if lacks_velocity else NO_EFFORT
        given = (fault, stamps, self._settings, self._memory, residual, threshold, verdict)
        return lambda k: drop_incomplete(k, *given)

    def _reason_to_attend(
        self, q: np.ndarray, v: np.ndarray, tau: np.ndarray, residual: np.ndarray
    ) -> int:
        """Fill in residual (1, nv) and verdict of one sample, and return why the loop stopped."""
        balance = self._observer.balance.run(q, v, tau)
        if balance.quality.item() == NOT_FINITE:
            state(self.model, q, v=v, tau=tau)  # raises an InputError that names the number
        sample = self._sample
        if self._judges_force:
            sample = sample._replace(jacobian=self._jacobians(q))
        written = (residual, self._threshold, self._verdict)
        arguments = (0, sample, self._settings, self._memory, *written)
        if self._decide is None:
            self._decide = for_types_of(decide, arguments)
        return int(self._decide(*arguments)[1])

    def _decision(
        self,
        stamps: np.ndarray,
        q: np.ndarray,
        v: np.ndarray,
        tau: np.ndarray,
        residual: np.ndarray,
        threshold: np.ndarray,
        verdict: np.ndarray,
    ) -> Advance:
        """Return the loop that decides on complete samples, for :meth:`_events_of`."""
        balance = self._observer.balance.run(q, v, tau)
        if (balance.quality == NOT_FINITE).any():
            state(self.model, q, v=v, tau=tau)  # raises an InputError that names the number
        samples = Samples(stamps, q, v, tau, *balance, self._jacobians(q))
        given = (samples, self._settings, self._memory, residual, threshold, verdict)
        return lambda k: decide(k, *given)

    def _events_of(
        self, advance: Advance, stamps: np.ndarray, q: np.ndarray, verdict: np.ndarray
    ) -> list[tuple[int, ContactEvent]]:
        """Process k samples, fill in their results, and return events with indices.

        Args:
            advance: processes the samples from an index on; it returns the index at which it has
                stopped, and the reason.
            stamps: times of the samples, (k,) [s].
            q: joint positions, (k, nq) [rad or m].
            verdict: (k,) verdicts, which ``advance`` writes.
        """
        events: list[tuple[int, ContactEvent]] = []
        count, k = stamps.shape[0], 0
        while k < count:
            k, why = advance(k)
            if why != NOTHING:
                if why == BEGUN:
                    self._on_contact()
                event = self._attend(why, stamps[k], q[k])
                if event is not None:
                    events.append((k, event))
                k += 1
        self._stamp, self._code = float(stamps[-1]), int(verdict["reason"][-1])
        return events

    def _told(self, code: int, row: int) -> str:
        """Return a reason as text, with the joint of ``row`` if it concerns a joint."""
        first = self.model.nv - len(self.model.joint_names)
        return fault_text(code, self.model.joint_names[row - first] if row >= first else "")

    def _attend(self, why: int, stamp: float, q: np.ndarray) -> ContactEvent | None:
        """Handle the stop of the decision loop at the sample with ``stamp`` [s] and ``q`` (nq,).

        The result is the event of a contact that begins or ends; None while a contact lasts.
        """
        if why == BROKEN_OFF:
            return self._events.end(float(self._memory.arm["ended"][0]))
        if why == ENDED:
            return self._events.end(stamp)
        if why == BEGUN:
            return self._events.begin(stamp, q)
        self._events.look(stamp, q)
        return None

    def _jacobians(self, q: np.ndarray) -> np.ndarray:
        """Return Jacobians of the origin of ``force_link``, (k, 3, nv), or (0, 3, nv) if unused."""
        if not self._judges_force:
            return self._no_jacobian
        return np.ascontiguousarray(frame_jacobian(self.model, q, self._force_link)[:, 3:])

    def _refuse_old(self, stamps: np.ndarray) -> None:
        previous = self._stamp
        if stamps.size == 1:
            if previous < stamps[0] < math.inf:
                return
            first = 0
        else:
            before = np.concatenate([[previous], stamps[:-1]])
            late = np.flatnonzero(~((stamps > before) & (stamps < math.inf)))
            if late.size == 0:
                return
            first = int(late[0])
            previous = float(before[first])
        raise InputError(
            f"stamp {stamps[first]} s must be finite and later than the last one, {previous} s"
        )
