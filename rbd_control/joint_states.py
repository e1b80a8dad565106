"""Joint-state messages in; samples in the model's joint order out, or the reason for a drop.

The nodes and the replay of recordings both take their input through :class:`JointStateIntake`, so
that a message is judged alike in both. It knows nothing of ROS: it takes what a
``sensor_msgs/JointState`` carries as plain values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbd_control.errors import InputError

FUTURE_TOLERANCE = 0.1
"""How far a stamp may lead its receipt [s]: the clocks of two machines, or a slow /clock."""

GAP_PERIODS = 5.0
"""A step longer than this many periods is counted as a gap."""

DROPS = (
    "empty",
    "lengths",
    "duplicate name",
    "missing joint",
    "not finite",
    "negative stamp",
    "old stamp",
    "same stamp",
)
"""Why a message is dropped; each is a key of :attr:`JointStateIntake.counts`."""

JUMP_MESSAGES = 10
"""So many messages in a row with old stamps in order are no stragglers: the clock went back."""

REMARKS = ("stamp replaced", "velocity missing", "effort missing")
"""What may be wrong with an accepted message; also keys of :attr:`JointStateIntake.counts`."""

_MAX_LAYOUTS = 64


class JointMessage(NamedTuple):
    """What a joint-state message carries, and when it came: :meth:`JointStateIntake.accept` it."""

    stamp: float
    receipt: float
    name: Sequence[str]
    position: ArrayLike
    velocity: ArrayLike
    effort: ArrayLike


@dataclass(frozen=True, slots=True)
class JointSample:
    """One instant of an arm, in the joint order its intake was made with.

    ``stamp`` [s]; ``q`` positions [rad or m], ``v`` velocities [rad/s or m/s] and ``tau`` efforts
    [N·m or N], each (n,). ``v`` or ``tau`` is None when the message did not carry it for every
    joint; it is never assumed to be zero.
    """

    stamp: float
    q: NDArray[np.float64]
    v: NDArray[np.float64] | None
    tau: NDArray[np.float64] | None


class JointStateIntake:
    """Orders joint states by name and drops those that cannot be used.

    Args:
        joint_names: the joints wanted, in the order the samples shall have. Others that a
            message names are ignored.
        follow_jumps: start again when the clock has gone back: that of the receiver before the
            last sample, or that of the sender for :data:`JUMP_MESSAGES` messages. The next
            sample is then older than the one before. Otherwise whatever is old is dropped.

    Attributes:
        counts: ``accepted``, each reason of :data:`DROPS` and each remark of :data:`REMARKS`.
        last_reason: why the last message was dropped; empty when it was accepted.
        last_stamp: stamp of the last sample [s]; NaN before the first.
        period: running mean of the time between samples [s], gaps cut to
            :data:`GAP_PERIODS` periods; NaN before the second sample.
        gaps: how many steps were longer than :data:`GAP_PERIODS` periods.
        largest_gap: the longest step [s].
        jumps: how often the clock went back.

    Raises:
        InputError: when ``joint_names`` is empty or names a joint twice.
    """

    def __init__(self, joint_names: Sequence[str], *, follow_jumps: bool = False) -> None:
        self._follow_jumps = follow_jumps
        self.joint_names = tuple(joint_names)
        if not self.joint_names:
            raise InputError("no joints to take from joint states; name at least one")
        if len(set(self.joint_names)) != len(self.joint_names):
            raise InputError(f"a joint is named twice in {', '.join(self.joint_names)}")
        # One entry per order of names seen: an arm and its gripper often share the topic.
        self._layouts: dict[tuple[str, ...], NDArray[np.intp] | str] = {}
        self.reset()

    def reset(self) -> None:
        """Forget time and counts, as after a jump of the clock."""
        self.counts: dict[str, int] = dict.fromkeys(("accepted", *DROPS, *REMARKS), 0)
        self.last_reason = ""
        self.last_stamp = nan
        self.period = nan
        self.gaps = self.jumps = 0
        self.largest_gap = 0.0
        self._on_receipt = False
        self._straggler = -inf
        self._stragglers = 0

    @property
    def rate(self) -> float:
        """Samples per second; NaN before the second sample."""
        return 1.0 / self.period

    def accept(
        self,
        stamp: float,
        receipt: float,
        name: Sequence[str],
        position: ArrayLike,
        velocity: ArrayLike,
        effort: ArrayLike,
    ) -> JointSample | None:
        """Judge one message; a sample whose stamp is later than the last one's, or None.

        After a jump of the clock that is followed the stamp may be earlier.

        Args:
            stamp: the message's own time [s]. Zero, or more than :data:`FUTURE_TOLERANCE` ahead
                of ``receipt``, is replaced by ``receipt``.
            receipt: when the message was received [s].
            name, position, velocity, effort: the message's fields. Empty velocity or effort, or
                one that is not finite for a wanted joint, is missing: None in the sample.

        Returns:
            None when the message is dropped; :attr:`last_reason` says why.
        """
        names = tuple(name)
        layout = self._layouts.get(names)
        if layout is None:
            layout = self._layout(names)
        if isinstance(layout, str):
            return self._drop(layout)

        q = np.asarray(position, dtype=float)
        v = np.asarray(velocity, dtype=float)
        tau = np.asarray(effort, dtype=float)
        n = len(names)
        if q.shape != (n,) or v.shape not in ((n,), (0,)) or tau.shape not in ((n,), (0,)):
            return self._drop("lengths")
        q = q[layout]
        if not _finite(q):
            return self._drop("not finite")

        time = self._time(float(stamp), float(receipt))
        if isinstance(time, str):
            return self._drop(time)
        self._measure(time)
        return JointSample(
            time,
            q,
            self._present(v, layout, "velocity missing"),
            self._present(tau, layout, "effort missing"),
        )

    def _layout(self, names: tuple[str, ...]) -> NDArray[np.intp] | str:
        """Where the wanted joints stand in a message of these names, or why it is useless."""
        layout: NDArray[np.intp] | str
        if not names:
            layout = "empty"
        elif len(set(names)) != len(names):
            layout = "duplicate name"
        elif not set(self.joint_names) <= set(names):
            layout = "missing joint"
        else:
            layout = np.array([names.index(joint) for joint in self.joint_names])
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[names] = layout
        return layout

    def _time(self, stamp: float, receipt: float) -> float | str:
        """The sample's time, later than the last one's, or why there is none."""
        if stamp < 0.0:
            return "negative stamp"
        replaced = stamp == 0.0 or not stamp <= receipt + FUTURE_TOLERANCE
        if self._on_receipt and stamp <= self.last_stamp:
            # After a replaced stamp the stamps may belong to another epoch altogether (simulated
            # time, say): receipt goes on until they are later, lest every one be called old.
            replaced = True
        time = receipt if replaced else stamp
        if not isfinite(time):
            return "not finite"
        if time == self.last_stamp:
            return "same stamp"
        if time < self.last_stamp:
            if not (self._follow_jumps and self._went_back(time, receipt)):
                return "old stamp"
            self.jumps += 1
            self.last_stamp = nan
        self._stragglers = 0
        self._on_receipt = replaced and time != stamp
        self.counts["stamp replaced"] += self._on_receipt
        return time

    def _went_back(self, time: float, receipt: float) -> bool:
        """Whether a message older than the last sample shows that a clock has gone back."""
        if receipt < self.last_stamp - FUTURE_TOLERANCE:
            return True
        in_order = time > self._straggler
        self._stragglers = self._stragglers + 1 if in_order else 1
        self._straggler = time
        return self._stragglers >= JUMP_MESSAGES

    def _measure(self, time: float) -> None:
        """Count the sample and keep the statistics of its distance to the last one."""
        step = time - self.last_stamp
        self.last_stamp = time
        self.last_reason = ""
        self.counts["accepted"] += 1
        if isnan(step):  # the first sample, or the first after a jump of the clock
            return
        if isnan(self.period):
            self.period = self.largest_gap = step
        else:
            longest = GAP_PERIODS * self.period
            self.gaps += step > longest
            self.largest_gap = max(self.largest_gap, step)
            weight = max(0.01, 1.0 / self.counts["accepted"])
            self.period += weight * (min(step, longest) - self.period)

    def _present(
        self, values: NDArray[np.float64], layout: NDArray[np.intp], remark: str
    ) -> NDArray[np.float64] | None:
        if values.size:
            values = values[layout]
            if _finite(values):
                return values
        self.counts[remark] += 1
        return None

    def _drop(self, reason: str) -> JointSample | None:
        self.counts[reason] += 1
        self.last_reason = reason
        return None


def _finite(values: NDArray[np.float64]) -> bool:
    # A third of the time of numpy.isfinite(...).all() on so short an array. What overflows when
    # squared is no joint state either.
    product: Any = values.dot(values)
    return isfinite(product)
