"""Conversion of joint-state messages to samples in the model's joint order.

Nodes and ``replay`` both use :class:`JointStateIntake`, so that both accept and drop the same
messages, one at a time or in blocks of thousands. It does not depend on ROS: its arguments are the
fields of a ``sensor_msgs/JointState`` as plain values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import pairwise
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbd_control.errors import InputError
from rbd_control.joint_states.acceptance import (
    AFTER_JUMP,
    COUNTED,
    DROPS,
    EFFORT,
    GAPS,
    JUMPS,
    LARGEST_GAP,
    LAST_REASON,
    LAST_STAMP,
    MISSING,
    PERIOD,
    TOO_LARGE,
    VELOCITY,
    accept_block,
    accept_one,
    new_memory,
)
from rbd_control.joint_states.messages import JointBlock, JointMessage, JointSample, SampleBlock
from rbd_control.joint_states.parts import LONGEST_AGE, Parts
from rbd_control.joint_states.velocities import filter_samples, new_filter
from rbd_control.wording import listed, quoted

_MAX_ORDERS = 64

SILENT = 1.0
"""Time without a joint, while messages with other joints come, after which it is silent [s]."""
"""Maximum number of lists of names that an intake stores.

An arm and its gripper often share a topic.
"""


class JointStateIntake:
    """Converts joint-state messages to samples in a given joint order; drops unusable messages.

    Args:
        joint_names: the joints of the samples, in this order. Other joints in a message are
            ignored. If a message has only some of them, see :mod:`~.parts`.
        follow_jumps: whether to restart when the clock has gone back: the time of receipt to more
            than :data:`FUTURE_TOLERANCE` before the last sample, or the stamps of
            :data:`JUMP_MESSAGES` messages in a row. The next sample is then marked ``after_jump``,
            and usually older than the previous one. If false, old messages are dropped.
        velocity_filter: time constant with which velocities are computed from positions, and
            samples are filtered, see :mod:`~.velocities` [s]; 0 for the velocities of the messages.

    Attributes:
        counts: number of messages ``accepted``, by each reason of :data:`DROPS`, and by each remark
            of :data:`REMARKS`.
        too_large: joint and field of the last message that was dropped as too large.
        missing: velocity or effort that the last incomplete sample lacks, with the joint if it is
            NaN for one.
        last_reason: reason why the last message was dropped; an empty text if it was accepted, and
            before the first message.
        refused_names: the newest list of names that lacks one of ``joint_names``; a list that has
            been received before does not count as new. Empty if there is none.
        last_stamp: stamp of the last sample [s]; NaN before the first.
        period: mean of the last hundred times between samples [s], each at most
            :data:`~rbd_control.joint_states.acceptance.LONGEST_STEP` or :data:`GAP_PERIODS`
            periods; NaN before the second sample.
        gaps: number of times between samples longer than :data:`GAP_PERIODS` periods.
        largest_gap: the longest time between samples [s]; 0 before the second sample.
        jumps: number of times that the clock went back.
        parts: joins messages that have some of the joints.
        lists: different lists of joint names, at most :data:`_MAX_ORDERS`; the reader may clear it.

    Raises:
        InputError: if ``joint_names`` is empty or names a joint twice.
    """

    def __init__(
        self,
        joint_names: Sequence[str],
        *,
        follow_jumps: bool = False,
        velocity_filter: float = 0.0,
    ) -> None:
        self._follow_jumps = follow_jumps
        self._velocity_filter = velocity_filter
        self.joint_names = tuple(joint_names)
        if not self.joint_names:
            raise InputError("no joints to take from joint states; name at least one")
        if len(set(self.joint_names)) != len(self.joint_names):
            raise InputError(f"a joint is named twice in {', '.join(self.joint_names)}")
        self._orders: dict[tuple[str, ...], NDArray[np.intp] | str] = {}
        self._heard: dict[tuple[str, ...], float] = {}
        """Time of the last message with these names, on the steady clock [s]."""
        self.parts = Parts(self.joint_names)
        self.lists: set[tuple[str, ...]] = set()
        self.refused_names: tuple[str, ...] = ()
        self.reset()

    def reset(self) -> None:
        """Forget all times and counts, for example after a jump of the clock."""
        self._clock, self._tally = new_memory(self._follow_jumps)
        self.parts.clear()
        self._filter = new_filter(len(self.joint_names))

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages ``accepted``, by reason of :data:`DROPS`, by remark of ``REMARKS``."""
        return dict(zip(COUNTED, self._tally.tolist(), strict=False))

    @property
    def last_reason(self) -> str:
        """Reason of :data:`DROPS` why the last message was dropped; empty if it was not."""
        reason = int(self._tally[LAST_REASON])
        return COUNTED[reason] if reason else ""

    @property
    def too_large(self) -> str:
        """Field of the last message dropped as too large, as "effort of joint_2"; empty if none."""
        return self._value_at(int(self._tally[TOO_LARGE]))

    @property
    def missing(self) -> str:
        """Value that the last incomplete sample lacks, as "effort of joint_2", or its whole field.

        It is empty if all samples so far have velocity and effort.
        """
        place = int(self._tally[MISSING])
        return {-2: "velocity", -3: "effort"}.get(place) or self._value_at(place)

    def _value_at(self, place: int) -> str:
        """Return the name of a value from its place in the tally; empty for -1."""
        if place < 0:
            return ""
        field, joint = divmod(place, len(self.joint_names))
        return f"{('position', 'velocity', 'effort')[field]} of {self.joint_names[joint]}"

    @property
    def dropped(self) -> dict[str, int]:
        """Number of dropped messages by reason of :data:`DROPS`, without counts of zero.

        Messages that lack joints do not count if others have them: a gripper may share the topic.
        The reason "too large" names the field of the last such message, and its number counts all
        of them: ``{"too large (effort of joint_2)": 3}``.
        """
        named = {"too large": f"too large ({self.too_large})"}
        counts = self.counts
        if counts["accepted"]:
            counts["missing joint"] = 0
        return {named.get(reason, reason): counts[reason] for reason in DROPS if counts[reason]}

    @property
    def last_stamp(self) -> float:
        """Stamp of the last sample [s]; NaN before the first."""
        return float(self._clock[LAST_STAMP])

    @property
    def period(self) -> float:
        """Running mean of the time between samples [s]; NaN before the second."""
        return float(self._clock[PERIOD])

    @property
    def gaps(self) -> int:
        """Number of times between samples longer than :data:`GAP_PERIODS` periods."""
        return int(self._tally[GAPS])

    @property
    def jumps(self) -> int:
        """Number of times that the clock went back; always 0 without ``follow_jumps``."""
        return int(self._tally[JUMPS])

    @property
    def largest_gap(self) -> float:
        """Longest time between two samples [s]; 0 before the second sample."""
        return float(self._clock[LARGEST_GAP])

    @property
    def rate(self) -> float:
        """Samples per second, the inverse of :attr:`period`; NaN before the second sample."""
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
        """Return the sample of a message, or None if the message is dropped.

        The stamp of a sample is later than the stamp of the previous one, except after a jump of
        the clock with ``follow_jumps``.

        Args:
            stamp: time of the message by its sender [s]. Zero, or more than
                :data:`FUTURE_TOLERANCE` ahead of ``receipt``, is replaced by ``receipt`` less the
                age that the last message with a usable stamp had at its receipt.
            receipt: time of its receipt [s].
            name: joint names of the message, n of them.
            position, velocity, effort: (n,) each, in the order of ``name``. Only the intake's
                joints count. Velocity or effort that is empty, or NaN for one of these joints, is
                missing: None in the sample. The message is dropped if a position is not finite, or
                if a field without NaN has a number beyond :data:`LARGEST`, also an infinite one.

        Returns:
            The sample; None when the message is dropped. :attr:`last_reason` says why.
        """
        names = tuple(name)
        order = self._order(names)
        if isinstance(order, str):
            whole = self._join(JointMessage(stamp, receipt, names, position, velocity, effort))
            return None if whole is None else self.accept(*whole)
        # Copies of a fixed type: for another array type the kernel would be compiled again.
        q = np.array(position, dtype=float)
        v = np.array(velocity, dtype=float)
        tau = np.array(effort, dtype=float)
        n = len(names)
        if q.shape != (n,) or v.shape not in ((n,), (0,)) or tau.shape not in ((n,), (0,)):
            self._drop("lengths")
            return None
        if self._velocity_filter:
            v = np.zeros(n)
        sample = np.empty((3, len(order)))
        has = accept_one(
            float(stamp), float(receipt), q, v, tau, order, self._clock, self._tally, sample
        )
        if has < 0:
            return None
        if self._velocity_filter:
            flags, time = np.array([has]), self._clock[LAST_STAMP : LAST_STAMP + 1]
            self._compute_velocities(time, flags, sample[:, None])
            has = int(flags[0])
        return JointSample(
            float(self._clock[LAST_STAMP]),
            sample[0],
            sample[1] if has & VELOCITY else None,
            sample[2] if has & EFFORT else None,
            bool(has & AFTER_JUMP),
        )

    def accept_block(self, block: JointBlock) -> list[SampleBlock]:
        """Return the samples of many messages, identical to those of :meth:`accept`.

        Args:
            block: the messages, in order of receipt.

        Returns:
            The samples, in order; empty if all messages are dropped. A new block begins where the
            clock went back, and where velocity or effort begins or ceases to be missing.
        """
        k, n = len(block.stamp), len(block.name)
        order = self._order(block.name)
        if isinstance(order, str):
            if not self._is_part(order, block.name):
                return self._drop(order, k)
            wholes = [whole for each in block.messages() if (whole := self._join(each))]
            return [found for each in wholes for found in self.accept_block(JointBlock.of(each))]
        empty = ((k, n), (k, 0))
        if (
            block.position.shape != (k, n)
            or block.velocity.shape not in empty
            or block.effort.shape not in empty
        ):
            return self._drop("lengths", k)
        time, has = np.empty((2, k)), np.empty(k, dtype=np.int64)
        out = np.empty((3, k, len(order)))
        velocity = np.zeros((k, n)) if self._velocity_filter else block.velocity
        accepted = accept_block(
            *block[:2],
            block.position,
            velocity,
            block.effort,
            order,
            self._clock,
            self._tally,
            time,
            has,
            out,
        )
        if not accepted:
            return []
        if self._velocity_filter:
            self._compute_velocities(time[0, :accepted], has[:accepted], out[:, :accepted])
        back = has[:accepted] & AFTER_JUMP != 0
        has = has[:accepted] & ~AFTER_JUMP
        changes = np.diff(has, prepend=-1, append=-1) != 0
        changes[:-1] |= back
        edges = np.flatnonzero(changes).tolist()
        return [
            SampleBlock(
                time[0, a:b],
                out[0, a:b],
                out[1, a:b] if has[a] & VELOCITY else None,
                out[2, a:b] if has[a] & EFFORT else None,
                bool(back[a]),
                time[1, a:b],
            )
            for a, b in pairwise(edges)
        ]

    def _compute_velocities(
        self, time: NDArray[np.float64], has: NDArray[np.int64], out: NDArray[np.float64]
    ) -> None:
        """Filter samples and compute their velocities, in place.

        Args:
            time, has, out: (k,), (k,) and (3, k, n), as written by ``accept_block``.
        """
        q, v, tau = (np.ascontiguousarray(each) for each in out)
        tau[has & EFFORT == 0] = np.nan
        restarts = has & AFTER_JUMP != 0
        constant = self._velocity_filter
        filter_samples(np.ascontiguousarray(time), restarts, constant, self._filter, q, v, tau)
        out[:] = q, v, tau
        unknown = np.isnan(v).any(axis=1)
        has[unknown] &= ~VELOCITY
        self._tally[COUNTED.index("velocity missing")] += int(unknown.sum())

    def refusal(self, names: Sequence[str]) -> str:
        """Return the reason to drop every message with these joint names; empty if there is none.

        It is ``empty``, ``duplicate name``, or ``missing joint`` if all are missing.
        """
        order = self._order(tuple(names))
        if isinstance(order, str) and not self._is_part(order, names):
            return order
        return ""

    @property
    def have_all_joints(self) -> bool:
        """Whether the messages so far together name all joints."""
        return set(self.joint_names) <= {name for names in self._orders for name in names}

    def silent_joints(self) -> tuple[tuple[str, ...], float]:
        """Return the joints that messages have ceased to name, and for how long at most [s]."""
        now = monotonic()
        ages = {
            joint: min(now - last for names, last in self._heard.items() if joint in names)
            for joint in self.joint_names
        }
        newest = now - max(self._heard.values())
        silent = tuple(joint for joint, age in ages.items() if age > newest + SILENT)
        return silent, max((ages[joint] for joint in silent), default=0.0)

    def _is_part(self, reason: str, names: Sequence[str]) -> bool:
        return reason == "missing joint" and self.parts.names_part(names)

    def _join(self, message: JointMessage) -> JointMessage | None:
        """Return the message that a part completes; None if it waits, or is dropped."""
        reason = self._order(tuple(message.name))
        assert isinstance(reason, str)
        if not self._is_part(reason, message.name):
            self._drop(reason)
            return None
        n = len(message.name)
        lengths = [np.size(values) for values in message[3:]]
        if lengths[0] != n or not {*lengths[1:]} <= {0, n}:
            self._drop("lengths")
            return None
        whole = self.parts.join(message)
        # A part counts as dropped unless another completes it.
        if whole is None:
            self._drop(reason)
        else:
            self._tally[COUNTED.index(reason)] -= self.parts.waited
        return whole

    def _order(self, names: tuple[str, ...]) -> NDArray[np.intp] | str:
        """Return the indices of the joints in the names, or the reason for dropping a message."""
        known = self._orders.get(names)
        self._heard[names] = monotonic()
        if len(self.lists) < _MAX_ORDERS:
            self.lists.add(names)
        if known is not None:
            return known
        order: NDArray[np.intp] | str
        if not names:
            order = "empty"
        elif len(set(names)) != len(names):
            order = "duplicate name"
        elif not set(self.joint_names) <= set(names):
            order = "missing joint"
            self.refused_names = names
        else:
            order = np.array([names.index(joint) for joint in self.joint_names])
        if len(self._orders) >= _MAX_ORDERS:
            self._orders.clear()
            self._heard = {names: self._heard[names]}
        self._orders[names] = order
        return order

    def _drop(self, reason: str, count: int = 1) -> list[SampleBlock]:
        index = COUNTED.index(reason)
        self._tally[index] += count
        self._tally[LAST_REASON] = index
        return []


