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
