"""Faults in the joint states, applied to the readings of the simulated arm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import nan
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rbd_control.ros.messages import Stamp

Array = NDArray[np.float64]

CLOCK_STEP = 2.0004
"""Size of the clock jumps [s]; not a multiple of the period, so that no stamp occurs twice."""

POSITION_STEP, VELOCITY_STEP, EFFORT = 0.7, 50.0, 1e30
"""Implausible steps of a position [rad] and of a velocity [rad/s]; implausible effort [N·m]."""


class Writer(Protocol):
    """Interface of :class:`rbd_control.ros.messages.JointStateWriter`."""

    def publish(
        self,
        stamp: Any,
        position: Array | None = None,
        velocity: Array | None = None,
        effort: Array | None = None,
    ) -> None:
        """Publish a joint state, whose fields are empty if they are None here."""


@dataclass(frozen=True)
class Order:
    """An order to damage or drop the next joint states.

    Attributes:
        kind: kind of fault, one of :data:`bench.soak.schedule.IN_JOINT_STATES`.
        samples: number of affected joint states.
        joint: index of the affected joint, for faults of a single joint.
    """

    kind: str
    samples: int
    joint: int

    def to_text(self) -> str:
        """Return the order as text for a message."""
        return json.dumps({"kind": self.kind, "samples": self.samples, "joint": self.joint})

    @classmethod
    def from_text(cls, text: str) -> Order:
        """Return the order from the result of :meth:`to_text`.

        Raises:
            ValueError: if the text is not JSON.
            KeyError: if a value is missing.
        """
        plain = json.loads(text)
        return cls(plain["kind"], plain["samples"], plain["joint"])


class FaultyWriter:
    """Publishes joint states, and applies the fault of the present order to them.

    Args:
        writer: publishes the joint states.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._order = Order("", 0, 0)
        self._left = 0
        self._last: tuple[Any, Array, Array, Array | None] | None = None

    def obey(self, order: Order) -> None:
        """Apply the fault of ``order`` to the next joint states, instead of an earlier order."""
        self._order, self._left = order, order.samples

    def publish(
        self,
        stamp: Stamp,
        position: Array | None = None,
        velocity: Array | None = None,
        effort: Array | None = None,
    ) -> None:
        """Publish a joint state with the fault of the present order, or drop it (dropout)."""
        if self._left <= 0 or position is None or velocity is None:
            if position is not None and velocity is not None:
                self._last = (stamp, position, velocity, effort)
            self._writer.publish(stamp, position, velocity, effort)
            return
        self._left -= 1
        spoiled = self._spoiled(stamp, position.copy(), velocity.copy(), effort)
        if spoiled is not None:
            self._writer.publish(*spoiled)

    def _spoiled(
        self, stamp: Stamp, q: Array, v: Array, tau: Array | None
    ) -> tuple[Stamp, Array, Array, Array | None] | None:
        kind, joint = self._order.kind, self._order.joint
        tau = None if tau is None else tau.copy()
        if kind.startswith("dropout"):
            return None
        if kind == "frozen":
            return (stamp, q, v, tau) if self._last is None else (stamp, *self._last[1:])
        if kind == "same stamp":
            stamp = stamp if self._last is None else self._last[0]
        elif kind in ("clock back", "clock forward"):
            stamp = _shifted(stamp, CLOCK_STEP if kind == "clock forward" else -CLOCK_STEP)
        elif kind == "NaN position":
            q[joint] = nan
        elif kind == "NaN velocity":
            v[joint] = nan
        elif kind == "implausible position":
            q[joint] += POSITION_STEP
        elif kind == "implausible velocity":
            v[joint] += VELOCITY_STEP
        elif kind == "NaN effort":
            tau = None if tau is None else np.full_like(tau, nan)
        elif kind == "implausible effort":
            if tau is not None:
                tau[joint] = EFFORT
        else:
            raise ValueError(f"there is no fault {kind!r}")
        return stamp, q, v, tau


def _shifted(stamp: Stamp, seconds: float) -> Stamp:
    nanoseconds = stamp.sec * 10**9 + stamp.nanosec + round(seconds * 1e9)
    return Stamp(nanoseconds // 10**9, nanoseconds % 10**9)
