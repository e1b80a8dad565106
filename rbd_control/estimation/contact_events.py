"""Onset and release events of contacts, with link, force, point and onset time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.estimation.detection import ContactEvent
from rbd_control.estimation.detector_state import (
    COLLISION,
    LEVELS,
    Memory,
    Settings,
    recent_residuals,
)
from rbd_control.estimation.isolation import Isolation, LinkIsolation, found
from rbd_control.estimation.observers import Observer
from rbd_control.estimation.onset import Onset, estimate_onset
from rbd_control.estimation.residual_doubt import jolt_doubt, residual_doubt

NEAR_PEAK = 0.9
"""Fraction of the highest ratio of residual to threshold from which a sample counts as the peak."""


class ContactEvents:
    """Creates the onset and release events of one detector, one contact after the other.

    Call :meth:`use` before the first contact. To isolate a contact means to estimate its link,
    point and force from the residuals, the estimated external joint torques.

    Args:
        memory: memory of the detector; read only.

    Attributes:
        open: onset event of the present contact with its latest estimates; None without contact.
        now: the last isolation of the present contact; None without contact.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._count = 0
        self._peak = np.zeros(memory.joint.size)
        self._height = 0.0  # ratio of this peak to the threshold
        self._has_risen = False  # whether the torque was there before the first residual
        self._average = 0  # number of the average of the isolation to which the peak belongs
        self.open: ContactEvent | None = None
        self.now: Isolation | None = None

    def use(
        self, model: Model, observer: Observer, settings: Settings, isolation: LinkIsolation
    ) -> None:
        """Apply another model or other parameters; an open contact stays open.

        Link and force of its event change only when the residual again comes near its peak.

        Args:
            model: the robot.
            observer: the observer of the residuals.
            settings: settings of the compiled decision.
            isolation: estimator of link, point and force.
        """
        self._model, self._observer = model, observer
        self._settings, self._isolation = settings, isolation
        self._average = 0

    def force(self, residual: np.ndarray) -> np.ndarray | None:
        """Return the force on the touched link for another residual of the present contact.

        Args:
            residual: external joint torques, (nv,) [N·m or N].

        Returns:
            The force at the link and place of the last isolation, (3,) world axes [N]; None without
            contact, and where the force is not observable.
        """
        return None if self.now is None else self._isolation.force(residual)

    def begin(self, stamp: float, q: np.ndarray) -> ContactEvent:
        """Open the contact that is detected with the present sample, and return its onset event.

        Args:
            stamp: time of this sample, which is the time of detection [s]; the estimated onset is
                not later.
            q: joint positions at this sample, (nq,) [rad or m].
        """
        joint = self._settings.joint
        stamps, residuals = recent_residuals(self._memory)
        onset = estimate_onset(stamps, residuals, self._observer, 1.0 / joint["contact_threshold"])
        # A contact that was there before the first of these samples shows its whole torque.
        self._has_risen = bool((np.abs(residuals[0]) > self._memory.joint["threshold"]).any())
        if self._has_risen:
            onset = Onset(float(stamps[0]), math.nan)
        self._height = float(self._memory.arm["peak"][0])
        self._peak = self._memory.residual
        # The few milliseconds since the onset have hardly changed the velocity.
        self._isolation.begin(q, self._memory.v)
        self.now = self._look(stamp, q, self._peak, onset.stamp)
        self._average = self._isolation.average
        self._count += 1
        self.open = self._with_peak(
            ContactEvent(
                id=self._count,
                phase="onset",
                level="contact",
                onset=onset.stamp,
                detected=float(stamp),
                release=None,
                joint="",
                peak_torque=0.0,
                force=self.now.force,
                onset_uncertainty=onset.uncertainty,
                **found(self.now),
            ),
            int(self._memory.arm["level"][0]),
        )
        return self.open

    def look(self, stamp: float, q: np.ndarray) -> None:
        """Isolate the open contact again, with the residual of the last sample.

        A contact must be open. The events describe the highest peak of the residual. If the average
        of the residuals has begun anew since this peak, because a hand has moved to another link,
        link and force of the peak remain as they were.

        Args:
            stamp: time of the last sample [s].
            q: joint positions at this sample, (nq,) [rad or m].
        """
        assert self.open is not None
        self.now = self._look(stamp, q, self._memory.residual, self.open.onset)
        self._take_peak(looks=True)
        if self._average == self._isolation.average:
            force = self._isolation.force(self._peak)
            self.open = replace(self.open, force=force, **found(self.now))

    def end(self, release: float) -> ContactEvent | None:
        """Close the open contact at ``release`` [s]; return its event, or None if none is open."""
        if self.open is None:
            return None
        event = self._with_peak(self.open, int(self._memory.arm["height"][0]))
        self._take_peak(looks=False)
        if self._average == self._isolation.average:
            event = replace(event, force=self._isolation.force(self._peak))
        self.open = self.now = None
        # Repeated samples end a contact at the first of them, which may precede the detection.
        return replace(event, phase="release", release=max(float(release), event.detected))

    def _take_peak(self, *, looks: bool) -> None:
        """Store the residuals of a higher peak, unless the last residual is of another push.

        A look near the peak shows it with less noise than the highest sample. If no look came near
        it, the residuals of the highest sample are stored.

        Args:
            looks: whether the contact was isolated with the last sample.
        """
        if self._isolation.is_turned:
            return
        height = NEAR_PEAK * float(self._memory.arm["peak"][0])
        residual = self._memory.residual
        present = float((np.abs(residual) / self._memory.joint["threshold"]).max())
        if looks and present >= height:
            self._height, self._peak = present, residual
        elif self._height < height:
            self._height = height / NEAR_PEAK
            self._peak = self._memory.joint["peak"].copy()
        else:
            return
        self._average = self._isolation.average

    def _look(self, stamp: float, q: np.ndarray, residual: np.ndarray, onset: float) -> Isolation:
        """Isolate the contact with the residual (nv,); ``onset`` is its onset [s].

        If the residual is beyond the range of any arm, the result is the link of the joint with the
        highest ratio of residual to threshold, without force and point.
        """
        risen = self._observer.risen(stamp - onset)
        if self._has_risen:
            risen = np.ones_like(risen)
        try:
            hard = bool(self._memory.arm["level"][0] == COLLISION)
            doubt = self.doubt()
            if hard:
                noise = self._isolation.noise
                jolt = jolt_doubt(self._model, q, self._memory, noise, stamp - onset)
                doubt = np.hypot(doubt, jolt)
            return self._isolation.look(q, residual, risen, doubt, hard=hard)
        except np.linalg.LinAlgError:
            self._isolation.begin()
            first = self._model.nv - len(self._model.joint_names)
            row = max(int(self._memory.arm["peak_joint"][0]) - first, 0)
            link, links = self._model.joint_links[row], self._model.body_links
            return Isolation(link, links, math.nan, None, None, math.nan)

    def _with_peak(self, event: ContactEvent, level: int) -> ContactEvent:
        """Return the event with ``level``, and with joint and residual of the peak so far."""
        arm = self._memory.arm[0]
        joints = self._model.joint_names
        joint = max(int(arm["peak_joint"]) - (self._model.nv - len(joints)), 0)
        return replace(
            event,
            level=LEVELS[level],  # type: ignore[arg-type]
            joint=joints[joint],
            peak_torque=float(arm["peak_torque"]),
        )

    def doubt(self) -> np.ndarray:
        """Return the standard deviation that the motion adds to each residual, (nv,) [N·m or N].

        It is the effect of friction at reversals and of model errors that grow with the speed.
        """
        return residual_doubt(self._settings, self._memory)
