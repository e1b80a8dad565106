"""Whether the motors can still hold the arm after a change of the running controller.

The change may concern torque limits, the payload, or the estimates of the adaptive law. Gravity
torques are compared with the torque limits at the positions of the last valid sample and along the
rest of the trajectory that the arm follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.arm_limits import ArmLimits
from rbd_control.control.configured_parts import ConfiguredParts
from rbd_control.control.estimates import Estimates
from rbd_control.control.planning import Planning
from rbd_control.control.samples import SampleJudge
from rbd_control.dynamics import Model, gravity_torque
from rbd_control.errors import InputError, TrajectoryError

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
