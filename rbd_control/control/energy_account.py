"""The energy balance of each period between samples, from the parts of the controller."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.energy import EnergyBalance
from rbd_control.control.modes import Modes
from rbd_control.control.motion import Motion
from rbd_control.control.samples import SampleJudge
from rbd_control.control.torque_path import TorquePath
from rbd_control.errors import InputError

Array = NDArray[np.float64]


class EnergyAccount:
    """Computes the energy balance of each period, and restarts it where it cannot continue.

    It restarts after a jump of the desired motion, and after a sample for which :meth:`balance`
    returned None.

    Args:
        samples, motion, modes, path: parts of the controller, which are only read.
    """

    def __init__(
        self, samples: SampleJudge, motion: Motion, modes: Modes, path: TorquePath
    ) -> None:
        self._samples, self._motion, self._modes, self._path = samples, motion, modes, path
        self._jumps = -1
        """Count of jumps of the motion at the last sample in the balance; -1 for a restart."""

    def set_parts(self, parts: ConfiguredParts) -> None:
        """Use the parts for new parameters from the next sample on."""
        self._law = parts.law
        # Arms that compensate gravity measure torque with their weight (Franka) or without (UR).
        # The measured torque of an arm that compensates friction may contain this compensation.
        parameters = parts.parameters
        self._uses_sent = parameters.gravity_compensated or parameters.friction_compensated

    def balance(self, effort: Array | None) -> EnergyBalance | None:
        """Return the energies of the period before the last sample; call it once for each sample.

        Args:
            effort: measured torque of the motors, (nv,) [N·m or N]; without it, and for an arm that
                compensates its gravity or friction, the sent torque is used.

        Returns:
            The energies. None if the last command did not track a desired motion under the control
            law with the present parameters, if the last sample is the first, is the first after a
            loss of joint states or repeats a stamp, or if ``effort`` is used and has the wrong
            shape or is not finite.
        """
        samples, law = self._samples, self._law
        if not self._path.is_tracking or samples.dt <= 0.0:
            self._jumps = -1
            return None
        if self._jumps != self._motion.jumps:
            self._jumps = self._motion.jumps
            law.jump()
        acting = self._path.acted if effort is None or self._uses_sent else effort
        try:
            return law.balance(
                samples.stamp, samples.q, samples.v, self._modes.desired, acting, samples.dt
            )
        except InputError:  # The effort is missing for a joint, or is not finite.
            self._jumps = -1
            return None
