"""Types of joint-state messages and samples, single and in blocks.

A ``JointMessage`` has the fields of a ``sensor_msgs/JointState``. A ``JointSample`` is the input of
detector and controller, in the joint order of the model. ``JointBlock`` and ``SampleBlock`` contain
many messages or samples, in arrays with one more dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class JointMessage(NamedTuple):
    """A joint-state message as received, unchecked.

    Attributes:
        stamp: time of the message by its sender [s].
        receipt: time of its receipt [s].
        name: names of its joints, n of them.
        position, velocity, effort: (n,) each [rad or m, rad/s or m/s, N·m or N, or the unit of the
            driver]; velocity and effort may be empty.
    """

    stamp: float
    receipt: float
    name: Sequence[str]
    position: ArrayLike
    velocity: ArrayLike
    effort: ArrayLike


class JointBlock(NamedTuple):
    """Successive joint-state messages with the same names and lengths.

    Attributes:
        stamp, receipt: times by the sender, and of receipt, (k,) each [s].
        name: names of the joints.
        position, velocity, effort: (k, m) each, as recorded and unchecked, units as in
            :class:`JointMessage`. Usually m is the number of names, or 0 for an empty field; it may
            differ between the fields.
    """

    stamp: Array
    receipt: Array
    name: tuple[str, ...]
    position: Array
    velocity: Array
    effort: Array

    @classmethod
    def of(cls, message: JointMessage) -> JointBlock:
        """Return a block that consists of one message, k = 1."""
        return cls(
            np.array([message.stamp], dtype=float),
            np.array([message.receipt], dtype=float),
            tuple(message.name),
            *(np.array(values, dtype=float)[None] for values in message[3:]),
        )

    def part(self, begin: int, end: int) -> JointBlock:
        """Return the messages with indices from ``begin`` to before ``end``; arrays are views."""
        stamp, receipt, name, *values = self
        return JointBlock(
            stamp[begin:end], receipt[begin:end], name, *(each[begin:end] for each in values)
        )

    def messages(self) -> Iterator[JointMessage]:
        """Yield the messages one by one."""
        for stamp, receipt, *values in zip(
            self.stamp.tolist(), self.receipt.tolist(), *self[3:], strict=True
        ):
            yield JointMessage(stamp, receipt, self.name, *values)


@dataclass(frozen=True, slots=True)
class JointSample:
    """The state of an arm at one time, in the joint order of its :class:`JointStateIntake`.

    Attributes:
        stamp: time of the sample [s].
        q: (n,) positions [rad or m].
        v: (n,) velocities [rad/s or m/s]; None if the velocity of any joint is missing.
        tau: (n,) efforts as published [N·m, N or unit of the driver]; None if the effort of any
            joint is missing. Missing values never count as zero.
        after_jump: whether the clock went back before this sample, so that an observer must
            restart.
        is_late: whether the sample waited while its receiver was paused or busy, so that it does
            not show the present state; only nodes set it.
        model_error: why the model of the arm does not hold any more, such as a held joint that has
            moved; empty if nothing is known against it. Only nodes set it.
    """

    stamp: float
    q: Array
    v: Array | None
    tau: Array | None
    after_jump: bool = False
    is_late: bool = False
    model_error: str = ""


@dataclass(frozen=True, slots=True)
class SampleBlock:
    """Successive samples of an arm: :class:`JointSample` with one more dimension.

    Attributes:
        stamp: (k,) times, which increase [s].
        q, v, tau: (k, n) each, units as in :class:`JointSample`; ``v`` or ``tau`` is None if all
            samples lack it.
        after_jump: whether the clock went back before the first sample, so that an observer must
            restart.
        receipt: (k,) times of receipt of their messages [s]; None if they are not known.
    """

    stamp: Array
    q: Array
    v: Array | None
    tau: Array | None
    after_jump: bool = False
    receipt: Array | None = None

    def samples(self) -> Iterator[JointSample]:
        """Yield the samples one by one."""
        for k, stamp in enumerate(self.stamp.tolist()):
            v = None if self.v is None else self.v[k]
            tau = None if self.tau is None else self.tau[k]
            yield JointSample(stamp, self.q[k], v, tau, self.after_jump and k == 0)
