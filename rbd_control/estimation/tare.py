"""Tare: the mean residual, with a time constant of 1 s, is subtracted from all later residuals.

The mean is an exponential average without contact; in the first second of averaging, all times have
equal weight.
"""

from __future__ import annotations

import numpy as np

from rbd_control.dynamics import Model
from rbd_control.errors import InputError
from rbd_control.estimation.decision import ROUNDING, TARE_TIME, forget_mean
from rbd_control.estimation.detector_state import Memory, Settings

STEADY = 0.2
"""Largest difference between the averages of a residual with time constants of 0.2 s and 1 s at
which a tare is accepted, as a fraction of the contact threshold at rest."""


class Tare:
    """The constant torque that the tares of a detector have removed from its residual.

    Args:
        memory: memory of the detector, which contains the mean residual; changed by tares.

    Attributes:
        bias: torque removed since the last :meth:`clear`, (nv,) [N·m or N].
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.bias = np.zeros(memory.joint.size)

    def add_mean(self, settings: Settings) -> None:
        """Add the mean residual to :attr:`bias`, and subtract it from the present residual.

        The average begins anew. Call :meth:`refuse_unsteady` before.

        Args:
            settings: settings of the detector, whose ``bias`` is set.
        """
        mean = self._memory.joint["mean"].copy()
        self.bias += mean
        settings.joint["bias"] = self.bias
        # The filters are linear: this state is the same as if the bias had always been removed.
        self._memory.observer["residual"] -= mean
        self._memory.joint["base"] -= mean
        forget_mean(self._memory)

    def clear(self, settings: Settings) -> None:
        """Set :attr:`bias`, and ``bias`` in the settings of the detector, to zero."""
        self.bias[:] = 0.0
        settings.joint["bias"] = self.bias

    def refuse_unsteady(self, threshold: np.ndarray, model: Model) -> None:
        """Raise an error unless the mean residual is steady and can be removed.

        The residual must have been averaged for 1 s (``TARE_TIME``), and its averages with time
        constants of 0.2 s and 1 s may differ by at most :data:`STEADY` of the threshold.

        Args:
            threshold: contact thresholds at rest, (nv,) [N·m or N].
            model: the robot.

        Raises:
            InputError: if the residual has been averaged for too short a time or still changes; the
                message says how long to wait.
        """
        averaged = float(self._memory.arm["averaged"][0])
        if averaged < TARE_TIME - ROUNDING:
            raise InputError(
                f"cannot tare: the residual has been averaged for {averaged:.2f} s since the last "
                f"start, change or contact and {TARE_TIME:g} s are needed; try again in "
                f"{TARE_TIME - averaged:.2f} s"
            )
        mean, recent = self._memory.joint["mean"], self._memory.joint["recent"]
        change = np.abs(recent - mean) / threshold
        i = int(np.argmax(change))
        if change[i] > STEADY:
            first = model.nv - len(model.joint_names)
            where = model.joint_names[i - first] if i >= first else "the base"
            raise InputError(
                f"cannot tare: the residual of {where} still changes, from "
                f"{mean[i]:.3g} to {recent[i]:.3g} {model.torque_unit(i)}; hold the arm still and "
                f"try again in {TARE_TIME:g} s"
            )
