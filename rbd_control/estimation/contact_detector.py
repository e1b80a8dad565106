"""From joint states to a verdict: contact, no contact, or no verdict at all.

A contact begins when a joint's residual has stayed above its threshold for ``onset_debounce``, and
ends when every residual has stayed below ``release_ratio`` of its threshold for
``release_debounce``. It is a collision from the sample on that any residual passes its collision
threshold. Doubt is its own answer: without effort or velocity, after a gap, while the observer
settles, when samples repeat, jump or saturate the detection is not valid, which is not the same as
"no contact".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model, frame_jacobian
from rbd_control.dynamics.arguments import configuration, state
from rbd_control.errors import InputError
from rbd_control.estimation.decision import (
    BEGUN,
    BROKEN_OFF,
    ENDED,
    LOOK_AT_PEAK,
    NOTHING,
    decide,
    restart,
)
from rbd_control.estimation.detection import BlockDetection, ContactEvent, Detection
from rbd_control.estimation.detector_parameters import DetectorParameters
from rbd_control.estimation.detector_settings import arm_rules, joint_settings
from rbd_control.estimation.detector_state import (
    FREE,
    HISTORY,
    LEVELS,
    NO_EFFORT,
    NO_VELOCITY,
    REASONS,
    SETTLING,
    TRACES_ROWS,
    VALID,
    Memory,
    memory_of,
    new_memory,
    remembered,
    settings_of,
    traces_of,
)
from rbd_control.estimation.isolation import Isolation, LinkIsolation, found, residual_noise
from rbd_control.estimation.momentum_balance import NOT_FINITE, Balance
from rbd_control.estimation.onset import Onset, estimate_onset

REVERSED = 0.14
"""Standard deviation of what a reversal adds, as a part of what thresholds allow for it."""
FAST = 0.15
"""The same of what speed adds."""


class ContactDetector:
    """Momentum observer, thresholds and events for one arm, fed sample by sample or in blocks.

    However samples are cut into blocks, the verdicts are the same to the last bit.

    Args:
        model: the robot.
        parameters: see :class:`~rbd_control.estimation.DetectorParameters`.
        on_contact: called as soon as a contact has begun, before its link, force and start are
            worked out, which takes longer than all else; it may not use the detector.

    Raises:
        ParameterError: for a per-joint parameter of the wrong length.
        InputError: for a ``force_link`` that the model lacks.
    """

    def __init__(
        self,
        model: Model,
        parameters: DetectorParameters,
        on_contact: Callable[[], None] = lambda: None,
    ) -> None:
        n = model.nv
        self._on_contact = on_contact
        self._contacts = 0
        self._bias = np.zeros(n)
        self._traces = np.zeros((TRACES_ROWS, n))
        self._stamps, self._codes = np.empty(1), np.empty((2, 1), dtype=np.int8)
        self._row = np.empty((1, model.nq)), np.empty((1, n)), np.empty((1, n))
        self._none = np.empty((0, 3, n))
        self._history = np.zeros((HISTORY, 1 + n + model.nq))
        self._set(model, parameters)
        self._open: ContactEvent | None = None
        self._now: Isolation | None = None
        self._start()

    def reset(self) -> ContactEvent | None:
        """Start the observer again, as with a clock that may be another.

        Returns:
            The release of the contact that was open, at the last sample; None without one.
        """
        event = self._break_off(self._stamp)
        self._start()
        return event

    def _start(self) -> None:
        self._traces[:] = 0.0
        self._memory = new_memory()
        self._last_q = np.zeros(self.model.nq)
        self._stamp = -math.inf
        self._code = SETTLING

    @property
    def bias(self) -> np.ndarray:
        """What tares have taken off so far, (nv,) [N·m or N]."""
        return self._bias.copy()

    def tare(self) -> np.ndarray:
        """Take the mean residual of the last moment off from now on, and return all taken off.

        Raises:
            InputError: while there is no valid contact-free verdict to take it from.
        """
        if self._code != VALID or self._open is not None:
            raise InputError("cannot tare: the detector is not in a valid state without contact")
        traces = traces_of.py_func(self._traces)
        self._bias += traces.mean
        # The filters are linear: they stand where they would had it been off all along.
        traces.filter[0] -= traces.mean
        traces.mean[:] = 0.0
        return self.bias

    def set_parameters(self, parameters: DetectorParameters) -> None:
        """Go on with other parameters; tare, open contact and validity stay.

        Raises:
            ParameterError: for a per-joint parameter of the wrong length; nothing is changed then.
        """
        self._change(self.model, parameters)

    def set_model(self, model: Model) -> None:
        """Go on with another model of the same arm, one with a payload for instance.

        The residual does not jump: the momentum of the last sample is taken of the new model too.

        Raises:
            InputError: when the model has other joints.
        """
        if model.joint_names != self.model.joint_names or model.nq != self.model.nq:
            raise InputError(
                f"the model has joints {', '.join(model.joint_names)} but the detector was made "
                f"for {', '.join(self.model.joint_names)}"
            )
        self._change(model, self.parameters)

    def update(
        self, stamp: float, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> Detection:
        """Judge one sample.

        Args:
            stamp: time of the sample [s]; must increase.
            q: joint positions, (nq,) [rad or m].
            v: joint velocities, (nv,) [rad/s or m/s]; None when not measured.
            tau: joint efforts, (nv,), what ``effort_kind`` says; None when not measured.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or a stamp that does not
                increase.
        """
        stamps, (reason, level), residual = self._stamps, self._codes, np.zeros((1, self.model.nv))
        stamps[0] = stamp
        self._refuse_old(stamps)
        if v is None or tau is None:
            configuration(self.model, q)
            events = self._lose("velocity" if v is None else "effort", stamps, reason, level)
        else:
            row = self._copied(q, v, tau)
            balance = self._balance.run(*row)
            if balance.quality[0] == NOT_FINITE:
                self._refuse_not_finite(*row)
            events = self._judge(stamps, *row, balance, residual, reason, level)
        code, height = reason[0], level[0]
        now = self._now if height != FREE else None
        return Detection(
            stamp=stamp,
            valid=not code,
            reason=REASONS[code],
            contact=height != FREE,
            level=LEVELS[height],  # type: ignore[arg-type]
            residual=residual[0],
            force=self._isolation.force(residual[0]) if now else None,
            event=events[0][1] if events else None,
            **found(now),
        )

    def update_block(
        self, stamps: np.ndarray, q: np.ndarray, v: np.ndarray | None, tau: np.ndarray | None
    ) -> BlockDetection:
        """Judge k samples.

        Args:
            stamps: times of the samples, (k,) [s]; must increase.
            q: joint positions, (k, nq) [rad or m].
            v: joint velocities, (k, nv) [rad/s or m/s]; None when not measured.
            tau: joint efforts, (k, nv), what ``effort_kind`` says; None when not measured.

        Raises:
            InputError: for arguments of the wrong shape or not finite, or stamps that do not
                increase. The detector then is as it was before.
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
        residual = np.zeros((count, self.model.nv))
        reason, level = np.empty(count, dtype=np.int8), np.empty(count, dtype=np.int8)
        events: list[tuple[int, ContactEvent]] = []
        if count and (v is None or tau is None):
            events = self._lose("velocity" if v is None else "effort", stamps, reason, level)
        elif count:
            assert v is not None
            assert tau is not None
            balance = self._balance.run(q, v, tau)
            if (balance.quality == NOT_FINITE).any():
                self._refuse_not_finite(q, v, tau)
            events = self._judge(stamps, q, v, tau, balance, residual, reason, level)
        return BlockDetection(residual, reason, level, tuple(events))

    def _set(self, model: Model, parameters: DetectorParameters) -> None:
        """Everything that follows from the model and the parameters."""
        force_link = parameters.force_link or model.joint_links[-1]
        model.link_index(force_link)
        observer = parameters.make_observer(model)
        settings = joint_settings(parameters, model, observer.design, self._bias)
        self._balance = parameters.balance(model)
        self._observer, self._settings, self._force_link = observer, settings, force_link
        self._bias = settings_of.py_func(settings).bias
        self._rules = arm_rules(parameters)
        self._judges_force = bool(
            parameters.contact_force_threshold or parameters.collision_force_threshold
        )
        self.model, self.parameters = model, parameters
        self.contact_threshold = parameters.for_joints("contact_threshold", model.nv)
        self.collision_threshold = parameters.for_joints("collision_threshold", model.nv)
        noise = residual_noise(parameters.covariance(model.nv), self.contact_threshold)
        self._isolation = LinkIsolation(model, noise, parameters.force_uncertainty)

    def _change(self, model: Model, parameters: DetectorParameters) -> None:
        kind = self._observer.kind
        self._set(model, parameters)
        traces = traces_of.py_func(self._traces)
        if self._observer.kind != kind:
            traces.filter[1:] = 0.0
        # The next interval begins at the last sample: momentum and rate there, of the new model.
        p, rate, _ = self._balance.run(self._last_q[None], traces.v[None], traces.effort[None])
        traces.p[:], traces.rate[:] = p[0], rate[0]

    def _copied(
        self, q: np.ndarray, v: np.ndarray, tau: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One sample as a block: a copy costs less than all that one may ask of an array."""
        row = self._row
        shapes = row[0].shape[1:], row[1].shape[1:], row[2].shape[1:]
        try:
            if (q.shape, v.shape, tau.shape) == shapes:
                row[0][0], row[1][0], row[2][0] = q, v, tau
                return row
        except (AttributeError, TypeError, ValueError):
            pass  # lists, texts: asked after all
        batch, shape = state(self.model, q, v=v, tau=tau)
        if shape:
            raise InputError(f"update takes one sample, not {shape}; update_block takes many")
        return batch[0], batch[1], batch[2]

    def _lose(
        self, what: str, stamps: np.ndarray, reason: np.ndarray, level: np.ndarray
    ) -> list[tuple[int, ContactEvent]]:
        """Samples that lack ``what``: there is no verdict, and the observer starts again."""
        event = self._break_off(self._stamp)
        restart.py_func(traces_of.py_func(self._traces), memory_of.py_func(self._memory))
        reason[:] = NO_VELOCITY if what == "velocity" else NO_EFFORT
        level[:] = FREE
        self._stamp, self._code = float(stamps[-1]), int(reason[-1])
        return [(0, event)] if event is not None else []

    def _judge(
        self,
        stamps: np.ndarray,
        q: np.ndarray,
        v: np.ndarray,
        tau: np.ndarray,
        balance: Balance,
        residual: np.ndarray,
        reason: np.ndarray,
        level: np.ndarray,
    ) -> list[tuple[int, ContactEvent]]:
        """Fill in residuals, reasons and levels, and return the events."""
        events: list[tuple[int, ContactEvent]] = []
        count = stamps.shape[0]
        jacobians = self._jacobians(q)
        k = 0
        while k < count:
            k, what = decide(
                k,
                stamps,
                q,
                v,
                tau,
                *balance,
                self._observer.kind,
                self._settings,
                self._rules,
                self._traces,
                self._last_q,
                self._memory,
                self._history,
                jacobians,
                residual,
                reason,
                level,
            )
            if what != NOTHING:
                event = self._attend(what, stamps[k], q[k], residual[k])
                if event is not None:
                    events.append((k, event))
                k += 1
        self._stamp, self._code = float(stamps[-1]), int(reason[-1])
        return events

    def _refuse_not_finite(self, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> None:
        state(self.model, q, v=v, tau=tau)  # it knows what to say of numbers that are not finite
        raise InputError("the momentum of a sample is not finite: its numbers are too large")

    def _jacobians(self, q: np.ndarray) -> np.ndarray:
        """Those of the point whose force is judged, (k, 3, nv), or none."""
        if not self._judges_force:
            return self._none
        return np.ascontiguousarray(frame_jacobian(self.model, q, self._force_link)[:, 3:])

    def _refuse_old(self, stamps: np.ndarray) -> None:
        previous = self._stamp
        if stamps.size == 1:
            if stamps[0] > previous:
                return
            first = 0
        else:
            before = np.concatenate([[previous], stamps[:-1]])
            late = np.flatnonzero(~(stamps > before))
            if late.size == 0:
                return
            first = int(late[0])
            previous = float(before[first])
        raise InputError(f"stamp {stamps[first]} s does not lie after the last one, {previous} s")

    def _attend(
        self, what: int, stamp: float, q: np.ndarray, residual: np.ndarray
    ) -> ContactEvent | None:
        """Do what the loop stopped for."""
        memory = memory_of.py_func(self._memory)
        if what == BROKEN_OFF:
            return self._break_off(float(memory.ended[0]))
        if what == BEGUN:
            self._on_contact()
            onset = self._onset()
            risen = self._observer.risen(stamp - onset.stamp)
            self._now = self._isolation.isolate(q, residual, risen, self._doubt())
            self._peak = residual.copy()
            self._contacts += 1
            self._open = ContactEvent(
                id=self._contacts,
                phase="onset",
                level="contact",
                onset=onset.stamp,
                detected=float(stamp),
                release=None,
                joint="",
                peak_torque=0.0,
                force=self._now.force,
                onset_uncertainty=onset.uncertainty,
                **found(self._now),
            )
            self._open = self._at_peak(memory, LEVELS[int(memory.level[0])])
            return self._open
        if what == ENDED:
            return self._break_off(float(stamp))
        assert self._open is not None
        risen = self._observer.risen(stamp - self._open.onset)
        self._now = self._isolation.look(q, residual, risen, self._doubt())
        if what == LOOK_AT_PEAK:
            self._peak = residual.copy()
        force = self._isolation.force(self._peak)
        self._open = replace(self._open, force=force, **found(self._now))
        return None

    def _at_peak(self, memory: Memory, level: str) -> ContactEvent:
        """The open contact with its peak so far."""
        assert self._open is not None
        first = self.model.nv - len(self.model.joint_names)
        joint = max(int(memory.peak_joint[0]) - first, 0)
        return replace(
            self._open,
            level=level,  # type: ignore[arg-type]
            joint=self.model.joint_names[joint],
            peak_torque=float(memory.peak_torque[0]),
        )

    def _break_off(self, release: float) -> ContactEvent | None:
        """End the open contact at ``release``, the last moment it was known to last."""
        if self._open is None:
            return None
        memory = memory_of.py_func(self._memory)
        event = replace(
            self._at_peak(memory, LEVELS[int(memory.height[0])]), phase="release", release=release
        )
        self._open = self._now = None
        return event

    def _doubt(self) -> np.ndarray:
        """Standard deviation of what reversals and speed add to each residual, (nv,)."""
        n = self.model.nv
        moving, per_speed = (
            self.parameters.for_joints(name, n) for name in ("moving_ratio", "threshold_speed")
        )
        traces = traces_of.py_func(self._traces)
        reversing = REVERSED * traces.reversal * (1.0 - moving) * self.contact_threshold
        return np.hypot(reversing, FAST * per_speed * traces.speed)

    def _onset(self) -> Onset:
        """When the contact that has just been detected really began."""
        history = remembered(self._history, memory_of.py_func(self._memory))
        stamps, residuals = history[:, 0], history[:, 1 : 1 + self.model.nv]
        return estimate_onset(stamps, residuals, self._observer, 1.0 / self.contact_threshold)