WITHOUT_SHARED_MEMORY = "FASTDDS_BUILTIN_TRANSPORTS=UDPv4"
"""Environment variable that makes Fast DDS send without shared memory.

A receiver that is too busy to answer a check of its shared memory within a second never receives
by shared memory again. The nodes of this package use no shared memory unless the user selects it,
see :mod:`rbd_control.ros.transports`.
"""


def advice(
    topic: str,
    publishers: int,
    intake: JointStateIntake,
    others: Collection[str] = (),
    elsewhere: Collection[str] = (),
) -> str:
    """Return the reason why there are no usable joint states, and the remedy, as text.

    Args:
        topic: name of the topic of the joint states.
        publishers: number of its publishers.
        intake: the intake that has processed the messages on the topic, none of them usable.
        others: joints of the robot description that the node does not use.
        elsewhere: other topics on which joint states are published.
    """
    if not publishers:
        found = "; remap joint_states to the topic of the robot's driver"
        if elsewhere:
            found = f", but joint states come on {listed(sorted(elsewhere))}: start with "
            found += f"joint_states:={min(elsewhere)}"
        return f"no node publishes {topic}{found}"
    if not intake.last_reason:
        return (
            f"no message arrives on {topic}, although it has {_count(publishers)}: the driver "
            f"sends none, is blocked by a stopped subscriber, or cannot reach this node (start "
            f"the driver with {WITHOUT_SHARED_MEMORY} to exclude its shared memory)"
        )
    if intake.last_reason == "missing joint":
        if intake.have_all_joints:
            return _apart(topic, intake)
        return f"joint states on {topic} {_lack(intake, others)}"
    reason = intake.last_reason
    if reason == "too large":
        reason += f" ({intake.too_large})"
    return f"joint states on {topic} cannot be used: {reason}"


