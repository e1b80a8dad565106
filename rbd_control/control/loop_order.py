"""The order to measure the control loop, see :mod:`~rbd_control.control.loop_measurement`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.drive_response import DriveFault
from rbd_control.control.loop_measurement import LoopMeasurement
from rbd_control.control.loop_result import LoopResult
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.safe_torque import STILL
from rbd_control.control.samples import SampleJudge
from rbd_control.errors import InputError

Array = NDArray[np.float64]


class LoopOrder:
    """Measures the loop of one arm on request, while the arm is held.

    Call :meth:`set_parts` before all other methods.

    Args:
        samples, motion, modes, verdict: parts of the controller that the order reads.

    Attributes:
        result: the last result; None before the first measurement has ended.
    """

    def __init__(
        self, samples: SampleJudge, motion: Motion, modes: Modes, verdict: DetectorVerdict
    ) -> None:
        self._samples, self._motion = samples, motion
        self._modes, self._verdict = modes, verdict
        self._running: LoopMeasurement | None = None
        self.result: LoopResult | None = None

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use other parts from now on; a measurement ends."""
        self._parts = parts
        self._end("the parameters changed")

    @property
    def is_running(self) -> bool:
        """Whether a measurement is in progress."""
        return self._running is not None

    def begin(self) -> None:
        """Begin a measurement.

        Raises:
            InputError: with the reason, unless the arm is held at rest without contact, and no
                measurement is in progress.
        """
        if self._running is not None:
            raise InputError("cannot measure the loop: a measurement is in progress")
        obstacle = self._obstacle()
        if not obstacle and not float(np.abs(self._samples.v).max()) < STILL:
            obstacle = "the arm moves; wait until it stands"
        if obstacle:
            raise InputError(f"cannot measure the loop: {obstacle}")
        limits = self._parts.limits
        self._running = LoopMeasurement(
            self._parts.model, limits.effort, limits.torque_rate, self._parts.parameters
        )

    def torque(self, sent: Array, effort: Array | None) -> tuple[Array | None, DriveFault | None]:
        """Process the last sample.

        Args:
            sent: (nv,) command until this sample [N·m or N].
            effort: (nv,) measured torque [N·m or N], or None.

        Returns:
            The torque to add to the torque of the law, (nv,) [N·m or N], or None; and a drive that
            acts against its command, or None.
        """
        self.check()
        running, samples = self._running, self._samples
        if running is None:
            return None, None
        torque = running.take(samples.stamp, samples.q, samples.v, sent, effort)
        if running.result is None:
            return torque, None
        self._end("")
        if running.reversed_joint is None:
            return None, None
        return None, DriveFault((running.reversed_joint,), running.result.ended)

    def check(self) -> None:
        """End a measurement that the mode or a contact does not permit any more."""
        if self._running is not None:
            obstacle = self._obstacle()
            if obstacle:
                self._end(obstacle)

    def _end(self, reason: str) -> None:
        """Store the result of a measurement that is in progress."""
        running, self._running = self._running, None
        if running is not None:
            running.end(reason)
            self.result = running.result

    def _obstacle(self) -> str:
        """Return why a measurement is not possible now, or an empty text."""
        if self._modes.mode == "safe":
            return f"the mode is safe ({self._modes.reason})"
        if self._modes.mode != "hold" or self._motion.moving:
            return "the arm is not held at a point; call ~/hold first"
        if self._verdict.contact(self._samples.now):
            return "the contact detector reports contact"
        return ""
