"""Sound input files of a two-joint arm, from which the damaged ones are made."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from robots import two_joint_urdf
from rosbags.rosbag1 import Writer as WriterOfRos1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rbd_control.dynamics import Model, inverse_dynamics

JOINTS = ("shoulder", "elbow")
JOINT_STATE = "sensor_msgs/msg/JointState"
BOOL = "std_msgs/msg/Bool"
STRING = "std_msgs/msg/String"
START = 1_700_000_000.0
"""Stamp of the first sample [s]."""

RATE = 200.0
"""Samples per second."""

URDF = two_joint_urdf()

CONFIG = """contact_detector:
  ros__parameters:
    joints: [elbow, shoulder]
    contact_threshold: [2.0, 3.0]
    collision_threshold: [20.0]
    friction_model: coulomb_viscous
    friction_coulomb: [0.3, 0.5]
    friction_viscous: [0.1, 0.2]
"""

LABELS = """recording, begin, end, link, force
log, 0.4, 0.6, lower, 14
log, 0.8, 0.9, lower, 0 0 14
"""


@dataclass(frozen=True)
class Motion:
    """Joint states of a motion: ``t`` (k,) [s]; ``q``, ``v`` and ``tau`` (k, 2)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def swing(duration: float, rate: float = RATE, seed: int = 0) -> Motion:
    """Return a smooth motion with friction and noise; the elbow is pushed from 0.4 to 0.6 s."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(duration * rate)) / rate
    omega, size, offset = np.array([1.5, 2.5]), np.array([0.5, 0.4]), np.array([-0.3, 0.6])
    phase = t[:, None] * omega
    q = offset + size * np.sin(phase)
    v = size * omega * np.cos(phase)
    tau = inverse_dynamics(Model.from_urdf(URDF), q, v, -size * omega**2 * np.sin(phase))
    tau = tau + [0.5, 0.3] * np.tanh(v / 0.02) + [0.2, 0.1] * v + rng.normal(0.0, 0.05, q.shape)
    if duration < 5.0:
        tau[(t >= 0.4) & (t < 0.6), 1] -= 8.0
    return Motion(START + t, q, v, tau)


def joint_state(stamp: float, *values: Sequence[float], names: Sequence[str] = JOINTS) -> bytes:
    """Return a sensor_msgs/JointState as it is serialised, little-endian CDR."""
    content = bytearray()

    def put(kind: str, *numbers: float) -> None:
        content.extend(bytes(-len(content) % struct.calcsize(kind)))
        content.extend(struct.pack(f"<{len(numbers)}{kind}", *numbers))

    put("i", int(stamp))
    put("I", round(stamp % 1.0 * 1e9) % 10**9)
    for text in ("", None, *names):
        if text is None:
            put("I", len(names))
            continue
        put("I", len(text.encode()) + 1)
        content.extend(text.encode() + b"\0")
    for each in values:
        put("I", len(each))
        if len(each):
            put("d", *each)
    return b"\x00\x01\x00\x00" + bytes(content)


def messages(motion: Motion) -> list[tuple[int, bytes]]:
    """Return time of receipt [ns] and bytes of each joint state."""
    return [
        (round(1e9 * float(t)) + 1000, joint_state(float(t), q, v, tau))
        for t, q, v, tau in zip(motion.t, motion.q, motion.v, motion.tau, strict=True)
    ]


def flags() -> list[tuple[int, bytes]]:
    """Return the messages of the true contact: on at 0.4 s, off at 0.6 s."""
    return [
        (round(1e9 * (START + t)), b"\x00\x01\x00\x00" + bytes([on]))
        for t, on in ((0.0, 0), (0.4, 1), (0.6, 0))
    ]


def write_bag(
    folder: Path,
    motion: Motion,
    storage: StoragePlugin = StoragePlugin.MCAP,
    compression: tuple[CompressionMode, CompressionFormat] | None = None,
    descriptions: Sequence[tuple[str, str]] = (),
    topic: str = "/joint_states",
) -> Path:
    """Write a rosbag2 folder as ``ros2 bag record`` does; ``descriptions`` are topics and texts."""
    types = get_typestore(Stores.LATEST)
    writer = Writer(folder, version=9, storage_plugin=storage)
    if compression:
        writer.set_compression(*compression)
    with writer:
        states = writer.add_connection(topic, JOINT_STATE, typestore=types)
        topics = {name for name, _ in descriptions}
        described = {name: writer.add_connection(name, STRING, typestore=types) for name in topics}
        for name, text in descriptions:
            content = types.serialize_cdr(types.types[STRING](data=text), STRING)
            writer.write(described[name], round(1e9 * START), content)
        truth = writer.add_connection("/truth/contact", BOOL, typestore=types)
        for time, raw in flags():
            writer.write(truth, time, raw)
        for time, raw in messages(motion):
            writer.write(states, time, raw)
    return folder


def write_ros1(path: Path, motion: Motion, description: str = "") -> Path:
    """Write a bag of ROS 1."""
    types, former = get_typestore(Stores.LATEST), get_typestore(Stores.ROS1_NOETIC)
    with WriterOfRos1(path) as writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=former)
        truth = writer.add_connection("/truth/contact", BOOL, typestore=former)
        if description:
            described = writer.add_connection("/robot_description", STRING, typestore=former)
            content = former.types[STRING](data=description)
            text = bytes(former.serialize_ros1(content, STRING))
            writer.write(described, round(1e9 * START), text)
        for time, raw in flags():
            writer.write(truth, time, bytes(types.cdr_to_ros1(raw, BOOL)))
        for time, raw in messages(motion):
            writer.write(states, time, bytes(types.cdr_to_ros1(raw, JOINT_STATE)))
    return path


def csv_text(motion: Motion, time: str = "{:.6f}", separator: str = ",") -> str:
    """Return a motion as a CSV recording."""
    names = [f"{what}/{joint}" for what in ("position", "velocity", "effort") for joint in JOINTS]
    lines = [separator.join(["time", *names])]
    for t, *values in zip(motion.t - START, motion.q, motion.v, motion.tau, strict=True):
        numbers = (f"{x:.9g}" for each in values for x in each)
        lines.append(separator.join([time.format(t), *numbers]))
    return "\n".join(lines) + "\n"