def _apart(topic: str, intake: JointStateIntake) -> str:
    silent, age = intake.silent_joints()
    if silent:
        return (
            f"no message with {listed(silent)} has arrived on {topic} for {age:.1f} s, but others "
            "have: its publisher has stopped"
        )
    return (
        f"the joints come in several messages on {topic} that are more than "
        f"{1e3 * LONGEST_AGE:g} ms apart; publish them faster, or at the same time"
    )


def _lack(intake: JointStateIntake, others: Collection[str]) -> str:
    found: Sequence[str] = intake.refused_names
    missing = [name for name in intake.joint_names if name not in found]
    unknown = [name for name in found if name not in others]
    if found and not unknown:
        return f"lack {listed(missing)}; they have {listed(found)}, other joints of the description"
    alike = [name for name in unknown if missing and _digits(name) == _digits(missing[0])]
    nearest = get_close_matches(missing[0], alike, n=1) if alike else []
    hint = f"; is {quoted(nearest[0])} the same joint as {quoted(missing[0])}?" if nearest else "."
    return (
        f"lack {listed(missing)}; they have {listed(found)}{hint} The names must be those of the "
        f"robot description"
    )


def _digits(name: str) -> list[str]:
    return re.findall(r"\d+", name)


def _count(publishers: int) -> str:
    return "a publisher" if publishers == 1 else f"{publishers} publishers"
