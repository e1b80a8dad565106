"""A check of joint states by itself, without the checks before it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from rbd_control.control.drive_response import CERTAIN
from rbd_control.control.samples import CHECKS, Late
from rbd_control.control.watches import Observed
from rbd_control.dynamics import Model, mass_matrix
from rbd_control.joint_states.checks import PASSED, Check, Checks, Finding, Sample, make_settings

SETTINGS = {
    "implausible_jump": 0.1,
    "timeout": 0.05,
    "delay_growth": 0.0,
    "repeated_time": 0.02,
    "velocity_mismatch": 0.005,
}
"""Settings of the arm."""


def compiled(kind: type[Check]) -> Any:
    """Return the test of a check as a function that Python can call."""
    return _compiled(kind.test)


@cache
def _compiled(test: Any) -> Any:

    def run(what: Any, settings: Any, memory: Any) -> Any:
        return test(what, settings, memory)

    return njit(error_model="numpy")(run)


class LoneCheck:
    """One check of joint states; the sample before was valid as far as the others know.

    Args:
        kind: the check.
        names: names of the joints.
        speed: highest plausible speeds.
        turn: periods of the positions.
        settings: settings of the arm that differ from :data:`SETTINGS`.
    """

    def __init__(
        self,
        kind: type[Check],
        names: tuple[str, ...] = ("joint",),
        speed: Any = np.inf,
        turn: Any = 0.0,
        **settings: float,
    ) -> None:
        self.kind, self.names = kind, names
        joint = {"highest_speed": speed, "turn": turn}
        self.settings = make_settings(len(names), joint, SETTINGS | settings)
        self.memory = Checks(CHECKS, len(names)).memory
        self.memory.arm["gap"] = 0.0

    def take(self, stamp: float, q: Any, v: Any, effort: Any = None) -> str:
        """Return the sentence if the check fails for a sample, otherwise an empty text."""
        n = len(self.names)
        position, velocity = np.array(q, dtype=float), np.array(v, dtype=float)
        measured = np.full(n, np.nan) if effort is None else np.array(effort, dtype=float)
        sample = Sample(float(stamp), float(stamp), position, velocity, measured)
        joint = int(compiled(self.kind)(sample, self.settings, self.memory))
        if joint == PASSED:
            return ""
        return self.kind.sentence(Finding(self.names, joint, self.settings, self.memory))

    def delay(self, stamp: float, now: float) -> float:
        """Return the delay of a joint state beyond the least delay before it [s]."""
        zero = np.zeros(len(self.names))
        compiled(Late)(Sample(stamp, now, zero, zero, zero), self.settings, self.memory)
        return float(self.memory.arm["excess"][0])


class LoneWatch:
    """One check of the arm's motion; arguments as of :class:`LoneCheck`."""

    def __init__(self, kind: type[Check], model: Model, **joint: Any) -> None:
        self.kind, self.model = kind, model
        self.settings = make_settings(model.nv, joint, {})
        self.memory = Checks((kind,), model.nv).memory

    def take(
        self,
        dt: float = 0.001,
        now: float = 0.0,
        v: Any = None,
        acting: Any = None,
        demanded: Any = None,
    ) -> str:
        """Return the sentence if the check fails for a sample, otherwise an empty text.

        Args:
            dt, now, v, acting: see :class:`~rbd_control.control.watches.Observed`.
            demanded: torque that the desired acceleration demands, (n,) [N·m].
        """
        zero, packed = np.zeros(self.model.nv), self.model.packed
        a_d = zero
        if demanded is not None:
            a_d = np.linalg.solve(mass_matrix(self.model, zero), demanded)
        v, acting = zero if v is None else v, zero if acting is None else acting
        motion = Observed(
            dt, now, zero, v, False, zero, acting, a_d, False, packed, packed, CERTAIN
        )
        joint = int(compiled(self.kind)(motion, self.settings, self.memory))
        if joint == PASSED:
            return ""
        found = Finding(self.model.joint_names, joint, self.settings, self.memory)
        return self.kind.sentence(found)
