"""Synthetic recordings at 1 kHz of the arm that ships with the package, as mcap, db3 and CSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from rbd_control.dynamics import Model, inverse_dynamics
from rbd_control.simulation import arm7_urdf

RATE = 1000
KINDS = ("mcap", "db3", "csv")
_JOINT_STATE = "sensor_msgs/msg/JointState"
_STORAGE = {"mcap": StoragePlugin.MCAP, "db3": StoragePlugin.SQLITE3}
_PIECE = 10_000


def write(folder: Path, kind: str, duration: float) -> Path:
    """Write a recording of contact-free motion and return its path.

    Args:
        folder: folder for the recording; its name follows from ``kind`` and ``duration``.
        kind: one of :data:`KINDS`.
        duration: length of the motion [s].
    """
    path = folder / f"{kind}_{duration:g}s"
    if kind == "csv":
        return _write_csv(path.with_suffix(".csv"), duration)
    types = get_typestore(Stores.LATEST)
    names = ("std_msgs/msg/Header", "builtin_interfaces/msg/Time", _JOINT_STATE)
    header, time, joint_state = (types.types[name] for name in names)
    joints = Model.from_urdf(arm7_urdf()).joint_names
    with Writer(path, version=9, storage_plugin=_STORAGE[kind]) as writer:
        connection = writer.add_connection("/joint_states", _JOINT_STATE, typestore=types)
        for t, q, v, tau in _pieces(duration):
            for k, nanoseconds in enumerate(np.round(t * 1e9).astype(int).tolist()):
                message = joint_state(
                    header=header(
                        stamp=time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9),
                        frame_id="",
                    ),
                    name=joints,
                    position=q[k],
                    velocity=v[k],
                    effort=tau[k],
                )
                raw = types.serialize_cdr(message, _JOINT_STATE)
                writer.write(connection, nanoseconds + 100_000, raw)
    return path


def _write_csv(path: Path, duration: float) -> Path:
    joints = Model.from_urdf(arm7_urdf()).joint_names
    columns = [f"{what}/{joint}" for what in ("position", "velocity", "effort") for joint in joints]
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["time", *columns]) + "\n")
        for piece in _pieces(duration):
            # Nine digits resolve finer steps than any sensor.
            np.savetxt(file, np.column_stack(piece), fmt="%.9g", delimiter=",")
    return path


def _pieces(duration: float) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield times, positions, velocities and noisy torques, some thousand samples at a time."""
    model = Model.from_urdf(arm7_urdf())
    noise = np.random.default_rng(0)
    frequency = np.linspace(0.7, 1.7, model.nv)
    count = round(duration * RATE)
    for begin in range(0, count, _PIECE):
        t = 100.0 + np.arange(begin, min(begin + _PIECE, count)) / RATE
        angle = np.outer(t, frequency)
        q, v = 0.4 * np.sin(angle), 0.4 * frequency * np.cos(angle)
        tau = inverse_dynamics(model, q, v, -(frequency**2) * q)
        yield t, q, v, tau + noise.normal(scale=0.05, size=tau.shape)
