"""Which joint states can be believed."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rbd_control.control.controller_parameters import ControllerParameters
from rbd_control.control.kernels import PLAUSIBLE, first_implausible
from rbd_control.dynamics import Model

Array = NDArray[np.float64]


class Repeats:
    """Tells joint states that go on from those that only their stamps do.

    Args:
        parameters: of which ``repeated_time`` and ``repeated_time_at_rest`` are used.
    """

    def __init__(self, parameters: ControllerParameters) -> None:
        self._longest = (parameters.repeated_time_at_rest, parameters.repeated_time)
        self.reset()

    def reset(self) -> None:
        """Compare the next sample with none."""
        self._last: tuple[bytes, ...] = ()
        self._since = self._stamp = 0.0
        self._moving = False

    def update(self, stamp: float, *values: Array | None) -> None:
        """Take a sample: velocities first, then all else that it has."""
        as_bytes = tuple(b"" if x is None else x.tobytes() for x in values)
        if as_bytes != self._last:
            self._last, self._since = as_bytes, stamp
            self._moving = any(as_bytes[0])
        self._stamp = stamp

    @property
    def time(self) -> float:
        """For how long the sample has been the same [s]; 0 while that is no longer than it may."""
        time = self._stamp - self._since
        return time if time >= self._longest[self._moving] else 0.0


class Plausibility:
    """Tells joint states that an arm can have from those it cannot.

    Args:
        model: the arm, with its speed limits.
        parameters: of which ``speed_factor`` and ``jump_tolerance`` are used.
    """

    def __init__(self, model: Model, parameters: ControllerParameters) -> None:
        self._names = model.joint_names
        self._shape = (model.nv,)
        self._fastest = parameters.speed_factor * model.velocity_limit
        self._jump = parameters.jump_tolerance

    def refusal(
        self, stamp: float, q: Array, v: Array | None, last: tuple[float, Array] | None
    ) -> str:
        """Why a sample cannot be used, or an empty text; ``last`` is the stamp and q before it."""
        if v is None:
            return "joint states carry no velocity"
        if np.shape(q) != self._shape or np.shape(v) != self._shape:
            n = self._shape[0]
            return f"joint states of shape {np.shape(q)} and {np.shape(v)}; the arm has {n} joints"
        before, elapsed = (q, 0.0) if last is None else (last[1], stamp - last[0])
        found = first_implausible(q, v, before, self._fastest, self._jump, max(elapsed, 0.0))
        if found == PLAUSIBLE and isfinite(stamp):
            return ""
        if found < 0:
            return "joint states are not finite"
        n = self._shape[0]
        name, i = self._names[found % n], found % n
        if found < n:
            return f"{name} at a speed of {v[i]:.4g} is implausible"
        return f"{name} jumped by {abs(q[i] - before[i]):.4g}"
