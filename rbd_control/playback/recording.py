"""Recordings of joint states: rosbag2, ROS 1 (``.bag``) and CSV, without ROS.

Reading streams: memory does not grow with the length of a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from math import isfinite, isnan, nan
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbd_control.dynamics.urdf import MAX_BYTES
from rbd_control.errors import RecordingError
from rbd_control.files.input_files import about, reading
from rbd_control.joint_states import (
    JointBlock,
    JointMessage,
    JointSample,
    JointStateIntake,
    SampleBlock,
)
from rbd_control.playback.bag import (
    BOOL,
    JOINT_STATE,
    ROS1_SUFFIX,
    STORAGE_SUFFIXES,
    STRING,
    Bag,
    is_storage,
)
from rbd_control.playback.parts import Part, in_order
from rbd_control.playback.table import Table
from rbd_control.playback.truth import contact_intervals
from rbd_control.wording import listed, quoted

CONTACT_TOPICS = ("/truth/contact", "/simulated_arm/true_contact")
"""Topics of std_msgs/Bool with true contacts, published on change; the first found is used."""

TORQUE_TOPICS = ("/truth/external_torque", "/simulated_arm/true_external_joint_torques")
"""Topics of sensor_msgs/JointState whose effort is the true external joint torque [N·m or N].

