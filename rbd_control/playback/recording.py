"""Recordings of joint states: rosbag2 (folder, ``.db3``, ``.mcap``) and CSV, without ROS.

Reading streams: memory does not grow with the length of a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rbd_control.errors import RecordingError
from rbd_control.joint_states import (
    JointBlock,
    JointMessage,
    JointSample,
    JointStateIntake,
    SampleBlock,
)
from rbd_control.playback.bag import BOOL, JOINT_STATE, STORAGE_SUFFIXES, Bag
from rbd_control.playback.parts import Part, in_order
from rbd_control.playback.table import Table
from rbd_control.playback.truth import contact_intervals

CONTACT_TOPICS = ("/truth/contact", "/simulated_arm/true_contact")
"""std_msgs/Bool: in contact or not, told on change. The first there is counts."""

TORQUE_TOPICS = ("/truth/external_torque", "/simulated_arm/true_external_joint_torques")
"""sensor_msgs/JointState: effort is the true external joint torque [N·m]."""

BLOCK = 2048
"""Messages read at a time: arrays that fit the cache, and what each costs is a few per cent."""

_FEW = 64
"""As many as are read fast enough for one who plays them message by message, in time."""


@dataclass(frozen=True)
class Recording:
    """A recording whose joint states can be gone through any number of times.

    ``joint_names`` are the joints it moves, ``count`` the number of its messages.
    ``true_contacts`` are the contacts it tells of, as ``(start, end)`` [s] on the clock of the
    samples (``end`` None: until its end), or None when it tells nothing.
    """

    path: Path
    topic: str
    joint_names: tuple[str, ...]
    count: int
    true_contacts: tuple[tuple[float, float | None], ...] | None
    _parts: Callable[[int], Iterator[Sequence[Part]]]
    _true_torques: Callable[[int], Iterator[Sequence[Part]]] | None = None

    def messages(self) -> Iterator[JointMessage]:
        """The joint states as recorded, unjudged."""
        for parts in self._parts(_FEW):
            for block in in_order(parts):
                yield from block.messages()

    def sample_blocks(self, intake: JointStateIntake) -> Iterator[SampleBlock]:
        """The samples ``intake`` makes of the messages; what it drops is in its ``counts``.

        Raises:
            RecordingError: when the recording lacks joints the intake wants, or turns out
                damaged on the way.
        """
        missing = [name for name in intake.joint_names if name not in self.joint_names]
        if missing:
            raise RecordingError(
                f"{self.path} has no joint {', '.join(missing)}; "
                f"its joints are {', '.join(self.joint_names)}"
            )
        for parts in self._parts(BLOCK):
            useful = []
            for part in parts:
                # Those of a gripper, say, need not come in turn to be counted and dropped.
                if intake.refusal(part.block.name):
                    intake.accept_block(part.block)
                else:
                    useful.append(part)
            for block in in_order(useful):
                yield from intake.accept_block(block)

    def samples(self, intake: JointStateIntake) -> Iterator[JointSample]:
        """:meth:`sample_blocks` one by one."""
        for block in self.sample_blocks(intake):
            yield from block.samples()

    def true_torques(self) -> Iterator[JointBlock]:
        """True external joint torques as ``effort``, where the recording tells them."""
        for parts in self._true_torques(BLOCK) if self._true_torques else ():
            yield from in_order(parts)


def read_recording(path: str | Path, topic: str = "/joint_states") -> Recording:
    """Open a recording.

    Args:
        path: a rosbag2 folder, a ``.db3`` or ``.mcap`` file of one (also without metadata and
            type definitions), or a ``.csv`` file (:data:`rbd_control.playback.table.LAYOUT`).
        topic: where the joint states are in a rosbag2 recording.

    Raises:
        RecordingError: when there is no such file, it is damaged, empty or of another kind, or
            the topic is missing or of another type.
    """
    path = Path(path)
    topic = topic if topic.startswith("/") else f"/{topic}"
    try:
        exists = path.exists()
        if exists and path.suffix.lower() == ".csv":
            return _from_table(path, topic)
        if exists and (path.is_dir() or path.suffix in STORAGE_SUFFIXES):
            return _from_bag(path, topic)
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
    if not exists:
        raise RecordingError(f"there is no recording {path}")
    raise RecordingError(
        f"{path} is no recording; give a rosbag2 folder or a file "
        f"{', '.join(STORAGE_SUFFIXES)} or .csv"
    )


def _from_table(path: Path, topic: str) -> Recording:
    table = Table(path)
    if next(table.joint_parts(1), None) is None:
        raise RecordingError(f"{path} holds no row of data")
    return Recording(path, topic, table.joint_names, table.count, None, table.joint_parts)


def _from_bag(path: Path, topic: str) -> Recording:
    bag = Bag(path)
    count = bag.require(topic, JOINT_STATE)
    # More than one message, for an arm and its gripper may share the topic.
    first = next(bag.joint_parts(topic, BLOCK))
    names = tuple(dict.fromkeys(name for block in in_order(first) for name in block.name))
    if not names:
        raise RecordingError(f"the joint states on {topic} in {path} name no joints")

    contacts = None
    contact_topic = _first(bag, CONTACT_TOPICS, BOOL)
    if contact_topic:
        # A Bool has no stamp. Where the joints are stamped on another clock than the recording
        # is (simulated time), the first message tells how far apart the two are.
        block = next(in_order(first))
        stamp, receipt = float(block.stamp[0]), float(block.receipt[0])
        shift = stamp - receipt if abs(stamp - receipt) > 1.0 and stamp > 0.0 else 0.0
        flags = ((time + shift, on) for time, on in bag.flags(contact_topic))
        contacts = tuple(contact_intervals(flags))
    torque_topic = _first(bag, TORQUE_TOPICS, JOINT_STATE)
    return Recording(
        path,
        topic,
        names,
        count,
        contacts,
        partial(bag.joint_parts, topic),
        partial(bag.joint_parts, torque_topic) if torque_topic else None,
    )


def _first(bag: Bag, topics: tuple[str, ...], msgtype: str) -> str | None:
    for topic in topics:
        kind, count = bag.topics.get(topic, ("", 0))
        if kind == msgtype and count:
            return topic
    return None
