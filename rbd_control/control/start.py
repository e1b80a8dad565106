"""Start of the control at the arm's position, and restart after a jump of the clock."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.detector_verdict import DetectorVerdict
from rbd_control.control.modes import Modes
from rbd_control.control.planning import Planning
from rbd_control.control.samples import SampleJudge
from rbd_control.control.torque_path import TorquePath
from rbd_control.control.watches import Watches
from rbd_control.errors import InputError

Array = NDArray[np.float64]


class Start:
    """Starts and restarts the control of one arm.

    Args:
        samples, verdict, modes, planning, path: parts of the controller that a start resets.
        watches: checks for the conditions of a start.
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

    def start(self, stamp: float, q: Array, v: Array | None, now: float) -> None:
        """Hold the arm at its present position.

        Args:
            stamp: time of the sample [s].
            q, v: measured, (nv,) each [rad or m, rad/s or m/s]; ``v`` None if it is missing.
            now: time on the steady clock [s].

        Raises:
            InputError: without a plausible position and velocity; without effort limits; if the
                motors cannot hold the weight of the arm with its payload here; without a verdict if
                a detector is required.
        """
        self._modes.end()
        self._limits.require_effort()
        self._watches.require_verdict("start", now)
        self._samples.reset()
        refusal = self._samples.take(stamp, q, v, now)
        if refusal:
            raise InputError(f"cannot start: {refusal}")
        self._law.take_estimates()
        self._limits.require_weight(self._law.weight(self._samples.q))
        self.here()
        self._verdict.forget_force()
        self._watches.reset()
        self._clock_jumped = False
        self._modes.start()
        self._path.zero()
        self._law.tank.reset()

    def clock_went_back(self) -> None:
        """Restart with the next sample, at any stamp."""
        self._clock_jumped = True
        self._samples.lose()
        self._samples.repetition.reset()
        self._law.tank.skip()

    def check(self, follows: bool) -> None:
        """Check the gap before a valid sample, and restart after a jump of the clock.

        Args:
            follows: whether the previous sample was valid.
        """
        if follows or self._clock_jumped:
            self._watches.gap()
        if self._clock_jumped:
            self._clock_jumped = False
            self.here()
            self._modes.start_again()

    def here(self) -> None:
        """Open the soft limits to the arm's position; discard data in former coordinates."""
        self._soft.open_to(self._samples.q)
        self._planning.forget_stream()