The first found is used.
"""

DESCRIPTION_TOPIC = "robot_description"
"""Topic of the robot description (std_msgs/String), in the namespace of the joint states."""

BLOCK = 2048
"""Batch size of reading [messages]: it fits the cache, with an overhead of a few per cent."""

_PLAYED_BLOCK = 64
"""Batch size for playback in real time [messages]."""

_CLOCKS_APART = 1.0
"""Difference of stamp and time of receipt from which the stamp belongs to another clock [s]."""


class TimedBlock(NamedTuple):
    """A block of samples, and the times of receipt of its first and last message [s]."""

    samples: SampleBlock
    first_receipt: float
    last_receipt: float


@dataclass(frozen=True)
class Recording:
    """A recording whose joint states can be iterated any number of times.

    :func:`read_recording` creates it. Every iteration reads the files again.

    Attributes:
        path: the file or folder.
        topic: the topic of the joint states in a rosbag2 recording.
        joint_names: the recorded joints; in a rosbag2 recording those of its first messages.
        count: number of joint-state messages, or of lines in a CSV file.
        true_contacts: the recorded true contacts, as ``(start, end)`` [s] on the clock of the
            samples (``end`` None: until the end of the recording); None if the recording does not
            contain them.

    Raises:
        RecordingError: from every iteration, naming the file, if it is damaged.
    """

    path: Path
    topic: str
    joint_names: tuple[str, ...]
    count: int
    true_contacts: tuple[tuple[float, float | None], ...] | None
    _parts: Callable[[int], Iterator[Sequence[Part]]]
    _true_torques: Callable[[int], Iterator[Sequence[Part]]] | None = None
    _descriptions: Callable[[], Iterator[tuple[float, str]]] | None = None

    @cached_property
    def description(self) -> str:
        """URDF text of the robot in the recording; empty if the recording does not contain it.

        It is on the topic ``robot_description`` in the namespace of the joint states, otherwise on
        ``/robot_description``.

        Raises:
            RecordingError: naming the file, if it is damaged or has several different descriptions.
        """
        found = {text for _, text in self._descriptions()} if self._descriptions else set()
        if len(found) > 1:
            with about(self.path):
                raise RecordingError(
                    f"has {len(found)} different robot descriptions; select one with --urdf"
                )
        return found.pop() if found else ""

    def names_with(self, wanted: Collection[str]) -> tuple[str, ...]:
        """Return the names of the recorded joints.

        They are ``joint_names`` if these contain all of ``wanted``, otherwise the names in all
        messages.

        A gripper that started before the arm may have sent all of the first messages. The recording
        is then read to its end, once.

        Args:
            wanted: names of joints to look for.

        Raises:
            RecordingError: naming the file, if it is damaged.
        """
        return self.joint_names if set(wanted) <= set(self.joint_names) else self._all_names

    @cached_property
    def _all_names(self) -> tuple[str, ...]:
        """The joints of the whole recording, in the order of their first messages."""
        names = dict.fromkeys(self.joint_names)
        with about(self.path):
            for block in self.blocks():
                names.update(dict.fromkeys(block.name))
        return tuple(names)

    def messages(self) -> Iterator[JointMessage]:
        """Yield the joint states as recorded, unchecked, in order of receipt."""
        for parts in self._parts(_PLAYED_BLOCK):
            for block in in_order(parts):
                yield from block.messages()

    def blocks(self) -> Iterator[JointBlock]:
        """Yield the joint states as recorded, unchecked, in blocks of messages with equal names.

        Blocks of different names may overlap in time.
        """
        for parts in self._parts(BLOCK):
            yield from (part.block for part in parts)

    def timed_blocks(self, intake: JointStateIntake) -> Iterator[TimedBlock]:
        """Yield the samples that an intake accepts, in blocks, with times of receipt.

        Args:
            intake: selects and orders the joints, and drops unusable messages; its ``counts`` have
                the numbers. Give a new intake for each iteration.

        Raises:
            RecordingError: if the recording lacks joints of the intake, or is damaged.
        """
        with about(self.path):
            known = self.names_with(intake.joint_names)
            missing = [name for name in intake.joint_names if name not in known]
            if missing:
                raise RecordingError(
                    f"has no joint {listed(missing)}; its joints are {listed(known)}"
                )
        for parts in self._parts(BLOCK):
            useful = []
            for part in parts:
                # Messages of other joints, such as a gripper, are counted and dropped in any order.
                if intake.refusal(part.block.name):
                    intake.accept_block(part.block)
                else:
                    useful.append(part)
            for block in in_order(useful):
                for samples in intake.accept_block(block):
                    assert samples.receipt is not None
                    yield TimedBlock(samples, float(samples.receipt[0]), float(samples.receipt[-1]))

    def sample_blocks(self, intake: JointStateIntake) -> Iterator[SampleBlock]:
        """Yield the samples of :meth:`timed_blocks` without times of receipt."""
        for block in self.timed_blocks(intake):
            yield block.samples

    def samples(self, intake: JointStateIntake) -> Iterator[JointSample]:
        """Yield the samples of :meth:`timed_blocks` one by one."""
        for block in self.sample_blocks(intake):
            yield from block.samples()

    def true_torques(self) -> Iterator[JointBlock]:
        """Yield recorded true external joint torques as ``effort`` [N·m or N], in order of receipt.

        There are no blocks if the recording does not contain them.
        """
        for parts in self._true_torques(BLOCK) if self._true_torques else ():
            yield from in_order(parts)


def read_recording(path: str | Path, topic: str = "/joint_states") -> Recording:
    """Open a recording.

    Args:
        path: a rosbag2 folder, a ``.db3`` or ``.mcap`` file of one (also compressed, and without
            metadata and type definitions), a ``.bag`` file of ROS 1, or a ``.csv`` file
            (:data:`rbd_control.playback.table.COLUMNS`).
        topic: topic of the joint states in a rosbag2 recording; a missing leading slash is added.

    Raises:
        RecordingError: naming the file, when there is no such file, it is damaged, empty or of
            another kind, or the topic is missing or of another type.
    """
    path = Path(path)
    topic = topic if topic.startswith("/") else f"/{topic}"
    with reading(path, RecordingError, "cannot be read"):
        if path.exists():
            if path.suffix.lower() == ".csv":
                return _from_table(path, topic)
            if path.is_dir() or is_storage(path) or path.suffix == ROS1_SUFFIX:
                return _from_bag(path, topic)
        else:
            raise RecordingError(
                "is a link that leads nowhere"
                if path.is_symlink()
                else "there is no such recording"
            )
        raise RecordingError(
            f"is not a recording; give a rosbag2 folder or a file {', '.join(STORAGE_SUFFIXES)}, "
            ".bag (ROS 1) or .csv"
        )


def _from_table(path: Path, topic: str) -> Recording:
    table = Table(path)
    if next(table.joint_parts(1), None) is None:
        raise RecordingError("holds no row of data")
    return Recording(path, topic, table.joint_names, table.count, None, table.joint_parts)


def _from_bag(path: Path, topic: str) -> Recording:
    bag = Bag(path)
    count = bag.require(topic, JOINT_STATE)
    # More than one message, because an arm and its gripper can share the topic.
    first = next(bag.joint_parts(topic, BLOCK), None)
    if first is None:
        raise RecordingError(f"holds no message on {quoted(topic)}")
    names = tuple(dict.fromkeys(chain.from_iterable(block.name for block in in_order(first))))
    if not names:
        raise RecordingError(f"the joint states on {quoted(topic)} name no joints")

    contacts = None
    contact_topic = _first(bag, CONTACT_TOPICS, BOOL)
    if contact_topic:
        # A Bool has no stamp. If the joint states are stamped by another clock than the recording
        # (for example simulated time), the first message gives the offset between the two clocks.
        block = next(in_order(first))
        stamp, receipt = float(block.stamp[0]), float(block.receipt[0])
        apart = abs(stamp - receipt) > _CLOCKS_APART and stamp > 0.0
        shift = stamp - receipt if apart else 0.0
        flags = ((time + shift, on) for time, on in bag.values(contact_topic, BOOL))
        contacts = tuple(contact_intervals(flags))
    torque_topic = _first(bag, TORQUE_TOPICS, JOINT_STATE)
    namespace = topic.rpartition("/")[0]
    described = (f"{namespace}/{DESCRIPTION_TOPIC}", f"/{DESCRIPTION_TOPIC}")
    description_topic = _first(bag, described, STRING)
    return Recording(
        path,
        topic,
        names,
        count,
        contacts,
        partial(bag.joint_parts, topic),
        partial(bag.joint_parts, torque_topic) if torque_topic else None,
        partial(bag.values, description_topic, STRING, MAX_BYTES) if description_topic else None,
    )


def _first(bag: Bag, topics: tuple[str, ...], msgtype: str) -> str | None:
    """Return the first topic with messages of type ``msgtype``, or None."""
    for name in topics:
        topic = bag.topics.get(name)
        if topic and topic.msgtype == msgtype and topic.encoding == "cdr" and topic.messages:
            return name
    return None


Array = NDArray[np.float64]


class ClockJump(NamedTuple):
    """A backward jump of the clock that stamped the joint states.

    Attributes:
        time: time of the first sample after the jump, on the time line of the replay [s].
        back: size of the jump: stamp that this sample would have without the jump, minus its stamp
            [s].
    """

    time: float
    back: float


class ReplayClock:
    """Maps stamps of samples to the time line of a replay: the time since the first sample.

    After a jump of the clock the time line continues with the time that passed on the clock of the
    recorder, or with one period if that clock jumped as well.

    Attributes:
        offset: offset that is subtracted from the stamps since the last jump [s]; NaN before the
            first sample.
        start: stamp of the first sample [s]; NaN before it.
        time: time of the last sample on the time line [s].
        jumps: jumps of the clock so far.
    """

    def __init__(self) -> None:
        self.offset = self.start = nan
        self.time = 0.0
        self.jumps: list[ClockJump] = []
        self._stamp = self._receipt = nan

    def times(self, block: TimedBlock, period: float) -> Array:
        """Return the times of a block of samples, (k,) [s], and advance to its end.

        If the clock went back before the block, a :class:`ClockJump` is added to :attr:`jumps`.

        Args:
            block: samples that follow the previous block.
            period: usual time between samples [s]; NaN before the second sample.
        """
        stamp = block.samples.stamp
        first = float(stamp[0])
        if isnan(self.offset):
            self.offset = self.start = first
        elif block.samples.after_jump:
            passed = block.first_receipt - self._receipt
            usual = 0.0 if isnan(period) else period
            step = passed if passed > 0.0 else usual
            self.jumps.append(ClockJump(self.time + step, self._stamp + step - first))
            self.offset = first - (self.time + step)
        times = stamp - self.offset
        self._stamp, self._receipt = float(stamp[-1]), block.last_receipt
        self.time = float(times[-1])
        return times


STILL = 1.0
"""Duration of one pass of a loop if all messages have the same time of receipt [s]."""

LEAST_SPACING = 1e-4
"""Minimum mean time between messages in a pass [s], which bounds the rate of very short loops."""

BURST = 64
"""Maximum number of messages published in one callback, so that other callbacks can run."""

SLACK = 0.1
"""Delay above which a playback does not catch up but plays the rest later [s]."""


def timeline(
    messages: Callable[[], Iterator[JointMessage]], loop: bool
) -> Iterator[tuple[float, float, JointMessage]]:
    """Yield the due time of each message, the shift of its stamp, and the message.

    Both times are in seconds of the recording. The due time counts from the start of the playback
    and follows the times of receipt; a message that is older than its predecessor is due at the
    same time. The shift is to be added to the stamp: the start of the pass, 0 in the first pass. A
    further pass begins one mean spacing after the last message of the previous pass, see also
    :data:`STILL` and :data:`LEAST_SPACING`.

    Args:
        messages: opens the recording and returns its messages in order; called for each pass.
        loop: whether to repeat the recording for ever.
    """
    begin = 0.0
    while True:
        first, elapsed, count = None, 0.0, 0
        for message in messages():
            if isfinite(message.receipt):
                first = message.receipt if first is None else first
                elapsed = max(elapsed, message.receipt - first)
            count += 1
            yield begin + elapsed, begin, message
        if not loop or not count:
            return
        begin += _length(elapsed, count)


def _length(elapsed: float, count: int) -> float:
    """Return the time from the beginning of one pass to the beginning of the next [s]."""
    if elapsed == 0.0:
        return max(STILL, count * LEAST_SPACING)
    return max(elapsed + elapsed / (count - 1), count * LEAST_SPACING)


@dataclass
class Pace:
    """Present position in a recording that is played ``rate`` times as fast as it was recorded.

    A message is due when the position has reached its due time. If the process is too slow for the
    rate, or was suspended, :meth:`hold_back` moves the position back instead of making all messages
    of the delay due at once.

    Attributes:
        rate: seconds of the recording per second of the steady clock.
        began: time on the steady clock at which position 0 was, or would have been, played [s].
        late: total time on the steady clock by which :meth:`hold_back` has moved the position
            back [s].
    """

    rate: float
    began: float
    late: float = 0.0

    def position(self, now: float) -> float:
        """Return the position at time ``now`` on the steady clock [s].

        The position is in seconds of the recording since its first message.
        """
        return (now - self.began) * self.rate

    def hold_back(self, due: float, now: float) -> bool:
        """Move the position back to a message that is more than :data:`SLACK` late.

        Call it before each burst, with the next message.

        Args:
            due: due time of the message in seconds of the recording.
            now: time on the steady clock [s].

        Returns:
            Whether the message was so late, and the position has been moved back.
        """
        behind = (self.position(now) - due) / self.rate
        if behind <= SLACK:
            return False
        self.began += behind
        self.late += behind
        return True
