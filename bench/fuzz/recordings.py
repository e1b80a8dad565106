"""Valid recordings: one for the player, and recordings that the fuzzer damages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.joint_states import JointMessage

Array = NDArray[np.float64]

JOINT_STATE = "sensor_msgs/msg/JointState"
BOOL = "std_msgs/msg/Bool"
TRUTH = "/truth/contact"

STORAGE = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}

RATE = 50.0
"""Samples per second of the valid recordings [Hz]."""

SHORT, LONG = 3.0, 24.0
"""Length of recordings for ``replay``, and for ``calibrate``, which needs at least 20 s [s]."""

START = 1000.0
"""Stamp of the first sample [s]."""

_TYPES = get_typestore(Stores.LATEST)

ROBOT = """<?xml version="1.0"?>
<robot name="two_joints">
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 0.15"/>
      <mass value="2.0"/>
      <inertia ixx="0.02" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.003"/>
    </inertial>
  </link>
  <link name="lower">
    <inertial>
      <origin xyz="0 0 0.12"/>
      <mass value="1.2"/>
      <inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.002"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/><child link="upper"/>
    <origin xyz="0 0 0.1"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="3" effort="60"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/><child link="lower"/>
    <origin xyz="0 0 0.3"/><axis xyz="0 1 0"/>
    <limit lower="-2.5" upper="2.5" velocity="4" effort="30"/>
  </joint>
</robot>
"""
"""A robot of two joints, so that a recording takes milliseconds to replay."""

JOINTS = ("shoulder", "elbow")

PARAMETERS = """contact_detector:
  ros__parameters:
    joints: [shoulder, elbow]
    effort_kind: torque
    observer: momentum
    observer_gain: [20.0]
    friction_model: coulomb_viscous
    friction_coulomb: [0.1, 0.1]
    friction_viscous: [0.1]
    contact_threshold: [5.0, 4.0]
    collision_threshold: [30.0]
    settling_time: 0.1
    payload_mass: 0.1
    payload_com: [0.0, 0.0, 0.05]
"""
"""A parameter file that suits the robot."""

LABELS = "recording,begin,end,link,force\nsound,0.5,1.0,lower,8\nsound,2.0,2.2,,\n"
"""Labelled contacts of a short recording."""


@cache
def motion(seconds: float, rate: float = RATE) -> tuple[JointMessage, ...]:
    """Return joint states of a smooth motion without contact, with a little noise.

    Args:
        seconds: length [s].
        rate: samples per second [Hz].
    """
    model = Model.from_urdf(ROBOT)
    random = np.random.default_rng(0)
    t = np.arange(round(seconds * rate)) / rate
    omega, size, offset = np.array([1.5, 2.5]), np.array([0.5, 0.4]), np.array([-0.3, 0.6])
    phase = t[:, None] * omega
    q, v = offset + size * np.sin(phase), size * omega * np.cos(phase)
    a = -size * omega**2 * np.sin(phase)
    tau = inverse_dynamics(model, q, v, a) + 0.1 * np.tanh(v / 0.01) + 0.1 * v
    tau += 0.02 * random.standard_normal(tau.shape)
    return tuple(
        JointMessage(START + t[k], START + t[k], JOINTS, q[k], v[k], tau[k]) for k in range(len(t))
    )


def csv_text(messages: Sequence[JointMessage]) -> str:
    """Return joint states of the robot of two joints as a CSV recording."""
    names = [f"{what}/{joint}" for what in ("position", "velocity", "effort") for joint in JOINTS]
    rows = [",".join(["time", *names])]
    for message in messages:
        numbers = np.concatenate([[message.stamp], *map(np.asarray, message[3:])])
        rows.append(",".join(f"{number:.9g}" for number in numbers))
    return "\n".join(rows) + "\n"


def write_bag(
    path: Path,
    storage: str,
    messages: Sequence[JointMessage],
    flags: Sequence[tuple[float, bool]] = (),
) -> Path:
    """Write a rosbag2 folder with joint states and a true contact flag, and return its path.

    Args:
        path: folder to create, which must not exist.
        storage: key of :data:`STORAGE`.
        messages: joint states.
        flags: time [s] and value of the flag.
    """
    header, time, state, flag = (
        _TYPES.types[name]
        for name in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time", JOINT_STATE, BOOL)
    )
    with Writer(path, version=9, storage_plugin=STORAGE[storage]) as writer:
        states = writer.add_connection("/joint_states", JOINT_STATE, typestore=_TYPES)
        truth = writer.add_connection(TRUTH, BOOL, typestore=_TYPES)
        for message in messages:
            nanoseconds = round(message.stamp * 1e9)
            content = state(
                header=header(
                    stamp=time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9), frame_id=""
                ),
                name=list(message.name),
                position=np.array(message.position, dtype=float),
                velocity=np.array(message.velocity, dtype=float),
                effort=np.array(message.effort, dtype=float),
            )
            raw = _TYPES.serialize_cdr(content, JOINT_STATE)
            writer.write(states, max(round(message.receipt * 1e9), 0), raw)
        for at, on in flags:
            writer.write(truth, round(at * 1e9), _TYPES.serialize_cdr(flag(data=on), BOOL))
    return path


@cache
def _bag_files(storage: str, seconds: float, contact: bool) -> dict[str, bytes]:
    """Return the files of a sound bag by name; making one takes long."""
    with TemporaryDirectory(prefix="fuzz_bag_") as name:
        flags = ((START + 0.5, True), (START + 1.0, False)) if contact else ()
        path = write_bag(Path(name) / "damaged", storage, motion(seconds), flags)
        return {file.name: file.read_bytes() for file in path.iterdir()}


def copy_bag(path: Path, storage: str, seconds: float, contact: bool) -> Path:
    """Write a valid rosbag2 folder of the motion of the robot of two joints, and return its path.

    Args:
        path: folder to create, which must not exist.
        storage: key of :data:`STORAGE`.
        seconds: length [s].
        contact: whether it contains a true contact.
    """
    path.mkdir()
    for name, data in _bag_files(storage, seconds, contact).items():
        (path / name).write_bytes(data)
    return path


def playable(path: Path, seconds: float = 10.0) -> Path:
    """Write a CSV recording of ``seconds`` [s] for the node joint_state_player; return its path."""
    path.write_text(csv_text(motion(seconds)), encoding="utf-8")
    return path
